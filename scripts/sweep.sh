#!/usr/bin/env bash
# Finds what test runs leave on the machine. A run (scripts/services.sh) has the number of its process, which all that it starts
# inherits as GANTRY_TEST_RUN, and a folder /tmp/gantry-run-NUMBER.
#
#   scripts/sweep.sh left NUMBER   lists what this run has left: a line each; exits with 1 if there is anything
#   scripts/sweep.sh dead          removes what runs left that have ended or were killed; says what it removes
set -uo pipefail
PATH=$PATH:/usr/sbin:/sbin
RUNS=/tmp/gantry-run-

alive() { [ -e "/proc/$1" ] && tr '\0' ' ' <"/proc/$1/cmdline" 2>/dev/null | grep -q '\.sh\|\.ci/run'; }

# processes NUMBER: those of the run, without this script and those that started it.
processes() {
    local number=$1 at=$$ ours=" " pid
    while [ "${at:-0}" -gt 1 ]; do
        ours+="$at "
        at=$(sed -n 's/^PPid:\t//p' "/proc/$at/status" 2>/dev/null)
    done
    # Kernel threads have neither; containers have an environment of their own, and are found by the folder.
    grep -lzaE "^GANTRY_TEST_RUN=$number$|$RUNS$number(/|$)" /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null |
        cut -d/ -f3 | sort -un | while read -r pid; do
        case "$ours" in *" $pid "*) continue ;; esac
        # A lock that the run holds ends with it.
        [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != tail ] || continue
        # What this script itself has started here.
        [ "$(sed -n 's/^PPid:\t//p' "/proc/$pid/status" 2>/dev/null)" != $$ ] || continue
        [ ! -e "/proc/$pid" ] || printf '%s\n' "$pid"
    done
}

mounts() { grep -o "$RUNS$1/[^ ]*" /proc/mounts | sort -r; }

# Names of namespaces of tests end with the test's process number and a word: gantry-test-123-x, gantry-gap-123-0.
namespaces() {
    local name pid
    for name in $(ip netns list 2>/dev/null | grep -oE '^gantry-(test|gap)-[0-9]+-[^ ]*'); do
        pid=$(cut -d- -f3 <<<"$name")
        [ -e "/proc/$pid" ] || echo "$name"
    done
}

# Bridges of Docker's networks outlive a dockerd that was killed, and hold its address pools.
bridges() {
    pgrep -x dockerd >/dev/null && return
    ip -o link show type bridge 2>/dev/null | grep -oE '(br-[0-9a-f]{12}|gty[0-9]+)(:)' | tr -d :
}

groups() { find /sys/fs/cgroup -maxdepth 3 -type d -name 'gantry-test-*' 2>/dev/null; }

left() {
    local number=$1 pid name line
    for pid in $(processes "$number"); do
        line=$( (tr '\0' ' ' <"/proc/$pid/cmdline") 2>/dev/null | cut -c1-150)
        # One that has ended since has no command line any more.
        [ -z "$line" ] || printf 'process %s: %s\n' "$pid" "$line"
    done
    for name in $(mounts "$number"); do echo "mount $name"; done
    for name in $(namespaces); do echo "network namespace $name"; done
    for name in $(bridges); do echo "bridge $name"; done
    for name in $(groups); do echo "control group $name"; done
}

# remove NUMBER: all of the above, and the run's folder.
remove() {
    local number=$1 pid name
    for pid in $(processes "$number"); do kill -KILL "$pid" 2>/dev/null; done
    for name in $(mounts "$number"); do umount -l "$name" 2>/dev/null; done
    for name in $(namespaces); do ip netns delete "$name" 2>/dev/null; done
    for name in $(bridges); do ip link delete "$name" 2>/dev/null; done
    for name in $(groups); do rmdir "$name" 2>/dev/null; done
    [ -z "$number" ] || rm -rf --one-file-system "$RUNS$number"
}

case ${1:-} in
left)
    found=$(left "$2")
    [ -z "$found" ] || { printf '%s\n' "$found"; exit 1; }
    ;;
dead)
    {
        printf '%s\n' "$RUNS"[0-9]* | grep -oE '[0-9]+$'
        cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' | sed -n 's/^GANTRY_TEST_RUN=//p'
    } | sort -un | while read -r number; do
        alive "$number" && continue
        left "$number" | sed "s/^/== run $number left: /" >&2
        remove "$number"
    done
    # What has no number of a run.
    for name in $(namespaces); do ip netns delete "$name"; done
    for name in $(bridges); do ip link delete "$name"; done
    for name in $(groups); do rmdir "$name"; done
    ;;
*)
    echo "usage: scripts/sweep.sh left NUMBER | dead" >&2
    exit 2
    ;;
esac
