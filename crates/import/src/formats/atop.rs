//! Parseable output of atop (`atop -P ALL`), and its raw logs, which this machine's own atop prints in this form.

use crate::prelude::*;
use std::collections::{BTreeMap, HashMap};
use whyslow_model::catalogue::{
    Cpu, CpuMean, Disk, Interface, MachineInfo, Meminfo, Pressure, Process, Protocol, System, Vmstat,
};

pub const FORMAT: Format = Format {
    name: "atop -P",
    versions: "atop 1.23 to 2.11: -P ALL or any labels, -Z; raw logs by this machine's own atop",
    shows: "CPU time by mode, pressure, memory, paging, requests and use of each disk, interfaces, and what each process uses and waits for",
    lacks: "the time that requests take in reads and writes; threads",
    programs: &[],
    files: &["atop_"],
    streamed: true,
    starts: |lines| {
        lines.next_is(|line| Sample::parse(line).is_some())
            || (lines.next_is(|line| line == RESET) && lines.peek(1).is_some_and(|line| Sample::parse(line).is_some()))
    },
    read,
    ..Format::NEW
};

/// Line before values since boot.
const RESET: &str = "RESET";
/// Line between two samples.
const SEPARATOR: &str = "SEP";
/// Labels of lines.
const LABELS: [&str; 24] = [
    "CPU", "cpu", "CPL", "GPU", "MEM", "SWP", "PAG", "PSI", "LVM", "MDD", "DSK", "NFM", "NFC", "NFS", "NET", "IFB",
    "LLC", "NUM", "NUC", "PRG", "PRC", "PRE", "PRM", "PRD",
];
/// Minimum number of fields of a CPU, up to its steal time; newer versions have more.
const CPU_FIELDS: usize = 10;
/// Label of the network use of processes, with netatop.
const PROCESS_NETWORK: &str = "PRN";

/// A line such as `DSK vm 1795640798 2026/11/25 21:06:38 2 vda 64 118 2392 1388 7400 2 16 0 1.41`.
struct Sample<'t> {
    label: &'t str,
    host: &'t str,
    /// Seconds since 1970.
    epoch: f64,
    at: PrintedTime,
    seconds: f64,
    rest: &'t str,
}

impl<'t> Sample<'t> {
    fn parse(line: &'t str) -> Option<Self> {
        let (label, mut rest) = line.split_once(' ')?;
        (LABELS.contains(&label) || label == PROCESS_NETWORK).then_some(())?;
        let mut next = || {
            let (field, after) = rest.split_once(' ')?;
            rest = after;
            Some(field)
        };
        let (host, epoch, date, time, seconds) = (next()?, next()?, next()?, next()?, next()?);
        let time = clock::time_of_day(&[time])?.0;
        let at = PrintedTime::new(Some(clock::date(&date.replace('/', "-"))?), time);
        let (epoch, seconds) = (number(epoch)?, number(seconds)?);
        (epoch > 1e8 && seconds > 0.0).then_some(Self { label, host, epoch, at, seconds, rest })
    }
}

impl Sample<'_> {
    /// Returns the kind of the line. Lines of one kind have the same number of fields; the network's layers and its interfaces
    /// are two kinds.
    fn kind(&self) -> String {
        let is_of_layer = self.label == "NET" && self.rest.starts_with("upper ");
        format!("{}{}", self.label, if is_of_layer { " upper" } else { "" })
    }

    /// Returns the number of fields, where the name of a process counts as one.
    fn count(&self) -> usize {
        let rest = if self.label.starts_with("PR") {
            process_fields(self.rest).map_or("", |(.., rest)| rest)
        } else {
            self.rest
        };
        rest.split_whitespace().count()
    }
}

/// Fields of a line, by position; atop prints -1 for a missing number.
struct Fields<'t>(Vec<&'t str>);

