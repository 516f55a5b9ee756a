# shellcheck shell=bash
# The servers that the tests and the demo use, sourced by the scripts beside it (after lib.sh):
#
#   services_start docker postgres redis     starts those, and has them stopped when the script exits
#
# Sets DOCKER_HOST, TEST_POSTGRES_URL and TEST_REDIS_URL for the ones that run; a skip is noted for each other one.
# A Docker engine, or a URL, that is there already is used as it is. Ours are private: own temporary folder, own
# sockets and ports, never the distribution's instances. Two scripts of one checkout share one dockerd; the last
# one to leave stops it.

SERVICES_DIR=
SERVICES_UP=()

services_start() {
    local service
    for service in "$@"; do
        "services_$service" || true
    done
}

# The folder of this run has everything that it makes: its servers' files and, as TMPDIR, its tests'. What it starts
# inherits its number. So scripts/sweep.sh finds what it leaves, even if it was killed.
services_dir() {
    [ -n "$SERVICES_DIR" ] && return 0
    SERVICES_DIR=/tmp/gantry-run-$$
    export GANTRY_TEST_RUN=$$ TMPDIR=$SERVICES_DIR
    mkdir -m 711 "$SERVICES_DIR"
    trap services_stop EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
}

services_stop() {
    local service
    for service in "${SERVICES_UP[@]}"; do
        "stop_$service" || true
    done
    SERVICES_UP=()
    [ -z "$SERVICES_DIR" ] || rm -rf --one-file-system "$SERVICES_DIR"
    SERVICES_DIR=
}

# ---- Docker ----

docker_answers() { timeout 20 docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

services_docker() {
    need docker docker.io || { skip docker "no docker program"; return 1; }
    if docker_answers; then
        DOCKER_HOST=${DOCKER_HOST:-$(docker context inspect --format '{{.Endpoints.docker.Host}}')}
        export DOCKER_HOST
        return 0
    fi
    is_root || { skip docker "no engine answers, and only root may start one"; return 1; }
    need dockerd docker.io || { skip docker "dockerd is not installed"; return 1; }
    services_dir
    mkdir -p "$CACHE"
    # Every user of the shared dockerd holds this lock shared: see stop_docker.
    hold -s "$CACHE/docker.lock" || { skip docker "the lock of dockerd can't be taken"; return 1; }
    DOCKER_LOCK=$HELD
    SERVICES_UP+=(docker)
    export DOCKER_HOST
    DOCKER_HOST=unix://$(docker_run_dir)/docker.sock
    hold -x "$CACHE/docker.start"
    local starting=$HELD
    if ! docker_answers; then
        for _ in 1 2 3; do # containerd misses its start timeout on a busy machine
            docker_launch && break
        done
    fi
    release "$starting"
    if ! docker_answers; then
        skip docker "dockerd did not start: $(tail -1 "$CACHE/dockerd.log")"
        unset DOCKER_HOST
        return 1
    fi
}

# Sockets have short names, and a checkout's path may be long: one folder per checkout, where only root can write.
checkout_number() { printf %s "$CACHE" | cksum | cut -d' ' -f1; }
docker_run_dir() { echo "/run/gantry-docker-$(checkout_number)"; }

# Two engines on one bridge would give out the same addresses: ours gets its own where that can be made.
docker_bridge() { echo "gty$(($(checkout_number) % 1000000))"; }

# A bridge without an address of its own takes the lowest of its ports', which is another one after a container
# beside it has come or gone: then the running ones send their packets to nobody until they ask for it again, and their
# connections stand still for 13 or 26 seconds.
docker_bridge_up() {
    local bridge number
    bridge=$(docker_bridge)
    number=$(($(checkout_number) % 250))
    have ip || return 1
    [ -e "/sys/class/net/$bridge" ] || {
        ip link add "$bridge" type bridge && ip address add "172.29.$number.1/24" dev "$bridge" || return 1
    }
    ip link set "$bridge" address "$(printf '02:42:ac:1d:%02x:01' "$number")" up
}

docker_launch() {
    local run data driver network=()
    run=$(docker_run_dir)
    docker_kill
    mkdir -p "$run"
    data=$CACHE/docker driver=overlay2
    overlay_works "$data" || data=/var/tmp/gantry-docker
    overlay_works "$data" || driver=vfs
    ! docker_bridge_up 2>/dev/null || network=(--bridge "$(docker_bridge)")
    setsid nohup dockerd "${network[@]}" -H "unix://$run/docker.sock" --data-root "$data" --exec-root "$run/exec" \
        --pidfile "$run/docker.pid" --storage-driver "$driver" --log-level warn \
        </dev/null >"$CACHE/dockerd.log" 2>&1 &
    wait_for 40 docker_answers
}

overlay_works() {
    local dir=$1/.overlay-try works=1
    mkdir -p "$dir/lower" "$dir/upper" "$dir/work" "$dir/merged" || return 1
    if mount -t overlay overlay -o "lowerdir=$dir/lower,upperdir=$dir/upper,workdir=$dir/work" "$dir/merged" \
        2>/dev/null; then
        umount "$dir/merged"
        works=0
    fi
    rm -rf "$dir"
    return $works
}

# docker_kill: ends the dockerd of this checkout, by the process number it wrote.
docker_kill() {
    local pidfile pid
    pidfile=$(docker_run_dir)/docker.pid
    pid=$(cat "$pidfile" 2>/dev/null) || return 0
    if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = dockerd ]; then
        kill "$pid"
        wait_for 30 test ! -e "/proc/$pid" || kill -9 "$pid"
    fi
    rm -f "$pidfile"
}

