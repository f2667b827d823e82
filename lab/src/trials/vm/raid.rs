//! Trials with arrays of the md driver, and file systems with their log on another disk.

use super::{device, null_disks, null_disks_of, reader};
use crate::error::Result;
use crate::expect::EntityPattern::{Named, Process};
use crate::expect::Expect;
use crate::load_process::LoadCommand;
use crate::testbed::Testbed;
use crate::trial::Trial;
use crate::vm::{VmSpec, modules, shell};

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "md.degraded",
        what: "a member of a mirror has failed",
        finding: Some("disk.raid_degraded"),
        never: &["disk.saturated", "disk.hung", "disk.errors", "disk.slow_device"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            mirror(128, &[500, 500])?;
            shell("mdadm -q /dev/md0 --fail /dev/nullb1")?;
            reader("md0", 16 << 10).with("rate", 100 * (16 << 10)).start(bed)?;
            Ok(Expect::subject([Named("array", "md0".into()), device("md0")]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "md.rebuilding",
        what: "a mirror is rebuilt, while a program reads from it",
        finding: Some("disk.raid_degraded"),
        never: &["disk.hung", "disk.errors", "disk.slow_device"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            mirror(200, &[4_000, 4_000])?;
            rebuild_slowly()?;
            reader("md0", 16 << 10).with("rate", 50 * (16 << 10)).start(bed)?;
            Ok(Expect::subject([Named("array", "md0".into()), device("md0")]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "md.raid5_degraded",
        what: "a disk of a RAID 5 has failed: what was on it is computed from the others at each read",
        finding: Some("disk.raid_degraded"),
        never: &["disk.saturated", "disk.hung", "disk.errors", "disk.slow_device"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            raid5(&[500, 500, 500])?;
            shell("mdadm -q /dev/md0 --fail /dev/nullb1")?;
            reader("md0", 16 << 10).with("rate", 50 * (16 << 10)).start(bed)?;
            Ok(Expect::subject([Named("array", "md0".into()), device("md0")]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "md.raid5_rebuilding",
        what: "a RAID 5 is rebuilt onto a new disk, while a program reads from it",
        finding: Some("disk.raid_degraded"),
        never: &["disk.hung", "disk.errors", "disk.slow_device"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            raid5(&[2_000, 2_000, 2_000])?;
            rebuild_slowly()?;
            reader("md0", 16 << 10).with("rate", 50 * (16 << 10)).start(bed)?;
            Ok(Expect::subject([Named("array", "md0".into()), device("md0")]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "md-checking",
        what: "a complete mirror is compared, slowly, while a program reads from it",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            mirror(256, &[500, 500])?;
            shell(
                "cd /sys/block/md0/md; echo 1000 >sync_speed_min; echo 1500 >sync_speed_max; echo check >sync_action
                sleep 1; grep -q check sync_action",
            )?;
            reader("md0", 16 << 10).with("rate", 50 * (16 << 10)).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "md.raid1_slow_member",
        what: "programs flush records to a mirror whose second disk is a hundred times slower than its first",
        finding: Some("disk.slow_device"),
        never: &["disk.hung", "disk.errors", "disk.raid_degraded"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            mirror(256, &[1_000, 100_000])?;
            shell("mkfs.ext4 -q /dev/md0; mkdir -p /srv; mount /dev/md0 /srv")?;
            let append = LoadCommand::new("append").with("path", "/srv/log").with("size", 16 << 10).with("threads", 4);
            let append = append.start(bed)?;
            Ok(Expect::subject([device("nullb1")]).culprit([Process(append.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "md.slow_member",
        what: "one of three disks of a RAID 5 takes a hundred times as long as the others",
        finding: Some("disk.slow_device"),
        never: &["disk.hung", "disk.errors", "disk.raid_degraded"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            raid5(&[2_000, 2_000, 250_000])?;
            let read = reader("md0", 16 << 10).with("jobs", 4).start(bed)?;
            Ok(Expect::subject([device("nullb2")]).culprit([Process(read.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "md.raid10_slow_member",
        what: "one of four disks of a RAID 10 takes a hundred times as long as the others",
        finding: Some("disk.slow_device"),
        never: &["disk.hung", "disk.errors", "disk.raid_degraded"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            null_disks(256, &[2_000, 2_000, 2_000, 200_000])?;
            array("--level=10 --bitmap=none --assume-clean --chunk=64", &["nullb0", "nullb1", "nullb2", "nullb3"])?;
            let read = reader("md0", 16 << 10).with("jobs", 4).start(bed)?;
            Ok(Expect::subject([device("nullb3")]).culprit([Process(read.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "md.raid10_degraded",
        what: "a member of a RAID 10 has failed",
        finding: Some("disk.raid_degraded"),
        never: &["disk.saturated", "disk.hung", "disk.errors", "disk.slow_device"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            null_disks(128, &[500, 500, 500, 500])?;
            array("--level=10 --bitmap=none --assume-clean --chunk=64", &["nullb0", "nullb1", "nullb2", "nullb3"])?;
            shell("mdadm -q /dev/md0 --fail /dev/nullb2")?;
            reader("md0", 16 << 10).with("rate", 100 * (16 << 10)).start(bed)?;
            Ok(Expect::subject([Named("array", "md0".into()), device("md0")]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "md.small_chunk",
        what: "programs read 64 KiB at a time from a RAID 0 of four disks with chunks of 8 KiB, so that each read takes all of them",
        finding: Some("disk.request_split"),
        never: &["disk.hung", "disk.errors", "disk.raid_degraded"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| striped_reads(bed, 8, 64 << 10),
        ..Trial::IDLE
    },
    Trial {
        name: "md.large_chunk",
        what: "the same with chunks of 512 KiB: there is too much to read, and nothing is cut",
        finding: Some("disk.saturated"),
        never: &["disk.hung", "disk.errors", "disk.raid_degraded", "disk.request_split"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| striped_reads(bed, 512, 64 << 10),
        ..Trial::IDLE
    },
    Trial {
        name: "md-healthy",
        what: "a program reads and writes at a moderate rate on a complete RAID 5",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            raid5(&[500, 500, 500])?;
            reader("md0", 16 << 10).with("rate", 100 * (16 << 10)).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "xfs.slow_log",
        what: "a program flushes each record on an XFS whose log is on a slow disk, and whose data is on a fast one",
        finding: Some("disk.flush_bound"),
        never: &["disk.hung", "disk.errors", "disk.saturated"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            null_disks(400, &[0, 20_000])?;
            modules(&["xfs"])?;
            shell(
                "mkfs.xfs -q -f -l logdev=/dev/nullb1,size=64m /dev/nullb0; mkdir -p /srv; mount -o logdev=/dev/nullb1 /dev/nullb0 /srv",
            )?;
            flushed_records(bed, "nullb1")
        },
        ..Trial::IDLE
    },
    Trial {
        name: "ext4.slow_journal",
        what: "a program flushes each record on an ext4 whose journal is on a slow disk, and whose data is on a fast one",
        finding: Some("disk.flush_bound"),
        never: &["disk.hung", "disk.errors", "disk.saturated"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            file_system_with_journal_disk(0, 20_000)?;
            flushed_records(bed, "nullb1")
        },
        ..Trial::IDLE
    },
    Trial {
        name: "ext4.inner_journal",
        what: "a program flushes each record on an ext4 whose journal is on the same slow disk as the records",
        finding: Some("disk.flush_bound"),
        never: &["disk.hung", "disk.errors", "disk.saturated"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            null_disks(400, &[20_000])?;
            shell("mkfs.ext4 -q /dev/nullb0; mkdir -p /srv; mount -t ext4 /dev/nullb0 /srv")?;
            flushed_records(bed, "nullb0")
        },
        ..Trial::IDLE
    },
    Trial {
        name: "ext4.fast_journal",
        what: "the journal is on a fast disk of its own, which gains nothing: each record waits for the slow disk of the data",
        finding: Some("disk.flush_bound"),
        never: &["disk.hung", "disk.errors", "disk.saturated"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            file_system_with_journal_disk(20_000, 0)?;
            flushed_records(bed, "nullb0")
        },
        ..Trial::IDLE
    },
    Trial {
        name: "external-journal-fast",
        what: "a program flushes a record every 200 ms on an ext4 with its journal on another, fast disk",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            file_system_with_journal_disk(0, 200)?;
            LoadCommand::new("append").with("path", "/srv/log").with("size", 4096).with("every-ms", 200).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
];

/// Starts sixteen programs that read from a RAID 0 whose members serve one request at a time.
fn striped_reads(bed: &mut Testbed, chunk_kib: u32, size: u64) -> Result<Expect> {
    null_disks_of(1, 200, &[4_000; 4])?;
    array(&format!("--level=0 --chunk={chunk_kib}"), &["nullb0", "nullb1", "nullb2", "nullb3"])?;
    let read = reader("md0", size).with("jobs", 16).start(bed)?;
    let members = (0..4).map(|number| device(&format!("nullb{number}")));
    Ok(Expect::subject(members.chain([device("md0")]).collect::<Vec<_>>()).culprit([Process(read.pid)]))
}

/// Starts a program that appends to a log at /srv and flushes each record, for which it waits on the disk `waited_for`.
fn flushed_records(bed: &mut Testbed, waited_for: &str) -> Result<Expect> {
    // Each record extends the file, which is a transaction of the journal.
    let append = LoadCommand::new("append").with("path", "/srv/log").with("size", 4096).start(bed)?;
    Ok(Expect::subject([device(waited_for), Process(append.pid)]).culprit([Process(append.pid)]))
}

/// Creates an ext4 at /srv on `nullb0`, with its journal on `nullb1`.
fn file_system_with_journal_disk(data_latency_us: u64, journal_latency_us: u64) -> Result<()> {
    null_disks(400, &[data_latency_us, journal_latency_us])?;
    shell(
        "mke2fs -q -b 4096 -O journal_dev /dev/nullb1; mkfs.ext4 -q -b 4096 -J device=/dev/nullb1 /dev/nullb0
        mkdir -p /srv; mount -t ext4 /dev/nullb0 /srv",
    )
    .map(drop)
}

/// Creates a mirror of two disks of this size, with these latencies.
fn mirror(mib: u64, latencies_us: &[u64; 2]) -> Result<()> {
    null_disks(mib, latencies_us)?;
    array("--level=1 --bitmap=none --assume-clean", &["nullb0", "nullb1"])
}

/// Replaces a disk of the array `md0`; the rebuild takes at least as long as a trial.
fn rebuild_slowly() -> Result<()> {
    shell(
        "mdadm -q /dev/md0 --fail /dev/nullb1; mdadm -q /dev/md0 --remove /dev/nullb1; mdadm -q --zero-superblock /dev/nullb1
        echo 1000 >/sys/block/md0/md/sync_speed_min; echo 1500 >/sys/block/md0/md/sync_speed_max; mdadm -q /dev/md0 --add /dev/nullb1",
    )
    .map(drop)
}

/// Creates a RAID 5 of three disks with these latencies.
fn raid5(latencies_us: &[u64; 3]) -> Result<()> {
    null_disks(256, latencies_us)?;
    array("--level=5 --bitmap=none --assume-clean --chunk=64", &["nullb0", "nullb1", "nullb2"])
}

/// Creates the array `md0` over these disks.
fn array(options: &str, members: &[&str]) -> Result<()> {
    modules(&["md_mod", "raid0", "raid1", "raid10", "raid456"])?;
    let listed: String = members.iter().map(|member| format!(" /dev/{member}")).collect();
    let count = members.len();
    shell(&format!(
        "mknod /dev/md0 b 9 0 2>/dev/null || true
        mdadm -q --create /dev/md0 --run --metadata=1.2 {options} --raid-devices={count}{listed}
        rm -f /dev/md0; mknod /dev/md0 b 9 0"
    ))
    .map(drop)
}
