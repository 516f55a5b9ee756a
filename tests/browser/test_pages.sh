#!/usr/bin/env bash
# The web pages in a real browser: every tests/browser/*.test.mjs, or those that the arguments name.
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=scripts/lib.sh
. ../../scripts/lib.sh

need node nodejs || { skip browser "no Node.js"; exit 0; }
need npm npm || { skip browser "no npm"; exit 0; }
need chromium chromium || { skip browser "no Chromium"; exit 0; }
ui_packages
CHROMIUM=$(command -v chromium)
export CHROMIUM
exec node run.mjs "$@"
