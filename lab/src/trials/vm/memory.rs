//! Trials with memory on several NUMA nodes.

use crate::error::Error;
use crate::expect::EntityPattern::{Host, Named, Process};
use crate::expect::Expect;
use crate::trial::Trial;
use crate::vm::{VmSpec, background, shell};

/// Two nodes, each with a CPU and half of the memory.
const NODES: VmSpec = VmSpec {
    qemu: &[
        "-object",
        "memory-backend-ram,id=m0,size=512M",
        "-numa",
        "node,nodeid=0,cpus=0,memdev=m0",
        "-object",
        "memory-backend-ram,id=m1,size=512M",
        "-numa",
        "node,nodeid=1,cpus=1,memdev=m1",
        "-numa",
        "dist,src=0,dst=1,val=31",
    ],
    ..VmSpec::PLAIN
};

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "numa.remote",
        what: "a program that prefers the memory of a full node gets that of the other",
        finding: Some("mem.numa_remote"),
        never: &["mem.thrashing", "mem.reclaim", "mem.leak"],
        vm: Some(&NODES),
        setup: |bed| {
            // Fills the first node except for 40 MB, and keeps it full.
            let free = shell("awk '/MemFree:/ { print $4 }' /sys/devices/system/node/node0/meminfo")?;
            let free: u64 = free.trim().parse().map_err(|_| Error::failed(format!("free memory of node0: {free}")))?;
            let bytes = (free * 1024).saturating_sub(40_000_000);
            background(
                bed,
                &format!(
                    "exec numactl --membind=0 --cpunodebind=0 /lab/whyslow-lab load touch --bytes {bytes} --still"
                ),
            )?;
            crate::interrupt::sleep(std::time::Duration::from_secs(8))?;
            let allocate = "while :; do numactl --preferred=0 --cpunodebind=0 dd if=/dev/zero of=/dev/null bs=100M count=1; sleep 1; done";
            let pid = background(bed, allocate)?;
            Ok(Expect::subject([Host, Named("numa_node", "node0".into()), Process(pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "numa.misplaced",
        what: "a program runs on one node, and its memory is on the other",
        finding: Some("mem.numa_remote"),
        never: &["mem.thrashing", "mem.reclaim", "mem.leak"],
        vm: Some(&NODES),
        setup: |bed| {
            let bytes = bed.range(100..=200) * 1_000_000;
            let run = "exec numactl --membind=0 --cpunodebind=1 /lab/whyslow-lab load touch";
            let pid = background(bed, &format!("{run} --bytes {bytes}"))?;
            // The location of its memory is read only live and on demand; a recording contains only the consequences.
            Ok(Expect::subject([Process(pid)]).effect("cpu.single_thread", Expect::subject([Process(pid)])))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "numa-local",
        what: "a program on each node uses some of its own memory",
        vm: Some(&NODES),
        setup: |bed| {
            for node in 0..2 {
                background(
                    bed,
                    &format!(
                        "exec numactl --membind={node} --cpunodebind={node} /lab/whyslow-lab load touch --bytes 50000000 --rate 2000"
                    ),
                )?;
            }
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
];
