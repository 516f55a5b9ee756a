#!/usr/bin/env bash
# `make test`: everything that can run on this machine. Installs and starts what the tests need, runs the Rust tests
# (the real engines' among them) and the client libraries' tests, then says what ran, what was skipped and why.
# The last line is `N passed, N failed, N skipped`. Arguments go to nextest.
#
#   REQUIRE_ALL=1     a skip is a failure
#   ENGINES=vllm      vLLM too: 7 GB of downloads and some minutes per start
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh
# shellcheck source=scripts/services.sh
. scripts/services.sh

# The same random numbers in each run, so that a rare fault fails no run that has nothing to do with it: `make test-long` draws them.
export GANTRY_SEED=${GANTRY_SEED:-20261127}
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-$GANTRY_SEED}

services_dir
export GANTRY_SKIP_FILE=$SERVICES_DIR/skipped-tests GANTRY_SKIPPED_PARTS=$SERVICES_DIR/skipped-parts
rust_log=$SERVICES_DIR/rust.log
client_log=$SERVICES_DIR/clients.log
package_log=$SERVICES_DIR/package.log
touch "$GANTRY_SKIP_FILE" "$GANTRY_SKIPPED_PARTS"

have cargo || die "Rust is missing: install it with rustup"
need cc build-essential || die "a C compiler is missing"
services_start docker postgres redis tools
say "services are up after $SECONDS s; building"

# The same choice of packages as the test run's, so that nothing is compiled twice.
cargo build --profile test --workspace --all-targets
export GANTRY_BUILT=1
if [ -n "${DOCKER_HOST:-}" ]; then
    "$GANTRY" engine-sim image || skip simulator-images "gantry engine-sim image failed"
    engine_images
else
    skip engines "no Docker engine"
fi

failed=0
# The fast lane, with what computes much beside it: Chromium, Vite, Schemathesis, a booting Debian. They run in a session of
# their own, so that they can be ended with all that they started. What they print comes after the Rust tests.
setsid scripts/test-beside.sh "$client_log" "$package_log" "$GANTRY" </dev/null &
beside=$!
# shellcheck disable=SC2317 # services_stop calls it
stop_beside() { kill -TERM -- "-$beside" 2>/dev/null; }
SERVICES_UP=(beside "${SERVICES_UP[@]}")
rust_tests --profile fast --no-tests=pass "$@" 2>&1 | tee "$rust_log" || failed=1
wait "$beside" || failed=1
say "the machine lane begins after $SECONDS s"
# The machine lane, with nothing beside it: its tests measure whether engines and gateways are alive.
rust_tests --profile machine --no-tests=pass "$@" 2>&1 | tee -a "$rust_log" || failed=1
cat "$client_log" "$package_log"

# ---- what ran ----

read -r rust_passed rust_failed < <(count_tests "$rust_log")
read -r client_passed client_failed < <(count_tests "$client_log" clients)
read -r package_passed package_failed < <(count_tests "$package_log" package)
sort -u "$GANTRY_SKIP_FILE" "$GANTRY_SKIPPED_PARTS" >"$SERVICES_DIR/skipped"
skipped=$(grep -c . "$SERVICES_DIR/skipped" || true)
# A test that skips itself still passes for its runner.
tests_skipped=$(sort -u "$GANTRY_SKIP_FILE" | grep -c . || true)

row() { printf '  %-12s %s\n' "$1" "$2"; }
printf '\nWhat ran (%s min %s s)\n' $((SECONDS / 60)) $((SECONDS % 60))
row docker "$(docker_version)"
row postgres "$(postgres_version)"
row redis "$(redis_version)"
row llama.cpp "${GANTRY_TEST_LLAMA_IMAGE:-no}"
row vllm "${GANTRY_TEST_VLLM_IMAGE:-no (only with ENGINES=vllm)}"
row engines "$(grep -cE '(^test |PASS .*)engines::' "$rust_log" || true) tests"
row rust "$rust_passed passed, $rust_failed failed"
row clients "$client_passed passed, $client_failed failed"
row package "$package_passed passed, $package_failed failed"
if [ "$skipped" != 0 ]; then
    printf 'Skipped\n'
    sed 's/^/  /' "$SERVICES_DIR/skipped"
    if [ "${REQUIRE_ALL:-}" = 1 ]; then
        echo "A skip is a failure: REQUIRE_ALL=1"
        failed=1
    fi
fi

# A failure is said once more where it is seen: the output above is long.
bad_tests=$({
    grep -aE '^ +(FAIL|TIMEOUT|SIG[A-Z]+) \[' "$rust_log" | sed 's/^ *//'
    grep -aE '^FAIL |^ +(FAILED |not ok |✖ )' "$client_log"
    grep -aE '^not ok' "$package_log"
} | sort -u || true)
[ -z "$bad_tests" ] || printf 'Failed\n%s\n' "$bad_tests"

flaky=$(grep -aE '^ +FLAKY ' "$rust_log" | sed 's/^ *//' | sort -u || true)
[ -z "$flaky" ] || printf 'Passed when they were tried again; each is fixed before other work (CONTRIBUTING.md)\n%s\n' "$flaky"

# Nothing of the run may be left on the machine. Networks are only listed: a gateway that is killed while Docker makes one for it
# leaves that one behind, until it removes its networks with its last container.
number=$GANTRY_TEST_RUN
if [ -n "${DOCKER_HOST:-}" ]; then
    networks=$(docker network ls --filter name=gantry- --format '{{.ID}} {{.Name}}' || true)
    [ -z "$networks" ] || printf "Networks that killed gateways left\n%s\n" "$networks"
    # By their ids: two may have one name.
    # shellcheck disable=SC2046 # one word for each network
    [ -z "$networks" ] || docker network rm $(cut -d' ' -f1 <<<"$networks") >/dev/null || true
fi
services_stop
if ! left=$(scripts/sweep.sh left "$number"); then
    printf 'The run has left\n%s\n' "$left"
    scripts/sweep.sh dead 2>/dev/null
    [ "${REQUIRE_ALL:-}" != 1 ] || failed=1
fi

bad=$((rust_failed + client_failed + package_failed))
[ "$failed" = 0 ] || [ "$bad" != 0 ] || bad=1 # a part that ended badly without a failed test
printf '\n%d passed, %d failed, %d skipped\n' \
    $((rust_passed + client_passed + package_passed - tests_skipped)) "$bad" "$skipped"
exit "$failed"
