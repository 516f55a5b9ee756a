#!/usr/bin/env bash
# `make test-long`: the tests that take many rounds to mean something, with more rounds than `make test` gives them.
#
#   GANTRY_KILLS=100      kills of the gateway with running models (25 in `make test`)
#   GANTRY_PACKAGE_KILLS=1000  kills of an export, an import and a restore each (20 there), and a quarter of that with images.
#                         On two cores all of them take some hours; the end shows seeds, numbers and seconds a round
#   GANTRY_PACKAGE_CANCELS=200  cancels of an export, an import and a restore each (6 there), and as many with images
#   GANTRY_HOLES_GIB=9    size of a file with holes that is exported and imported (1 in `make test`)
#   GANTRY_SIM_SEEDS=20000  histories of the reconciler (200 there)
#   GANTRY_SEED=…         the seed of the kills, the storm and the property tests, which a run prints
#   SCHEMA_SEED=…         that of Schemathesis, whose runs print theirs; SCHEMA_EXAMPLES=50 cases for each operation
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh
# shellcheck source=scripts/services.sh
. scripts/services.sh

services_dir
have cargo || die "Rust is missing: install it with rustup"
services_start docker postgres tools
export GANTRY_KILLS=${GANTRY_KILLS:-100} GANTRY_SIM_SEEDS=${GANTRY_SIM_SEEDS:-20000}
export GANTRY_PACKAGE_KILLS=${GANTRY_PACKAGE_KILLS:-1000} GANTRY_PACKAGE_CANCELS=${GANTRY_PACKAGE_CANCELS:-200}
export GANTRY_HOLES_GIB=${GANTRY_HOLES_GIB:-9}
# Drawn, so that each run tries other histories. The seed is printed again at the end of a run that failed.
export GANTRY_SEED=${GANTRY_SEED:-$((RANDOM * 32768 + RANDOM))}
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-$GANTRY_SEED}
say "seed $GANTRY_SEED"
failed=0
log=$SERVICES_DIR/long.log
cargo nextest run --workspace --profile long --no-capture -E 'test(/^(storm|deployment::(kills|cancels|hub_cache))::/) + test(any_history_with_kills_settles)' 2>&1 |
    tee "$log" || failed=1
SCHEMA_LONG=1 CLIENT_TIMEOUT=14400 scripts/test-clients.sh tests/schema/test_openapi.py || failed=1
printf '\nKills and cancels, each with the seed before it\n'
grep -E '^(GANTRY_SEED=|KILLS |CANCELS )' "$log" || true
[ "$failed" = 0 ] || say "to run the same again:  GANTRY_SEED=$GANTRY_SEED make test-long"
exit "$failed"
