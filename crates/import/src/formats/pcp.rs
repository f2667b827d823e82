//! pmlogdump(1), formerly pmdumplog(1): an archive of Performance Co-Pilot as text, with the description of each metric (-d)
//! and the values (-m) that pmlogger(1) recorded.
//!
//! The counters are the kernel's own, so nothing has to be integrated. The description has the unit. Each reading begins with
//! the number of its metrics. If there are more or fewer, a line was lost or joined with another, and its values may be another
//! metric's, so the whole reading is left out.

use crate::lines::TextLine;
use crate::prelude::*;
use std::collections::{BTreeMap, HashMap};
use whyslow_model::catalogue::{
    Cpu, CpuMean, Disk, Interface, Link, MachineInfo, Meminfo, Mount, Pressure, Process, Protocol, Softnet, System,
    Vmstat,
};
use whyslow_proc::vmstat;

pub const FORMAT: Format = Format {
    name: "pmlogdump",
    versions: "PCP 3 to 6: pmlogdump or pmdumplog with -d -m, with -x for dates, -a; archives of pmlogger by this machine's own pmlogdump",
    shows: "what was recorded of CPU time by mode, pressure, memory, paging, requests and time of each disk, interfaces, protocols, file \
        systems and processes",
    lacks: "control groups, NFS and metrics of other agents than those of the kernel and of processes",
    programs: &[program("pmlogdump"), program("pmdumplog")],
    files: &["pmlogdump*", "pmdumplog*"],
    columns: &[
        &CPU, &CPU_MEAN, &SYSTEM, &PRESSURE, &MEMINFO, &DISK, &INTERFACE, &LINK, &PROTOCOL, &SOFTNET, &PROCESS, &MOUNT,
    ],
    streamed: true,
    starts: |lines| match lines.peek(0).and_then(DumpLine::parse) {
        Some(DumpLine::Title) => true,
        Some(DumpLine::Description(_)) => lines.peek(1).and_then(DumpLine::parse) == Some(DumpLine::Kind),
        Some(DumpLine::Reading { .. }) => {
            matches!(lines.peek(1).and_then(DumpLine::parse), Some(DumpLine::Metric { .. }))
        }
        _ => false,
    },
    read,
};

