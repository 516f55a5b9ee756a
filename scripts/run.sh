#!/usr/bin/env bash
# `make run`: builds the gateway and starts it with a real model on a real engine, on a machine that has no more than Rust.
# llama.cpp's server (as Debian builds it) and SmolLM2-135M come while the gateway compiles; the engine runs as a process, which
# needs no Docker and no image. Where they can't be had, and with --simulator, a simulator takes their place.
#
#   --simulator  fetches nothing; a container where a Docker engine answers. Other arguments go to `gantry serve`.
#   DATA_DIR     where it keeps its data (./data)
#   MODELS_DIR   where model files lie (./models)
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh
# shellcheck source=scripts/services.sh
. scripts/services.sh

real=1
if [ "${1:-}" = --simulator ]; then
    real=
    shift
fi
export DATA_DIR=${DATA_DIR:-$ROOT/data} MODELS_DIR=${MODELS_DIR:-$ROOT/models}
mkdir -p "$DATA_DIR" "$MODELS_DIR"
have cargo || die "Rust is missing: install it with rustup, then run this again"
need cc build-essential || die "a C compiler is missing"

# ---- the engine and the model, beside the build ----

WORK=$(mktemp -d)
declare -A FETCHING
stop_fetching() {
    local session
    for session in "${FETCHING[@]}"; do kill -TERM -- "-$session" 2>/dev/null || true; done
    rm -rf "$WORK"
}
trap stop_fetching EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# fetch NAME ARGUMENT...: in a session of its own, so that it can be ended with all that it started.
fetch() {
    setsid scripts/real-engine.sh "${@:2}" </dev/null >"$WORK/$1" 2>"$WORK/$1.log" &
    FETCHING[$1]=$!
}

# fetched NAME: waits for it. What it said comes after the compiler's lines: all of it, or the reason why there is nothing.
fetched() {
    if wait "${FETCHING[$1]}"; then
        cat "$WORK/$1.log" >&2
    else
        say "a simulator takes the place of a real engine: $(tail -1 "$WORK/$1.log" | sed 's/^error: //')"
        return 1
    fi
}

if [ -n "$real" ]; then
    fetch engine
    fetch model --model "$MODELS_DIR"
fi
[ -x "$GANTRY" ] || say "the first build takes a few minutes"
cargo build -p gantry
if [ -n "$real" ] && ! { fetched engine && fetched model; }; then real=; fi

# ---- the gateway ----

# ask: passes the gateway's lines on. Then it sends the request that the gateway has printed, and prints the answer.
ask() {
    local line try='' said
    while IFS= read -r line; do
        printf '%s\n' "$line"
        case $line in
        "  Try "*) try=${line#*Try} ;;
        "  Key "*)
            said=$(bash -c "${try/curl/curl -sS}" 2>&1) || true
            # The first text of the answer; an error is shown as it is.
            if [[ $said =~ \"content\":\"(([^\"\\]|\\.)*)\" ]]; then said=${BASH_REMATCH[1]}; fi
            printf '  Answer      %s   (%s s after the start)\n' "$said" "$SECONDS"
            ;;
        esac
    done
}

if [ -n "$real" ]; then
    engine=$(cat "$WORK/engine") model=$(cat "$WORK/model")
    stop_fetching
    PATH=$(dirname "$engine"):$PATH
    # They end with the gateway here.
    export CONTAINER_RUNTIME=${CONTAINER_RUNTIME:-process} STOP_MODELS_ON_SHUTDOWN=${STOP_MODELS_ON_SHUTDOWN:-true}
    have curl || need curl curl || true
    exec "$GANTRY" serve --demo --demo-model "$model" "$@" > >(ask)
fi

stop_fetching
# Engines run as containers where a Docker engine answers, else as processes; those end with the gateway here.
if have docker && docker_answers; then
    DOCKER_HOST=${DOCKER_HOST:-$(docker context inspect --format '{{.Endpoints.docker.Host}}')}
    export DOCKER_HOST
    "$GANTRY" engine-sim image >&2 || say "the simulator's image could not be loaded"
else
    unset DOCKER_HOST
    export CONTAINER_RUNTIME=${CONTAINER_RUNTIME:-process}
    export STOP_MODELS_ON_SHUTDOWN=${STOP_MODELS_ON_SHUTDOWN:-true}
fi
exec "$GANTRY" serve --demo "$@"