impl Fields<'_> {
    fn get(&self, at: usize) -> Option<f64> {
        number(self.0.get(at)?)
    }

    /// Returns the value as a rate over an interval.
    fn rate(&self, at: usize, seconds: f64, unit: f64) -> Option<f64> {
        self.get(at).map(|value| value * unit / seconds)
    }
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let beginning = Beginning::from_lines(lines);
    let mut is_since_boot = beginning.is_since_boot;
    let mut counts = beginning.counts;
    let mut refused = lines.refused();
    let mut last = 0.0;
    let mut is_empty = true;
    let mut begin: Option<f64> = None;
    let is_own = |text: &str| text == RESET || text == SEPARATOR || Sample::parse(text).is_some();
    let is_damaged = |text: &str| text.split_whitespace().next().is_some_and(|label| LABELS.contains(&label));
    while let Some(line) = lines.take_own(is_own, is_damaged, EXPECTED)? {
        match line.text.as_str() {
            RESET => is_since_boot = true,
            SEPARATOR => is_since_boot = false,
            text => {
                let Some(sample) = Sample::parse(text) else { continue };
                // A sample since boot only marks the beginning of the next one.
                let length = if is_since_boot { 0.0 } else { sample.seconds };
                let begin = *begin.get_or_insert_with(|| {
                    run.start = PrintedTime { time: sample.at.time.map(|at| (at - length).max(0.0)), ..sample.at };
                    run.host = Some(sample.host.into());
                    run.row::<MachineInfo>(0.0, line.number, MachineKey).name = sample.host.into();
                    sample.epoch - length
                });
                let to = sample.epoch - begin;
                if !is_since_boot && to - sample.seconds > -0.5 {
                    let interval = ReportInterval { from: (to - sample.seconds).max(0.0), to };
                    is_empty = false;
                    // A damaged line belongs to this sample or to the previous one.
                    if lines.refused() > refused {
                        refused = lines.refused();
                        run.lose_row(to);
                        run.lose_row(last);
                    }
                    last = to;
                    // All rows of a label have the same number of fields.
                    let count = sample.count();
                    if *counts.entry(sample.kind()).or_insert(count) != count {
                        run.lose_row(to);
                        lines.leave_out_line(&line, EXPECTED)?;
                    } else {
                        record(run, line.number, interval, &sample);
                    }
                }
            }
        }
        lines.reuse(line);
    }
    if is_empty {
        run.note(
            "atop",
            "its only sample covers the time since boot",
            "give the whole log, or an interval: atop -P ALL 5 3",
        );
    }
    Ok(())
}

const EXPECTED: &str = "as many fields as other lines with this label have";

/// Findings from the first lines.
struct Beginning {
    is_since_boot: bool,
    /// Most common number of fields, by label.
    counts: HashMap<String, usize>,
}

impl Beginning {
    fn from_lines(lines: &mut Lines<'_>) -> Self {
        /// Number of lines to look at, and factor beyond which a first interval that is longer than others covers the time
        /// since boot.
        const MOST: usize = 2000;
        const TIMES: f64 = 10.0;
        let mut seen: HashMap<String, BTreeMap<usize, usize>> = HashMap::new();
        let (mut first, mut shortest) = (None, f64::INFINITY);
        for text in (0..MOST).map_while(|at| lines.peek(at).map(str::to_owned)) {
            let Some(sample) = Sample::parse(&text) else { continue };
            first.get_or_insert(sample.seconds);
            shortest = shortest.min(sample.seconds);
            *seen.entry(sample.kind()).or_default().entry(sample.count()).or_default() += 1;
        }
        let most_common = |counts: BTreeMap<usize, usize>| counts.into_iter().max_by_key(|(_, often)| *often);
        let counts = seen.into_iter().filter_map(|(label, counts)| Some((label, most_common(counts)?.0))).collect();
        // A first interval that is much longer than others lost the RESET line before it.
        Self { is_since_boot: first.is_some_and(|first| first > TIMES * shortest), counts }
    }
}