const CPU: MetricColumns<Cpu> = MODES;
const CPU_MEAN: MetricColumns<CpuMean> = columns! {
    "user" => user, "nice" => nice, "sys" => system, "idle" => idle, "wait.total" => iowait, "irq.hard" => irq,
    "irq.soft" => softirq, "steal" => steal,
};
const MODES: MetricColumns<Cpu> = columns! {
    "user" => user, "nice" => nice, "sys" => system, "idle" => idle, "wait.total" => iowait, "irq.hard" => irq,
    "irq.soft" => softirq, "steal" => steal, "guest" => guest, "guest_nice" => guest_nice,
};
const SYSTEM: MetricColumns<System> = columns! {
    "intr" => interrupts, "pswitch" => context_switches, "sysfork" => forks, "running" => running, "blocked" => blocked,
    "load 1 minute" => load_1m, "load 5 minute" => load_5m, "load 15 minute" => load_15m, "uptime" => uptime,
};
/// Averages are percentages.
const PRESSURE: MetricColumns<Pressure> = columns! {
    "cpu.some.total" => cpu_some, "memory.some.total" => memory_some, "memory.full.total" => memory_full,
    "io.some.total" => io_some, "io.full.total" => io_full, "irq.full.total" => irq_full,
    "cpu.some.avg 1 minute" => cpu_avg60 * 0.01, "cpu.some.avg 5 minute" => cpu_avg300 * 0.01,
    "memory.some.avg 1 minute" => memory_avg60 * 0.01, "memory.some.avg 5 minute" => memory_avg300 * 0.01,
    "io.some.avg 1 minute" => io_avg60 * 0.01, "io.some.avg 5 minute" => io_avg300 * 0.01,
};
const MEMINFO: MetricColumns<Meminfo> = columns! {
    "physmem" => mem_total, "util.free" => mem_free, "util.available" => mem_available, "util.bufmem" => buffers,
    "util.cached" => cached, "util.swapCached" => swap_cached, "util.active" => active, "util.inactive" => inactive,
    "util.active_anon" => active_anon, "util.inactive_anon" => inactive_anon, "util.active_file" => active_file,
    "util.inactive_file" => inactive_file, "util.unevictable" => unevictable, "util.mlocked" => mlocked,
    "util.swapTotal" => swap_total, "util.swapFree" => swap_free, "util.dirty" => dirty, "util.writeback" => writeback,
    "util.anonpages" => anon_pages, "util.mapped" => mapped, "util.shmem" => shmem, "util.slab" => slab,
    "util.slabReclaimable" => s_reclaimable, "util.slabUnreclaimable" => s_unreclaim, "util.kernelStack" => kernel_stack,
    "util.pageTables" => page_tables, "util.commitLimit" => commit_limit, "util.committed_AS" => committed_as,
    "util.anonhugepages" => anon_huge_pages, "util.hugepagesTotalBytes" => hugetlb,
};
const DISK: MetricColumns<Disk> = columns! {
    "read" => reads, "read_merge" => reads_merged, "read_bytes" => read_bytes, "read_rawactive" => read_time,
    "write" => writes, "write_merge" => writes_merged, "write_bytes" => write_bytes, "write_rawactive" => write_time,
    "inflight" => in_flight, "avactive" => busy_time, "aveq" => weighted_time, "discard" => discards,
    "discard_merge" => discards_merged, "discard_bytes" => discard_bytes, "discard_rawactive" => discard_time,
    "flush" => flushes, "flush_rawactive" => flush_time,
};
const INTERFACE: MetricColumns<Interface> = columns! {
    "in.bytes" => rx_bytes, "in.packets" => rx_packets, "in.errors" => rx_errors, "in.drops" => rx_dropped,
    "in.fifo" => rx_fifo, "in.frame" => rx_frame, "in.mcasts" => rx_multicast, "out.bytes" => tx_bytes,
    "out.packets" => tx_packets, "out.errors" => tx_errors, "out.drops" => tx_dropped, "out.fifo" => tx_fifo,
    "collisions" => tx_collisions, "out.carrier" => tx_carrier,
};
const LINK: MetricColumns<Link> = columns! { "mtu" => mtu, "baudrate" => speed * 8.0 };
const PROTOCOL: MetricColumns<Protocol> = columns! {
    "ip.inreceives" => ip_in_receives, "ip.indiscards" => ip_in_discards, "ip.outdiscards" => ip_out_discards,
    "ip.reasmfails" => ip_reasm_fails, "ip.fragfails" => ip_frag_fails, "tcp.activeopens" => tcp_active_opens, "tcp.passiveopens" => tcp_passive_opens,
    "tcp.attemptfails" => tcp_attempt_fails, "tcp.estabresets" => tcp_estab_resets, "tcp.currestab" => tcp_curr_estab,
    "tcp.insegs" => tcp_in_segs, "tcp.outsegs" => tcp_out_segs, "tcp.retranssegs" => tcp_retrans_segs,
    "tcp.inerrs" => tcp_in_errs, "tcp.outrsts" => tcp_out_rsts, "tcp.iprpfilter" => tcp_ext_ip_reverse_path_filter,
    "tcp.listenoverflows" => tcp_ext_listen_overflows, "tcp.listendrops" => tcp_ext_listen_drops,
    "tcp.reqqfulldrop" => tcp_ext_tcp_req_q_full_drop, "tcp.reqqfulldocookies" => tcp_ext_tcp_req_q_full_do_cookies,
    "tcp.backlogdrop" => tcp_ext_tcp_backlog_drop, "tcp.tcprcvqdrop" => tcp_ext_tcp_rcv_q_drop,
    "tcp.prunecalled" => tcp_ext_prune_called, "tcp.rcvcollapsed" => tcp_ext_tcp_rcv_collapsed,
    "tcp.timeouts" => tcp_ext_tcp_timeouts, "tcp.lostretransmit" => tcp_ext_tcp_lost_retransmit,
    "tcp.synretrans" => tcp_ext_tcp_syn_retrans, "tcp.spuriousrtos" => tcp_ext_tcp_spurious_rtos,
    "tcp.dsackrecv" => tcp_ext_tcp_dsack_recv, "tcp.dsackrecvsegs" => tcp_ext_tcp_dsack_recv_segs, "tcp.sackreorder" => tcp_ext_tcp_sack_reorder,
    "tcp.tsreorder" => tcp_ext_tcp_ts_reorder,
    "tcp.memorypressures" => tcp_ext_tcp_memory_pressures, "tcp.abortonmemory" => tcp_ext_tcp_abort_on_memory,
    "tcp.tozerowindowadv" => tcp_ext_tcp_to_zero_window_adv, "tcp.timewaited" => tcp_ext_tw,
    "udp.indatagrams" => udp_in_datagrams, "udp.noports" => udp_no_ports, "udp.inerrors" => udp_in_errors,
    "udp.outdatagrams" => udp_out_datagrams, "udp.recvbuferrors" => udp_rcvbuf_errors,
    "udp.sndbuferrors" => udp_sndbuf_errors, "sockstat.tcp.inuse" => tcp_in_use, "sockstat.tcp.orphan" => tcp_orphans,
    "sockstat.tcp.tw" => tcp_time_wait, "sockstat.udp.inuse" => udp_in_use,
};
const SOFTNET: MetricColumns<Softnet> = columns! {
    "processed" => processed, "dropped" => dropped, "time_squeeze" => squeezed, "received_rps" => received_rps,
    "flow_limit_count" => flow_limited,
};
const PROCESS: MetricColumns<Process> = columns! {
    "psinfo.utime" => user, "psinfo.stime" => system, "psinfo.maj_flt" => major_faults, "psinfo.minflt" => minor_faults,
    "psinfo.threads" => threads, "psinfo.rss" => rss, "memory.rss" => rss, "memory.vmswap" => swap,
    "schedstat.run_delay" => run_delay, "psinfo.vctxsw" => voluntary_switches, "psinfo.nvctxsw" => involuntary_switches,
    "io.read_bytes" => read_bytes, "io.write_bytes" => write_bytes, "io.cancelled_write_bytes" => cancelled_write_bytes,
    "fd.count" => open_files,
};
const MOUNT: MetricColumns<Mount> = columns! {
    "capacity" => size, "free" => free, "avail" => available, "maxfiles" => inodes, "freefiles" => inodes_free,
};

