#!/usr/bin/env bash
# `make package`: what people install, in packages/: a Debian package, a container image, and their checksums.
#
#   scripts/package.sh                    builds a program that runs on Debian 11 and later, and packs it
#   scripts/package.sh --program FILE     packs this program instead; it needs the C library that it was built with
#
#   PACKAGES   where to put them (./packages)
#   VERSION    another version than that of Cargo.toml, for tests of upgrades
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

# The oldest C library that the program must run with: that of Debian 11, Ubuntu 20.04 and RHEL 9.
GLIBC=2.31
PACKAGES=${PACKAGES:-$ROOT/packages}
VERSION=${VERSION:-$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)}
program=
while [ $# -gt 0 ]; do
    case "$1" in
    --program) program=$(realpath "$2") && shift 2 ;;
    *) die "unknown option $1" ;;
    esac
done

have cargo || die "Rust is missing: install it with rustup"
need dpkg-deb dpkg || die "dpkg-deb is missing"
need objdump binutils || die "objdump is missing"

build() {
    local triple
    triple=$(rustc -vV | sed -n 's/^host: //p')
    # zig is a C compiler and linker that links against any older glibc.
    python_tool zig
    say "building the program (profile dist) for glibc $GLIBC and later: ten minutes on two cores"
    cargo zigbuild --locked --profile dist -p gantry --target "$triple.$GLIBC"
    program=$TARGET/$triple/dist/gantry
}

# needs_glibc PROGRAM: the newest version of the C library's symbols that it uses.
needs_glibc() {
    objdump -T "$1" | grep -oE 'GLIBC_[0-9.]+' | sed 's/GLIBC_//' | sort -uV | tail -1
}

if [ -z "$program" ]; then
    build
    needed=$(needs_glibc "$program")
    [ "$(printf '%s\n' "$needed" "$GLIBC" | sort -V | tail -1)" = "$GLIBC" ] ||
        die "the program needs glibc $needed, newer than $GLIBC"
fi

architecture=$(dpkg --print-architecture)
mkdir -p "$PACKAGES"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
chmod 755 "$work"

# ---- the Debian package ----

install -D -m 755 "$program" "$root/usr/bin/gantry"
strip --strip-unneeded "$root/usr/bin/gantry"
for unit in gantry.service gantry.socket gantry-backup.service gantry-backup.timer; do
    install -D -m 644 "deploy/systemd/$unit" "$root/lib/systemd/system/$unit"
    sed -i 's#/usr/local/bin/gantry#/usr/bin/gantry#' "$root/lib/systemd/system/$unit"
done
install -D -m 640 deploy/systemd/gantry.env "$root/etc/gantry/gantry.env"
doc=$root/usr/share/doc/gantry
install -d "$doc/examples"
install -m 644 README.md SECURITY.md CHANGELOG.md ARCHITECTURE.md CONTRIBUTING.md LICENSE openapi.json "$doc/"
cp -r docs "$doc/docs"
# The pages link to what lies here.
mkdir "$doc/deploy"
cp -r deploy/README.md deploy/apply deploy/compose deploy/monitoring deploy/proxy deploy/systemd "$doc/deploy/"
# The sources are not in the package: of links to them the text stays.
find "$doc" -name '*.md' -exec sed -i -E 's#\[([^]]*)\]\((\.\./)*(bench|crates|tests|ui)/[^)]*\)#\1#g' {} +
cp -r deploy/proxy deploy/monitoring "$doc/examples/"
install -m 644 deploy/systemd/process-engines.conf "$doc/examples/"
{
    echo 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/'
    printf 'Files: *\nCopyright: The Gantry authors\nLicense: Apache-2.0\n'
    echo ' The full text is in /usr/share/common-licenses/Apache-2.0.'
} >"$doc/copyright"
for shell in bash zsh fish; do
    case $shell in
    bash) file=$root/usr/share/bash-completion/completions/gantry ;;
    zsh) file=$root/usr/share/zsh/vendor-completions/_gantry ;;
    fish) file=$root/usr/share/fish/vendor_completions.d/gantry.fish ;;
    esac
    mkdir -p "$(dirname "$file")"
    "$program" completions $shell >"$file"
done
"$program" man --dir "$root/usr/share/man/man1" >/dev/null
find "$root/usr/share/man" -name '*.1' -exec gzip -9n {} +
find "$root" -type d -exec chmod 755 {} +

install -d "$root/DEBIAN"
needed=$(needs_glibc "$program")
sed -e "s/@VERSION@/$VERSION/; s/@ARCH@/$architecture/; s/@GLIBC@/$needed/" \
    -e "s/@SIZE@/$(du -sk --exclude DEBIAN "$root" | cut -f1)/" deploy/debian/control >"$root/DEBIAN/control"
install -m 755 deploy/debian/postinst deploy/debian/prerm deploy/debian/postrm "$root/DEBIAN/"
install -m 644 deploy/debian/triggers deploy/debian/conffiles "$root/DEBIAN/"
deb=gantry_${VERSION}_$architecture.deb
# gzip: dpkg of Debian 11 does not read zstd.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 0) \
    dpkg-deb --root-owner-group -Zgzip --build "$root" "$PACKAGES/$deb" >/dev/null

# ---- the container image ----

image=gantry-${VERSION}-$architecture.oci.tar
cp "$root/usr/bin/gantry" "$work/gantry"
say "packing the image: a first run compiles xtask for some minutes"
cargo xtask image "$work/gantry" "$PACKAGES/$image"

cd "$PACKAGES"
sha256sum "$deb" "$image" >SHA256SUMS
say "made in $PACKAGES:"
du -h "$deb" "$image" >&2
