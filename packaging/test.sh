#!/bin/sh
# Tries the packages that dist.sh made, as root: test.sh DIST
#
# Installs, upgrades, downgrades, removes and purges the Debian package in a throw-away root, with recordings and changed settings; asks
# whyslow-fleet there; runs lintian; installs the rpms in another; runs the static programs where there is no C library, those of aarch64
# under qemu-user. What was not made is skipped.
# The older version is OLD=FILE.deb, or this one with a lower number: that tries the maintainer scripts, not older files.
# Nothing outside of target/test-packages is changed: settings are those of a network namespace of its own.
set -u

dist=$(realpath "$1")
cd "$(dirname "$0")/.." || exit 2
[ "$(id -u)" = 0 ] || { echo "test.sh: needs root, for roots and namespaces" >&2; exit 2; }
for file in "$dist"/whyslow_*_amd64.deb; do
    [ -e "$file" ] || { echo "test.sh: $dist has no package: make dist" >&2; exit 2; }
done

work=$PWD/target/test-packages
mkdir -p "$work"
rm -rf "$work/deb" "$work/rpm" "$work/static" "$work/other" "$work/packages"
mkdir "$work/packages"
root=$work/deb
passed=0 failed=0 skipped=0

cleanup() {
    umount "$work/net" 2>/dev/null
    rm -rf "$work/deb" "$work/rpm" "$work/static" "$work/other" "$work/packages" "$work/net" "$work/output"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# check 'what is true' COMMAND...
check() {
    what=$1
    shift
    if "$@" >"$work/output" 2>&1; then
        passed=$((passed + 1))
        echo "ok       $what"
    else
        failed=$((failed + 1))
        echo "FAILED   $what"
        sed 's/^/         /' "$work/output" | head -20
    fi
}

skip() {
    skipped=$((skipped + 1))
    echo "skipped  $1"
}

not() {
    ! "$@"
}

# Prints nothing.
silent() {
    "$@" >"$work/silent" 2>&1
    cat "$work/silent"
    [ ! -s "$work/silent" ]
}

# A command below a root, with a network namespace that stays the same, and /proc.
inside() {
    below=$1
    shift
    # shellcheck disable=SC2016
    nsenter --net="$work/net" unshare --mount --pid --fork --kill-child sh -c '
        mount -t proc proc "$0/proc" && mount --rbind /sys "$0/sys" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"' "$below" "$@"
}

in_root() {
    inside "$root" env DEBIAN_FRONTEND=noninteractive "$@"
}

says() {
    wanted=$1
    shift
    "$@" >"$work/said" 2>&1
    cat "$work/said"
    grep -q -e "$wanted" "$work/said"
}

make_roots() {
    if [ ! -e "$work/root.tar" ]; then
        echo "building $work/root.tar"
        mmdebstrap --quiet --format=tar --variant=minbase --include=systemd bookworm "$work/root.tar.new" \
            'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main' || exit 2
        mv "$work/root.tar.new" "$work/root.tar"
    fi
    mkdir "$work/deb" "$work/rpm"
    tar -C "$work/deb" -xf "$work/root.tar" --exclude='./dev/*'
    tar -C "$work/rpm" -xf "$work/root.tar" --exclude='./dev/*'
    touch "$work/net"
    unshare --net="$work/net" true || exit 2
}

# The package with a lower version.
older() {
    dpkg-deb -R "$1" "$work/older"
    sed -i 's/^Version: .*/Version: 0.0.1-1/' "$work/older/DEBIAN/control"
    dpkg-deb --root-owner-group -b "$work/older" "$2" >/dev/null
    rm -r "$work/older"
}

files() {
    (cd "$root" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./run -o -path ./packages -o -path ./var/lib/dpkg -o -path ./var/log \
        -o -path ./var/lib/systemd/deb-systemd-helper-enabled -o -path ./var/cache \) -prune -o -print | sort)
}

enabled() {
    [ -L "$root/etc/systemd/system/$2.target.wants/$1.service" ]
}

setting() {
    in_root cat "/proc/sys/net/ipv4/$1"
}

has() {
    in_root cat "/proc/sys/net/ipv4/$1"
    [ "$(setting "$1")" = "$2" ]
}

