#!/bin/sh
# Removes what stage.sh installed: uninstall.sh PROGRAM PREFIX ROOT. Settings in /etc and recordings in /var/lib/whyslow stay.
set -eu
program=$1 prefix=$2 root=$3
cd "$(dirname "$0")/.."
installed=$root$prefix/bin/$program
[ -x "$installed" ] || { echo "uninstall.sh: $installed is not there: nothing to remove"; exit 0; }
again=$(mktemp -d)
trap 'rm -rf "$again"' EXIT
packaging/stage.sh "$program" "$installed" "$installed" "$prefix" "$again"
(cd "$again$prefix" && find . -type f) | while read -r file; do
    rm -f "$root$prefix/$file"
done
for folder in "share/doc/$program/docs" "share/doc/$program" "share/$program/schema" share/whyslow/dashboards "share/$program"; do
    rmdir "$root$prefix/$folder" 2>/dev/null || true
done
