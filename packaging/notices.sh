#!/bin/sh
# Prints the packages that a program is linked with, with their licences: notices.sh PROGRAM
set -eu
cd "$(dirname "$0")/.."
program=$1
texts=$(mktemp -d)
trap 'rm -rf "$texts"' EXIT
registry=${CARGO_HOME:-$HOME/.cargo}/registry/src

# Packages of this repository have a path; "(*)" marks those that were listed before.
cargo tree --locked --package "$program" --edges normal --prefix none --format '{p}|{l}' > "$texts/tree"
sed 's/ (\*)$//; s/ (proc-macro)//; s/ v/ /; /(\//d' "$texts/tree" | LC_ALL=C sort -u > "$texts/list"

echo "$program is linked with these packages. The texts of their licences follow."
echo
sed 's/|/: /' "$texts/list"

while IFS='|' read -r package license; do
    folder=$(echo "$registry"/*/"$(echo "$package" | tr ' ' -)")
    for file in "$folder"/LICEN[CS]E* "$folder"/COPYING* "$folder"/NOTICE* "$folder"/UNLICENSE*; do
        [ -f "$file" ] || continue
        hash=$(sha256sum < "$file" | cut -d ' ' -f 1)
        cp "$file" "$texts/$hash.text"
        echo "$package: $(basename "$file")" >> "$texts/$hash.names"
    done
done < "$texts/list"

# In the order of the first package that has each text.
for names in "$texts"/*.names; do
    printf '%s|%s\n' "$(head -1 "$names")" "$names"
done | LC_ALL=C sort | while IFS='|' read -r _ names; do
    printf '\n%s\n' '------------------------------------------------------------'
    cat "$names"
    echo
    cat "${names%.names}.text"
done
