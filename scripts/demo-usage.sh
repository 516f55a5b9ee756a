#!/usr/bin/env bash
# `make demo-usage`: generated usage of three organisations and twenty users, and the command line's answer to "who used
# most tokens this week?". A gateway of its own, on a database of its own, that is deleted in the end.
#
#   ROWS          how many (2000000: 0.6 GB of disk)
#   DATABASE_URL  an empty Postgres database instead of a file; what is filled in stays there
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

rows=${ROWS:-2000000}
profile=${PROFILE:-release}
cargo build --quiet --profile "$profile" -p gantry
cargo build --quiet --profile "$profile" -p gantry-store --example usage_fill
bin=$TARGET/${profile/#dev/debug}

dir=$(mktemp -d "$TARGET/demo-usage.XXXXXX")
trap '[ -z "${gateway:-}" ] || kill "$gateway" 2>/dev/null; rm -rf "$dir"' EXIT
mkdir "$dir/data" "$dir/models"
url=${DATABASE_URL:-sqlite://$(realpath "$dir")/data/gantry.db}
say "filling in $rows requests of the past 30 days"
"$bin/examples/usage_fill" "$url" "$rows" 30 3 20

GANTRY_PASSWORD=$(head -c 18 /dev/urandom | base64)
GANTRY_URL=http://127.0.0.1:$(free_port)
export HOME=$dir XDG_CONFIG_HOME=$dir GANTRY_URL GANTRY_PASSWORD
DATA_DIR=$dir/data MODELS_DIR=$dir/models DATABASE_URL=$url CONTAINER_RUNTIME=process \
    GATEWAY_LISTEN=${GANTRY_URL#http://} METRICS_LISTEN=127.0.0.1:$(free_port) \
    ADMIN_BOOTSTRAP_USERNAME=demo ADMIN_BOOTSTRAP_PASSWORD=$GANTRY_PASSWORD \
    "$bin/gantry" serve >"$dir/log" 2>&1 &
gateway=$!
wait_for 60 curl -sf "$GANTRY_URL/readyz" || { cat "$dir/log" >&2 && die "the gateway does not get ready"; }
"$bin/gantry" login demo

for verb in "top --by org --week" "top --by user --org Acme --week --limit 5" "latency --org Acme --week" integrity; do
    printf '\n$ gantry usage %s\n' "$verb"
    # shellcheck disable=SC2086
    time "$bin/gantry" usage $verb
done
if [ -t 0 ]; then
    printf '\nThe UI: %s  (demo, %s). Enter ends all.\n' "$GANTRY_URL" "$GANTRY_PASSWORD"
    read -r _
fi
