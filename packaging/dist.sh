#!/bin/sh
# Makes what is released, in target/dist: dist.sh PROGRAM...
#
# PROGRAM_VERSION-1_amd64.deb                 for Debian and Ubuntu
# PROGRAM_VERSION-1_arm64.deb                 for the same; linked statically, as it is built on x86_64
# PROGRAM-VERSION-1.ARCH.rpm                  for RHEL, Fedora, SUSE; linked statically, as their C libraries are older
# PROGRAM-VERSION-ARCH-linux.tar.xz           for everything else; linked statically
# PROGRAM-VERSION.cdx.json                    what is in it (CycloneDX)
# SHA256SUMS
#
# Times, paths and order, in which two builds of one commit would differ, are fixed.
set -eu
umask 022
cd "$(dirname "$0")/.."

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
maintainer='whyslow maintainers <maintainers@users.noreply.a-seed-ee968330.example>'
gnu=x86_64-unknown-linux-gnu
static='x86_64-unknown-linux-musl aarch64-unknown-linux-musl'

# What would differ between two builds: times, paths, and how work is divided.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
export CARGO_INCREMENTAL=0
# Smaller and faster than what `make run` builds, for some four times the CPU time.
export CARGO_PROFILE_RELEASE_OPT_LEVEL=3 CARGO_PROFILE_RELEASE_LTO=thin CARGO_PROFILE_RELEASE_CODEGEN_UNITS=4
export LC_ALL=C TZ=UTC
cargo_home=${CARGO_HOME:-$HOME/.cargo}
remap="--remap-path-prefix=$PWD=whyslow --remap-path-prefix=$cargo_home=cargo"
export RUSTFLAGS="$remap"
export CFLAGS="-ffile-prefix-map=$PWD=whyslow -ffile-prefix-map=$cargo_home=cargo"

# C code in dependencies (zstd, ring). What it needs of the C library is in both; without outlined atomics it needs nothing of gcc's.
export CC_x86_64_unknown_linux_musl=musl-gcc
export CC_aarch64_unknown_linux_musl=aarch64-linux-gnu-gcc
export CFLAGS_aarch64_unknown_linux_musl="$CFLAGS -mno-outline-atomics -U_FORTIFY_SOURCE"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld

dist=target/dist
rm -rf $dist
mkdir -p $dist

# All files with one time, so that archives of them are the same.
settle() {
    find "$1" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
}

# The changelog of a Debian package has its own format; what changed is in CHANGELOG.md.
debian_changelog() {
    printf '%s (%s-1) unstable; urgency=medium\n\n  * The changes of this version are in CHANGELOG.md.\n\n -- %s  %s\n' \
        "$1" "$version" "$maintainer" "$(date --date="@$SOURCE_DATE_EPOCH" '+%a, %d %b %Y %T %z')"
}

# Everything of a program below a folder: stage PROGRAM TARGET PREFIX FOLDER
stage() {
    packaging/stage.sh "$1" "target/$2/release/$1" "target/$gnu/release/$1" "$3" "$4"
    install -m 644 $dist/NOTICES "$4$3/share/doc/$1/NOTICES"
    # A panic names its file and line without symbols. This strip knows all architectures.
    llvm-strip-14 "$4$3/bin/$1"
}

deb() {
    root=$dist/deb/$1
    rm -rf "$root"
    stage "$1" "$2" /usr "$root"
    doc=$root/usr/share/doc/$1
    gzip -9n "$doc/NOTICES"
    mv "$doc/CHANGELOG.md" "$doc/changelog"
    debian_changelog "$1" > $dist/changelog
    overrides=$root/usr/share/lintian/overrides/$1
    install -D -m 644 "packaging/debian/$1/lintian-overrides" "$overrides"
    if [ "$2" != $gnu ]; then
        # For want of a C library of that architecture it is linked statically, and depends on nothing.
        printf '%s: statically-linked-binary [usr/bin/%s]\n%s: empty-field Depends\n' "$1" "$1" "$1" >> "$overrides"
    fi
    settle "$root"
    DEBEMAIL=$maintainer cargo deb --quiet --package "$1" --no-build --no-strip --target "$2" --maintainer "$maintainer" --output $dist/
}

rpm() {
    arch=${2%%-*}
    root=$dist/rpm/$1
    rm -rf "$root"
    stage "$1" "$2" /usr "$root"
    install -D -m 644 -t "$root/usr/share/licenses/$1" LICENSE-MIT LICENSE-APACHE
    mv "$root/usr/share/zsh/vendor-completions" "$root/usr/share/zsh/site-functions"
    settle "$root"
    case $1 in whyslow) folder=crates/cli ;; *) folder=crates/fleet ;; esac
    cargo generate-rpm --package $folder --auto-req no --arch "$arch" --source-date "$SOURCE_DATE_EPOCH" --output $dist/
}

tarball() {
    name=$1-$version-${2%%-*}-linux
    stage "$1" "$2" /usr/local "$dist/root"
    install -m 644 -t "$dist/root/usr/local/share/doc/$1" LICENSE-MIT LICENSE-APACHE
    mv "$dist/root/etc/default" "$dist/root/usr/local/share/doc/$1/default"
    mv "$dist/root/usr/local" "$dist/$name"
    settle "$dist/$name"
    tar --directory $dist --sort=name --owner=0 --group=0 --numeric-owner --format=gnu -cf - "$name" | xz -T1 > "$dist/$name.tar.xz"
    rm -r "$dist/root" "${dist:?}/$name"
}

sbom() {
    case $1 in whyslow) manifest=crates/cli/Cargo.toml ;; *) manifest=crates/fleet/Cargo.toml ;; esac
    name=$1-$version.cdx
    cargo cyclonedx --quiet --manifest-path $manifest --format json --spec-version 1.5 --override-filename "$name"
    sed "s|$PWD|/whyslow|g" "$(dirname $manifest)/$name.json" > "$dist/$name.json"
    # It is made for each member of the workspace.
    find . -path ./target -prune -o -name "$name.json" -exec rm {} +
}

for program in "$@"; do
    for target in $gnu $static; do
        # BUILT=1: as it was built before.
        [ -z "${BUILT:-}" ] || continue
        echo "building $program for $target"
        cargo build --locked --release --package "$program" --target "$target"
    done
    packaging/notices.sh "$program" > $dist/NOTICES
    sbom "$program"
    deb "$program" $gnu
    deb "$program" aarch64-unknown-linux-musl
    for target in $static; do
        rpm "$program" "$target"
        tarball "$program" "$target"
    done
done
rm -r $dist/deb $dist/rpm $dist/NOTICES $dist/changelog

(cd $dist && sha256sum -- * > SHA256SUMS)
cat $dist/SHA256SUMS
