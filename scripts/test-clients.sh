#!/usr/bin/env bash
# `make test-clients`: other people's programs against the gateway: every tests/*/test_*.sh and, in a Python environment
# with what tests/requirements.txt names, every tests/*/test_*.py; or those that the arguments name. A
# script passes when it exits with 0; its last line may count: `N passed, N failed`. They find the program in GANTRY. Ends
# with such a line itself.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

export GANTRY
shopt -s nullglob
[ $# != 0 ] || set -- tests/*/test_*.sh tests/*/test_*.py
shell=() python=()
for script in "$@"; do
    case $script in
        *.py) python+=("$script") ;;
        *) shell+=("$script") ;;
    esac
done
passed=0
failed=0

# run_one NAME COMMAND...
run_one() {
    local name=$1 log p=0 f=0 status=0 began=$SECONDS
    shift
    log=$(mktemp)
    timeout "${CLIENT_TIMEOUT:-1800}" "$@" </dev/null >"$log" 2>&1 || status=$?
    read -r p f < <(count_tests "$log")
    [ "$((p + f))" != 0 ] || [ "$status" != 0 ] || p=1
    [ "$status" = 0 ] || [ "$f" != 0 ] || f=1
    if [ "$status" = 0 ]; then
        echo "PASS $name ($((SECONDS - began)) s)"
        # What it skipped, and how to have the same again.
        grep -E '^SKIP |\(seed ' "$log" | sed 's/^/    /' || true
    else
        echo "FAIL $name (exit $status, $((SECONDS - began)) s)"
        # Each failure with what follows it, and then how it ended; indented, so that nobody counts its numbers again.
        { grep -A 40 -E '^ *FAIL ' "$log" | head -400 || true; tail -40 "$log"; } | sed 's/^/    /'
    fi
    passed=$((passed + p)) failed=$((failed + f))
    rm "$log"
}

if [ -z "${GANTRY_BUILT:-}" ] && [ $((${#shell[@]} + ${#python[@]})) != 0 ]; then
    cargo build -q -p gantry
fi
for script in "${shell[@]}"; do
    run_one "$script" bash "$script"
done
if [ ${#python[@]} = 0 ]; then
    :
elif python_env venv "$ROOT/tests/requirements.txt"; then
    for script in "${python[@]}"; do
        run_one "$script" "$CACHE/venv/bin/python" "$script"
    done
else
    skip clients "no Python environment with the client libraries could be made"
    [ "${REQUIRE_ALL:-}" != 1 ] || failed=$((failed + 1))
fi
echo "clients: $passed passed, $failed failed"
[ "$failed" = 0 ]
