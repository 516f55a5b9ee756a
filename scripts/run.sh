#!/usr/bin/env bash
# `make run`: builds the gateway and starts it with the demo model, on a machine that has no more than Rust. Needs no
# Docker: without it engines run as processes.
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

# Engines run as containers where a Docker engine answers, else as processes; those end with the gateway here.
if have docker && docker_answers; then
    DOCKER_HOST=${DOCKER_HOST:-$(docker context inspect --format '{{.Endpoints.docker.Host}}')}
    export DOCKER_HOST
    "$GANTRY" engine-sim image >&2 || say "the simulator's image could not be loaded"
else
    unset DOCKER_HOST
    export CONTAINER_RUNTIME=${CONTAINER_RUNTIME:-process}
    export STOP_MODELS_ON_SHUTDOWN=${STOP_MODELS_ON_SHUTDOWN:-true}
fi
export DATA_DIR=${DATA_DIR:-$ROOT/data} MODELS_DIR=${MODELS_DIR:-$ROOT/models}
mkdir -p "$DATA_DIR" "$MODELS_DIR"
exec "$GANTRY" serve --demo "$@"