/// Metrics of one kind of object, and the function that records them.
struct MetricGroup {
    prefix: &'static str,
    /// Whether each instance is an object of its own, such as a disk. Other instances are part of the name: `load 1 minute`.
    has_things: bool,
    record: fn(&mut ToolRun, &Reading, &str, &Values),
}

/// Groups of metrics; the first matching prefix decides.
const GROUPS: [MetricGroup; 18] = [
    MetricGroup { prefix: "kernel.percpu.cpu.", has_things: true, record: cpu },
    MetricGroup { prefix: "kernel.all.cpu.", has_things: false, record: cpu_mean },
    MetricGroup { prefix: "kernel.all.pressure.", has_things: false, record: pressure },
    MetricGroup { prefix: "kernel.all.", has_things: false, record: system },
    MetricGroup { prefix: "mem.vmstat.", has_things: false, record: paging },
    MetricGroup { prefix: "swap.", has_things: false, record: swapping },
    MetricGroup { prefix: "mem.", has_things: false, record: memory },
    MetricGroup { prefix: "disk.dev.", has_things: true, record: disk },
    MetricGroup { prefix: "disk.dm.", has_things: true, record: disk },
    MetricGroup { prefix: "disk.md.", has_things: true, record: disk },
    MetricGroup { prefix: "network.interface.", has_things: true, record: network_interface },
    MetricGroup { prefix: "network.softnet.percpu.", has_things: true, record: softnet },
    MetricGroup { prefix: "network.", has_things: false, record: protocol },
    MetricGroup { prefix: "hotproc.", has_things: true, record: task },
    MetricGroup { prefix: "proc.", has_things: true, record: task },
    MetricGroup { prefix: "filesys.", has_things: true, record: mount },
    MetricGroup { prefix: "hinv.", has_things: false, record: machine },
    MetricGroup { prefix: "kernel.uname.", has_things: false, record: machine },
];