# The last one to hold the lock stops the engine.
stop_docker() {
    release "$DOCKER_LOCK"
    # shellcheck disable=SC2016 # the inner shell expands it
    flock -n -o "$CACHE/docker.lock" bash -c '. "$0/lib.sh" && . "$0/services.sh" && docker_end' "$ROOT/scripts" || true
}

# docker_end: ends the dockerd of this checkout, with all that it made in the kernel.
docker_end() {
    docker_kill
    rm -rf "$(docker_run_dir)"
    ip link delete "$(docker_bridge)" 2>/dev/null || true
}

# ---- PostgreSQL ----

# As the user `postgres` where we are root: the server refuses to run as root.
as_postgres() {
    if is_root; then
        (cd / && runuser -u postgres -- "$@")
    else
        "$@"
    fi
}

services_postgres() {
    [ -z "${TEST_POSTGRES_URL:-}" ] || return 0
    local bin dir port
    bin=$(postgres_bin) || install_packages postgresql || { skip postgres "not installed"; return 1; }
    bin=${bin:-$(postgres_bin)} || { skip postgres "no initdb found"; return 1; }
    services_dir
    dir=$SERVICES_DIR/postgres
    mkdir -m 700 "$dir"
    ! is_root || chown postgres "$dir"
    as_postgres "$bin/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --locale=C --no-sync >"$SERVICES_DIR/initdb.log" 2>&1 ||
        { skip postgres "initdb: $(tail -1 "$SERVICES_DIR/initdb.log")"; return 1; }
    SERVICES_UP+=(postgres)
    for _ in 1 2 3; do # another process may take the port first
        port=$(free_port)
        if as_postgres "$bin/pg_ctl" -D "$dir/data" -w -t 60 -s -l "$dir/log" start -o "-p $port -k $dir \
            -c listen_addresses=127.0.0.1 -c fsync=off -c synchronous_commit=off -c full_page_writes=off \
            -c max_connections=400" >/dev/null 2>&1; then
            export TEST_POSTGRES_URL=postgres://postgres@127.0.0.1:$port/postgres
            return 0
        fi
    done
    skip postgres "did not start: $(tail -1 "$dir/log")"
    return 1
}

postgres_bin() {
    local dir
    dir=$(find /usr/lib/postgresql -path '*/bin/initdb' 2>/dev/null | sort -V | tail -1)
    [ -n "$dir" ] || dir=$(command -v initdb) || return 1
    dirname "$dir"
}

stop_postgres() {
    as_postgres "$(postgres_bin)/pg_ctl" -D "$SERVICES_DIR/postgres/data" -m immediate -s stop >/dev/null 2>&1
}

# ---- Redis ----

services_redis() {
    [ -z "${TEST_REDIS_URL:-}" ] || return 0
    need redis-server redis-server || { skip redis "not installed"; return 1; }
    need redis-cli redis-tools || { skip redis "no redis-cli"; return 1; }
    services_dir
    local port
    for _ in 1 2 3; do
        port=$(free_port)
        redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no --dir "$SERVICES_DIR" \
            </dev/null >"$SERVICES_DIR/redis.log" 2>&1 &
        REDIS_PID=$!
        if wait_for 10 redis-cli -p "$port" ping && kill -0 "$REDIS_PID" 2>/dev/null; then
            SERVICES_UP+=(redis)
            export TEST_REDIS_URL=redis://127.0.0.1:$port
            return 0
        fi
        kill "$REDIS_PID" 2>/dev/null || true
    done
    skip redis "did not start: $(tail -1 "$SERVICES_DIR/redis.log")"
    return 1
}

