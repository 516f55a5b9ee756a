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

# tries COMMAND...: up to three times, with a pause between them: a registry may be away for a moment.
tries() {
    local pause
    for pause in 2 10; do
        "$@" && return 0
        say "failed: $1; once more in $pause s"
        sleep "$pause"
    done
    "$@"
}

# hold MODE FILE: takes a lock (-s shared, -x exclusive) and holds it until this script has ended, in whatever way.
# A process of its own holds it, so no child inherits it. Sets HELD, which `release` takes.
hold() {
    local ready
    ready=$(mktemp -u "${TMPDIR:-/tmp}/gantry-lock.XXXXXX")
    # shellcheck disable=SC2016 # the inner shell expands it
    flock -F "$1" "$2" sh -c ': >"$1"; exec tail --pid="$2" -s 0.2 -f /dev/null' sh "$ready" $$ </dev/null >/dev/null 2>&1 &
    HELD=$!
    until [ -e "$ready" ]; do
        kill -0 "$HELD" 2>/dev/null || return 1
        sleep 0.1
    done
    rm -f "$ready"
}

# release PROCESS: gives up a lock that `hold` took.
release() {
    kill "$1" 2>/dev/null || return 0
    wait "$1" 2>/dev/null || true
}

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
    # One at a time: they share the file that keeps services from starting.
    local lock=/run/lock/gantry-apt.lock
    "${sudo[@]}" touch "$lock"
    "${sudo[@]}" flock "$lock" bash -s -- "$@" <<'APT' || return 1
set -uo pipefail
options=(-qq -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3)
lists=$(find /var/lib/apt/lists -maxdepth 1 -name '*_Packages*' -mmin -720 2>/dev/null | head -1)
[ -n "$lists" ] || apt-get "${options[@]}" update >&2 || echo "== apt-get update failed, going on with the lists that are there" >&2
# Only the programs are wanted: this keeps packages from starting their services (and is respected by all of them).
policy=/usr/sbin/policy-rc.d
if [ -e "$policy" ]; then policy=; else
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    trap 'rm -f "$policy"' EXIT
fi
install() { DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install -y --no-install-recommends "$@" </dev/null >/dev/null; }
# Lists that are some hours old may name versions that the archive has replaced.
install "$@" || { apt-get "${options[@]}" update >&2; install "$@"; }
APT
}

# python_env NAME LOCK_FILE...: makes $CACHE/NAME a Python environment with what the lock files name, unless it is one already.
python_env() {
    local env=$CACHE/$1 wanted lock status=0
    shift
    need python3 python3 || return 1
    python3 -c 'import venv, ensurepip' 2>/dev/null || install_packages python3-venv || return 1
    wanted=$(cat "$@" | cksum)
    [ "$(cat "$env/.made" 2>/dev/null)" != "$wanted" ] || return 0
    mkdir -p "$CACHE"
    hold -x "$env.lock" || return 1
    lock=$HELD
    if [ "$(cat "$env/.made" 2>/dev/null)" != "$wanted" ]; then
        say "fetching what ${*#"$ROOT/"} names"
        { python_env_new "$env" "$@" && echo "$wanted" >"$env/.made"; } || status=1
    fi
    release "$lock"
    return "$status"
}

# uv checks the hashes and unpacks 140 packages in seconds; pip takes minutes.
python_env_new() {
    local env=$1 pip=(-q --disable-pip-version-check install --require-hashes)
    shift
    rm -rf "$env"
    python3 -m venv "$env" && tries "$env/bin/pip" "${pip[@]}" -r "$ROOT/scripts/tools/uv.txt" &&
        tries "$env/bin/uv" pip install -q --python "$env/bin/python" --require-hashes "${@/#/-r}"
}

# python_tool NAME: puts the programs of the Python packages that scripts/tools/NAME.txt names on the PATH.
python_tool() {
    python_env "$1" "$ROOT/scripts/tools/$1.txt" || die "$1 can't be fetched"
    PATH=$CACHE/$1/bin:$PATH
}

# need_node: true when there is a Node.js that the web UI can be built with. Where the system's is too old, as Debian 12's is, the
# Python registry has one.
need_node() {
    node_is_new || { python_tool node && node_is_new; }
}

# ui/package.json says which it needs.
node_is_new() {
    have node && have npm && node -e '
        const [major, minor] = process.versions.node.split(".").map(Number);
        process.exit(major > 20 || (major === 20 && minor >= 19) ? 0 : 1)'
}

# ui_packages: installs what the web UI is built and tested with into ui/node_modules, unless its lock file is the installed one.
ui_packages() {
    local status=0 lock
    mkdir -p "$CACHE"
    # The web pages' tests and the check of their build run at the same time.
    hold -x "$CACHE/ui-packages.lock" || return 1
    lock=$HELD
    ui_packages_alone || status=1
    release "$lock"
    return "$status"
}

ui_packages_alone() {
    cmp -s "$ROOT/ui/package-lock.json" "$ROOT/ui/node_modules/.installed-lock.json" && return 0
    # `npm ci` refuses a lock file without the binaries of other systems, which not every mirror of the registry has. This takes
    # the versions and hashes of the lock file, too.
    (cd "$ROOT/ui" && tries npm install --no-save --prefer-offline --ignore-scripts --no-audit --no-fund --loglevel error) || return 1
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
    local all=()
    have cargo-nextest || python_tool nextest
    [ -z "${GANTRY_TEST_VLLM_IMAGE:-}" ] || all=(--ignore-default-filter)
    cargo nextest run --workspace "${all[@]}" "$@"
}

# count_tests LOG [WORD]: prints how many tests passed and failed. Counts nextest's summaries, and plain lines
# `N passed, N failed`; where WORD is given, only lines that begin with `WORD: `.
count_tests() {
    awk -v word="${2:-}" '
        function number(what) { # the number before each "what" of this line
            return match($0, "[0-9]+ " what) ? substr($0, RSTART, RLENGTH) + 0 : 0
        }
        word == "" && /^ *Summary \[/ { passed += number("passed"); failed += number("failed") + number("timed out") + number("exec failed") }
        (word == "" ? /^([a-z]+: )?[0-9]+ passed, [0-9]+ failed/ : index($0, word ": ") == 1) { passed += number("passed"); failed += number("failed") }
        END { print passed + 0, failed + 0 }
    ' "$1"
}
