#!/usr/bin/env bash
# The web pages in a real browser: every tests/browser/*.test.mjs, or those that the arguments name. Where the image of llama.cpp's
# server is there (GANTRY_TEST_LLAMA_IMAGE) or a llama-server (LLAMA_SERVER), the walk of journey.test.mjs is done with it once more; ONLY_REAL=1
# does nothing else.
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=scripts/lib.sh
. ../../scripts/lib.sh
# shellcheck source=scripts/services.sh
. ../../scripts/services.sh

need_node || { skip browser "no Node.js 20.19 or later"; exit 0; }
need chromium chromium || { skip browser "no Chromium"; exit 0; }
ui_packages
CHROMIUM=$(command -v chromium)
export CHROMIUM
real=${LLAMA_SERVER:-}
unset LLAMA_SERVER
if [ -z "$real" ] && [ -n "${GANTRY_TEST_LLAMA_IMAGE:-}" ]; then
    real=$(llama_server) || die "llama-server can't be taken out of its image"
fi
# Chromium drops all requests when an address of the machine changes, as it does with each network that Docker makes. In a
# network of their own the pages also reach nothing but the gateway.
inside=()
if unshare --net true 2>/dev/null && have ip; then
    # shellcheck disable=SC2016 # the inner shell expands it
    inside=(unshare --net sh -c 'ip link set lo up && exec "$@"' sh)
fi
status=0
if [ "${ONLY_REAL:-}" != 1 ]; then
    "${inside[@]}" node run.mjs "$@" || status=1
fi
if [ -z "$real" ]; then
    [ "${ONLY_REAL:-}" != 1 ] || die "there is no llama-server: set LLAMA_SERVER, or GANTRY_TEST_LLAMA_IMAGE with a Docker engine"
    skip browser-llama "no llama-server"
else
    say "the walk with a real llama-server"
    model=$PWD/../../crates/server/tests/fixtures/gguf/tiny-llama-F16.gguf
    LLAMA_SERVER=$real MODEL_FILE=${MODEL_FILE:-$model} "${inside[@]}" node run.mjs journey.test.mjs || status=1
fi
exit "$status"
