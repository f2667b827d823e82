//! Trials that need a kernel with modules, or devices, that few machines have; they run in a virtual machine
//! (vm/README.md).

mod cgroup;
mod device_mapper;
mod emulated;
mod memory;
mod network;
mod nfs;
mod podman;
mod raid;
mod remote;
mod scsi;
mod units;

use crate::error::Result;
use crate::expect::EntityPattern;
use crate::load_process::LoadCommand;
use crate::trial::Trial;
use crate::vm::{modules, shell};

pub const TABLES: &[&[Trial]] = &[
    scsi::TRIALS,
    device_mapper::TRIALS,
    emulated::TRIALS,
    raid::TRIALS,
    network::TRIALS,
    nfs::TRIALS,
    memory::TRIALS,
    cgroup::TRIALS,
    units::TRIALS,
    podman::TRIALS,
    remote::TRIALS,
];

/// Creates disks with an exact latency, `nullb0` and so on, that store written data (Documentation/block/null_blk.rst).
///
/// Each serves 64 requests at once; `latencies_us` are their latencies per request.
fn null_disks(mib: u64, latencies_us: &[u64]) -> Result<()> {
    null_disks_of(64, mib, latencies_us)
}

/// Creates disks as [`null_disks`] does, which serve `depth` requests at once.
fn null_disks_of(depth: u32, mib: u64, latencies_us: &[u64]) -> Result<()> {
    modules(&["null_blk nr_devices=0"])?;
    shell("mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config")?;
    for (number, latency) in latencies_us.iter().enumerate() {
        // Without a latency, requests are completed immediately.
        let (mode, nanoseconds) = if *latency == 0 { (0, 10_000) } else { (2, latency * 1000) };
        shell(&format!(
            "mkdir /sys/kernel/config/nullb/nullb{number}
            cd /sys/kernel/config/nullb/nullb{number}
            echo {mib} >size; echo 1 >memory_backed; echo {mode} >irqmode; echo {nanoseconds} >completion_nsec
            echo {depth} >hw_queue_depth; echo 1 >power"
        ))?;
    }
    Ok(())
}

/// Returns a load that reads a device at random offsets, bypassing the page cache.
fn reader(device: &str, size: u64) -> LoadCommand {
    random_reads(LoadCommand::new("read"), device, size)
}

fn random_reads(read: LoadCommand, device: &str, size: u64) -> LoadCommand {
    read.with("path", format!("/dev/{device}")).with("size", size).flag("direct").flag("random")
}

fn device(name: &str) -> EntityPattern {
    EntityPattern::device(name)
}
