#!/usr/bin/env bash
# `make run`: builds the gateway and starts it with the demo model, on a machine that has no more than Rust.
#
#   DATA_DIR     where it keeps its data (./data)
#   MODELS_DIR   where model files lie (./models)
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh
# shellcheck source=scripts/services.sh
. scripts/services.sh

have cargo || die "Rust is missing: install it with rustup, then run this again"
need cc build-essential || die "a C compiler is missing"
[ -x "$GANTRY" ] || say "the first build takes a few minutes"
cargo build -p gantry

services_start docker
if [ -n "${DOCKER_HOST:-}" ]; then
    "$GANTRY" engine-sim image >&2 || say "the simulator's image could not be loaded"
fi
export DATA_DIR=${DATA_DIR:-$ROOT/data} MODELS_DIR=${MODELS_DIR:-$ROOT/models}
mkdir -p "$DATA_DIR" "$MODELS_DIR"

[ ${#SERVICES_UP[@]} != 0 ] || exec "$GANTRY" serve --demo "$@"

# We started the Docker engine: stay, and stop it after the gateway.
"$GANTRY" serve --demo "$@" 7>&- 8>&- &
gateway=$!
trap 'kill -TERM "$gateway" 2>/dev/null' INT TERM HUP
status=0
wait "$gateway" || status=$?
while kill -0 "$gateway" 2>/dev/null; do # the first wait ends at the signal, not with the gateway
    status=0
    wait "$gateway" || status=$?
done
exit "$status"
