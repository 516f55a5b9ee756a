#!/usr/bin/env bash
# The pages of models in a real browser, with simulated engines. GGUF names a folder with tiny-llama-Q8_0.gguf and tiny-llama-F16.gguf.
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=scripts/lib.sh
. ../../scripts/lib.sh

need node nodejs || { skip browser "no Node.js"; exit 0; }
need npm npm || { skip browser "no npm"; exit 0; }
need chromium chromium || { skip browser "no Chromium"; exit 0; }
[ -d "${GGUF:-}" ] || { skip browser "GGUF names no folder with models"; exit 0; }
npm ci --silent
(cd ../../ui && npm ci --silent && npm run --silent build)
exec node models.mjs "$(command -v chromium)"
