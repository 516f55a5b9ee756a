#!/usr/bin/env bash
# `make image`: builds the gateway and loads the images of its engine simulators into the Docker engine.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh
# shellcheck source=scripts/services.sh
. scripts/services.sh

services_start docker
[ -n "${DOCKER_HOST:-}" ] || die "no Docker engine answers"
cargo build -p gantry
"$GANTRY" engine-sim image
