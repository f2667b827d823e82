#!/bin/sh
# Installs a program with everything that belongs to it: stage.sh PROGRAM BINARY RUNS PREFIX ROOT
#
# PROGRAM  whyslow or whyslow-fleet
# BINARY   the program, built for the machine that it is meant for
# RUNS     the program, built for this machine: prints its manual pages and completions
# PREFIX   where it will be on that machine, such as /usr
# ROOT     what to put it below (DESTDIR); may be empty
#
# This is the only list of what is installed: 'make install', 'make uninstall' and all packages are made from it.
set -eu
umask 022

program=$1 binary=$2 runs=$3 prefix=$4 root=$5
cd "$(dirname "$0")/.."
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
share=$root$prefix/share

case $program in
    whyslow) services='whyslow-record whyslow-exporter whyslow-serve whyslow-ship whyslow-recover' settings='whyslow-exporter whyslow-ship' ;;
    whyslow-fleet) services=whyslow-fleet-compact settings=whyslow-fleet ;;
    *) echo "stage.sh: no program '$program': whyslow, whyslow-fleet" >&2; exit 2 ;;
esac

install -D -m 755 "$binary" "$root$prefix/bin/$program"

"$runs" man --folder "$made/man1"
install -D -m 644 -t "$share/man/man1" "$made"/man1/*.1

for shell in bash zsh fish; do
    "$runs" completions $shell > "$made/$shell"
done
install -D -m 644 "$made/bash" "$share/bash-completion/completions/$program"
# Debian's zsh has a folder of its own for what packages bring.
[ "$prefix" = /usr ] && zsh=vendor-completions || zsh=site-functions
install -D -m 644 "$made/zsh" "$share/zsh/$zsh/_$program"
install -D -m 644 "$made/fish" "$share/fish/vendor_completions.d/$program.fish"

for service in $services; do
    sed "s|/usr/local/bin|$prefix/bin|" "systemd/$service.service" > "$made/service"
    install -D -m 644 "$made/service" "$root$prefix/lib/systemd/system/$service.service"
done

# The services read their settings in /etc, wherever the programs are. What an administrator wrote there is kept.
case $prefix in
    /usr | /usr/local)
        for setting in $settings; do
            mode=600
            [ "$setting" != whyslow-exporter ] || mode=644
            [ -e "$root/etc/default/$setting" ] || install -D -m $mode "packaging/default/$setting" "$root/etc/default/$setting"
        done
        ;;
esac

install -D -m 644 -t "$share/doc/$program" packaging/copyright README.md CHANGELOG.md
if [ "$program" = whyslow ]; then
    install -D -m 644 -t "$share/doc/$program/docs" docs/*.md
    install -D -m 644 -t "$share/whyslow/schema" docs/schema/*.json
    install -D -m 644 -t "$share/whyslow/dashboards" dashboards/whyslow.json dashboards/whyslow.rules.yml
else
    install -D -m 644 -t "$share/$program/schema" docs/schema/fleet/*.json
fi
