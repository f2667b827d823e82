//! Memory trials: too little memory for the load, or a process that keeps growing.

use crate::cgroup::{Cgroup, Controller};
use crate::disk::{DiskSpec, SimulatedDisk, write_file};
use crate::error::{Context, Error, Result};
use crate::expect::EntityPattern::{self, Command, Host, Process};
use crate::expect::Expect;
use crate::interrupt;
use crate::kernel_setting;
use crate::load_process::LoadCommand;
use crate::swap;
use crate::testbed::Testbed;
use crate::trial::Trial;
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "mem.thrashing",
        what: "a cgroup touches more memory than its limit at random, and swaps",
        finding: Some("mem.thrashing"),
        never: &["disk.saturated", "disk.small_io", "mem.cache_thrash"],
        setup: |bed| {
            let group = Cgroup::new(bed, "thrash", &[Controller::Memory])?;
            let limit = bed.range(48..=96) << 20;
            let working_set = limit * bed.range(140..=180) / 100;
            // If it were faster, every page would look used: reclaim would find none to take, and the kernel would kill
            // the process instead.
            let rate = bed.range(40_000..=80_000);
            // Not on a simulated disk, whose data is in memory that could itself be swapped out to it.
            swap::on_zram(bed, 8 * limit)?;
            group.set_memory_limit(limit)?;
            let touch = LoadCommand::new("touch").with("bytes", working_set).with("rate", rate);
            let touch = touch.with("seed", bed.range(1..=1 << 30)).in_cgroup(&group)?.start(bed)?;
            let group = EntityPattern::cgroup(&group);
            Ok(Expect::subject([group.clone()]).culprit([Process(touch.pid), group]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "mem.cgroup_limit",
        what: "a cgroup full of its own memory keeps rereading a file that a slightly higher limit would hold",
        finding: Some("mem.cgroup_limit"),
        never: &["mem.thrashing", "mem.oom_kill"],
        setup: |bed| {
            let group = Cgroup::new(bed, "limit", &[Controller::Memory])?;
            let limit = bed.range(64..=128) << 20;
            let latency = Duration::from_micros(bed.range(800..=1500));
            let mut disk = SimulatedDisk::new(bed, 512 << 20, DiskSpec::new(latency, 32))?;
            let file = disk.device.ext4(bed, "fs", &[])?.join("program");
            // A third more than what is left: a limit half as high again would hold all of it.
            let held = limit * bed.range(70..=80) / 100;
            write_file(&file, (limit - held) * 4 / 3)?;
            group.set_memory_limit_without_swap(limit)?;
            disk.enable_delays()?;
            let touch = LoadCommand::new("touch").with("bytes", held).with("rate", 50_000);
            let touch = touch.in_cgroup(&group)?.start(bed)?;
            let read = file_reader(&file).in_cgroup(&group)?.start(bed)?;
            let group = EntityPattern::cgroup(&group);
            Ok(Expect::subject([group.clone()]).culprit([Process(read.pid), Process(touch.pid), group]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "mem.cache_thrash",
        what: "a cgroup keeps rereading files that do not fit into its page cache",
        finding: Some("mem.cache_thrash"),
        never: &["mem.thrashing", "disk.depth_one"],
        setup: |bed| {
            let group = Cgroup::new(bed, "cache", &[Controller::Memory])?;
            let limit = bed.range(48..=80) << 20;
            let working_set = limit * bed.range(3..=5);
            let latency = Duration::from_micros(bed.range(500..=2000));
            let mut disk = SimulatedDisk::new(bed, 1 << 30, DiskSpec::new(latency, 16))?;
            let file = disk.device.ext4(bed, "fs", &[])?.join("working-set");
            write_file(&file, working_set)?;
            group.set_memory_limit_without_swap(limit)?;
            disk.enable_delays()?;
            let read = file_reader(&file).in_cgroup(&group)?.start(bed)?;
            // There are no refaults until the cache has filled up.
            interrupt::sleep(Duration::from_secs(3))?;
            let group = EntityPattern::cgroup(&group);
            Ok(Expect::subject([group.clone(), Host]).culprit([Process(read.pid), group]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "mem.oom_kill",
        what: "a memory hog in a small cgroup without swap is killed every few seconds",
        quick: true,
        finding: Some("mem.oom_kill"),
        never: &["mem.thrashing", "mem.leak"],
        setup: |bed| {
            let group = Cgroup::new(bed, "oom", &[Controller::Memory])?;
            let limit = bed.range(24..=64) << 20;
            group.set_memory_limit_without_swap(limit)?;
            let pause = bed.range(500..=1500);
            LoadCommand::new("oom-loop").with("rate", limit).with("pause-ms", pause).in_cgroup(&group)?.start(bed)?;
            let hog = Command("lab-hog");
            Ok(Expect::subject([hog.clone(), EntityPattern::cgroup(&group)]).culprit([hog]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "mem.leak.group",
        what: "a process in a cgroup grows steadily and is observed before it reaches the cgroup's limit",
        setup: |bed| {
            let rate = bed.range(100..=300) << 20;
            // Twice the time for settling and observing.
            let limit = rate * bed.range(22..=30);
            let available = mem_available()?;
            if available / 2 < limit {
                return Err(Error::Missing(format!("{} MiB of available memory", (2 * limit) >> 20)));
            }
            let group = Cgroup::new(bed, "leak", &[Controller::Memory])?;
            group.set_memory_limit_without_swap(limit)?;
            let hog = LoadCommand::new("hog").with("rate", rate).with("most", available / 2);
            Ok(Expect::subject([Process(hog.in_cgroup(&group)?.start(bed)?.pid)]))
        },
        ..LEAK
    },
    Trial {
        name: "mem.leak",
        what: "a process would use up the machine's memory in a minute; it stops growing well before that",
        setup: |bed| {
            let available = mem_available()?;
            let rate = (available / bed.range(50..=70)).min(1 << 30);
            let hog = LoadCommand::new("hog").with("rate", rate).with("most", available / 2).start(bed)?;
            Ok(Expect::subject([Process(hog.pid)]))
        },
        ..LEAK
    },
    Trial {
        name: "mem.page_tables",
        what: "processes in a cgroup map the same memory, and their page tables leave too little of its limit for a file",
        finding: Some("mem.page_tables"),
        never: &["mem.thrashing", "mem.oom_kill", "mem.leak"],
        setup: |bed| {
            let group = Cgroup::new(bed, "tables", &[Controller::Memory])?;
            let processes = bed.range(20..=40);
            // Twice the size of their page tables, plus the kernel's other memory for them.
            let (tables, rest) = (processes << 21, processes << 18);
            let limit = tables * 2 + rest;
            let latency = Duration::from_micros(bed.range(800..=1500));
            let mut disk = SimulatedDisk::new(bed, 512 << 20, DiskSpec::new(latency, 32))?;
            let file = disk.device.ext4(bed, "fs", &[])?.join("program");
            write_file(&file, tables * 4 / 3)?;
            group.set_memory_limit_without_swap(limit)?;
            disk.enable_delays()?;
            let load = LoadCommand::new("page-tables").with("bytes", 1_u64 << 30).with("processes", processes);
            load.in_cgroup(&group)?.start(bed)?;
            file_reader(&file).in_cgroup(&group)?.start(bed)?;
            let group = EntityPattern::cgroup(&group);
            Ok(Expect::subject([group.clone()]).culprit([group]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "mem.hugepages_unused",
        what: "huge pages are reserved and not used, and take all but a seventh of memory",
        finding: Some("mem.hugepages_unused"),
        never: &["mem.leak", "mem.thrashing", "mem.slab_growth"],
        setup: |bed| {
            let left = mem_total()? / 1000 * bed.range(130..=140);
            let pages = mem_available()?.saturating_sub(left) / HUGE_PAGE;
            reserve_huge_pages(bed, pages)?;
            Ok(Expect::subject([Host]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "mem.slab_growth",
        what: "the kernel keeps messages that no one receives, and would run out of memory in two to four minutes",
        finding: Some("mem.slab_growth"),
        never: &["cpu.system_time", "mem.leak", "mem.thrashing", "cpu.single_thread"],
        not_ruled_out: &["memory"],
        setup: |bed| {
            let available = mem_available()?;
            let rate = available / bed.range(120..=240);
            let load = LoadCommand::new("messages").with("rate", rate).with("most", available / 4);
            load.in_own_ipc().start(bed)?;
            Ok(Expect::subject([Host]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "mem.reclaim",
        what: "bursts of allocations come faster than the kernel reclaims page cache in the background, which starts late",
        finding: Some("mem.reclaim"),
        never: &["mem.thrashing", "mem.cache_thrash", "mem.compaction", "mem.hugepages_unused"],
        setup: |bed| {
            // With these settings, the kernel reclaims in the background only when memory is almost exhausted.
            kernel_setting::set(bed, "proc/sys/vm/min_free_kbytes", 8192)?;
            kernel_setting::set(bed, "proc/sys/vm/watermark_scale_factor", 1)?;
            let bursts = bursts_into_full_memory(bed)?;
            Ok(Expect::subject([Host]).culprit([Process(bursts)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "early-reclaim",
        what: "the same bursts, for which the kernel begins to reclaim page cache in time",
        slightly: &["mem.reclaim"],
        setup: |bed| {
            bursts_into_full_memory(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "streamed-cache",
        what: "a stream of reads through full memory, for which the kernel reclaims page cache in the background",
        setup: |bed| {
            let rate = bed.range(150..=250_u64) << 20;
            stream_through_memory(bed, rate)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "mem.compaction",
        what: "a program takes huge pages from fragmented memory",
        finding: Some("mem.compaction"),
        never: &["mem.thrashing", "mem.reclaim", "mem.leak", "mem.hugepages_unused"],
        setup: |bed| {
            let program = fragment(bed)?;
            Ok(Expect::subject([Process(program)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "deferred-huge-pages",
        what: "the same program takes small pages where no huge ones are free, as page faults do not wait for them",
        setup: |bed| {
            fragment(bed)?;
            kernel_setting::set(bed, "sys/kernel/mm/transparent_hugepage/defrag", "defer")?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "mem.dirty_throttling",
        what: "bursts of writes that a disk absorbs with half its time to spare do not fit below a low limit of dirty memory",
        finding: Some("mem.dirty_throttling"),
        never: &["disk.saturated", "disk.flush_bound", "disk.write_burst"],
        setup: |bed| {
            let limit = bed.range(2..=6_u64) << 20;
            let (device, command) = write_bursts(bed)?;
            kernel_setting::set(bed, "proc/sys/vm/dirty_background_bytes", limit / 2)?;
            kernel_setting::set(bed, "proc/sys/vm/dirty_bytes", limit)?;
            let writer = command.start(bed)?;
            Ok(Expect::subject([EntityPattern::device(&device)]).culprit([Process(writer.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "virt.ksm_splits_thp",
        what: "page sharing merges the memory of a program that asked for huge pages",
        finding: Some("virt.ksm_splits_thp"),
        never: &["mem.leak", "cpu.system_time", "cpu.single_thread"],
        setup: |bed| {
            mergeable(bed)?.flag("huge").start(bed)?;
            Ok(Expect::subject([Host]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "sharing",
        what: "page sharing merges the memory of a program that asked for small pages",
        setup: |bed| {
            mergeable(bed)?.start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "absorbed-bursts",
        what: "bursts of writes fit into memory, from where they are written at once",
        slightly: &["disk.write_burst"],
        setup: |bed| {
            let (_, command) = write_bursts(bed)?;
            kernel_setting::set(bed, "proc/sys/vm/dirty_background_bytes", 1 << 20)?;
            command.start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "file-name-cache",
        what: "the kernel's cache of file names grows, which it reclaims when it needs memory",
        setup: |bed| {
            let disk = SimulatedDisk::new(bed, 64 << 20, DiskSpec::new(Duration::from_micros(100), 32))?;
            let dir = disk.device.ext4(bed, "fs", &[])?;
            let rate = bed.range(20_000..=50_000);
            LoadCommand::new("lookups").with("dir", dir.display()).with("rate", rate).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "spare-huge-pages",
        what: "huge pages are reserved and not used, and memory is plentiful",
        setup: |bed| {
            let pages = mem_available()? / 100 * bed.range(12..=20) / HUGE_PAGE;
            reserve_huge_pages(bed, pages)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "full-of-tables",
        what: "processes in a cgroup with room to spare map the same memory",
        setup: |bed| {
            let group = Cgroup::new(bed, "tables", &[Controller::Memory])?;
            let processes = bed.range(20..=40_u64);
            group.set_memory_limit_without_swap(processes << 22)?;
            let load = LoadCommand::new("page-tables").with("bytes", 1_u64 << 30).with("processes", processes);
            load.in_cgroup(&group)?.start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "page-cache",
        what: "the page cache fills with a file that is read once, slowly enough for its disk",
        setup: |bed| {
            let mut disk = SimulatedDisk::new(bed, 2 << 30, DiskSpec::new(Duration::from_micros(200), 32))?;
            disk.enable_delays()?;
            let rate = bed.range(20..=60) << 20;
            disk.device.reader(128 << 10).with("rate", rate).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "still-swap",
        what: "memory is swapped out and not needed",
        setup: |bed| {
            let group = Cgroup::new(bed, "still", &[Controller::Memory])?;
            let limit = bed.range(32..=64) << 20;
            swap::on_zram(bed, 4 * limit)?;
            group.set_memory_limit(limit)?;
            LoadCommand::new("touch").with("bytes", limit * 2).flag("still").in_cgroup(&group)?.start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
];

/// Trials with a leak: the first touch of a page costs kernel time, and the OOM kill is still to come.
const LEAK: Trial = Trial {
    finding: Some("mem.leak"),
    never: &["cpu.system_time", "mem.oom_kill", "mem.thrashing", "cpu.single_thread"],
    not_ruled_out: &["memory"],
    ..Trial::IDLE
};

fn file_reader(file: &Path) -> LoadCommand {
    LoadCommand::new("read").with("path", file.display()).with("jobs", 4).with("size", 64 << 10).flag("random")
}

const HUGE_PAGE: u64 = 2 << 20;
const HUGE_PAGES: &str = "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

/// Reserves this many huge pages until the end of the trial. The kernel gives up if memory is too fragmented, but has
/// compacted some of it by then, so try again.
fn reserve_huge_pages(bed: &mut Testbed, pages: u64) -> Result<()> {
    kernel_setting::set(bed, HUGE_PAGES, pages)?;
    for _ in 0..20 {
        let reserved = fs::read_to_string(format!("/{HUGE_PAGES}")).context(HUGE_PAGES)?;
        if reserved.trim().parse::<u64>().is_ok_and(|reserved| reserved >= pages) {
            return Ok(());
        }
        fs::write("/proc/sys/vm/drop_caches", "1").context("drop_caches")?;
        fs::write("/proc/sys/vm/compact_memory", "1").context("compact_memory")?;
        fs::write(format!("/{HUGE_PAGES}"), pages.to_string()).context(HUGE_PAGES)?;
    }
    Err(Error::Missing(format!("{pages} huge pages: memory is too fragmented")))
}

/// Leaves little memory to everything else: reserves the rest for a program as huge pages, which nothing else can use.
fn leave_memory(bed: &mut Testbed, left: u64) -> Result<()> {
    let pages = mem_available()?.saturating_sub(left) / HUGE_PAGE;
    reserve_huge_pages(bed, pages)?;
    LoadCommand::new("promised").with("bytes", pages * HUGE_PAGE).start(bed)?;
    Ok(())
}

/// Leaves little memory and fills it with page cache: a program reads a sparse file, which causes no disk I/O, through
/// a mapping at this rate.
fn stream_through_memory(bed: &mut Testbed, rate: u64) -> Result<()> {
    let left = bed.range(2800..=3200) << 20;
    leave_memory(bed, left)?;
    let disk = SimulatedDisk::new(bed, 64 << 20, DiskSpec::new(Duration::from_micros(100), 32))?;
    let file = disk.device.ext4(bed, "fs", &[])?.join("sparse");
    File::create_new(&file)?.set_len(256 << 30)?;
    let stream = LoadCommand::new("map-stream").with("path", file.display()).with("rate", rate);
    // Large enough that the kernel reclaims by then.
    stream.with("first", mem_available()? * 9 / 8).start(bed)?;
    Ok(())
}

/// Starts a program that takes memory in bursts, and one that fills memory with page cache in between. Returns the PID
/// of the first.
fn bursts_into_full_memory(bed: &mut Testbed) -> Result<u32> {
    let bytes = bed.range(450..=550_u64) << 20;
    stream_through_memory(bed, bytes)?;
    let bursts = LoadCommand::new("memory-bursts").with("bytes", bytes).with("threads", 4).with("every-ms", 800);
    Ok(bursts.start(bed)?.pid)
}

/// Starts a program that takes huge pages and leaves memory fragmented. Returns its PID.
fn fragment(bed: &mut Testbed) -> Result<u32> {
    let left = bed.range(4000..=4500) << 20;
    leave_memory(bed, left)?;
    // Prevents the kernel from preparing huge pages in the background before they are requested.
    kernel_setting::set(bed, "proc/sys/vm/compaction_proactiveness", 0)?;
    // The free memory must be fragmented.
    fs::write("/proc/sys/vm/drop_caches", "1").context("drop_caches")?;
    let bytes = bed.range(80..=120_u64) * HUGE_PAGE;
    let program = LoadCommand::new("fragment").with("leave", 300 << 20).with("bytes", bytes).with("every-ms", 600);
    Ok(program.with("seed", bed.range(1..=1 << 30)).start(bed)?.pid)
}

/// Prepares a writer of 32 MiB every two seconds on a new disk with 40 to 50 MB/s. Returns the name of the disk and the
/// writer.
fn write_bursts(bed: &mut Testbed) -> Result<(String, LoadCommand)> {
    let bandwidth = bed.range(40..=50) * 1_000_000;
    let mut disk =
        SimulatedDisk::new(bed, 512 << 20, DiskSpec { bandwidth, ..DiskSpec::new(Duration::from_micros(500), 32) })?;
    // Keep writeback from being split into small requests.
    disk.device.set_max_request(bed, 1 << 20)?;
    let log = disk.device.ext4(bed, "fs", &[])?.join("log");
    disk.enable_delays()?;
    let writer = LoadCommand::new("append").with("path", log.display()).with("size", 32 << 20).with("every-ms", 2000);
    Ok((disk.device.name, writer.flag("lazy")))
}

/// Prepares a program with identical pages, and enables page sharing (KSM) to find them.
fn mergeable(bed: &mut Testbed) -> Result<LoadCommand> {
    kernel_setting::set(bed, "sys/kernel/mm/ksm/pages_to_scan", 2000)?;
    kernel_setting::set(bed, "sys/kernel/mm/ksm/run", 1)?;
    let rate = bed.range(30..=60_u64) << 20;
    Ok(LoadCommand::new("mergeable").with("rate", rate).with("hold", rate * 6))
}

/// Returns the bytes available without swapping.
fn mem_available() -> Result<u64> {
    meminfo("MemAvailable:")
}

fn mem_total() -> Result<u64> {
    meminfo("MemTotal:")
}

fn meminfo(name: &str) -> Result<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").context("/proc/meminfo")?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| Error::Missing(format!("{name} in /proc/meminfo")))
}
