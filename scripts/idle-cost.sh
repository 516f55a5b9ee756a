#!/bin/sh
# What a gateway without work costs: processor time at rest, and of one look at the machine (a sample is one such look).
# Usage: scripts/idle-cost.sh path/to/gantry [seconds]
#
# Goals: 0.3 % of a core at rest, 5 ms for a sample. Processor time is what the scheduler counted, in nanoseconds
# (`/proc/PID/task/*/schedstat`), so that other work on the machine does not matter.
set -eu
program=$(realpath "$1")
seconds=${2:-60}
looks=20
dir=$(mktemp -d)
trap 'kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; rm -rf "$dir"' EXIT
cd "$dir"
env GATEWAY_LISTEN=127.0.0.1:0 METRICS_LISTEN=127.0.0.1:0 DATA_DIR="$dir/data" ACCESS_LOG=off \
    ADMIN_BOOTSTRAP_USERNAME=owner ADMIN_BOOTSTRAP_PASSWORD=owner-password \
    "$program" serve >"$dir/out" 2>"$dir/log" &
pid=$!
until url=$(sed -n 's|.*UI and API *\(http://[^ ]*[0-9]\).*|\1|p' "$dir/out") && [ -n "$url" ]; do sleep 0.2; done
curl -s -c jar "$url/auth/login" -H 'content-type: application/json' \
    -d '{"username":"owner","password":"owner-password"}' >/dev/null

# Nanoseconds of processor time so far. Threads that ended keep what they used in the process's sum, which has ticks of
# 10 ms only; those of the pool for blocking work live for 10 s, longer than they lie idle here.
used() { cat "/proc/$pid"/task/*/schedstat | awk '{ sum += $1 } END { printf "%d\n", sum }'; }
# The same by what the threads are called.
by_thread() {
    for task in "/proc/$pid"/task/*; do
        echo "$(sed 's/[-0-9]*$//' "$task/comm") $(cut -d' ' -f1 "$task/schedstat")"
    done | awk '{ sum[$1] += $2 } END { for (name in sum) print name, sum[name] }' | sort
}
# spend PATH: asks for it a few times, far enough apart for nothing to be remembered; prints ms for each, rest included.
spend() {
    before=$(used)
    for _ in $(seq $looks); do
        curl -s -b jar -o /dev/null "$url$1"
        sleep 2.1
    done
    echo "$before $(used)" | awk -v n=$looks '{ printf "%.3f\n", ($2 - $1) / 1e6 / n }'
}

sleep 5
by_thread >before
before=$(used)
sleep "$seconds"
after=$(used)
by_thread >after
echo "$before $after $seconds" | awk '{ cpu = ($2 - $1) / 1e6
    printf "at rest for %d s: %.1f ms of processor time, %.4f %% of a core (goal 0.3 %%)\n", $3, cpu, cpu / $3 / 10
    printf "a sample each 10 s, if all of it were samples: %.2f ms (goal 5 ms)\n", cpu / $3 * 10 }'
join before after | awk '{ printf "  threads %-12s %8.1f ms\n", $1, ($3 - $2) / 1e6 }'
# Any request through the same layers, to be taken off.
spend /auth/me >plain
spend /admin/system/host/summary >look
paste plain look | awk -v n=$looks '{ printf "one look at the machine: %.2f ms (%.2f ms with its request, of which %.2f ms are of any request; mean of %d)\n", $2 - $1, $2, $1, n }'
