#!/usr/bin/env bash
# `make bench-lifecycle`: what looking after 50 running models costs, and how soon faults are noticed. Builds with
# optimisation, needs Docker, takes some six minutes and writes bench/results/lifecycle.json. Arguments go to
# `gantry-bench reconcile`.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh
# shellcheck source=scripts/services.sh
. scripts/services.sh

have cargo || die "Rust is missing: install it with rustup"
services_start docker
[ -n "${DOCKER_HOST:-}" ] || die "there is no Docker engine"
cargo build --quiet --release -p gantry -p gantry-bench
"$TARGET/release/gantry-bench" reconcile --gantry "$TARGET/release/gantry" --note "profile release" "$@"