stop_redis() { kill "$REDIS_PID" 2>/dev/null && wait "$REDIS_PID"; }

# ---- programs that tests start themselves ----

# A registry for pulls, a clock that can be set, Prometheus and its tool: tests that lack them skip themselves.
services_tools() {
    have docker-registry || install_packages docker-registry || skip tools "docker-registry is missing"
    if ! have prometheus || ! have promtool; then
        install_packages prometheus || skip tools "prometheus is missing"
    fi
    # Reverse proxies, for the files in deploy/proxy.
    have nginx || install_packages nginx || skip tools "nginx is missing"
    have caddy || install_packages caddy || skip tools "caddy is missing"
    have minisign || install_packages minisign || skip tools "minisign is missing"
    # Network namespaces, for engines of a test's own and for the air gap.
    have ip || install_packages iproute2 || skip tools "iproute2 is missing"
    have iptables || install_packages iptables || skip tools "iptables is missing"
    have curl || install_packages curl || skip tools "curl is missing"
    [ -e /usr/lib/x86_64-linux-gnu/faketime ] || install_packages libfaketime || skip tools "libfaketime is missing"
}

# ---- what runs ----

# engine_images: the real engines' images, and the variables that tell the tests about them.
engine_images() {
    local scripts=$ROOT/scripts
    if GANTRY_TEST_LLAMA_IMAGE=$("$scripts/llama-image.sh"); then
        export GANTRY_TEST_LLAMA_IMAGE
        # A file of Debian's image runs only with the image's own libraries.
        if [ "$GANTRY_TEST_LLAMA_IMAGE" != gantry/llama-server:b11434 ]; then
            export GANTRY_TEST_LLAMA_SERVER=${GANTRY_TEST_LLAMA_SERVER:-$CACHE/llama-debian/llama-server}
        fi
    else
        unset GANTRY_TEST_LLAMA_IMAGE
        skip engines-llama "the image of llama.cpp's server could not be made"
    fi
    case " ${ENGINES:-} " in
    *vllm*)
        if "$scripts/vllm-image.sh"; then
            export GANTRY_TEST_VLLM_IMAGE=gantry/vllm-cpu:0.32.0
        else
            skip engines-vllm "the vLLM image could not be made"
        fi
        ;;
    esac
}

# llama_server: prints a program that runs the server of llama.cpp's image on this machine, without a container. It is
# taken out of the image once, with the libraries it maps.
llama_server() {
    local image=${GANTRY_TEST_LLAMA_IMAGE:?no image of llama.cpp} root=$CACHE/llama-server/${GANTRY_TEST_LLAMA_IMAGE##*:}
    if [ ! -x "$root/run" ]; then
        local new container
        mkdir -p "$CACHE/llama-server"
        new=$(mktemp -d "$CACHE/llama-server/new.XXXXXX") || return 1
        container=$(docker create "$image") || return 1
        docker export "$container" | tar -C "$new" -x
        docker rm "$container" >/dev/null
        # Its own loader, because the image may have another C library than this machine.
        cat >"$new/run" <<'EOF' || return 1
#!/bin/sh
root=$(dirname "$(readlink -f "$0")")
loader=$(find "$root" -name 'ld-linux-*' -type f | head -1)
libraries=$(find "$root" -name '*.so*' -type f -printf '%h\n' | sort -u | paste -sd :)
exec "$loader" --library-path "$libraries" "$root/app/llama-server" "$@"
EOF
        chmod +x "$new/run"
        rm -rf "$root"
        mv "$new" "$root" || return 1
    fi
    echo "$root/run"
}

docker_version() {
    [ -n "${DOCKER_HOST:-}" ] && docker version --format '{{.Server.Version}}' 2>/dev/null || echo no
}

postgres_version() {
    [ -n "${TEST_POSTGRES_URL:-}" ] && psql "$TEST_POSTGRES_URL" -Atc 'show server_version' 2>/dev/null || echo no
}

redis_version() {
    [ -n "${TEST_REDIS_URL:-}" ] || { echo no; return 0; }
    redis-cli -u "$TEST_REDIS_URL" info server 2>/dev/null | tr -d '\r' | sed -n 's/^redis_version://p'
}
