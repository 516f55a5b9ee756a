#!/usr/bin/env bash
# `make fuzz`: fuzzes each reader of untrusted bytes for FUZZ_SECONDS (600 by default), one after the other; FUZZ_TARGETS
# names some of them. A finding ends it with the input's place. At the end: what to write into fuzz/README.md.
#
# The corpus is not touched: what runs find on the way is kept below .cache.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

seconds=${FUZZ_SECONDS:-600}
read -ra targets <<<"${FUZZ_TARGETS:-gguf safetensors config dump images}"
[[ "$seconds" =~ ^[1-9][0-9]*$ ]] || die "FUZZ_SECONDS must be a number of seconds, not \`$seconds\`"
have cargo || die "Rust is missing: install it with rustup"
cargo +nightly --version >/dev/null 2>&1 ||
    die "a nightly compiler is missing, which fuzzing needs: rustup toolchain install nightly --profile minimal"
need c++ g++ || die "a C++ compiler is missing, which libFuzzer is built with"
if ! have cargo-fuzz; then
    say "installing cargo-fuzz"
    cargo install --quiet --locked cargo-fuzz
fi

rows=()
for target in "${targets[@]}"; do
    found=$CACHE/fuzz/$target
    mkdir -p "$found"
    log=$found.log
    say "$target for $seconds s"
    cargo +nightly fuzz run "$target" "$found" "fuzz/corpus/$target" -- -max_total_time="$seconds" \
        -malloc_limit_mb=64 -rss_limit_mb=1024 -max_len=65536 -print_final_stats=1 2>&1 | tee "$log" |
        grep --line-buffered -E 'BINGO|ERROR|SUMMARY|panicked|Done|stat::|Test unit written' ||
        true
    grep -q '^Done ' "$log" || die "$target: a finding, or it did not run: see $log"
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    cover=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    rows+=("| $(date -u +%F) | $(git rev-parse --short HEAD) | $target | $seconds | $runs | $cover |")
done
say "no finding. For fuzz/README.md:"
printf '%s\n' "${rows[@]}"
