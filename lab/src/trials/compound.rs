//! Compound faults: a cause with its effects, or two independent causes.

use crate::cgroup::{Cgroup, Controller};
use crate::disk::{DiskSpec, SimulatedDisk, write_file};
use crate::error::Result;
use crate::expect::EntityPattern::{self, Host, Port, Process};
use crate::expect::Expect;
use crate::interrupt;
use crate::load_process::LoadCommand;
use crate::testbed::Testbed;
use crate::trial::Trial;
use std::time::Duration;

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "quota-accept",
        what: "a server in a cgroup with too small a quota cannot accept connections as fast as they arrive",
        finding: Some("cpu.throttled"),
        never: &["net.loss", "net.udp_overflow", "cpu.saturated", "cpu.single_thread"],
        setup: |bed| {
            let group = small_quota(bed)?;
            let (server, port) = start_server(bed, |accept| accept.in_cgroup(&group))?;
            let overflow = Expect::subject([Port(port)]).culprit([server.clone()]);
            let group = EntityPattern::cgroup(&group);
            Ok(Expect::subject([group.clone()]).culprit([server, group]).effect("net.listen_overflow", overflow))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "quota-udp",
        what: "a program in a cgroup with too small a quota cannot read its datagrams as fast as they arrive",
        finding: Some("cpu.throttled"),
        never: &["net.loss", "net.listen_overflow", "cpu.saturated", "cpu.single_thread"],
        setup: |bed| {
            let group = small_quota(bed)?;
            let (port, buffer) = (bed.port(), bed.range(8..=32) << 10);
            let at = format!("127.0.0.1:{port}");
            let sink = LoadCommand::new("udp-sink").with("at", &at).with("buffer", buffer);
            let sink = sink.with("work-us", bed.range(200..=400)).in_cgroup(&group)?.start(bed)?;
            // Uses half a CPU or somewhat more, while the group may use a third.
            LoadCommand::new("udp-source").with("to", &at).with("size", 400).with("rate", 2_500).start(bed)?;
            let sink = Process(sink.pid);
            let overflow = Expect::subject([Port(port)]).culprit([sink.clone()]);
            let group = EntityPattern::cgroup(&group);
            Ok(Expect::subject([group.clone()]).culprit([sink, group]).effect("net.udp_overflow", overflow))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "one-thread-accept",
        what: "the one thread of a server computes all the time and cannot accept connections as fast as they arrive",
        finding: Some("cpu.single_thread"),
        never: &["net.loss", "cpu.saturated", "cpu.throttled"],
        setup: |bed| {
            let (server, port) = start_server(bed, Ok)?;
            let overflow = Expect::subject([Port(port)]).culprit([server.clone()]);
            Ok(Expect::subject([server]).effect("net.listen_overflow", overflow))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "files-accept",
        what: "a server has as many files open as it may, so that it can accept no more connections",
        finding: Some("limit.open_files"),
        never: &["net.loss", "cpu.saturated", "cpu.single_thread"],
        setup: |bed| {
            let (port, backlog, limit) = (bed.port(), bed.range(4..=16), bed.range(30..=80));
            let at = format!("127.0.0.1:{port}");
            let accept = LoadCommand::new("accept").with("at", &at).with("backlog", backlog).with("hold", limit);
            let accept = Process(accept.start(bed)?.pid);
            let connect = LoadCommand::new("connect").with("to", &at).with("clients", backlog + limit);
            connect.with("timeout-ms", 1500).start(bed)?;
            let overflow = Expect::subject([Port(port)]).culprit([accept.clone()]);
            Ok(Expect::subject([accept]).effect("net.listen_overflow", overflow))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "cache-disk",
        what: "a cgroup keeps rereading files that do not fit into its page cache, from a disk with few channels",
        finding: Some("mem.cache_thrash"),
        never: &["mem.thrashing", "disk.depth_one", "disk.slow_device"],
        setup: |bed| {
            let group = Cgroup::new(bed, "cache", &[Controller::Memory])?;
            let limit = bed.range(48..=80) << 20;
            let latency = Duration::from_micros(bed.range(2_000..=4_000));
            let spec = DiskSpec::new(latency, bed.range(2..=3));
            let mut disk = SimulatedDisk::new(bed, 1 << 30, spec)?;
            let file = disk.device.ext4(bed, "fs", &[])?.join("working-set");
            write_file(&file, limit * 2)?;
            group.set_memory_limit_without_swap(limit)?;
            disk.enable_delays()?;
            let read = LoadCommand::new("read").with("path", file.display()).with("jobs", bed.range(12..=20));
            let read = read.with("size", 64 << 10).flag("random").in_cgroup(&group)?.start(bed)?;
            // There are no refaults until the cache has filled up.
            interrupt::sleep(Duration::from_secs(4))?;
            let read = Process(read.pid);
            let busy = Expect::subject([EntityPattern::device(&disk.device.name)]).culprit([read.clone()]);
            let group = EntityPattern::cgroup(&group);
            Ok(Expect::subject([group.clone(), Host]).culprit([read, group]).effect("disk.saturated", busy))
        },
        ..Trial::IDLE
    },
    both(
        "flush+quota",
        "a program flushes each record on a slow disk; a cgroup computes against its quota",
        "disk.flush_bound",
        &["disk.flush_bound", "cpu.throttled"],
    ),
    both(
        "thread+loss",
        "one thread fills a CPU; a TCP stream crosses a link that loses packets",
        "cpu.single_thread",
        &["cpu.single_thread", "net.loss"],
    ),
    both(
        "accept+disk",
        "a server accepts connections too slowly; a disk has more readers than channels",
        "net.listen_overflow",
        &["net.listen_overflow", "disk.saturated"],
    ),
    both(
        "full+quota",
        "a file system is full; a cgroup computes against its quota",
        "fs.full",
        &["fs.full", "cpu.throttled"],
    ),
    both(
        "oom+window",
        "a program is killed again and again for its memory; a TCP stream has too small a receive buffer",
        "mem.oom_kill",
        &["mem.oom_kill", "net.window_limited"],
    ),
    both(
        "files+depth",
        "a process has as many files open as it may; another reads one block at a time",
        "limit.open_files",
        &["limit.open_files", "disk.depth_one"],
    ),
    both(
        "iolimit+link",
        "a cgroup reads against its limit; TCP streams fill a link",
        "disk.throttled",
        &["disk.throttled", "net.link_saturated"],
    ),
    both(
        "quota+udp",
        "a cgroup computes against its quota; another program reads its datagrams too slowly",
        "cpu.throttled",
        &["cpu.throttled", "net.udp_overflow"],
    ),
    both(
        "flush+loss",
        "a program flushes each record on a slow disk; a packet filter drops packets of a TCP stream",
        "disk.flush_bound",
        &["disk.flush_bound", "net.loss.here"],
    ),
    both(
        "memory+accept",
        "a cgroup's limit is too small for the file it rereads; a server accepts connections too slowly",
        "mem.cgroup_limit",
        &["mem.cgroup_limit", "net.listen_overflow"],
    ),
    both(
        "lock+depth",
        "threads contend for a lock; another program reads one block at a time",
        "lock.contention",
        &["lock.contention", "disk.depth_one"],
    ),
    both(
        "inodes+udp",
        "a file system has no inodes left; a program reads its datagrams too slowly",
        "fs.inodes_full",
        &["fs.inodes_full", "net.udp_overflow"],
    ),
    both(
        "shm+thread",
        "no more shared memory segments can be created; one thread of another program fills a CPU",
        "limit.shm",
        &["limit.shm", "cpu.single_thread"],
    ),
    both(
        "blocked+quota",
        "a writer is stuck on a frozen file system; a cgroup computes against its quota",
        "task.blocked",
        &["task.blocked", "cpu.throttled"],
    ),
    both(
        "disk+flush",
        "one disk has more readers than channels; on another one a program flushes each record",
        "disk.saturated",
        &["disk.saturated", "disk.flush_bound"],
    ),
    both(
        "thrashing+depth",
        "a cgroup swaps; a program outside of it reads one block at a time",
        "mem.thrashing",
        &["mem.thrashing", "disk.depth_one"],
    ),
];

/// Returns a trial with two faults from the other tables side by side.
const fn both(name: &'static str, what: &'static str, finding: &'static str, parts: &'static [&'static str]) -> Trial {
    Trial { name, what, finding: Some(finding), parts, ..Trial::IDLE }
}

/// Creates a cgroup that may use about a third of a CPU.
fn small_quota(bed: &mut Testbed) -> Result<Cgroup> {
    let group = Cgroup::new(bed, "quota", &[Controller::Cpu])?;
    group.set_cpu_quota(100_000 * bed.range(20..=35) / 100, 100_000)?;
    Ok(group)
}

/// Starts a server that computes for some milliseconds per connection, and more clients than it can serve. Returns the
/// server and its port.
fn start_server(
    bed: &mut Testbed,
    place: impl FnOnce(LoadCommand) -> Result<LoadCommand>,
) -> Result<(EntityPattern, u16)> {
    let (port, backlog, work) = (bed.port(), bed.range(2..=8), bed.range(5_000..=10_000));
    let at = format!("127.0.0.1:{port}");
    let accept = LoadCommand::new("accept").with("at", &at).with("backlog", backlog).with("work-us", work);
    let server = place(accept)?.start(bed)?;
    let connect = LoadCommand::new("connect").with("to", &at).with("clients", backlog + bed.range(20..=40));
    // Clients with a longer timeout would all wait for the kernel to repeat their SYN, and leave the server idle.
    connect.with("timeout-ms", 60).start(bed)?;
    Ok((Process(server.pid), port))
}