fn record(run: &mut ToolRun, line: u32, interval: ReportInterval, sample: &Sample<'_>) {
    if sample.label.starts_with("PR") {
        return process_line(run, line, interval, sample);
    }
    let fields = Fields(sample.rest.split_whitespace().collect());
    let name = || fields.0.first().copied().unwrap_or_default();
    let seconds = interval.seconds();
    let rate = |at: usize, unit: f64| fields.rate(at, seconds, unit);
    if matches!(sample.label, "CPU" | "cpu") && fields.0.len() < CPU_FIELDS {
        run.lose_row(interval.to);
        return run.note("atop", "rows of CPUs were cut", "give them as they were printed");
    }
    match sample.label {
        "CPU" => {
            if let Some(count) = fields.get(1).filter(|count| *count >= 1.0) {
                run.row::<MachineInfo>(0.0, line, MachineKey).processors = count.into();
                run.grow::<CpuMean>(interval, line, MachineKey, &modes(&fields, seconds * count));
            }
        }
        "cpu" => {
            if let Some(cpu) = fields.0.get(1).and_then(|n| n.parse::<u32>().ok()) {
                run.grow::<Cpu>(interval, line, cpu, &modes(&fields, seconds));
            }
        }
        "CPL" => {
            let rates = [("context_switches", rate(4, 1.0)), ("interrupts", rate(5, 1.0))];
            let system = run.grow::<System>(interval, line, MachineKey, &rates);
            system.load_1m = fields.get(1).into();
            system.load_5m = fields.get(2).into();
            system.load_15m = fields.get(3).into();
        }
        "MEM" | "SWP" => memory(run.row::<Meminfo>(interval.to, line, MachineKey), sample.label, &fields),
        "PAG" => {
            let rates = [("pswpin", rate(4, 1.0)), ("pswpout", rate(5, 1.0))];
            run.grow::<Vmstat>(interval, line, MachineKey, &rates);
        }
        "PSI" if name() == "y" => {
            const NS_PER_US: f64 = 1e3;
            let totals = [("cpu_some", 4), ("memory_some", 8), ("memory_full", 12), ("io_some", 16), ("io_full", 20)];
            let rates = totals.map(|(metric, at)| (metric, rate(at, NS_PER_US)));
            run.grow::<Pressure>(interval, line, MachineKey, &rates);
        }
        "DSK" | "MDD" | "LVM" => {
            let rates = [
                ("busy_time", rate(1, NS_PER_MS)),
                ("reads", rate(2, 1.0)),
                ("read_bytes", rate(3, SECTOR)),
                ("writes", rate(4, 1.0)),
                ("write_bytes", rate(5, SECTOR)),
                // Since version 2.7: mean number of requests in flight while the device was busy.
                ("weighted_time", fields.get(9).zip(rate(1, NS_PER_MS)).map(|(depth, busy)| depth * busy)),
            ];
            run.grow::<Disk>(interval, line, name().into(), &rates).in_flight = fields.get(8).map(|n| n as u64).into();
        }
        "NET" if name() == "upper" => {
            let rates = [
                ("tcp_in_segs", rate(1, 1.0)),
                ("tcp_out_segs", rate(2, 1.0)),
                ("udp_in_datagrams", rate(3, 1.0)),
                ("udp_out_datagrams", rate(4, 1.0)),
                ("ip_in_receives", rate(5, 1.0)),
            ];
            run.grow::<Protocol>(interval, line, interface("ip"), &rates);
        }
        "NET" => {
            let rates = [
                ("rx_packets", rate(1, 1.0)),
                ("rx_bytes", rate(2, 1.0)),
                ("tx_packets", rate(3, 1.0)),
                ("tx_bytes", rate(4, 1.0)),
            ];
            run.grow::<Interface>(interval, line, interface(name()), &rates);
        }
        _ => {}
    }
}

/// Returns the CPU time by mode, as a share of all ticks in this many seconds.
fn modes(fields: &Fields<'_>, seconds: f64) -> [(&'static str, Option<f64>); 8] {
    let ticks = fields.get(0).filter(|ticks| *ticks > 0.0);
    ["system", "user", "nice", "idle", "iowait", "irq", "softirq", "steal"].map({
        let mut at = 1;
        move |mode| {
            at += 1;
            (mode, fields.get(at).zip(ticks).map(|(used, ticks)| used / ticks / seconds * SECOND))
        }
    })
}

fn memory(row: &mut Meminfo, label: &str, fields: &Fields<'_>) {
    let Some(page) = fields.get(0) else { return };
    let pages = |at: usize| fields.get(at).map(|pages| pages * page);
    if label == "SWP" {
        (row.swap_total, row.swap_free) = (pages(1).into(), pages(2).into());
        return;
    }
    row.mem_total = pages(1).into();
    row.mem_free = pages(2).into();
    row.cached = pages(3).into();
    row.buffers = pages(4).into();
    row.slab = pages(5).into();
    row.dirty = pages(6).into();
    row.s_reclaimable = pages(7).into();
    row.shmem = pages(9).into();
}

