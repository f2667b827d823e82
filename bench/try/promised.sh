#!/bin/bash
# Compares the gain that findings promise with what a trial of their fix measures: promised.sh WHYSLOW [ROUNDS [FAULT...]]
# Faults: throttled (a CPU quota that stops 1 to 3 computing threads). Each round draws new parameters. A promise is kept if the
# measured factor is within 30 % of the promised one; with less than 80 % kept, it ends with 1. Needs root, version 2 of cgroups with
# the controller cpu, as version 1 need not count the CPU time of a cgroup with a quota, and python3.
set -euo pipefail
whyslow=$(readlink -f "$1")
rounds=${2:-5}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- throttled
folder=$(mktemp -d /tmp/wsl-promised-XXXXXX)
export WHYSLOW_STATE=$folder/state
group=
load=

unload() {
    [ -z "$load" ] || { kill -- "-$load"; wait "$load"; } 2>/dev/null || true
    load=
    for _ in 1 2 3 4 5; do [ -z "$group" ] || [ ! -d "$group" ] || rmdir "$group" 2>/dev/null || sleep 0.2; done
}

cleanup() {
    unload
    "$whyslow" tune undo --all >/dev/null 2>&1 || true
    rm -rf "$folder"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# Threads that compute without end in a group that may use less than they would.
throttled() {
    local threads=$((RANDOM % 3 + 1)) percent=$((RANDOM % 30 + 10))
    group=/sys/fs/cgroup/wsl-promised-$$
    mkdir -p "$group"
    echo "$((percent * 1000)) 100000" >"$group/cpu.max"
    setsid sh -c "echo \$\$ > $group/cgroup.procs; for i in \$(seq $threads); do while :; do :; done & done; wait" &
    load=$!
    what="cpu.throttled, $threads threads, $percent % of a CPU"
}

# Diagnoses, tries what the first finding with a promise proposes, and adds a line with both factors.
keep_score() {
    "$whyslow" --json --for 8s >"$folder/diagnosis.json"
    python3 - "$folder/diagnosis.json" >"$folder/command" <<'PY'
import json, shlex, sys
for finding in json.load(open(sys.argv[1]))["findings"]:
    for action in finding["actions"]:
        words = shlex.split(action.get("try", ""))
        if action.get("gain") and words[:2] == ["whyslow", "try"]:
            print("\n".join(words[2:]))
            sys.exit()
PY
    if [ ! -s "$folder/command" ]; then
        echo "no promise  $what" | tee -a "$folder/score"
        return
    fi
    mapfile -t words <"$folder/command"
    "$whyslow" try --json --pairs 6 --noise-pairs 0 --settle 1s --for 24s --yes "${words[@]}" >"$folder/trial.json" || true
    python3 - "$folder/trial.json" "$what" <<'PY' | tee -a "$folder/score"
import json, sys
trial = json.load(open(sys.argv[1]))
promised, measured = trial["promised"]["factor"], 1 + trial["effect"]["better"]
kept = "kept   " if abs(measured / promised - 1) <= 0.3 else "not kept"
print(f"{kept}  promised {promised:.2f}, measured {measured:.2f}  {sys.argv[2]}", flush=True)
PY
}

for fault; do
    for _ in $(seq "$rounds"); do
        "$fault"
        keep_score
        unload
    done
done
awk '/^kept/ { kept++ } { all++ } END { printf "%d of %d promises kept\n", kept, all; exit kept < 0.8 * all }' "$folder/score"
