#!/bin/bash
# Compares the profiles of Debian's package tuned as tuned and as whyslow apply them: compare.sh WHYSLOW [PROFILE...]
# The packages are fetched and unpacked into a folder of their own, and laid over /usr and /etc in a mount namespace: nothing
# is installed. Needs root, apt-get and overlayfs.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
whyslow=$(readlink -f "$1")
shift
folder=${TUNED_FOLDER:-$(mktemp -d /tmp/wsl-tuned-XXXXXX)}
if [ ! -d "$folder/root" ]; then
    mkdir -p "$folder/debs"
    (cd "$folder/debs" && apt-get -q download tuned python3-dbus python3-gi python3-pyudev python3-configobj python3-decorator \
        python3-linux-procfs python3-six ethtool hdparm virt-what libgirepository-1.0-1 gir1.2-glib-2.0 libdbus-1-3 >&2)
    for package in "$folder"/debs/*.deb; do dpkg -x "$package" "$folder/root"; done
fi
export WHYSLOW=$whyslow FOLDER=$folder HERE=$here
# Buffers and connection tracking can be set in the machine's own network namespace only: HOST_NET=1 compares there.
namespaces=(--mount)
[ -n "${HOST_NET:-}" ] || namespaces+=(--net)
exec unshare "${namespaces[@]}" bash -euc '
    mount --make-rprivate /
    mkdir -p "$FOLDER/over"
    mount -t tmpfs wsl-tuned-over "$FOLDER/over"
    for part in usr etc; do
        mkdir "$FOLDER/over/$part" "$FOLDER/over/$part-work"
        mount -t overlay -o "lowerdir=$FOLDER/root/$part:/$part,upperdir=$FOLDER/over/$part,workdir=$FOLDER/over/$part-work" "wsl-tuned-$part" "/$part"
    done
    mount -t tmpfs wsl-tuned-run /run
    mkdir -p /run/tuned /var/log/tuned
    mount -t sysfs wsl-tuned-sys /sys 2>/dev/null || true
    # Settings of other files are none of the profile.
    sed -i "s/^reapply_sysctl.*/reapply_sysctl = 0/" /etc/tuned/tuned-main.conf
    export WHYSLOW_STATE=$FOLDER/over/state
    exec /usr/bin/python3 "$HERE/compare.py" "$WHYSLOW" "$@"
' compare "$@"
