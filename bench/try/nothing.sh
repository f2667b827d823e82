#!/bin/bash
# Tries a change of no effect again and again, and counts the verdicts: nothing.sh WHYSLOW [TIMES [LOAD...]]
# The change is a sysctl that none of the loads has anything to do with, in a network namespace that goes with this. What is asked
# for: of 100 trials at least 95 inconclusive, equivalent, or refused because noise hides everything; at most 5 'helped'.
# Loads: processor disk fork number. Needs root. It is of most use on a machine that others are busy on; NOISE_PAIRS=0 takes away
# what sees the noise beforehand, so that no trial is refused. Where more are wrong than chance makes of 5 in 100, it ends with 1.
set -euo pipefail
[ -n "${NOTHING_INSIDE:-}" ] || NOTHING_INSIDE=1 exec unshare --net "$(readlink -f "$0")" "$@"
whyslow=$(readlink -f "$1")
times=${2:-100}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- processor disk fork number
folder=$(mktemp -d /var/tmp/wsl-nothing-XXXXXX)
export WHYSLOW_STATE=$folder/state
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM

# The options and the command of a load, each some hundredths of a second.
load() {
    case $1 in
    processor) words=(--settle 0 -- dd if=/dev/zero of=/dev/null bs=1M count=100) ;;
    disk) words=(--settle 0 -- dd if=/dev/zero "of=$folder/file" bs=64k count=4 oflag=dsync conv=notrunc) ;;
    fork) words=(--settle 0 -- sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do true | true; done') ;;
    # Looked at three times, and what the command says of itself.
    number) words=(--settle 0 --looks 3 --pairs 20 --metric number -- sh -c
        'a=$(date +%s%N); dd if=/dev/zero of=/dev/null bs=1M count=50; b=$(date +%s%N); echo $(((b - a) / 1000))') ;;
    *) echo "no load '$1'" >&2; exit 2 ;;
    esac
}

# The verdict of one trial; refused where it was not made.
verdict() {
    "$whyslow" try --json --noise-pairs "${NOISE_PAIRS:-4}" net.ipv4.tcp_keepalive_probes=7 "${words[@]}" 2>>"$folder/errors" |
        sed -n 's/^  "verdict": "\(.*\)",\?$/\1/p' | grep . || echo refused
}

status=0
for name; do
    load "$name"
    for _ in $(seq "$times"); do verdict; done >"$folder/$name"
    # How probable so many or more are where each comes with 1 in 20, by the binomial distribution.
    sort "$folder/$name" | uniq -c | awk -v name="$name" -v times="$times" '
        function tail(n, k,  i, p, sum) {
            p = 0.95 ^ n; sum = 0
            for (i = 0; i <= n; i++) { if (i >= k) sum += p; p *= (n - i) / (i + 1) * 0.05 / 0.95 }
            return sum
        }
        { count[$2] = $1; line = line sprintf("  %s %d", $2, $1) }
        END {
            printf "%-10s %d trials:%s\n", name, times, line
            wrong = count["helped"] + count["harmed"]
            exit (tail(times, wrong) < 0.05)
        }' || status=1
done
sort "$folder/errors" 2>/dev/null | uniq -c | sort -rn | head -5 >&2 || true
exit $status
