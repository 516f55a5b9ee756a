#!/usr/bin/env bash
# `make test-engines`: only the tests against real engines: llama.cpp's server, and vLLM with ENGINES=vllm, and a walk through the
# web pages with the former. Ends with a table of the failed starts that were provoked, and what was said of each.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh
# shellcheck source=scripts/services.sh
. scripts/services.sh

services_start docker
[ -n "${DOCKER_HOST:-}" ] || die "the engines run in containers, and no Docker engine answers"
engine_images
[ -n "${GANTRY_TEST_LLAMA_IMAGE:-}" ] || die "no image of llama.cpp's server"
have cargo-nextest || die "cargo-nextest is needed to run a part of the tests"
export REQUIRE_ALL=1
GANTRY_DIAGNOSES_FILE=$(mktemp)
export GANTRY_DIAGNOSES_FILE
trap 'rm -f "$GANTRY_DIAGNOSES_FILE"' EXIT

failed=0
rust_tests -E 'test(/^engines::/)' "$@" || failed=$?
export GANTRY
ONLY_REAL=1 tests/browser/test_pages.sh || failed=$?
# The tests write a line for each failure whose diagnosis was right: engine, failure, title, field.
if [ -s "$GANTRY_DIAGNOSES_FILE" ]; then
    printf '\nFailed starts that got the right diagnosis: %d\n' "$(grep -c . "$GANTRY_DIAGNOSES_FILE")"
    sort "$GANTRY_DIAGNOSES_FILE" |
        awk -F '\t' '{ printf "  %-9s %-27s %-38s %s\n", $1, $2, $3, $4 }'
fi
exit "$failed"
