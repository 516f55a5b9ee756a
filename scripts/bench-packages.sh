#!/usr/bin/env bash
# `make bench-packages`: how fast packages are exported and verified, what an export costs the data plane, what is lost if
# the gateway dies meanwhile, and how fast the database is dumped and restored. Builds in release, takes three times the
# size of the random weights of disk (30 GB; less free disk makes them smaller), and writes bench/results/packages.json.
# Arguments go to `gantry-bench packages`, for example `--gib 4`. ROWS is the number of usage rows, two million by default;
# NOTE is for readers of the figures.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh
# shellcheck source=scripts/services.sh
. scripts/services.sh

have cargo || die "Rust is missing: install it with rustup"
[ -x /usr/bin/time ] || install_packages time || die "GNU time is missing"
need sqlite3 sqlite3 || die "sqlite3 is missing"
services_start postgres
cargo build --quiet --release -p gantry -p gantry-bench
cargo build --quiet --release -p gantry-store --example usage_fill --example dump_speed

rows=${ROWS:-2000000}
dir=$(mktemp -d "$TARGET/bench-packages-db.XXXXXX")
dir=$(realpath "$dir")
trap 'rm -rf "$dir"; services_stop' EXIT

# database URL: fills the database and adds a line to $dir/database.
database() {
    say "a dump and a restore of $rows usage rows: ${1%%:*}"
    mkdir "$dir/work"
    "$TARGET/release/examples/usage_fill" "$1" "$rows" 30 >/dev/null
    "$TARGET/release/examples/dump_speed" "$1" "$dir/work" | tail -1 | tee -a "$dir/database"
    rm -rf "$dir/work" "$dir/gantry.db"*
}

database "sqlite://$dir/gantry.db"
if [ -n "${TEST_POSTGRES_URL:-}" ] && need psql postgresql-client; then
    name=gantry_bench_packages_$$
    psql -q "$TEST_POSTGRES_URL" -c "CREATE DATABASE $name"
    database "${TEST_POSTGRES_URL%/*}/$name"
    psql -q "$TEST_POSTGRES_URL" -c "DROP DATABASE $name" -c "DROP DATABASE IF EXISTS dump_speed"
fi
"$TARGET/release/gantry-bench" packages --gantry "$TARGET/release/gantry" --dir "$TARGET" --database "$dir/database" \
    --note "${NOTE:-profile release}" "$@"
