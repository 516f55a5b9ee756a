#!/usr/bin/env bash
# How long a folder of 200 GGUF files of 40 GB takes to inspect, with headers of today's models (150,000 tokens, 300,000
# merges: 10 MB each): `scripts/bench-inspect.sh [FILES] [TOKENS]`. Files are sparse; only their headers, 2 GB in all,
# take room.
# The first run reads from the disk as far as the kernel may be asked to forget (root), the others from its memory.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d "${TMPDIR:-/tmp}/gantry-inspect.XXXXXX")
trap 'rm -rf "$dir"' EXIT
cargo build --quiet --profile dist -p gantry-inspect --example inspect_many
program="${CARGO_TARGET_DIR:-target}/dist/examples/inspect_many"
"$program" make "$dir" "${1:-200}" "${2:-150000}"
if [[ -w /proc/sys/vm/drop_caches ]] && echo 1 2>/dev/null >/proc/sys/vm/drop_caches; then
    echo "from the disk:"
else
    echo "the kernel can't be asked to forget: from its memory"
fi
for _ in 1 2 3; do
    "$program" inspect "$dir"
done
