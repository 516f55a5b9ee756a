#!/usr/bin/env bash
# `make bench-idle`: builds in release and measures what a gateway without work costs: `scripts/bench-idle.sh [SECONDS]`.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet --release -p gantry
exec scripts/idle-cost.sh "${CARGO_TARGET_DIR:-target}/release/gantry" "${1:-60}"
