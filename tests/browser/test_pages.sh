#!/usr/bin/env bash
# The web pages in a real browser: set-up through the printed link, the overview, signing out and in.
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=scripts/lib.sh
. ../../scripts/lib.sh

need node nodejs || { skip browser "no Node.js"; exit 0; }
need npm npm || { skip browser "no npm"; exit 0; }
need chromium chromium || { skip browser "no Chromium"; exit 0; }
npm ci --silent
exec node pages.mjs "$(command -v chromium)"
