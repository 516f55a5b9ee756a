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
if have cargo-deny; then
    cargo deny --offline check bans licenses sources
    # A machine with the internet fetches the database of known flaws: SECURITY.md says how.
    if [ -d "${CARGO_HOME:-$HOME/.cargo}/advisory-dbs" ]; then cargo deny --offline check advisories; fi
fi