test_debian() {
    new=$(basename "$dist"/whyslow_*_amd64.deb)
    mkdir "$root/packages"
    cp "$dist/$new" "$root/packages/new.deb"
    if [ -n "${OLD:-}" ]; then cp "$OLD" "$root/packages/old.deb"; else older "$dist/$new" "$root/packages/old.deb"; fi
    cp crates/import/tests/fixtures/vmstat*.txt "$root/packages/" 2>/dev/null
    capture=$(cd "$root/packages" && ls vmstat*.txt | head -1)
    files >"$work/packages/before"
    retries_before=$(setting tcp_retries2)

    check 'the package installs' in_root dpkg -i /packages/old.deb
    check 'the program runs' in_root whyslow --version
    check 'it reads a capture' in_root whyslow read "/packages/$capture"
    check 'rolling back at boot is enabled' enabled whyslow-recover sysinit
    check 'recording is not enabled' not enabled whyslow-record multi-user
    check 'no other service is enabled' not enabled whyslow-exporter multi-user
    check 'credentials are for root only' sh -c "[ \"\$(stat -c %a '$root/etc/default/whyslow-ship')\" = 600 ]"
    for unit in record exporter ship recover; do
        check "systemd understands whyslow-$unit.service" silent in_root systemd-analyze verify --man=no "whyslow-$unit.service"
    done

    check 'it records' in_root whyslow record --for 5s
    check 'a setting is changed' in_root whyslow tune set net.ipv4.tcp_keepalive_time=7100 --no-confirm
    check 'another waits for confirmation' in_root whyslow tune set net.ipv4.tcp_fin_timeout=47 --confirm-within 1h
    check 'and is in effect' has tcp_fin_timeout 47
    echo '# changed by the administrator' >>"$root/etc/default/whyslow-exporter"

    for version in new old; do
        [ $version = new ] && change=upgrade || change=downgrade
        check "the $change installs" in_root dpkg -i --force-downgrade "/packages/$version.deb"
        check "after the $change the recording is explained" in_root whyslow explain
        check "after the $change it records on" in_root whyslow record --for 3s
        check "after the $change the change is known" says tcp_keepalive_time in_root whyslow tune history
        check "after the $change it still waits for confirmation" has tcp_fin_timeout 47
        check "after the $change the administrator's settings are there" grep -q administrator "$root/etc/default/whyslow-exporter"
        check "after the $change recording is not enabled" not enabled whyslow-record multi-user
    done

    # The process that would roll it back in time ends with the namespace, as if it had been killed.
    check 'a change is not confirmed in time' in_root whyslow tune set net.ipv4.tcp_retries2=11 --confirm-within 1s
    sleep 2
    check 'the package is removed' in_root dpkg -r whyslow
    check 'what was not confirmed in time is rolled back' has tcp_retries2 "$retries_before"
    check 'what was kept stays' has tcp_keepalive_time 7100
    check 'recordings stay' test -d "$root/var/lib/whyslow/sample"
    check 'it is installed again' in_root dpkg -i /packages/new.deb
    check 'the change can be undone' in_root whyslow tune undo --all
    check 'the package is purged' in_root dpkg -P whyslow
    files >"$work/packages/after"
    check 'nothing is left' diff "$work/packages/before" "$work/packages/after"
}

test_fleet() {
    package=$(ls "$dist"/whyslow-fleet_*_amd64.deb 2>/dev/null)
    if [ -z "$package" ]; then skip 'whyslow-fleet: it was not made'; return; fi
    cp "$package" "$root/packages/fleet.deb"
    mkdir "$root/packages/store"
    check 'whyslow-fleet installs' in_root dpkg -i /packages/fleet.deb
    check 'its program runs' in_root whyslow-fleet --version
    check 'systemd understands whyslow-fleet-compact.service' silent in_root systemd-analyze verify --man=no whyslow-fleet-compact.service
    check 'compacting is not enabled' not enabled whyslow-fleet-compact multi-user
    check 'its credentials are for root only' sh -c "[ \"\$(stat -c %a '$root/etc/default/whyslow-fleet')\" = 600 ]"
    check 'a host is installed' in_root dpkg -i /packages/new.deb
    check 'it records two minutes' in_root whyslow record --for 125s
    check 'it ships' in_root whyslow ship --once --host web-1 /packages/store
    check 'the fleet knows it' says web-1 in_root whyslow-fleet sql --store /packages/store 'SELECT DISTINCT host FROM minute'
    check 'its answer is JSON' says '"schema"' in_root whyslow-fleet sick --store /packages/store --json
    check 'both are purged' in_root dpkg -P whyslow-fleet whyslow
    files >"$work/packages/after"
    check 'nothing is left of either' diff "$work/packages/before" "$work/packages/after"
}

