#!/bin/sh
# Installs the Debian packages (and programs of crates.io) that are missing, and only those: install-missing.sh build [runner] [test] [lab] [lab-vm] [programs] [bench] [musl] [dist] [packages] [manual]
set -eu

# A package and a file it brings: the file is looked for, so that nothing is installed that is there by other means.
build='clang-14:clang-14 llvm-14:llvm-strip-14 gcc:/usr/bin/gcc libc6-dev:/usr/include/stdio.h make:/usr/bin/make'
lab='iproute2:ip e2fsprogs:mkfs.ext4 util-linux:losetup procps:sysctl nftables:nft xfsprogs:mkfs.xfs btrfs-progs:mkfs.btrfs'
test='qemu-system-x86:qemu-system-x86_64 iproute2:ip nftables:nft util-linux:losetup e2fsprogs:mkfs.ext4 xfsprogs:mkfs.xfs btrfs-progs:mkfs.btrfs fio:fio iperf3:iperf3 sysstat:sadf atop:atop chromium:chromium nodejs:node npm:npm prometheus:promtool tmux:tmux'
runner='python3:python3'
programs='postgresql:/usr/lib/postgresql/*/bin/postgres mariadb-server-core:mariadbd mariadb-client-core:mariadb redis-server:redis-server nginx-light:nginx apache2-utils:ab nodejs:node default-jdk-headless:javac python3:/usr/bin/python3 ffmpeg:ffmpeg rsync:rsync runc:runc'
lab_vm='binutils:strip qemu-system-x86:qemu-system-x86_64 mmdebstrap:mmdebstrap genext2fs:genext2fs cpio:cpio kmod:depmod e2fsprogs:mke2fs xz-utils:xz debian-archive-keyring:/usr/share/keyrings/debian-archive-keyring.gpg'
musl='musl-tools:musl-gcc'
dist='musl-tools:musl-gcc gcc-aarch64-linux-gnu:aarch64-linux-gnu-gcc libc6-dev-arm64-cross:/usr/aarch64-linux-gnu/include/stdio.h git:git xz-utils:xz'
packaged='lintian:lintian mmdebstrap:mmdebstrap rpm:rpm qemu-user-static:qemu-aarch64-static util-linux:unshare'
bench='iproute2:ip fio:fio bonnie++:bonnie++ iperf3:iperf3 atop:atop sysstat:pidstat bpftrace:bpftrace'

PATH=$PATH:/usr/sbin:/sbin

missing() {
    for pair in $1; do
        what=${pair#*:}
        # Unquoted: a path may have a version in it.
        # shellcheck disable=SC2086
        command -v "$what" >/dev/null 2>&1 || ls $what >/dev/null 2>&1 || printf '%s ' "${pair%%:*}"
    done
}

# Performance Co-Pilot as it is, without installing it: the package would start four services, which then run beside all that is
# measured. Its libraries and what else is in its packages go below target/pcp.
unpack_pcp() {
    if [ -e /usr/lib/pcp/bin/pmcd ] || [ -e target/pcp/usr/lib/pcp/bin/pmcd ] || ! command -v apt-get >/dev/null 2>&1; then
        return
    fi
    echo "unpacking pcp below target/pcp"
    rm -rf target/pcp target/pcp.new
    mkdir -p target/pcp.new
    (
        cd target/pcp.new
        apt-get download -qq pcp pcp-conf libpcp3 libpcp-pmda3 libpcp-archive1
        for package in *.deb; do
            dpkg-deb -x "$package" .
        done
        rm -- *.deb
    )
    mv target/pcp.new target/pcp
}

# What drives the browser in the tests of the page, in the versions of web/package-lock.json.
install_web() {
    if cmp -s web/package-lock.json web/node_modules/.installed; then
        return
    fi
    echo "installing the packages of web/package.json"
    if (cd web && npm ci --ignore-scripts --no-audit --no-fund --silent); then
        cp web/package-lock.json web/node_modules/.installed
    else
        # Without them the tests of the page are skipped, except under CI=true.
        echo "install-missing.sh: npm cannot install them" >&2
        [ "${CI:-}" != true ]
    fi
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        echo "install-missing.sh: not root and no sudo; as root run: apt-get install $packages" >&2
        return 1
    fi
}

packages=
for list in "$@"; do
    case $list in
        build) packages="$packages$(missing "$build")" ;;
        test) packages="$packages$(missing "$test")" ;;
        runner) packages="$packages$(missing "$runner")" ;;
        lab) packages="$packages$(missing "$lab")" ;;
        lab-vm) packages="$packages$(missing "$lab_vm")" ;;
        programs) packages="$packages$(missing "$programs")" ;;
        bench) packages="$packages$(missing "$bench")" ;;
        musl) packages="$packages$(missing "$musl")" ;;
        dist) packages="$packages$(missing "$dist")" ;;
        packages) packages="$packages$(missing "$packaged")" ;;
        manual) ;;
        *) echo "install-missing.sh: no list '$list': build, test, lab, lab-vm, programs, bench, musl, dist, packages, manual" >&2; exit 2 ;;
    esac
done

if [ -n "$packages" ]; then
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "install-missing.sh: no apt-get here; install by hand what Debian calls: $packages" >&2
        exit 1
    fi
    echo "installing: $packages"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq
    # Unquoted: a list of words.
    # shellcheck disable=SC2086
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages
    # These packages also start services, which would run on.
    for started in prometheus:prometheus.service atop:atop.service atop:atopacct.service postgresql:postgresql.service redis-server:redis-server.service nginx-light:nginx.service; do
        case " $packages " in
            *" ${started%%:*} "*) [ ! -d /run/systemd/system ] || as_root systemctl disable --quiet --now "${started#*:}" ;;
        esac
    done
fi

case " $* " in
    *" bench "*) unpack_pcp ;;
esac

case " $* " in
    *" test "*) install_web ;;
esac

if ! command -v cargo >/dev/null 2>&1; then
    echo "install-missing.sh: no cargo; get it from https://rustup.rs (rust-toolchain.toml names the version), then open a new shell" >&2
    exit 1
fi

# Programs of crates.io, in the versions that were tried: their options change.
install_program() {
    command -v "$1" >/dev/null 2>&1 || cargo install --quiet --locked "$1@$2"
}

case " $* " in
    *" dist "*)
        install_program cargo-deb 3.8.0
        install_program cargo-generate-rpm 0.21.1
        install_program cargo-cyclonedx 0.5.9
        rustup target add x86_64-unknown-linux-musl aarch64-unknown-linux-musl
        ;;
esac
case " $* " in
    *" manual "*) install_program mdbook 0.5.4 ;;
esac
