#!/usr/bin/env bash
# Tests the Debian package on a booted Debian of its own (debootstrap, systemd-nspawn, no network), and that the program
# runs on the oldest Debian it is for.
#
#   scripts/test-package.sh                    packs what was built for older C libraries (scripts/package.sh)
#   scripts/test-package.sh --program FILE     packs this program; the oldest Debian is left out
#
# The last line is `package: N passed, N failed`. GANTRY_ROOTS (/var/tmp/gantry-roots) keeps the fresh systems.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

is_root || { skip package "only root may boot a system of its own"; exit 0; }
need debootstrap debootstrap || { skip package "no debootstrap"; exit 0; }
need systemd-nspawn systemd-container || { skip package "no systemd-nspawn"; exit 0; }

ROOTS=${GANTRY_ROOTS:-/var/tmp/gantry-roots}
work=$(mktemp -d "${TMPDIR:-/tmp}/gantry-package.XXXXXX")
trap 'rm -rf "$work"' EXIT

# fresh SUITE PACKAGES: unpacks a fresh system into $work/SUITE; it is made once and kept.
fresh() {
    local suite=$1 kept=$ROOTS/$1.tar
    if [ ! -f "$kept" ]; then
        mkdir -p "$ROOTS"
        say "making a fresh Debian ($suite)"
        debootstrap --variant=minbase --include="$2" "$suite" "$work/new" >"$work/debootstrap.log" 2>&1 ||
            { tail -3 "$work/debootstrap.log" >&2; return 1; }
        rm -rf "$work/new/var/cache/apt/archives"/*.deb
        tar -C "$work/new" -cf "$kept.part" .
        mv "$kept.part" "$kept"
        rm -rf "$work/new"
    fi
    mkdir -p "$work/$suite"
    tar -C "$work/$suite" -xf "$kept"
}

# A later version is the same program in a package that says so.
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
PACKAGES=$work/one scripts/package.sh "$@"
program=$work/program
dpkg-deb --fsys-tarfile "$work/one/gantry_${version}_$(dpkg --print-architecture).deb" |
    tar -xO ./usr/bin/gantry >"$program"
chmod 755 "$program"
VERSION=$version+later PACKAGES=$work/two scripts/package.sh --program "$program"

# Docker's package, as far as Gantry's looks at it.
mkdir -p "$work/docker/DEBIAN" "$work/docker/usr/bin"
printf 'Package: docker-stand-in\nVersion: 1\nArchitecture: all\nMaintainer: none <none@localhost>\nDescription: a test\n' \
    >"$work/docker/DEBIAN/control"
printf '#!/bin/sh\ngetent group docker >/dev/null || addgroup --quiet --system docker\n' >"$work/docker/DEBIAN/postinst"
chmod 755 "$work/docker/DEBIAN/postinst"
printf '#!/bin/sh\n' >"$work/docker/usr/bin/dockerd"
dpkg-deb --root-owner-group -Zgzip --build "$work/docker" "$work/docker.deb" >/dev/null

fresh bookworm init,systemd,dbus,curl,procps,ca-certificates || { skip package "debootstrap failed"; exit 0; }
root=$work/bookworm
mkdir -p "$root/packages"
mv "$work"/one/*.deb "$root/packages/one.deb"
mv "$work"/two/*.deb "$root/packages/two.deb"
mv "$work/docker.deb" "$root/packages/docker.deb"
cp crates/server/tests/fixtures/gguf/tiny-llama-F16.gguf "$root/packages/tiny.gguf"
install -m 755 tests/package/guest.sh "$root/packages/guest.sh"
cat >"$root/etc/systemd/system/gantry-test.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/bash -c '/packages/guest.sh >/packages/log 2>&1; systemctl --no-block poweroff'
[Install]
WantedBy=default.target
UNIT
mkdir -p "$root/etc/systemd/system/default.target.wants"
ln -s ../gantry-test.service "$root/etc/systemd/system/default.target.wants/gantry-test.service"
say "booting it"
timeout 600 systemd-nspawn --quiet --keep-unit --register=no --private-network --directory "$root" --boot \
    </dev/null >"$work/boot.log" 2>&1 || true
if [ ! -s "$root/packages/log" ]; then
    tail -5 "$work/boot.log" >&2
    skip package "the fresh Debian did not boot"
    exit 0
fi
# Its last line counts; more checks are made here.
counted=$(tail -1 "$root/packages/log")
sed '$d' "$root/packages/log"
passed=$(sed -n 's/^package: \([0-9]*\) passed.*/\1/p' <<<"$counted")
failed=$(sed -n 's/^package: .* \([0-9]*\) failed$/\1/p' <<<"$counted")
[ -n "$passed" ] || { echo "FAILED: the checks ended early: $counted"; passed=0 failed=1; }

check() { # check WHAT COMMAND...
    local what=$1
    shift
    if "$@" >"$work/said" 2>&1; then
        passed=$((passed + 1))
        echo "ok: $what"
    else
        failed=$((failed + 1))
        echo "FAILED: $what: $(tail -3 "$work/said")"
    fi
}

# ---- the container image ----

archive=$(echo "$work"/one/*.oci.tar)
if need skopeo skopeo; then
    check "the image is an OCI layout" skopeo inspect "oci-archive:$archive"
else
    skip package-oci "no skopeo"
fi
if [ -n "${DOCKER_HOST:-}" ]; then
    # Under a name of its own: the machine may run the real one.
    image=gantry-package-test:$$
    load_image() {
        local before loaded
        before=$(docker image inspect --format '{{.Id}}' "gantry:$version" 2>/dev/null || true)
        loaded=$(docker load -qi "$archive") && docker tag "${loaded##* }" "$image" || return 1
        docker rmi --no-prune "gantry:$version" >/dev/null
        [ -z "$before" ] || docker tag "$before" "gantry:$version"
    }
    check "Docker loads the image" load_image
    check "it says its version" docker run --rm --network none "$image" --version
    name=gantry-package-test-$$
    docker run -d --name "$name" --network none --tmpfs /data:uid=10001 --read-only --cap-drop ALL \
        -e DATA_DIR=/data "$image" >/dev/null || true
    check "it serves, without any right" wait_for 60 docker exec "$name" gantry status
    docker rm -f "$name" >/dev/null 2>&1 || true
    docker rmi "$image" >/dev/null 2>&1 || true
else
    skip package-image "no Docker engine"
fi

if [ $# = 0 ]; then
    fresh bullseye ca-certificates
    install -m 755 "$program" "$work/bullseye/gantry"
    check "the program runs on Debian 11" chroot "$work/bullseye" /gantry --version
fi
echo "package: $passed passed, $failed failed"
[ "$failed" = 0 ]