test_lintian() {
    for package in "$dist"/*.deb; do
        check "lintian finds no error and nothing to warn of in $(basename "$package")" \
            silent lintian --no-cfg --allow-root "$package"
    done
}

# What was built for the other architecture runs under QEMU.
test_other_architecture() {
    if ! command -v qemu-aarch64-static >/dev/null 2>&1; then skip 'packages for aarch64: no qemu-aarch64-static'; return; fi
    for package in "$dist"/*_arm64.deb "$dist"/*.aarch64.rpm; do
        if [ ! -e "$package" ]; then skip "$package: it was not made"; continue; fi
        name=$(basename "$package")
        program=$(expr "$name" : '\(whyslow-fleet\|whyslow\)')
        below=$work/other/$name
        mkdir -p "$below"
        case $name in
            *.deb)
                check "$name is for arm64" test "$(dpkg-deb -f "$package" Architecture)" = arm64
                check "$name unpacks" dpkg-deb -x "$package" "$below"
                ;;
            *.rpm)
                check "$name is for aarch64" test "$(rpm -qp --nosignature --queryformat '%{ARCH}' "$package")" = aarch64
                check "$name unpacks" nsenter --net="$work/net" rpm --root "$below" --dbpath /var/lib/rpm --nodeps --noscripts --ignorearch --install "$package"
                ;;
        esac
        check "its program runs" qemu-aarch64-static "$below/usr/bin/$program" --version
    done
}

# The scriptlets run in a root of Debian: there is no RHEL in the registries. Dependencies are not tried.
test_rpm() {
    package=$(ls "$dist"/whyslow-[0-9]*.x86_64.rpm 2>/dev/null)
    if [ -z "$package" ]; then skip 'the rpm: there is none'; return; fi
    below=$work/rpm
    check 'the rpm is intact' rpm --checksig --nosignature "$package"
    check 'the rpm installs' nsenter --net="$work/net" rpm --root "$below" --nodeps --install "$package"
    check 'its files are as packaged' silent nsenter --net="$work/net" rpm --root "$below" --nodeps --verify whyslow
    check 'its program runs' inside "$below" whyslow --version
    check 'rolling back at boot is enabled' test -L "$below/etc/systemd/system/sysinit.target.wants/whyslow-recover.service"
    check 'recording is not enabled' not test -L "$below/etc/systemd/system/multi-user.target.wants/whyslow-record.service"
    check 'a setting waits for confirmation' inside "$below" whyslow tune set net.ipv4.tcp_fin_timeout=48 --confirm-within 1h
    check 'the rpm is upgraded' nsenter --net="$work/net" rpm --root "$below" --nodeps --upgrade --force "$package"
    check 'rolling back at boot is still enabled' test -L "$below/etc/systemd/system/sysinit.target.wants/whyslow-recover.service"
    check 'its files are as packaged' silent nsenter --net="$work/net" rpm --root "$below" --nodeps --verify whyslow
    check 'the setting still waits' says fin_timeout inside "$below" whyslow tune history
    check 'the rpm is removed' nsenter --net="$work/net" rpm --root "$below" --nodeps --erase whyslow
    check 'the service is no longer enabled' not test -L "$below/etc/systemd/system/sysinit.target.wants/whyslow-recover.service"
    check 'its program is gone' not test -e "$below/usr/bin/whyslow"

    package=$(ls "$dist"/whyslow-fleet-*.x86_64.rpm 2>/dev/null)
    if [ -z "$package" ]; then skip 'the rpm of whyslow-fleet: it was not made'; return; fi
    check 'the rpm of whyslow-fleet installs' nsenter --net="$work/net" rpm --root "$below" --nodeps --install "$package"
    check 'its program runs' inside "$below" whyslow-fleet --version
    check 'it is removed' nsenter --net="$work/net" rpm --root "$below" --nodeps --erase whyslow-fleet
    check 'its program is gone' not test -e "$below/usr/bin/whyslow-fleet"
}

test_static() {
    for archive in "$dist"/whyslow-[0-9]*-linux.tar.xz; do
        if [ ! -e "$archive" ]; then skip 'static programs: there are none'; return; fi
        name=$(basename "$archive" .tar.xz)
        mkdir -p "$work/static"
        tar -C "$work/static" -xf "$archive"
        cp crates/import/tests/fixtures/vmstat*.txt "$work/static/$name/"
        below=$work/static/$name
        case $name in
            *-aarch64-*)
                if ! command -v qemu-aarch64-static >/dev/null 2>&1; then skip "$name: no qemu-aarch64-static"; continue; fi
                run() { qemu-aarch64-static "$below/bin/whyslow" "$@"; }
                ;;
            *) run() { chroot "$below" /bin/whyslow "$@"; } ;;
        esac
        capture=$(ls "$below"/vmstat*.txt | head -1)
        case $name in *-aarch64-*) ;; *) capture=/$(basename "$capture") ;; esac
        check "$name runs without a C library" run --version
        check "$name reads a capture" run read "$capture"
        check "$name has its manual" says '.TH whyslow' run man
        check "$name observes" says '"schema"' run --json --for 1s
    done
}

make_roots
test_lintian
test_debian
test_fleet
test_rpm
test_static
test_other_architecture
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