#[derive(Debug, PartialEq)]
enum DumpLine<'t> {
    /// A line without information.
    Title,
    /// `Performance metrics from host db7`
    Host(&'t str),
    /// `PMID: 60.0.4 (disk.dev.read)`
    Description(&'t str),
    /// `Data Type: 64-bit unsigned int  InDom: 60.1 0xf000001`
    Kind,
    /// `Semantics: counter  Units: millisec`
    Units(&'t str),
    /// `Thu Nov 26 03:09:48.666569 2026 569 metrics`, or `<mark>` in place of the number where the recording was interrupted.
    Reading { at: PrintedTime, metrics: Option<usize> },
    /// `60.0.4 (disk.dev.read): inst [0 or "vda"] value 17538795`
    Metric { names: &'t str, value: &'t str },
    /// `inst [0 or "cpu0"] value 6509640`
    Instance { name: &'t str, value: &'t str },
}

impl<'t> DumpLine<'t> {
    fn parse(text: &'t str) -> Option<Self> {
        const TITLES: [&str; 6] = [
            "Note: timezone set to",
            "Log Label (Log Format Version ",
            "Archive timezone: ",
            "PID for pmlogger: ",
            "Descriptions for Metrics in the Log ...",
            "commencing ",
        ];
        let text = text.trim();
        if TITLES.iter().any(|title| text.starts_with(title)) || text.strip_prefix("ending ").is_some_and(is_date) {
            return Some(Self::Title);
        }
        if let Some(host) = text.strip_prefix("Performance metrics from host ") {
            return Some(Self::Host(host));
        }
        if let Some((_, names)) = text.strip_prefix("PMID: ").and_then(identified) {
            return Some(Self::Description(names.strip_suffix(')')?));
        }
        if text.starts_with("Data Type: ") {
            return Some(Self::Kind);
        }
        if let Some(semantics) = text.strip_prefix("Semantics: ") {
            return Some(Self::Units(semantics.split_once("Units: ")?.1.trim()));
        }
        if let Some((name, value)) = instance(text) {
            return Some(Self::Instance { name, value });
        }
        if let Some((_, rest)) = identified(text) {
            let (names, value) = rest.split_once("):")?;
            return Some(Self::Metric { names, value: value.trim() });
        }
        reading(text)
    }
}

/// Returns true if a line is a damaged line of a dump.
fn is_damaged(text: &str) -> bool {
    const BEGINNINGS: [&str; 4] = ["PMID: ", "Semantics: ", "Data Type:", "inst ["];
    let text = text.trim();
    DumpLine::parse(text).is_none()
        && (BEGINNINGS.iter().any(|beginning| text.starts_with(beginning))
            || is_identity(text.split_whitespace().next().unwrap_or_default())
            || text.contains("] value ")
            || [" metrics", "<mark>"].iter().any(|end| text.ends_with(end)))
}

/// Returns true for `Thu Nov 26 03:09:59.648832 2026`.
fn is_date(text: &str) -> bool {
    clock::date_line(text.trim()).is_some()
}

/// Returns true for `60.0.4`: domain, cluster and item.
fn is_identity(text: &str) -> bool {
    text.split('.').count() == 3
        && text.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

/// Splits `60.0.4 (disk.dev.read)…` into its two parts, the second without its bracket.
fn identified(text: &str) -> Option<(&str, &str)> {
    text.split_once(" (").filter(|(identity, _)| is_identity(identity))
}

fn instance(text: &str) -> Option<(&str, &str)> {
    let (number, rest) = text.strip_prefix("inst [")?.split_once(" or ")?;
    let (name, value) = rest.strip_prefix('"')?.split_once("\"] value ")?;
    let is_one = number.parse::<i64>().is_ok() && (is_text(value) || value.parse::<f64>().is_ok());
    is_one.then_some((name, value))
}

fn is_text(value: &str) -> bool {
    value.len() > 1 && value.starts_with('"') && value.ends_with('"')
}

/// Parses the first line of a reading; with `-xx`, the time since the first reading follows the year.
fn reading(text: &str) -> Option<DumpLine<'static>> {
    /// Maximum number of words between the time and the number of metrics.
    const MOST: usize = 2;
    let words: Vec<&str> = text.split_whitespace().collect();
    let at = words.iter().position(|word| word.contains(':'))?;
    let time = clock::time_of_day(&words[at..=at])?.0;
    let (date, rest) = match words[..at] {
        [] => (None, &words[1..]),
        [_, _, _] => {
            let date = clock::date_line(&words.get(..=at + 1)?.join(" "))?.date?;
            (Some(date), &words[at + 2..])
        }
        _ => return None,
    };
    let (metrics, between) = match rest {
        [between @ .., count, "metric" | "metrics"] => (Some(count.parse().ok()?), between),
        [between @ .., "<mark>"] => (None, between),
        _ => return None,
    };
    let at = PrintedTime::new(date, time);
    (between.len() <= MOST).then_some(DumpLine::Reading { at, metrics })
}

/// Returns the factor to the base unit.
fn unit(units: &str) -> Option<f64> {
    Some(match units {
        "none" | "count" | "byte" | "byte / sec" | "nanosec" => 1.0,
        "Kbyte" => KIB,
        "Mbyte" => MIB,
        "Gbyte" => GIB,
        "microsec" => 1e3,
        "millisec" => NS_PER_MS,
        "sec" => SECOND,
        _ => return None,
    })
}

/// Values of one object in a reading.
#[derive(Default)]
struct Values {
    line: u32,
    last_line: u32,
    numbers: Vec<(String, f64)>,
    texts: Vec<(String, String)>,
}

impl Values {
    fn row(&self) -> TableRow {
        TableRow::new(self.line, "", self.numbers.iter().cloned()).until(self.last_line)
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.numbers.iter().find(|(own, _)| own == name).map(|(_, number)| *number)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.texts.iter().find(|(own, _)| own == name).map(|(_, text)| text.as_str())
    }
}

struct Reading {
    title: TextLine,
    at: PrintedTime,
    /// Seconds since the first reading.
    elapsed: f64,
    /// Number of its metrics, and number of those found.
    metrics: usize,
    found: usize,
    /// Name of the metric whose instances follow.
    metric: String,
    /// Values by the position of the group and the name of the object.
    values: BTreeMap<(usize, String), Values>,
    /// Number of CPUs, if known by then.
    processors: Option<f64>,
    mount_points: BTreeMap<String, String>,
}

#[derive(Default)]
struct Dump {
    units: HashMap<String, f64>,
    described: Option<String>,
    reading: Option<Reading>,
    /// Start of the current part, time of its newest reading, and number of its readings.
    begin: Option<PrintedTime>,
    elapsed: f64,
    readings: usize,
    /// Longest part before the last interruption, by number of readings.
    longest: Option<(usize, ToolRun)>,
    processors: Option<f64>,
    mount_points: BTreeMap<String, String>,
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    const EXPECTED: &str = "a metric or instance with its value, as pmlogdump prints it";
    let mut dump = Dump::default();
    let is_own = |text: &str| DumpLine::parse(text).is_some();
    loop {
        let goes_on = |text: &str| is_own(text) || is_damaged(text);
        if let Some((blanks, _)) = lines.peek_past_blanks(0).filter(|(_, text)| goes_on(text)) {
            lines.skip(blanks);
        }
        let Some(line) = lines.take_own(is_own, is_damaged, EXPECTED)? else { break };
        dump.take(&line, lines, run)?;
        lines.reuse(line);
    }
    dump.end_reading(lines, run)?;
    dump.end_part(run);
    if let Some((_, longest)) = dump.longest {
        *run = longest;
    }
    if run.series.is_empty() {
        let why = "no metric of the kernel or of a process is described and recorded in it";
        run.note("pmlogdump", why, "print both: pmlogdump -x -d -m ARCHIVE");
    }
    Ok(())
}

impl Dump {
    fn take(&mut self, line: &TextLine, lines: &mut Lines<'_>, run: &mut ToolRun) -> ReadResult {
        match DumpLine::parse(&line.text) {
            Some(DumpLine::Host(host)) => run.host = Some(host.into()),
            Some(DumpLine::Description(names)) => self.described = Some(first_known(names).to_owned()),
            Some(DumpLine::Units(units)) => {
                if let Some((name, unit)) = self.described.take().zip(unit(units)) {
                    self.units.insert(name, unit);
                }
            }
            Some(DumpLine::Reading { at, metrics }) => {
                self.end_reading(lines, run)?;
                match metrics {
                    Some(metrics) => self.begin_reading(line, at, metrics),
                    None => self.end_part(run),
                }
            }
            Some(DumpLine::Metric { names, value }) => {
                if let Some(reading) = &mut self.reading {
                    reading.found += 1;
                    first_known(names).clone_into(&mut reading.metric);
                    match instance(value) {
                        Some((name, value)) => reading.take(&self.units, line.number, name, value),
                        None => reading.take(&self.units, line.number, "", value.trim_start_matches("value ")),
                    }
                }
            }
            Some(DumpLine::Instance { name, value }) => {
                if let Some(reading) = &mut self.reading {
                    reading.take(&self.units, line.number, name, value);
                }
            }
            Some(DumpLine::Title | DumpLine::Kind) | None => {}
        }
        Ok(())
    }

    fn begin_reading(&mut self, line: &TextLine, at: PrintedTime, metrics: usize) {
        /// Metrics that are logged at the same interval are fetched in several parts, shortly after each other: they are one
        /// reading.
        const AT_ONCE: f64 = 0.05;
        let after = self.begin.and_then(|begin| at.since(begin)).unwrap_or(0.0);
        // Without dates, times pass midnight.
        let after = if at.date.is_none() && after < 0.0 { after + clock::DAY } else { after };
        let is_at_once = after >= self.elapsed && after - self.elapsed < AT_ONCE;
        let elapsed = if is_at_once { self.elapsed } else { after };
        // Metrics that are logged only once come first, and must not lengthen the first interval.
        if is_at_once && elapsed == 0.0 && self.begin.is_some() {
            self.begin = Some(at);
        }
        self.reading = Some(Reading {
            title: line.clone(),
            at,
            elapsed,
            metrics,
            found: 0,
            metric: String::new(),
            values: BTreeMap::new(),
            processors: None,
            mount_points: BTreeMap::new(),
        });
    }

    fn end_reading(&mut self, lines: &mut Lines<'_>, run: &mut ToolRun) -> ReadResult {
        let Some(mut reading) = self.reading.take() else { return Ok(()) };
        let is_later = self.begin.is_none() || reading.elapsed >= self.elapsed;
        if reading.found != reading.metrics || !is_later {
            let expected = format!("a reading of {} metrics, later than the one before", reading.metrics);
            let refusal = lines.refuse_at(&reading.title, expected);
            return lines.keep(Err::<(), _>(refusal)).map(|_| ());
        }
        if reading.values.is_empty() {
            return Ok(());
        }
        if self.begin.is_none() {
            (self.begin, reading.elapsed) = (Some(reading.at), 0.0);
            run.start = reading.at;
            if let Some(host) = run.host.clone() {
                run.row::<MachineInfo>(0.0, reading.title.number, MachineKey).name = host.into();
            }
        }
        self.elapsed = reading.elapsed;
        self.readings += 1;
        for values in reading.values.values() {
            self.processors = values.number("ncpu").or(self.processors);
        }
        for ((_, device), values) in &reading.values {
            if let Some(point) = values.text("mountdir") {
                self.mount_points.insert(device.clone(), point.to_owned());
            }
        }
        reading.processors = self.processors;
        reading.mount_points.clone_from(&self.mount_points);
        for ((group, thing), values) in &reading.values {
            (GROUPS[*group].record)(run, &reading, thing, values);
        }
        Ok(())
    }

    /// Ends a part without interruption. Counters may have restarted after it, so only one part is read.
    fn end_part(&mut self, run: &mut ToolRun) {
        let readings = std::mem::take(&mut self.readings);
        (self.begin, self.elapsed) = (None, 0.0);
        let part = std::mem::replace(run, ToolRun::new(run.tool, &run.file));
        (run.host, run.line) = (part.host.clone(), part.line);
        if readings == 0 {
            return;
        }
        let Some((most, longest)) = self.longest.take() else {
            self.longest = Some((readings, part));
            return;
        };
        let (most, mut longest, left_out) =
            if readings > most { (readings, part, most) } else { (most, longest, readings) };
        let what = format!("{left_out} readings before or after an interruption");
        let why = "the recording was interrupted, and the machine may have been rebooted: the longest part is read";
        longest.note(&what, why, "give a part of the archive: pmlogextract -S START -T END ARCHIVE NEW");
        self.longest = Some((most, longest));
    }
}

impl Reading {
    /// Takes a value of the current metric.
    fn take(&mut self, units: &HashMap<String, f64>, line: u32, instance: &str, value: &str) {
        let Some((group, name)) = group_of(&self.metric) else { return };
        let Some(unit) = units.get(&self.metric) else { return };
        let (thing, name) = match (GROUPS[group].has_things, instance) {
            (true, "") | (false, "") => (String::new(), name.to_owned()),
            (true, thing) => (thing.to_owned(), name.to_owned()),
            (false, instance) => (String::new(), format!("{name} {instance}")),
        };
        let number = value.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        if number.is_none() && !is_text(value) {
            return;
        }
        let values = self.values.entry((group, thing)).or_default();
        if values.line == 0 {
            values.line = line;
        }
        values.last_line = line;
        match number {
            Some(number) => values.numbers.push((name, number * unit)),
            None => values.texts.push((name, value[1..value.len() - 1].to_owned())),
        }
    }
}

/// Returns the first of a metric's names that is in a group.
fn first_known(names: &str) -> &str {
    let is_known = |name: &&str| group_of(name).is_some();
    names.split(" or ").find(is_known).unwrap_or(names)
}

/// Returns the group of a metric, and its name there.
fn group_of(metric: &str) -> Option<(usize, &str)> {
    GROUPS.iter().enumerate().find_map(|(at, group)| Some((at, metric.strip_prefix(group.prefix)?)))
}

fn cpu(run: &mut ToolRun, reading: &Reading, thing: &str, values: &Values) {
    if let Some(cpu) = thing.strip_prefix("cpu").and_then(|number| number.parse().ok()) {
        run.counts::<Cpu>(reading.elapsed, cpu, &values.row(), &CPU);
    }
}

/// Records the CPU mean; the times of all CPUs are sums.
fn cpu_mean(run: &mut ToolRun, reading: &Reading, _: &str, values: &Values) {
    let Some(processors) = reading.processors.filter(|count| *count >= 1.0) else { return };
    let numbers = values.numbers.iter().map(|(name, sum)| (name.clone(), sum / processors));
    let row = TableRow::new(values.line, "", numbers);
    run.counts::<CpuMean>(reading.elapsed, MachineKey, &row, &CPU_MEAN);
}

fn pressure(run: &mut ToolRun, reading: &Reading, _: &str, values: &Values) {
    run.counts::<Pressure>(reading.elapsed, MachineKey, &values.row(), &PRESSURE);
}

fn system(run: &mut ToolRun, reading: &Reading, _: &str, values: &Values) {
    run.counts::<System>(reading.elapsed, MachineKey, &values.row(), &SYSTEM);
}

/// Records metrics whose names and units are those of /proc/vmstat, whatever the description says.
fn paging(run: &mut ToolRun, reading: &Reading, _: &str, values: &Values) {
    let row = run.row::<Vmstat>(reading.elapsed, values.line, MachineKey);
    for (name, count) in &values.numbers {
        // A line with a name and a whole number can always be parsed.
        let _ = vmstat::take(&format!("{name} {count}"), row);
    }
}

/// Records swapping in pages, as in /proc/vmstat, which takes precedence if it was recorded.
fn swapping(run: &mut ToolRun, reading: &Reading, _: &str, values: &Values) {
    let count = |name: &str| values.number(name).map(|pages| pages as u64);
    let row = run.row::<Vmstat>(reading.elapsed, values.line, MachineKey);
    row.pswpin = row.pswpin.get().or(count("pagesin")).into();
    row.pswpout = row.pswpout.get().or(count("pagesout")).into();
}

fn memory(run: &mut ToolRun, reading: &Reading, _: &str, values: &Values) {
    run.counts::<Meminfo>(reading.elapsed, MachineKey, &values.row(), &MEMINFO);
}

fn disk(run: &mut ToolRun, reading: &Reading, thing: &str, values: &Values) {
    if !thing.is_empty() {
        run.counts::<Disk>(reading.elapsed, thing.into(), &values.row(), &DISK);
    }
}

/// Limit for speeds: an unknown speed, which is -1 in the kernel, is recorded as one of petabits.
const FASTEST: f64 = 1e13;

fn network_interface(run: &mut ToolRun, reading: &Reading, thing: &str, values: &Values) {
    if thing.is_empty() {
        return;
    }
    let row = values.row();
    run.counts::<Interface>(reading.elapsed, interface(thing), &row, &INTERFACE);
    if row.get("mtu").is_some() {
        let link = run.counts::<Link>(reading.elapsed, interface(thing), &row, &LINK);
        link.speed = link.speed.get().filter(|speed| *speed > 0.0 && *speed < FASTEST).into();
    }
}

fn softnet(run: &mut ToolRun, reading: &Reading, thing: &str, values: &Values) {
    if let Some(cpu) = thing.strip_prefix("cpu").and_then(|number| number.parse().ok()) {
        run.counts::<Softnet>(reading.elapsed, cpu, &values.row(), &SOFTNET);
    }
}

fn protocol(run: &mut ToolRun, reading: &Reading, _: &str, values: &Values) {
    run.counts::<Protocol>(reading.elapsed, interface("ip"), &values.row(), &PROTOCOL);
}

/// Records a process: `000812 /usr/sbin/mysqld --basedir=/usr`, `000012 (kswapd0)`, with its PID, and its command line or name.
fn task(run: &mut ToolRun, reading: &Reading, thing: &str, values: &Values) {
    let Some((pid, command)) = thing.split_once(' ') else { return };
    let Ok(pid) = pid.parse() else { return };
    let row = run.counts::<Process>(reading.elapsed, process(pid), &values.row(), &PROCESS);
    let first = command.split_whitespace().next().unwrap_or_default();
    let name = first.rsplit('/').next().unwrap_or_default().trim_matches(['(', ')']).trim_end_matches(':');
    row.command = values.text("psinfo.cmd").unwrap_or(name).into();
    if let Some(state) = values.text("psinfo.sname") {
        row.state = state.into();
    }
}

fn mount(run: &mut ToolRun, reading: &Reading, thing: &str, values: &Values) {
    let Some(point) = reading.mount_points.get(thing) else { return };
    let row = run.counts::<Mount>(reading.elapsed, point.as_str().into(), &values.row(), &MOUNT);
    row.device = thing.trim_start_matches("/dev/").into();
}

fn machine(run: &mut ToolRun, _: &Reading, _: &str, values: &Values) {
    let row = run.row::<MachineInfo>(0.0, values.line, MachineKey);
    if let Some(processors) = values.number("ncpu") {
        row.processors = processors.into();
    }
    if let Some(release) = values.text("release") {
        row.release = release.into();
    }
    if let Some(name) = values.text("nodename") {
        row.name = name.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, read_text, refusal_of, window_of};

    fn close(a: Option<f64>, b: f64) {
        assert!(a.is_some_and(|a| (a - b).abs() < 1e-4 * b), "{a:?} is not {b}");
    }

    #[test]
    fn counters_become_rates_in_base_units() {
        let window = window_of(&fixture("pmlogdump.txt"));
        // From 03:17:27.944045 to 03:17:37.944088.
        close(Some(window.seconds()), 10.000_043);
        let disks = window.changes::<Disk>();
        close(disks[0].rate(|d| d.writes), (79_239_619.0 - 78_499_751.0) / 10.0);
        close(disks[0].rate(|d| d.write_bytes), (626_550_016.0 - 624_415_764.0) * 1024.0 / 10.0);
        close(disks[0].rate(|d| d.weighted_time), (24_013_039.0 - 23_976_428.0) * 1e6 / 10.0);
        close(
            window.change::<Pressure>().unwrap().rate(|p| p.io_some),
            (2_523_321_234.0 - 2_515_760_276.0) * 1e3 / 10.0,
        );
        close(window.change::<Vmstat>().unwrap().rate(|v| v.pgpgout), (759_931_475.0 - 757_797_531.0) * 1024.0 / 10.0);
        // The mean of two CPUs.
        close(window.change::<CpuMean>().unwrap().rate(|c| c.idle), (12_459_600.0 - 12_458_280.0) / 2.0 * 1e6 / 10.0);
        assert_eq!(window.changes::<Cpu>().len(), 2);
        let machine = window.the::<MachineInfo>().unwrap();
        assert_eq!((machine.processors.get(), machine.release.get()), (Some(2.0), Some("6.18.44-fc-v669")));
        let first = &window.snapshots()[0];
        assert_eq!(first.the::<Meminfo>().unwrap().mem_available.get(), Some(23_667_904.0 * 1024.0));
        let mounts = window.newest::<Mount>();
        assert_eq!(mounts.values().next().unwrap().size.get(), Some(264_212_084.0 * 1024.0));
        let links = window.newest::<Link>();
        assert!(links.values().all(|link| link.speed.get().is_none()), "it is unknown");
    }

    #[test]
    fn processes_are_known_by_their_instances() {
        let window = window_of(&fixture("pmlogdump.txt"));
        let processes = window.newest::<Process>();
        let commands = processes.values().filter_map(|p| p.command.get()).filter(|command| *command == "dd");
        assert_eq!(commands.count(), 6);
    }

    /// Returns a dump of readings of one disk at these times, each with its number of metrics.
    fn dump(readings: &[(&str, usize, &str)]) -> String {
        let mut text = "PMID: 60.0.4 (disk.dev.read)\n    Data Type: 64-bit unsigned int  InDom: 60.1 0xf000001\n    \
            Semantics: counter  Units: count\n"
            .to_owned();
        for (time, metrics, value) in readings {
            text += &match metrics {
                0 => format!("\n{time}  <mark>\n"),
                _ => format!(
                    "\n{time} {metrics} metrics\n    60.0.4 (disk.dev.read): inst [0 or \"sda\"] value {value}\n"
                ),
            };
        }
        text
    }

    fn reads(text: &str) -> Vec<Option<f64>> {
        window_of(text).change::<Disk>().unwrap().steps(|d| d.reads).map(|(_, grown)| grown).collect()
    }

    #[test]
    fn without_dates_midnight_passes() {
        let text = dump(&[("23:59:50.000000", 1, "10"), ("00:00:00.000000", 1, "30"), ("00:00:10.000000", 1, "90")]);
        assert_eq!(reads(&text), [Some(20.0), Some(60.0)]);
        assert_eq!(window_of(&text).seconds(), 20.0);
    }

    #[test]
    fn a_reading_with_another_number_of_metrics_is_left_out() {
        let text = dump(&[("10:00:00.0", 1, "10"), ("10:00:10.0", 2, "30"), ("10:00:20.0", 1, "90")]);
        assert_eq!(refusal_of(&text).line, 8);
    }

    #[test]
    fn counters_are_not_compared_across_an_interruption() {
        let text = dump(&[
            ("10:00:00.0", 1, "10"),
            ("10:00:10.0", 1, "20"),
            ("10:00:11.0", 0, ""),
            ("10:05:00.0", 1, "900"),
            ("10:05:10.0", 1, "930"),
            ("10:05:20.0", 1, "990"),
        ]);
        assert_eq!(reads(&text), [Some(30.0), Some(60.0)]);
        let notes = window_of(&text).snapshots()[0].sources.iter().map(|s| s.tells.to_string()).collect::<Vec<_>>();
        assert!(notes.iter().any(|note| note.contains("2 readings before or after")), "{notes:?}");
    }

    #[test]
    fn a_metric_without_description_has_no_unit() {
        let text =
            dump(&[("10:00:00.0", 1, "10"), ("10:00:10.0", 1, "20")]).replace("disk.dev.read)\n", "disk.dev.write)\n");
        let captures = read_text(&text).unwrap();
        assert!(captures.iter().all(|capture| capture.window.newest::<Disk>().is_empty()));
    }

    #[test]
    fn lines_of_a_dump() {
        let metric = |names, value| Some(DumpLine::Metric { names, value });
        assert_eq!(
            DumpLine::parse("    60.28.156 (mem.x): No values returned!"),
            metric("mem.x", "No values returned!")
        );
        let named = Some(DumpLine::Instance { name: "000012 a \"b\" or c", value: "\"S\"" });
        assert_eq!(DumpLine::parse("   inst [12 or \"000012 a \"b\" or c\"] value \"S\""), named);
        for text in ["Thu Nov 26 03:17:27.9 2026 (0.000000) 1763000000 1 metric", "Thu Nov 26 03:17:27.9 2026 1 metric"]
        {
            let Some(DumpLine::Reading { at, metrics: Some(1) }) = DumpLine::parse(text) else { panic!("{text}") };
            assert!(at.date.is_some(), "{text}");
        }
        for damaged in ["2026 569 metrics", "inst [0 or \"a\"] value 1 inst [1 or \"b\"] value 2", "60.0.4 value 1"] {
            assert!(DumpLine::parse(damaged).is_none() && is_damaged(damaged), "{damaged}");
        }
    }
}
