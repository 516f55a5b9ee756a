#!/usr/bin/env bash
# What `make test` runs beside the Rust tests: the web pages in Chromium, and beside them other people's programs, then the
# package. They use the time in which the Rust tests wait.
#
#   scripts/test-beside.sh CLIENT_LOG PACKAGE_LOG PROGRAM
set -uo pipefail
cd "$(dirname "$0")/.." || exit
pages=tests/browser/test_pages.sh
others=()
for test in tests/*/test_*.sh tests/*/test_*.py; do
    [ "$test" = "$pages" ] || others+=("$test")
done
status=0
scripts/test-clients.sh "$pages" >"$1.pages" 2>&1 &
in_pages=$!
scripts/test-clients.sh "${others[@]}" >"$1" 2>&1 || status=1
scripts/test-package.sh --program "$3" >"$2" 2>&1 || status=1
wait "$in_pages" || status=1
cat "$1.pages" >>"$1"
exit "$status"
