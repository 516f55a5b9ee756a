#!/usr/bin/env bash
# `make test-engines`: only the tests against real engines: llama.cpp's server, and vLLM with ENGINES=vllm.
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
rust_tests -E 'test(/^engines::/)' "$@"
