#!/usr/bin/env bash
# `make bench-soak`: builds what is shipped and loads one gateway for an hour: does its memory stay flat? Arguments go to
# `gantry-bench soak`, for example `--minutes 20` or `--database-url postgres://…`. Writes bench/results/soak.json.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet --profile dist -p gantry -p gantry-bench
target=${CARGO_TARGET_DIR:-target}
exec "$target/dist/gantry-bench" soak --gantry "$target/dist/gantry" "$@"
