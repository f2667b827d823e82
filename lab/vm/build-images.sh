#!/bin/sh
# Makes what the VM lab boots, from Debian packages only: build-images.sh FOLDER SUITE...
#
# FOLDER/root.img          the root file system of the guest, Debian 12 with the tools that trials need
# FOLDER/SUITE/vmlinuz     the kernel that SUITE has
# FOLDER/SUITE/modules.img its modules, mounted at /lib/modules
# FOLDER/SUITE/initrd      what mounts both
#
# What is there already is kept; remove it to build it again, with newer packages. No privileges are needed.
set -eu

cd "$(dirname "$0")"
here=$PWD
cd - >/dev/null
[ $# -ge 2 ] || { echo "build-images.sh: usage: build-images.sh FOLDER SUITE..." >&2; exit 2; }
mkdir -p "$1"
cd "$1"
folder=$PWD
shift

PATH=$PATH:/usr/sbin:/sbin
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
mirror=http://deb.debian.org/debian

# An apt configuration of its own: the machine's is neither used nor changed.
configure_apt() {
    rm -rf apt
    mkdir -p apt/lists/partial apt/cache/archives/partial
    : > apt/status
    echo "deb [signed-by=$keyring] $mirror $1 main" > apt/sources.list
    cat > apt/apt.conf <<CONF
Dir::State "$folder/apt";
Dir::State::status "$folder/apt/status";
Dir::Cache "$folder/apt/cache";
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::sourcelist "$folder/apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
APT::Architecture "amd64";
APT::Sandbox::User "";
Acquire::Languages "none";
CONF
    export APT_CONFIG="$folder/apt/apt.conf"
    apt-get update -qq
}

unpack() {
    mkdir -p unpacked/debs
    (cd unpacked/debs && apt-get download -qq "$@")
    for package in unpacked/debs/*.deb; do
        dpkg-deb -x "$package" unpacked
    done
    rm -r unpacked/debs
}

build_root() {
    echo "building $folder/root.img"
    packages=$(sed 's/#.*//' "$here/packages" | tr -s ' \n' ',,' | sed 's/^,//; s/,$//')
    mmdebstrap --quiet --variant=minbase --format=ext2 --include="$packages" \
        --aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Languages "none"' \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        bookworm root.new "deb [signed-by=$keyring] $mirror bookworm main"
    mv root.new root.img
}

build_kernel() {
    echo "building $folder/$1"
    rm -rf "$1.new" unpacked
    mkdir -p "$1.new/boot/lib"
    configure_apt "$1"
    # From the kernel 7 on, the image, the modules and their index are packages of their own.
    # shellcheck disable=SC2046
    unpack $(apt-cache depends --recurse --important linux-image-amd64 | grep -E '^linux-(image|modules|binary|base)-[0-9]' | sort -u)
    modules=$(echo unpacked/lib/modules/* unpacked/usr/lib/modules/* | tr ' ' '\n' | grep -v '[*]' | head -1)
    version=${modules##*/}
    cp "$(ls unpacked/boot/vmlinuz-* "$modules/vmlinuz" 2>/dev/null | head -1)" "$1.new/vmlinuz"
    mkdir -p unpacked/tree/lib/modules
    mv "$modules" unpacked/tree/lib/modules/
    depmod -b unpacked/tree "$version"
    # What the root file system cannot be mounted without, in the order in which it is loaded.
    for module in virtio_pci virtio_blk ext4 overlay; do
        modprobe -d "$folder/unpacked/tree" -S "$version" --show-depends --ignore-install "$module" | awk '$1 == "insmod" { print $2 }'
    done | awk '!seen[$0]++' | while read -r file; do
        name=$(basename "$file" .xz)
        case $file in
            *.xz) xz -dc "$file" > "$1.new/boot/lib/$name" ;;
            *) cp "$file" "$1.new/boot/lib/$name" ;;
        esac
        echo "$name" >> "$1.new/boot/lib/order"
    done
    debugfs -R "dump -p /usr/bin/busybox $1.new/boot/busybox" root.img 2>/dev/null
    (cd "$1.new/boot" && find . | cpio --quiet -o -H newc -R 0:0) > "$1.new/initrd"
    echo "$version" > "$1.new/version"
    rm -r "$1.new/boot"
    mke2fs -q -t ext2 -E root_owner=0:0 -d unpacked/tree/lib/modules "$1.new/modules.img" "$(($(du -sm unpacked/tree | cut -f1) * 5 / 4 + 16))M"
    rm -rf unpacked apt "$1"
    mv "$1.new" "$1"
}

[ -e root.img ] || build_root
for suite in "$@"; do
    [ -e "$suite/initrd" ] || build_kernel "$suite"
done
