#!/bin/sh
# What a gateway without work costs: processor time at rest, and of one look at the machine (a sample is one such look;
# the figure has the HTTP request in it too). Usage: scripts/idle-cost.sh path/to/gantry [seconds]
set -eu
program=$1
seconds=${2:-60}
dir=$(mktemp -d)
trap 'kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; rm -rf "$dir"' EXIT
cd "$dir"
env GATEWAY_LISTEN=127.0.0.1:0 METRICS_LISTEN=127.0.0.1:0 DATA_DIR="$dir/data" ACCESS_LOG=off \
    ADMIN_BOOTSTRAP_USERNAME=owner ADMIN_BOOTSTRAP_PASSWORD=owner-password \
    "$program" serve >"$dir/out" 2>"$dir/log" &
pid=$!
until url=$(sed -n 's|.*UI and API *\(http://[^ ]*[0-9]\).*|\1|p' "$dir/out") && [ -n "$url" ]; do sleep 0.2; done
# utime + stime, in ticks of 10 ms
ticks() { sed 's/.*) //' "/proc/$pid/stat" | awk '{ print $12 + $13 }'; }
sleep 5
before=$(ticks)
sleep "$seconds"
after=$(ticks)
echo "$before $after $seconds" | awk '{ cpu = ($2 - $1) / 100
    printf "at rest for %d s: %.2f s of processor time, %.3f %% of a core\n", $3, cpu, cpu / $3 * 100 }'
curl -s -c jar "$url/auth/login" -H 'content-type: application/json' \
    -d '{"username":"owner","password":"owner-password"}' >/dev/null
looks=300
for _ in $(seq $looks); do echo "url = $url/admin/system/host/summary"; echo "output = /dev/null"; done >list
before=$(ticks)
curl -s -b jar -K list
after=$(ticks)
echo "$before $after $looks" | awk '{ printf "one look at the machine: %.2f ms of processor time (mean of %d)\n", ($2 - $1) * 10 / $3, $3 }'
