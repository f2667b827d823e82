#!/usr/bin/python3
"""Applies each profile that the package tuned ships with tuned and with whyslow, on this kernel, and compares every value.

Started by compare.sh, in network and mount namespaces of its own. Settings that the machine has only one of are changed for
the second that each takes, and compared with what they were afterwards.
"""

import glob
import json
import os
import signal
import subprocess
import sys
import time

# What counts by itself, tells of whoever looks, or comes and goes with what others attach to loop devices.
NOISE = ("/sys/block/loop", "random/", "-state", "-nr", "ns_last_pid", "conntrack_count", "netdev_rss_key", "cad_pid", "inode", "stat_refresh", "quota/")
FILES = [
    "/sys/block/*/queue/*",
    "/sys/kernel/mm/transparent_hugepage/*",
    "/sys/kernel/mm/ksm/run",
    "/sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us",
    "/sys/devices/system/cpu/cpu*/cpufreq/*",
    "/sys/devices/system/cpu/intel_pstate/*",
    "/sys/module/snd_*/parameters/power_save*",
    "/sys/module/nvme_core/parameters/*",
    "/sys/class/scsi_host/host*/link_power_management_policy",
    "/sys/class/net/*/mtu",
    "/sys/class/net/*/tx_queue_len",
    "/sys/bus/workqueue/devices/*/cpumask",
    "/sys/kernel/debug/sched/*",
]
# tuned holds /dev/cpu_dma_latency open for this, whyslow sets the bound of each processor: the same, by another file.
BY_DESIGN = "pm_qos_resume_latency_us"


def snapshot():
    values = {}
    paths = [os.path.join(d, f) for d, _, fs in os.walk("/proc/sys") for f in fs] + [p for g in FILES for p in glob.glob(g)]
    for path in paths:
        if any(word in path for word in NOISE) or not os.path.isfile(path):
            continue
        try:
            with open(path) as file:
                values[path] = " ".join(file.read(4096).split())
        except (OSError, UnicodeDecodeError):
            pass
    return values


def changed(before, after):
    return {path: after[path] for path in after if before.get(path) != after[path]}


def with_tuned(profile, before):
    log = "/run/wsl-tune-tuned.log"
    if os.path.exists(log):
        os.unlink(log)
    command = ["/usr/bin/python3", "/usr/sbin/tuned", "--no-dbus", "--no-socket", "-P", "/run/wsl-tune-tuned.pid", "-l", log, "-p", profile]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        done = f"static tuning from profile '{profile}' applied"
        for _ in range(200):
            text = open(log).read() if os.path.exists(log) else ""
            if done in text or process.poll() is not None:
                break
            time.sleep(0.05)
        if done not in text:
            lines = [line for line in text.splitlines() if "ERROR" in line]
            return None, lines[-1].split("ERROR")[-1].strip() if lines else "it did not apply"
        return changed(before, snapshot()), ""
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def with_whyslow(program, profile, before):
    run = lambda *words: subprocess.run([program, "tune", *words], capture_output=True, text=True)
    out = run("apply", profile, "--yes", "--no-confirm")
    if out.returncode != 0:
        return None, out.stderr.strip().splitlines()[-1]
    values = changed(before, snapshot())
    undone = run("undo", "--all")
    return values, "" if undone.returncode == 0 else undone.stdout


def put_back(before):
    """What somebody left changed is put back, and named."""
    left = changed(before, snapshot())
    for path in left:
        try:
            with open(path, "w") as file:
                file.write(before.get(path, "") + "\n")
        except OSError:
            pass
    return left


def main():
    program = sys.argv[1]
    profiles = sys.argv[2:] or sorted(p.split("/")[-2] for p in glob.glob("/usr/lib/tuned/*/tuned.conf"))
    first = snapshot()
    same = differ = 0
    for profile in profiles:
        before = snapshot()
        theirs, why = with_tuned(profile, before)
        for path in put_back(before):
            print(f"{profile}: tuned leaves {path} changed")
        between = snapshot()
        ours, why_not = with_whyslow(program, profile, between)
        if theirs is None or ours is None:
            verdict = "both refuse" if theirs is None and ours is None else "DIFFERS"
            differ += verdict == "DIFFERS"
            print(f"{profile}: {verdict}: tuned: {why or 'applied'}; whyslow: {why_not or 'applied'}")
            continue
        keys = sorted(set(theirs) | set(ours))
        wrong = [k for k in keys if BY_DESIGN not in k and theirs.get(k, before.get(k)) != ours.get(k, between.get(k))]
        same += not wrong
        differ += bool(wrong)
        print(f"{profile}: {len([k for k in keys if k not in wrong])} values the same, {len(wrong)} not")
        for key in wrong:
            print(f"    {key}: was {before.get(key)!r}, tuned {theirs.get(key, before.get(key))!r}, whyslow {ours.get(key, between.get(key))!r}")
    left = changed(first, snapshot())
    print(json.dumps({"profiles": len(profiles), "same": same, "differ": differ, "left_changed": left}))


main()
