//! Trials with tar and rsync.

use crate::disk::{DiskSpec, SimulatedDisk, write_file};
use crate::error::{Context, Result};
use crate::expect::EntityPattern::{self, Command};
use crate::expect::Expect;
use crate::link::veth_pair;
use crate::program::{ProgramCommand, give, home};
use crate::testbed::Testbed;
use crate::trial::Trial;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "tar-slow-disk",
        what: "tar archives thousands of small files, one after another, from a disk with high latency and many channels",
        finding: Some("disk.depth_one"),
        never: &["disk.saturated", "disk.throttled", "cpu.single_thread", "mem.cache_thrash"],
        setup: |bed| {
            let latency = bed.range(3_000..=8_000);
            let (disk, dir) = small_files(bed, latency, 6_000)?;
            tar(bed, &dir, "cat >/dev/null")?;
            let tar = Command("tar");
            Ok(Expect::subject([EntityPattern::device(&disk.device.name), tar.clone()]).culprit([tar]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "rsync-link",
        what: "rsync copies a large file over a link up to the rate of its shaper",
        finding: Some("net.link_saturated"),
        never: &["net.window_limited", "net.udp_overflow", "cpu.saturated"],
        setup: |bed| {
            rsync(bed, None)?;
            let rsync = Command("rsync");
            Ok(Expect::subject([EntityPattern::interface("veth1")]).culprit([rsync, EntityPattern::Port(RSYNC)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "tar",
        what: "tar archives small files from a disk for a reader that takes a little at a time",
        setup: |bed| {
            let latency = bed.range(100..=300);
            let (_, dir) = small_files(bed, latency, 2_000)?;
            let pause = f64::from(bed.range(5..=15)) / 100.0;
            tar(bed, &dir, &format!("while dd bs=64k count=1 of=/dev/null status=none; do sleep {pause}; done"))?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "rsync",
        what: "rsync copies a large file over a link at less than half of its rate",
        setup: |bed| {
            let limit = bed.range(300..=900);
            rsync(bed, Some(limit))?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
];

/// Creates a disk with a latency in microseconds and many channels, and this many uncached files of 16 KiB.
fn small_files(bed: &mut Testbed, latency_us: u64, files: u64) -> Result<(SimulatedDisk, PathBuf)> {
    let mut disk = SimulatedDisk::new(bed, 1 << 30, DiskSpec::new(Duration::from_micros(latency_us), 16))?;
    let dir = disk.device.ext4(bed, "files", &["-O", "^has_journal"])?;
    give(bed, &dir)?;
    for n in 0..files {
        let folder = dir.join(format!("{}", n % 100));
        fs::create_dir_all(&folder).context(folder.display())?;
        write_file(&folder.join(n.to_string()), 16 << 10)?;
    }
    disk.enable_delays()?;
    Ok((disk, dir))
}

/// Archives a directory again and again into `reader`, a shell command.
fn tar(bed: &mut Testbed, dir: &std::path::Path, reader: &str) -> Result<u32> {
    let home = home(bed)?;
    let script = format!("while :; do tar cf - -C {} . | {reader}; done", dir.display());
    ProgramCommand::new(&home, "sh", "dash")?.args(["-c", &script]).start(bed)
}

/// Port of the rsync server.
const RSYNC: u16 = 8730;

/// Copies a file of a gigabyte from the far end of a link, which is shaped there, with a limit in kilobytes per second.
fn rsync(bed: &mut Testbed, limit: Option<u64>) -> Result<()> {
    let link = veth_pair(bed)?;
    link.far.shape("veth1", bed.range(20..=80), "64kb", "50ms")?;
    let home = home(bed)?;
    fs::File::create(home.join("large"))?.set_len(1 << 30)?;
    let config = format!("port = {RSYNC}\nuse chroot = no\n[lab]\npath = {}\n", home.display());
    fs::write(home.join("rsyncd.conf"), config)?;
    let server =
        ProgramCommand::new(&home, "rsync", "rsync")?.args(["--daemon", "--no-detach", "--config=rsyncd.conf"]);
    server.in_netns(&link.far)?.start(bed)?;
    let from = format!("rsync://{}:{RSYNC}/lab/large", link.far_ip);
    let limit = limit.map_or(String::new(), |limit| format!("--bwlimit={limit}"));
    // Until the server listens, rsync fails at once.
    let script = format!("while :; do rsync -W --inplace {limit} {from} copy; rm -f copy; sleep 0.1; done");
    ProgramCommand::new(&home, "sh", "dash")?.args(["-c", &script]).in_netns(&link.near)?.start(bed)?;
    Ok(())
}
