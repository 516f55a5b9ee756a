#!/usr/bin/env bash
# `make ui`: builds the web UI (`ui/`) into `ui/dist`, which the program embeds. The build is committed, so that nobody needs
# Node to build the program, with `cargo install` or without a network; only who changes the UI needs it.
#
#   scripts/ui.sh           checks types, texts and style, runs the unit tests, and builds
#   scripts/ui.sh --check   fails if the build that is committed is not what the sources make
#   scripts/ui.sh --screenshots   builds, and pictures every page and dialog into ui/screenshots
#   scripts/ui.sh --report   builds, and measures it in Chromium into bench/results/ui.json
#   scripts/ui.sh --report-large   measures it with 400,000 keys and 10 million usage rows, into bench/results/ui-large.json
#   scripts/ui.sh --tasks    starts the gateway of docs/web-ui-tasks.md, and ends it at Ctrl-C
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

need_node || die "there is no Node.js 20.19 or later"
ui_packages
if [ "${1:-}" = --tasks ]; then
    [ -n "${GANTRY_BUILT:-}" ] || cargo build -q -p gantry
    export GANTRY
    exec node tests/browser/sheet.mjs
fi
cd ui
npm run --silent gen -- --check
npm run --silent typecheck
npm run --silent lint
npm run --silent test
if [ "${1:-}" = --check ]; then
    made=$(mktemp -d)
    trap 'rm -rf "$made"' EXIT
    npx vite build --logLevel warn --outDir "$made" --emptyOutDir
    diff -r "$made" dist >/dev/null || die "ui/dist is not what ui/ makes: run make ui"
    say "ui/dist is what its sources make"
else
    npm run --silent build
fi
# Both take the build in the place of the one in the program.
case ${1:-} in
    --report-large)
        need chromium chromium || die "there is no Chromium"
        need sqlite3 sqlite3 || die "there is no sqlite3"
        cargo build -q --release -p gantry
        cargo build -q --release -p gantry-store --example usage_fill
        target=${CARGO_TARGET_DIR:-$ROOT/target}
        GANTRY=$target/release/gantry
        export GANTRY UI_DIST=$ROOT/ui/dist USAGE_FILL=$target/release/examples/usage_fill TMPDIR=${TMPDIR:-/var/tmp}
        CHROMIUM=$(command -v chromium)
        export CHROMIUM
        node scripts/large.mjs
        ;;
    --screenshots | --report)
        need chromium chromium || die "there is no Chromium"
        [ -n "${GANTRY_BUILT:-}" ] || cargo build -q -p gantry
        export GANTRY UI_DIST=$ROOT/ui/dist
        npm run --silent "$([ "$1" = --report ] && echo ui-report || echo screenshots)"
        ;;
esac
