//! Disk trials: disks at their limit, throttled, or used inefficiently.

use crate::cgroup::{Cgroup, Controller, ReadLimit};
use crate::disk::{DiskSpec, LoopDevice, SimulatedDisk, write_file};
use crate::error::Result;
use crate::expect::EntityPattern::{self, Process};
use crate::expect::Expect;
use crate::load_process::LoadCommand;
use crate::testbed::Testbed;
use crate::trial::Trial;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "disk.saturated",
        what: "more readers than a disk has channels read large blocks at random",
        quick: true,
        finding: Some("disk.saturated"),
        never: &["disk.depth_one", "disk.small_io", "disk.throttled", "disk.slow_device", "disk.readahead"],
        setup: |bed| {
            let channels = bed.range(2..=6);
            let disk = slow_disk(bed, 4_000..=10_000, channels)?;
            let jobs = channels * bed.range(4..=8);
            let size = bed.choose(&[128, 256]) << 10;
            let read = disk.device.reader(size).with("jobs", jobs).flag("random").flag("direct").start(bed)?;
            let expect = Expect::subject([device(&disk)]).culprit([Process(read.pid)]);
            Ok(expect.figure("disk.service_rate", disk.ceiling()))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "disk.saturated.ceiling",
        what: "now as many readers as a disk has channels read at random, now several times as many",
        finding: Some("disk.saturated"),
        never: &["disk.depth_one", "disk.small_io", "disk.throttled", "disk.slow_device", "disk.readahead"],
        setup: |bed| {
            let channels = bed.range(2..=6);
            let disk = slow_disk(bed, 4_000..=10_000, channels)?;
            let size = bed.choose(&[4, 64, 128]) << 10;
            let jobs = channels * bed.range(4..=8);
            let read = in_waves(bed, &disk, size, channels, jobs).start(bed)?;
            let expect = Expect::subject([device(&disk)]).culprit([Process(read.pid)]);
            let bytes = disk.ceiling() * size as f64;
            Ok(expect.figure("disk.ceiling", disk.ceiling()).figure("disk.ceiling_rate", bytes))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "parallel-waves",
        what: "now some, now three times as many readers read at random, from a disk that serves all of them at once",
        setup: |bed| {
            let disk = slow_disk(bed, 8_000..=12_000, 64)?;
            let (size, steady) = (bed.choose(&[4, 16, 64]) << 10, bed.range(10..=14));
            in_waves(bed, &disk, size, steady, 3 * steady).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "disk.saturated.small-random",
        what: "more readers than a disk has channels read small blocks at random",
        finding: Some("disk.saturated"),
        never: &["disk.depth_one", "disk.small_io", "disk.throttled", "disk.slow_device", "disk.readahead"],
        setup: |bed| {
            let channels = bed.range(2..=6);
            let disk = slow_disk(bed, 2_000..=5_000, channels)?;
            let jobs = channels * bed.range(4..=8);
            let size = bed.choose(&[2, 4]) << 10;
            let read = disk.device.reader(size).with("jobs", jobs).flag("random").flag("direct").start(bed)?;
            let expect = Expect::subject([device(&disk)]).culprit([Process(read.pid)]);
            Ok(expect.figure("disk.service_rate", disk.ceiling()))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "disk.depth_one",
        what: "one synchronous reader waits for each request in turn, on a disk with many channels",
        quick: true,
        finding: Some("disk.depth_one"),
        never: &["disk.saturated", "disk.small_io", "disk.throttled", "disk.readahead"],
        setup: |bed| {
            let channels = bed.range(8..=32);
            let disk = slow_disk(bed, 2_000..=6_000, channels)?;
            let size = bed.choose(&[8, 16, 64]) << 10;
            let mut read = disk.device.reader(size).flag("random");
            if bed.coin() {
                read = read.flag("direct");
            } else {
                // Through the page cache, with requests as large as the read-ahead, so that nothing is read ahead.
                disk.device.set_read_ahead(bed, size)?;
            }
            let read = Process(read.start(bed)?.pid);
            Ok(Expect::subject([device(&disk), read.clone()]).culprit([read]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "disk.depth_one.aio",
        what: "a program keeps one asynchronous read in flight and waits for it, on a disk with many channels",
        finding: Some("disk.depth_one"),
        never: &["disk.saturated", "disk.small_io", "disk.throttled", "cpu.system_time"],
        setup: |bed| {
            let channels = bed.range(8..=32);
            let disk = slow_disk(bed, 2_000..=6_000, channels)?;
            let size = bed.choose(&[8, 16, 64]) << 10;
            let read = Process(async_reader(&disk, "aio-read", size).with("depth", 1).start(bed)?.pid);
            Ok(Expect::subject([device(&disk), read.clone()]).culprit([read]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "disk.depth_one.sqpoll",
        what: "a program waits for each read in turn, while a kernel thread polls for its requests",
        finding: Some("disk.depth_one"),
        never: &["disk.saturated", "disk.small_io", "disk.throttled", "cpu.system_time", "cpu.single_thread"],
        setup: |bed| {
            let channels = bed.range(8..=32);
            let disk = slow_disk(bed, 2_000..=6_000, channels)?;
            let size = bed.choose(&[8, 16, 64]) << 10;
            let read = Process(async_reader(&disk, "uring-read", size).start(bed)?.pid);
            Ok(Expect::subject([device(&disk), read.clone()]).culprit([read]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "disk.two_in_flight",
        what: "two threads wait for each request in turn, on a disk with a dozen channels or more",
        finding: Some("disk.depth_one"),
        never: &["disk.saturated", "disk.small_io", "disk.request_split", "disk.shared", "disk.slow_device"],
        setup: |bed| {
            let channels = bed.range(12..=32);
            let disk = slow_disk(bed, 3_000..=8_000, channels)?;
            let size = bed.choose(&[4, 32, 128]) << 10;
            let read = disk.device.reader(size).with("jobs", 2).flag("random").flag("direct").start(bed)?;
            Ok(Expect::subject([device(&disk), Process(read.pid)]).culprit([Process(read.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "disk.small_io",
        what: "small requests reach a disk's request rate limit while throughput is low",
        finding: Some("disk.small_io"),
        never: &["disk.depth_one", "disk.throttled"],
        setup: |bed| {
            let channels = bed.range(2..=6);
            let disk = slow_disk(bed, 2_000..=5_000, channels)?;
            let jobs = channels * bed.range(4..=8);
            let size = bed.choose(&[2, 4]) << 10;
            let read = disk.device.reader(size).with("jobs", jobs).flag("direct").start(bed)?;
            Ok(Expect::subject([device(&disk), Process(read.pid)]).culprit([Process(read.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "disk.throttled",
        what: "a cgroup reads against a limit of requests or bytes, on a disk that could do more",
        finding: Some("disk.throttled"),
        never: &["disk.saturated", "disk.depth_one", "disk.slow_device"],
        setup: |bed| {
            let disk = slow_disk(bed, 300..=300, 32)?;
            let group = Cgroup::new(bed, "iolimit", &[Controller::Io])?;
            let limit = match bed.coin() {
                true => ReadLimit::Bytes(bed.range(1..=4) << 20),
                false => ReadLimit::Requests(bed.range(30..=100)),
            };
            group.set_read_limit(&disk.device.name, limit)?;
            let jobs = bed.range(1..=4);
            let read = disk.device.reader(64 << 10).with("jobs", jobs).flag("random").flag("direct");
            let read = read.in_cgroup(&group)?.start(bed)?;
            let group = EntityPattern::cgroup(&group);
            Ok(Expect::subject([group.clone()]).culprit([Process(read.pid), group]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "disk.shared",
        what: "two or three virtual disks, each with its own reader, are files on the same disk",
        finding: Some("disk.shared"),
        never: &["disk.depth_one"],
        setup: |bed| {
            let channels = bed.range(2..=4);
            let latency = Duration::from_millis(bed.range(3..=8));
            let mut disk = SimulatedDisk::new(bed, 1 << 30, DiskSpec::new(latency, channels))?;
            let dir = disk.device.ext4(bed, "fs", &[])?;
            let mut guests = Vec::new();
            for guest in 0..bed.range(2..=3) {
                let file = dir.join(format!("guest{guest}"));
                write_file(&file, 128 << 20)?;
                guests.push(LoopDevice::over(bed, &file)?);
            }
            disk.enable_delays()?;
            let jobs = channels * bed.range(2..=3);
            let mut users = Vec::new();
            for guest in guests {
                let read = guest.reader(64 << 10).with("jobs", jobs).flag("random").flag("direct").start(bed)?;
                users.extend([EntityPattern::device(&guest.name), Process(read.pid)]);
            }
            Ok(Expect::subject([device(&disk)]).culprit(users))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "disk.flush_bound",
        what: "a program flushes each small record before it writes the next, on a disk that is slow to flush",
        finding: Some("disk.flush_bound"),
        never: &["disk.saturated", "disk.small_io", "disk.throttled"],
        setup: |bed| flush_bound(bed, false),
        ..Trial::IDLE
    },
    Trial {
        name: "disk.flush_bound.threads",
        what: "worker threads flush records on a slow disk, while another program writes more to a fast one",
        finding: Some("disk.flush_bound"),
        never: &["disk.small_io", "disk.throttled"],
        setup: |bed| flush_bound(bed, true),
        ..Trial::IDLE
    },
    Trial {
        name: "disk.readahead",
        what: "a file is read sequentially with little read-ahead, on a disk with high latency",
        finding: Some("disk.readahead"),
        never: &["disk.saturated", "disk.small_io", "disk.depth_one", "disk.throttled", "mem.cache_thrash"],
        setup: |bed| {
            let latency = Duration::from_micros(bed.range(2_000..=6_000));
            let spec = DiskSpec::new(latency, bed.range(8..=32));
            let mut disk = SimulatedDisk::new(bed, 64 << 30, spec)?;
            let read_ahead = bed.choose(&[16, 32, 64]) << 10;
            disk.device.set_read_ahead(bed, read_ahead)?;
            disk.enable_delays()?;
            let size = bed.choose(&[4, 8]) << 10;
            let read = disk.device.reader(size).with("reopen-ms", REOPEN_MS).start(bed)?;
            Ok(Expect::subject([device(&disk)]).culprit([Process(read.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "disk.readahead.beside",
        what: "a file is read sequentially with little read-ahead, and now and then another program reads large blocks",
        finding: Some("disk.readahead"),
        never: &["disk.saturated", "disk.small_io", "disk.depth_one", "disk.throttled", "mem.cache_thrash"],
        setup: |bed| {
            let latency = Duration::from_micros(bed.range(2_000..=4_000));
            let spec = DiskSpec { bandwidth: bed.range(100..=400) << 20, ..DiskSpec::new(latency, bed.range(8..=32)) };
            let mut disk = SimulatedDisk::new(bed, 64 << 30, spec)?;
            let read_ahead = bed.choose(&[32, 64]) << 10;
            disk.device.set_read_ahead(bed, read_ahead)?;
            disk.enable_delays()?;
            // Six blocks, every three seconds.
            let large = disk.device.reader(256 << 10).flag("random").flag("direct").with("run", 6);
            large.with("rate", 512 << 10).start(bed)?;
            let read = disk.device.reader(4 << 10).with("reopen-ms", REOPEN_MS).start(bed)?;
            Ok(Expect::subject([device(&disk)]).culprit([Process(read.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "disk.readahead-large",
        what: "small records are read at random, with read calls or through a mapping, with a large read-ahead",
        finding: Some("disk.readahead"),
        never: &["disk.saturated", "disk.small_io", "disk.depth_one", "mem.cache_thrash"],
        setup: |bed| {
            let latency = Duration::from_micros(bed.range(200..=800));
            let spec = DiskSpec { bandwidth: bed.range(80..=150) << 20, ..DiskSpec::new(latency, 16) };
            // Large enough that most pages are not cached, and small enough that some are: the kernel stops reading
            // ahead in a mapping for which it never finds anything in the page cache (mm/filemap.c: MMAP_LOTSAMISS).
            let mut disk = SimulatedDisk::new(bed, 3 << 30, spec)?;
            let read_ahead = bed.range(2..=8) << 20;
            disk.device.set_read_ahead(bed, read_ahead)?;
            disk.enable_delays()?;
            let load = match bed.coin() {
                true => LoadCommand::new("mmap-read").with("path", disk.device.node.display()),
                false => disk.device.reader(4 << 10).flag("random").with("run", bed.range(4..=8)),
            };
            let read = Process(load.with("reopen-ms", REOPEN_MS).start(bed)?.pid);
            Ok(Expect::subject([read.clone()]).culprit([read]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "disk.request_split",
        what: "large blocks are read from a disk that takes long for each request, one at a time, and whose queue accepts only small ones",
        finding: Some("disk.request_split"),
        never: &["disk.saturated", "disk.depth_one", "disk.small_io", "disk.throttled", "disk.slow_device"],
        setup: |bed| {
            let split = SplitReads::new(bed, 8_000..=14_000, 1)?;
            split.reader().start(bed)?;
            Ok(Expect::subject([device(&split.disk)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "disk.depth_one.split",
        what: "large blocks are read one at a time from a disk whose queue accepts only small requests, but serves many at once",
        finding: Some("disk.depth_one"),
        never: &["disk.request_split", "disk.saturated", "disk.small_io", "disk.throttled", "disk.slow_device"],
        setup: |bed| {
            let split = SplitReads::new(bed, 2_000..=5_000, 32)?;
            let read = Process(split.reader().start(bed)?.pid);
            Ok(Expect::subject([device(&split.disk), read.clone()]).culprit([read]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "split-side-by-side",
        what: "large blocks are read at a steady rate from a disk whose queue accepts only small requests, but serves many at once",
        setup: |bed| {
            let split = SplitReads::new(bed, 2_000..=5_000, 32)?;
            // Percentage of the time that the program waits for the disk.
            let percent = bed.range(30..=50);
            let rate = split.size * percent * 10_000 / split.latency_us;
            split.reader().with("rate", rate).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "disk.hung",
        what: "a disk accepts requests and completes none",
        finding: Some("disk.hung"),
        never: &["disk.saturated", "disk.slow_device", "disk.depth_one", "disk.small_io"],
        setup: |bed| {
            let (channels, jobs) = (bed.range(2..=8), bed.range(2..=6));
            let mut disk = SimulatedDisk::new(bed, 2 << 30, DiskSpec::new(Duration::from_secs(3600), channels))?;
            disk.enable_delays()?;
            disk.device.reader(64 << 10).with("jobs", jobs).flag("random").flag("direct").start(bed)?;
            disk.end_first(bed);
            Ok(Expect::subject([device(&disk)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "disk.write_burst",
        what: "a program writes and flushes a lot at once every few seconds, to a disk that could carry it evenly",
        finding: Some("disk.write_burst"),
        never: &["disk.saturated", "disk.slow_device", "disk.throttled"],
        setup: |bed| {
            let (period, bandwidth) = (bed.range(3_500..=4_500), bed.range(20..=40) << 20);
            let (disk, dir) = disk_with_bandwidth(bed, bandwidth)?;
            // Takes the disk one to one and a half seconds, less than half of the time.
            let size = bandwidth * bed.range(100..=150) / 100;
            append_to(&dir, size, period).start(bed)?;
            Ok(Expect::subject([device(&disk)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "even-writer",
        what: "a program writes and flushes as much as another in bursts, but evenly",
        setup: |bed| {
            let bandwidth = bed.range(20..=40) << 20;
            let (_, dir) = disk_with_bandwidth(bed, bandwidth)?;
            // A tenth of the disk's bandwidth, in records that take it some milliseconds.
            append_to(&dir, bandwidth / 100, 100).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "paced-read",
        what: "a large file is read sequentially at less than half of its disk's throughput",
        setup: |bed| {
            let latency = Duration::from_micros(bed.range(300..=800));
            let spec = DiskSpec { bandwidth: bed.range(60..=120) << 20, ..DiskSpec::new(latency, 8) };
            let mut disk = SimulatedDisk::new(bed, 2 << 30, spec)?;
            disk.enable_delays()?;
            disk.device.reader(256 << 10).with("rate", spec.bandwidth * 4 / 10).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "busy-parallel",
        what: "a disk with many channels always has requests in flight; none queues, and no thread waits for them",
        setup: |bed| {
            let disk = slow_disk(bed, 1_500..=3_000, 64)?;
            async_reader(&disk, "aio-read", 16 << 10).with("rate", bed.range(2500..=4000)).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "deep-aio",
        what: "a program always waits for one of many asynchronous reads, on a disk that serves all of them at once",
        setup: |bed| {
            let disk = slow_disk(bed, 1_000..=1_800, 64)?;
            async_reader(&disk, "aio-read", 16 << 10).with("depth", bed.range(12..=32)).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "idle-waiters",
        what: "programs wait for asynchronous I/O with nothing in flight, beside one that reads at a steady rate",
        setup: |bed| {
            let disk = slow_disk(bed, 1_000..=1_800, 64)?;
            for _ in 0..bed.range(2..=5) {
                async_reader(&disk, "aio-read", 16 << 10).flag("idle").start(bed)?;
            }
            async_reader(&disk, "aio-read", 16 << 10).with("rate", bed.range(20..=60)).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "paced-parallel",
        what: "many threads read blocks of one size at a steady rate, from a disk that serves all of them at once",
        setup: |bed| {
            let latency = bed.range(2_000..=5_000);
            let disk = slow_disk(bed, latency..=latency, 48)?;
            let jobs = bed.range(6..=16);
            // The larger sizes look as if a limit had split them.
            let size = bed.choose(&[4, 8, 64, 128]) << 10;
            // Percentage of the time that each thread waits for the disk.
            let percent = bed.range(30..=50);
            let rate = jobs * size * percent * 10_000 / latency;
            let read = disk.device.reader(size).with("jobs", jobs).with("rate", rate);
            read.flag("random").flag("direct").start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "slow-logger",
        what: "a program flushes one record per second",
        setup: |bed| {
            let flush = Duration::from_millis(bed.range(5..=15));
            let spec = DiskSpec { flush, ..DiskSpec::new(Duration::from_micros(300), 16) };
            let mut disk = SimulatedDisk::new(bed, 256 << 20, spec)?;
            let dir = disk.device.ext4(bed, "fs", &[])?;
            disk.enable_delays()?;
            let size = bed.range(100..=8000);
            let append = LoadCommand::new("append").with("path", dir.join("log").display()).with("size", size);
            append.with("every-ms", 1000).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "small-read-ahead",
        what: "a file is read sequentially with little read-ahead, slowly enough for its disk",
        setup: |bed| {
            let latency = Duration::from_micros(bed.range(500..=2000));
            let mut disk = SimulatedDisk::new(bed, 2 << 30, DiskSpec::new(latency, 8))?;
            let read_ahead = bed.choose(&[16, 32, 64]) << 10;
            disk.device.set_read_ahead(bed, read_ahead)?;
            disk.enable_delays()?;
            // A quarter of what the read-ahead can deliver, so that the data always arrives in time.
            let rate = (read_ahead as f64 / latency.as_secs_f64() / 4.0) as u64;
            disk.device.reader(4 << 10).with("rate", rate).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
];

/// Time that a reader keeps its file open, in milliseconds: a new read-ahead takes effect soon after it is set.
const REOPEN_MS: u64 = 300;

/// Creates a disk of 2 GiB with a latency from a range of microseconds, with delays enabled.
fn slow_disk(bed: &mut Testbed, latency_us: RangeInclusive<u64>, channels: u64) -> Result<SimulatedDisk> {
    let latency = Duration::from_micros(bed.range(latency_us));
    let mut disk = SimulatedDisk::new(bed, 2 << 30, DiskSpec::new(latency, channels))?;
    disk.enable_delays()?;
    Ok(disk)
}

/// A disk that is read in larger blocks than its queue accepts.
struct SplitReads {
    disk: SimulatedDisk,
    latency_us: u64,
    /// Block size in bytes.
    size: u64,
}

impl SplitReads {
    fn new(bed: &mut Testbed, latency_us: RangeInclusive<u64>, channels: u64) -> Result<Self> {
        let latency_us = bed.range(latency_us);
        let disk = slow_disk(bed, latency_us..=latency_us, channels)?;
        let limit = bed.choose(&[32, 64]) << 10;
        disk.device.set_max_request(bed, limit)?;
        Ok(Self { disk, latency_us, size: limit * bed.choose(&[4, 8]) })
    }

    fn reader(&self) -> LoadCommand {
        self.disk.device.reader(self.size).flag("random").flag("direct")
    }
}

/// Creates ext4 on a disk with this bandwidth in bytes per second, with delays enabled.
fn disk_with_bandwidth(bed: &mut Testbed, bandwidth: u64) -> Result<(SimulatedDisk, PathBuf)> {
    let spec = DiskSpec { bandwidth, ..DiskSpec::new(Duration::from_micros(300), 16) };
    let mut disk = SimulatedDisk::new(bed, 256 << 20, spec)?;
    let dir = disk.device.ext4(bed, "fs", &[])?;
    disk.enable_delays()?;
    Ok((disk, dir))
}

/// Returns a program that appends and flushes records of `size` bytes.
fn append_to(dir: &Path, size: u64, every_ms: u64) -> LoadCommand {
    let append = LoadCommand::new("append").with("path", dir.join("log").display());
    append.with("size", size).with("every-ms", every_ms)
}

/// Returns a program with `steady` readers at random offsets for some hundreds of milliseconds, then with all `jobs`.
/// No whole number of these waves makes a second: samples a second apart would find all of them in the same phase.
fn in_waves(bed: &mut Testbed, disk: &SimulatedDisk, size: u64, steady: u64, jobs: u64) -> LoadCommand {
    let read = disk.device.reader(size).with("jobs", jobs).with("steady", steady);
    read.with("pause-ms", bed.range(280..=420)).flag("random").flag("direct")
}

/// Returns a program that reads asynchronously at random offsets.
fn async_reader(disk: &SimulatedDisk, program: &str, size: u64) -> LoadCommand {
    LoadCommand::new(program).with("path", disk.device.node.display()).with("size", size)
}

fn device(disk: &SimulatedDisk) -> EntityPattern {
    EntityPattern::device(&disk.device.name)
}

/// Starts a log on a disk that is slow to flush: of one thread, or of worker threads next to a writer on a fast disk.
fn flush_bound(bed: &mut Testbed, in_threads: bool) -> Result<Expect> {
    let latency = Duration::from_micros(bed.range(100..=400));
    let spec = DiskSpec { flush: Duration::from_millis(bed.range(10..=30)), ..DiskSpec::new(latency, 16) };
    let mut disk = SimulatedDisk::new(bed, 256 << 20, spec)?;
    let dir = disk.device.ext4(bed, "fs", &[])?;
    disk.enable_delays()?;
    let size = bed.range(100..=8000);
    let mut append = LoadCommand::new("append").with("path", dir.join("log").display()).with("size", size);
    if in_threads {
        start_writer_elsewhere(bed)?;
        append = append.with("threads", bed.range(1..=4));
    }
    let append = Process(append.start(bed)?.pid);
    let subjects = [append.clone(), device(&disk), EntityPattern::mount(&dir)];
    Ok(Expect::subject(subjects).culprit([append]))
}

/// Starts a program that writes a lot to a separate file system on a fast disk.
pub fn start_writer_elsewhere(bed: &mut Testbed) -> Result<()> {
    let disk = SimulatedDisk::new(bed, 256 << 20, DiskSpec::new(Duration::ZERO, 4))?;
    let dir = disk.device.ext4(bed, "other", &[])?;
    let append = LoadCommand::new("append").with("path", dir.join("log").display()).with("size", 1 << 20);
    append.with("every-ms", 20).flag("lazy").start(bed)?;
    Ok(())
}
