#!/usr/bin/env bash
# The web pages in a real browser: every tests/browser/*.test.mjs, or those that the arguments name.
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=scripts/lib.sh
. ../../scripts/lib.sh

need_node || { skip browser "no Node.js 20.19 or later"; exit 0; }
need chromium chromium || { skip browser "no Chromium"; exit 0; }
ui_packages
CHROMIUM=$(command -v chromium)
export CHROMIUM
# Chromium drops all requests when an address of the machine changes, as it does with each network that Docker makes. In a
# network of their own the pages also reach nothing but the gateway.
if unshare --net true 2>/dev/null && have ip; then
    exec unshare --net sh -c 'ip link set lo up && exec node run.mjs "$@"' sh "$@"
fi
exec node run.mjs "$@"
