#!/usr/bin/env bash
# Makes the image gantry/vllm-cpu:0.32.0 (a real vLLM for CPUs; the official image can't be had without a container
# registry): a minimal Debian with Python plus the environment of vllm-env.sh at /opt/vllm. 7 GB, root only.
# Behaves like the official image: ENTRYPOINT `vllm serve`. Use --dtype float32: bf16 kernels crash on some VMs.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

VERSION=0.32.0
IMAGE=gantry/vllm-cpu:$VERSION
VENV=$(realpath -m "${GANTRY_VLLM_VENV:-$CACHE/vllm}")

if docker image inspect "$IMAGE" >/dev/null 2>&1; then
    say "$IMAGE is there"
    exit 0
fi
is_root || die "only root can make $IMAGE"
need debootstrap debootstrap || die "debootstrap is needed to make $IMAGE"
"$(dirname "$0")/vllm-env.sh"

ROOTFS=$(mktemp -d "$(dirname "$VENV")/rootfs.XXXXXX")
trap 'rm -rf "$ROOTFS"' EXIT
# The Python of the environment is the system's own, so the image gets the same release of Debian.
# shellcheck source=/dev/null
SUITE=$(. /etc/os-release && echo "$VERSION_CODENAME")
say "making a minimal Debian $SUITE"
debootstrap --variant=minbase --include=python3,libgomp1,libnuma1 "$SUITE" "$ROOTFS" >"$ROOTFS.log" 2>&1 ||
    die "debootstrap: $(tail -3 "$ROOTFS.log")"
rm -rf "$ROOTFS.log" "$ROOTFS"/var/cache/apt/* "$ROOTFS"/var/lib/apt/lists/* "$ROOTFS"/usr/share/doc
cat >"$ROOTFS/usr/local/bin/vllm" <<'SH'
#!/bin/sh
exec /opt/vllm/bin/python -m vllm.entrypoints.cli.main "$@"
SH
chmod 755 "$ROOTFS/usr/local/bin/vllm"

say "importing $IMAGE"
# TORCH_COMPILE_DISABLE: there is no compiler in the image, and a logprobs request would look for one.
tar -c --one-file-system --transform "flags=r;s,^\./$(basename "$VENV"),./opt/vllm," \
    -C "$ROOTFS" . -C "$(dirname "$VENV")" "./$(basename "$VENV")" |
    docker import -c 'ENTRYPOINT ["vllm", "serve"]' -c "LABEL org.opencontainers.image.version=$VERSION" \
        -c 'ENV VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=2' \
        -c 'ENV HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 TORCH_COMPILE_DISABLE=1 PYTHONDONTWRITEBYTECODE=1' \
        - "$IMAGE" >&2
say "made in $SECONDS s"