/// Splits the fields of a process into its PID, its name and the fields after its state: `812 (my sql) S 100 …`; with -Z
/// without brackets.
fn process_fields(rest: &str) -> Option<(u32, &str, &str)> {
    let (pid, rest) = rest.split_once(' ')?;
    let (name, rest) = match rest.strip_prefix('(') {
        // A name may contain brackets; a state is one letter.
        Some(rest) => rest.match_indices(") ").find_map(|(at, _)| {
            let after = &rest[at + 2..];
            (after.starts_with(|c: char| c.is_ascii_uppercase()) && after.as_bytes().get(1) == Some(&b' '))
                .then_some((&rest[..at], after))
        })?,
        None => rest.split_once(' ')?,
    };
    Some((pid.parse().ok()?, name, rest.split_once(' ')?.1))
}

fn process_line(run: &mut ToolRun, line: u32, interval: ReportInterval, sample: &Sample<'_>) {
    let Some((pid, name, rest)) = process_fields(sample.rest) else { return };
    let fields = Fields(rest.split_whitespace().collect());
    let is_process = |at: usize| fields.0.get(at) == Some(&"y");
    let seconds = interval.seconds();
    let rate = |at: usize, unit: f64| fields.rate(at, seconds, unit);
    match sample.label {
        "PRC" if is_process(10) => {
            let ticks = fields.get(0).filter(|ticks| *ticks > 0.0);
            let time = |at: usize| rate(at, SECOND).zip(ticks).map(|(used, ticks)| used / ticks);
            // Nanoseconds, since version 2.6.
            let rates = [("user", time(1)), ("system", time(2)), ("run_delay", rate(11, 1.0))];
            run.grow::<Process>(interval, line, process(pid), &rates).command = name.into();
        }
        "PRM" if is_process(13) => {
            let row = run.row::<Process>(interval.to, line, process(pid));
            row.rss = fields.get(2).map(|kilobytes| kilobytes * KIB).into();
            row.swap = fields.get(11).map(|kilobytes| kilobytes * KIB).into();
            row.command = name.into();
        }
        "PRD" if is_process(9) && fields.0.get(1) == Some(&"y") => {
            let rates = [("read_bytes", rate(3, SECTOR)), ("write_bytes", rate(5, SECTOR))];
            run.grow::<Process>(interval, line, process(pid), &rates).command = name.into();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn samples_become_rates() {
        let window = window_of(&fixture("atop-P-ALL.txt"));
        assert_eq!(window.seconds(), 6.0);
        let close = |a: Option<f64>, b: f64| assert!((a.unwrap() - b).abs() < 0.001 * b.max(1.0), "{a:?} {b}");
        let disks = window.changes::<Disk>();
        let vda = &disks[0];
        close(vda.rate(|d| d.writes), WRITES / 6.0);
        close(vda.rate(|d| d.write_bytes), WRITTEN * SECTOR / 6.0);
        let cpus = window.change::<CpuMean>().unwrap();
        close(cpus.rate(|c| c.system), SYSTEM / 100.0 / 2.0 / 6.0 * SECOND);
        let processes = window.changes::<Process>();
        let python = processes.iter().find(|p| p.last().command.get() == Some("python3")).unwrap();
        close(python.rate(|p| p.write_bytes), SECTORS * SECTOR / 6.0);
        assert_eq!(python.last().rss.get(), Some(13_340.0 * KIB));
        assert_eq!(window.the::<MachineInfo>().unwrap().processors.get(), Some(2.0));
    }

    /// Sums over the three samples that cover an interval, for vda, all CPUs and python3.
    const WRITES: f64 = 4152.0;
    const WRITTEN: f64 = 22152.0;
    const SYSTEM: f64 = 224.0;
    const SECTORS: f64 = 11096.0;

    #[test]
    fn names_may_contain_brackets() {
        assert_eq!(process_fields("812 (a) b (c) S 100 2"), Some((812, "a) b (c", "100 2")));
        assert_eq!(process_fields("812 my_sql S 100 2"), Some((812, "my_sql", "100 2")));
        assert_eq!(process_fields("812 (x"), None);
    }

    #[test]
    fn a_single_sample_since_boot_is_no_rate() {
        let text = fixture("atop-P-ALL.txt");
        let window = window_of(text.split_once("SEP").unwrap().0);
        assert!(window.newest::<Disk>().is_empty());
        assert!(window.snapshots()[0].sources.iter().any(|source| source.tells.contains("atop")));
    }
}
