#!/usr/bin/env bash
# Measures the usage endpoints on many rows: `scripts/bench-admin.sh [ROWS]`, 10 million by default (4 GB of disk).
#
# Builds in release, fills a SQLite file through the store's own insert path, asks a real gateway over HTTP and writes
# bench/results/admin.json. The file is deleted afterwards.
set -euo pipefail
cd "$(dirname "$0")/.."

rows="${1:-10000000}"
target="${CARGO_TARGET_DIR:-target}"
cargo build --quiet --release -p gantry -p gantry-bench
cargo build --quiet --release -p gantry-store --example usage_fill

dir="$(mktemp -d "$target/bench-admin.XXXXXX")"
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/gantry/data"
"$target/release/examples/usage_fill" "sqlite://$(realpath "$dir")/gantry/data/gantry.db" "$rows" 30 >"$dir/filled.json"
"$target/release/gantry-bench" admin \
    --gantry "$target/release/gantry" --dir "$dir" --filled "$dir/filled.json" --out bench/results/admin.json
