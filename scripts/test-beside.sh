#!/usr/bin/env bash
# What `make test` runs beside the Rust tests: other people's programs, then the package. They use the time in which those
# wait.
#
#   scripts/test-beside.sh CLIENT_LOG PACKAGE_LOG PROGRAM
set -uo pipefail
cd "$(dirname "$0")" || exit
status=0
./test-clients.sh >"$1" 2>&1 || status=1
./test-package.sh --program "$3" >"$2" 2>&1 || status=1
exit "$status"
