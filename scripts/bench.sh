#!/usr/bin/env bash
# Measures the gateway against nginx on this machine: `scripts/bench.sh [quick|full]`, full by default.
#
# Builds what is shipped (profile `dist`), makes sure nginx is there and writes bench/results/latest.json.
# BENCH_REALTIME=1 runs all parties under SCHED_FIFO, for a machine that is not quiet; it needs root.
set -euo pipefail
cd "$(dirname "$0")/.."

options=()
case "${1:-full}" in
quick | --quick) options+=(--quick) ;;
full | --full) ;;
*)
    echo "usage: scripts/bench.sh [quick|full]" >&2
    exit 2
    ;;
esac
if [[ "${BENCH_REALTIME:-0}" == 1 ]]; then
    options+=(--realtime)
fi

PATH="$PATH:/usr/sbin:/sbin"
# nginx is the reference; HAProxy and the count of instructions are left out where they can't be had.
missing=()
command -v nginx >/dev/null || missing+=(nginx-light)
command -v haproxy >/dev/null || missing+=(haproxy)
command -v valgrind >/dev/null || missing+=(valgrind)
if [[ ${#missing[@]} != 0 && "$(id -u)" == 0 ]] && command -v apt-get >/dev/null; then
    apt-get update -qq
    # Only the programs are wanted: run level 1 keeps the packages from starting their services.
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" || true
fi
if ! command -v nginx >/dev/null; then
    echo "bench: nginx is missing; install it (Debian: \`sudo apt-get install nginx-light\`) and run again" >&2
    exit 1
fi

cargo build --quiet --profile dist -p gantry -p gantry-bench

# Each of 1,000 streams takes two sockets in a proxy.
if [[ "$(ulimit -n)" != unlimited && "$(ulimit -n)" -lt 8192 ]]; then
    ulimit -n 8192 || {
        echo "bench: cannot allow 8,192 open files (hard limit $(ulimit -Hn))" >&2
        exit 1
    }
fi

target="${CARGO_TARGET_DIR:-target}"
"$target/dist/gantry-bench" compare "${options[@]}" \
    --gantry "$target/dist/gantry" --out bench/results/latest.json
# What limits cost, in process and through Redis, if there is one.
"$target/dist/gantry-bench" limits "${options[@]}" \
    --gantry "$target/dist/gantry" --out bench/results/limits.json
# How long a folder of large models takes to inspect.
scripts/bench-inspect.sh
