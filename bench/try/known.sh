#!/bin/bash
# Tries changes whose effect is known, and compares the verdicts: known.sh WHYSLOW [CASE...]
# Cases: readahead scheduler dirty. Needs root, a blkio controller of version 1 and python3; makes loop devices of its own, and for
# `dirty` narrows the whole machine's limits on dirty memory for some seconds. What has no effect nothing.sh tries.
set -euo pipefail
whyslow=$(readlink -f "$1")
shift
[ $# -gt 0 ] || set -- readahead scheduler dirty
folder=$(mktemp -d /tmp/wsl-try-XXXXXX)
export WHYSLOW_STATE=$folder/state
blkio=/sys/fs/cgroup/blkio
group=$blkio/wsl-try-$$
loop=
upper=
load=

# Ends the load with all it started.
unload() {
    [ -z "$load" ] || { kill -- "-$load"; wait "$load"; } 2>/dev/null || true
    load=
}

cleanup() {
    unload
    [ -z "$upper" ] || losetup --detach "$upper"
    "$whyslow" tune undo --all >/dev/null 2>&1 || true
    [ ! -d "$folder/mounted" ] || umount "$folder/mounted" 2>/dev/null || true
    if [ -n "$loop" ]; then
        echo "$number 0" >$blkio/blkio.throttle.write_bps_device
        echo "$scheduler" >"/sys/block/${loop#/dev/}/queue/scheduler"
        blockdev --setra "$ahead" "$loop"
        losetup --detach "$loop"
    fi
    for _ in 1 2 3 4 5; do [ ! -d "$group" ] || rmdir "$group" 2>/dev/null || sleep 0.2; done
    rm -rf "$folder"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# A disk of 64 MiB, with what outlives its file remembered.
device() {
    [ -n "$loop" ] && return
    truncate -s 64M "$folder/image"
    loop=$(losetup --find --show "$folder/image")
    number=$(cat "/sys/block/${loop#/dev/}/dev")
    scheduler=$(sed 's/.*\[\(.*\)\].*/\1/' "/sys/block/${loop#/dev/}/queue/scheduler")
    ahead=$(blockdev --getra "$loop")
    dd if=/dev/zero of="$loop" bs=1M count=64 status=none
}

# say CASE EXPECTED ARGS...: tries, and writes a line with the verdict.
say() {
    local name=$1 expected=$2
    shift 2
    "$whyslow" try --json "$@" >"$folder/trial.json" || true
    python3 - "$name" "$expected" "$folder/trial.json" <<'PY' || true
import json, sys
name, expected, path = sys.argv[1:]
try:
    trial = json.load(open(path))
except ValueError:
    sys.exit(f"{name:<12} no trial")
effect = trial["effect"]
mechanism = (trial.get("mechanism") or {}).get("verdict", "-")
print(f"{name:<12} expected {expected:<10} {trial['verdict']:<13} {effect['better']:+8.1%} [{effect['low']:+.1%}, {effect['high']:+.1%}]"
      f"  p {effect['p']:.4f}  {len(trial['pairs'])} pairs  mechanism {mechanism}", flush=True)
PY
}

# A stream from a disk that makes 300 requests a second: larger ones carry more. Live, with the mechanism.
readahead() {
    device
    mkdir -p "$group"
    echo "$number 300" >"$group/blkio.throttle.read_iops_device"
    blockdev --setra 128 "$loop"
    setsid sh -c "echo \$\$ > $group/cgroup.procs; while :; do blockdev --flushbufs $loop; dd if=$loop of=/dev/null bs=64k count=64 status=none; done" &
    load=$!
    local disk=${loop#/dev/}
    say readahead helped "disk.read_ahead_kb@$disk=1MiB" --metric "+disk.read_rate@$disk" --moves "+disk.request_size@$disk" \
        --settle 1s --for 60s
    blockdev --setra 2048 "$loop"
    say readahead harmed "disk.read_ahead_kb@$disk=64" --metric "+disk.read_rate@$disk" --settle 1s --for 60s
    unload
}

# bfq serves a process of the idle class only where nobody else asks, or 200 ms after it last did; none knows no classes. Below the
# scheduler a read of the group takes a millisecond, so that there is always somebody who asks.
scheduler() {
    device
    mkdir -p "$group"
    echo "$number 1000" >"$group/blkio.throttle.read_iops_device"
    upper=$(losetup --find --show --direct-io=on "$loop")
    local disk=${upper#/dev/}
    setsid sh -c "echo \$\$ > $group/cgroup.procs; for i in 1 2; do while dd if=$upper of=/dev/null bs=4k iflag=direct status=none; do :; done & done; wait" &
    load=$!
    local reader=(ionice -c 3 dd "if=$upper" of=/dev/null bs=4k count=2 iflag=direct status=none)
    echo bfq >"/sys/block/$disk/queue/scheduler"
    say scheduler helped "disk.scheduler@$disk=none" --noise-pairs 2 -- "${reader[@]}"
    echo none >"/sys/block/$disk/queue/scheduler"
    say scheduler harmed "disk.scheduler@$disk=bfq" --noise-pairs 2 -- "${reader[@]}"
    unload
    losetup --detach "$upper"
    upper=
}

# A burst of 16 MiB to a disk of 20 MB/s: with room for it in memory it takes no longer than memory does.
dirty() {
    device
    mkfs.ext4 -q "$loop"
    mkdir -p "$folder/mounted"
    mount "$loop" "$folder/mounted"
    echo "$number 20000000" >$blkio/blkio.throttle.write_bps_device
    cat >"$folder/burst.py" <<'PY'
import os, sys, time
path, block = sys.argv[1], b"x" * 65536
fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
start = time.monotonic()
for _ in range(256):
    os.write(fd, block)
print(time.monotonic() - start)
os.fsync(fd)
PY
    # Wide enough for others' dirty pages, narrow enough for the burst.
    local narrow=$((4 << 20))
    "$whyslow" tune set "vm.dirty_bytes=$narrow" --yes >/dev/null
    say dirty helped vm.dirty_bytes=512MiB --settle 0 --pairs 8 --noise-pairs 2 --metric number -- \
        python3 "$folder/burst.py" "$folder/mounted/burst"
    "$whyslow" tune undo --all >/dev/null
    umount "$folder/mounted"
    echo "$number 0" >$blkio/blkio.throttle.write_bps_device
}

for case; do "$case"; done
