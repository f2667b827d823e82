//! Trials with Podman containers, with the limits of its options (podman-run(1)).

use crate::error::Result;
use crate::expect::EntityPattern::{self, Command, Named};
use crate::expect::Expect;
use crate::trial::Trial;
use crate::vm::{VmSpec, shell};

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "podman.cpus",
        what: "a container is stopped by its --cpus, while the machine has CPU time to spare",
        finding: Some("cpu.throttled"),
        never: &["cpu.saturated", "cpu.single_thread", "cpu.steal"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let cpus = format!("--cpus=0.{}", bed.range(20..=50));
            let group = container(&cpus, "while :; do :; done")?;
            Ok(Expect::subject([group.clone()]).culprit([Command("sh"), group]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "podman.memory",
        what: "programs of a container are killed one after the other, as each needs more than its --memory",
        finding: Some("mem.oom_kill"),
        never: &["mem.thrashing", "mem.leak", "cpu.throttled"],
        vm: Some(&VmSpec::PLAIN),
        setup: |_| {
            let script = "while :; do dd if=/dev/zero of=/dev/null bs=200M count=1; sleep 1; done";
            let group = container("--memory=48m --memory-swap=48m", script)?;
            Ok(Expect::subject([group.clone(), Command("dd")]).culprit([Command("dd"), group]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "podman-within-limits",
        what: "a container stays below its --cpus and --memory",
        vm: Some(&VmSpec::PLAIN),
        setup: |_| {
            container("--cpus=1 --memory=64m", "while :; do sleep 0.5; done")?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
];

/// Starts a container with these options that runs a shell script. Returns its control group.
fn container(options: &str, script: &str) -> Result<EntityPattern> {
    let group = shell(&format!(
        "mkdir -p /srv/root/bin /srv/root/dev /srv/root/proc /srv/root/sys /srv/root/tmp /srv/root/etc /srv/root/run
        cp $(command -v busybox) /srv/root/bin/busybox
        for name in sh dd sleep; do ln -sf busybox /srv/root/bin/$name; done
        podman --root=/run/podman/storage --runroot=/run/podman/run --tmpdir=/run/podman/tmp --storage-driver=vfs \\
            --cgroup-manager=cgroupfs --events-backend=file \\
            run --detach --name=wslab --network=none --log-driver=none {options} --rootfs /srv/root \\
            /bin/sh -c '{script}' >/run/container
        for i in $(seq 100); do
            found=$(find /sys/fs/cgroup -path \"*libpod*$(cat /run/container)*\" -name cgroup.procs -exec grep -l . {{}} + | grep -v conmon || true)
            [ -z \"$found\" ] || break
            sleep 0.1
        done
        found=$(echo \"$found\" | head -1); found=${{found#/sys/fs/cgroup}}; echo ${{found%/cgroup.procs}}"
    ))?;
    Ok(Named("cgroup", group.trim().to_owned()))
}
