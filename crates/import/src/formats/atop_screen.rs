//! Screens of atop(1), as dumped by `atop -r LOG` or `atop 10 3 | cat`.

use crate::prelude::*;
use std::collections::BTreeMap;
use whyslow_model::catalogue::{
    Cpu, CpuMean, Disk, Interface, MachineInfo, Meminfo, Pressure, Process, System, Vmstat,
};

pub const FORMAT: Format = Format {
    name: "atop",
    versions: "atop 1.23 to 2.11: screens and their dump, of any width, of generic or disk process lists",
    shows: "CPU time by mode, pressure, memory, paging, requests and use of each disk, interfaces, and what each process uses",
    lacks: "how long requests take: avio is busy time by request; processes that the screen cut off",
    programs: &[program("atop")],
    files: &["atop-"],
    streamed: true,
    starts: |lines| lines.next_is(|line| Title::parse(line).is_some()),
    read,
    ..Format::NEW
};

const PERCENT: f64 = SECOND / 100.0;
const LABELS: [&str; 14] =
    ["PRC", "CPU", "cpu", "CPL", "MEM", "SWP", "PAG", "PSI", "DSK", "MDD", "LVM", "NET", "NFM", "NUM"];
/// Text below the values of the first report of a run.
const SINCE_BOOT: &str = "since Boot";
/// Tolerance: CPU shares are rounded to whole per cents.
const ROUNDING: f64 = 0.05;

/// `ATOP - vm      2026/11/25  21:06:38      -----------------      10s elapsed`
struct Title {
    host: String,
    at: PrintedTime,
    seconds: f64,
}

impl Title {
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.strip_prefix("ATOP - ")?.split_whitespace().collect();
        let [host, date, time, .., elapsed, "elapsed"] = words[..] else { return None };
        let date = clock::date(&date.replace('/', "-"))?;
        let at = PrintedTime::new(Some(date), clock::time_of_day(&[time])?.0);
        let seconds = duration(elapsed).filter(|seconds| *seconds > 0.0)?;
        Some(Self { host: host.to_owned(), at, seconds })
    }
}

/// Parses `2s`, `10m0s`, `3h39m38s`, `12d`, `73.41s`.
fn duration(text: &str) -> Option<f64> {
    let mut sum = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let unit = match rest.as_bytes()[end] {
            b'd' => 86_400.0,
            b'h' => 3600.0,
            b'm' => 60.0,
            b's' => 1.0,
            _ => return None,
        };
        sum += number(&rest[..end])? * unit;
        rest = &rest[end + 1..];
    }
    (!text.is_empty()).then_some(sum)
}

/// Parses a count, which is shortened if it does not fit: `12864e3`.
fn count(text: &str) -> Option<f64> {
    match text.split_once('e') {
        Some((digits, power)) => {
            Some(number(digits)? * 10_f64.powi(power.parse().ok().filter(|power| (0..=15).contains(power))?))
        }
        None => number(text),
    }
}

/// Parses a size: `23.5G`, `0B`, `704.0K`.
fn size(text: &str) -> Option<f64> {
    scaled(text.trim_end_matches('B'), KIB, 1.0)
}

/// A line: its label, and its fields by name, with the numbers as printed.
struct SystemLine<'t> {
    number: u32,
    label: &'t str,
    fields: Vec<(&'t str, &'t str)>,
}

impl<'t> SystemLine<'t> {
    /// Parses `DSK |          vda | busy     12% | read 12864e3 | avio 38.5 µs |`.
    fn parse(number: u32, line: &'t str) -> Option<Self> {
        let mut parts = line.split('|').map(str::trim);
        let label = parts.next().filter(|label| LABELS.contains(label))?;
        let field = |part: &'t str| part.split_once(' ').map_or((part, ""), |(name, value)| (name, value.trim()));
        let fields = parts.filter(|part| !part.is_empty()).map(field).collect::<Vec<_>>();
        (!fields.is_empty()).then_some(Self { number, label, fields })
    }

    /// Returns true if another line was joined to this one, or its name to the filler of the field.
    fn is_joined(&self) -> bool {
        let is_name_joined = self.name().is_some_and(|name| name.len() > 4 && name.ends_with("----"));
        is_name_joined || self.fields.iter().any(|(name, value)| LABELS.contains(name) && value.is_empty())
    }

    fn text(&self, name: &str) -> Option<&'t str> {
        self.fields.iter().find(|(own, _)| *own == name).map(|(_, value)| *value)
    }

    fn percent(&self, name: &str) -> Option<f64> {
        number(self.text(name)?.strip_suffix('%')?)
    }

    fn count(&self, name: &str) -> Option<f64> {
        count(self.text(name)?)
    }

    fn size(&self, name: &str) -> Option<f64> {
        size(self.text(name)?)
    }

    /// Returns the disk or interface, which is the first field.
    fn name(&self) -> Option<&'t str> {
        const VALUES: [&str; 8] = ["busy", "read", "write", "avio", "pcki", "pcko", "si", "so"];
        self.fields.first().map(|(name, _)| *name).filter(|name| !VALUES.contains(name))
    }
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut begin: Option<PrintedTime> = None;
    while let Some(line) = lines.take_past_blanks_if(|text| Title::parse(text).is_some()) {
        let Some(title) = Title::parse(&line.text) else { break };
        let mut system: Vec<(u32, String)> = Vec::new();
        let refused = lines.refused();
        // If lines end with a bar, one without it was cut.
        let has_bars = (0..2).any(|at| lines.peek(at).is_some_and(ends_with_bar));
        let is_own = |text: &str| {
            SystemLine::parse(0, text).is_some_and(|line| !line.is_joined()) && ends_with_bar(text) >= has_bars
        };
        while let Some(line) =
            lines.take_own(is_own, is_damaged, "a line of a screen: its label and fields between bars")?
        {
            system.push((line.number, line.text));
        }
        let is_damaged = lines.refused() > refused;
        let is_since_boot =
            lines.take_if(|text| text.contains(SINCE_BOOT)).is_some() || covers_much_more_than_next(lines, &title);
        let length = if is_since_boot { 0.0 } else { title.seconds };
        let begin = *begin.get_or_insert_with(|| {
            run.host = Some(title.host.as_str().into());
            run.row::<MachineInfo>(0.0, line.number, MachineKey).name = title.host.as_str().into();
            run.start = PrintedTime { time: title.at.time.map(|at| (at - length).max(0.0)), ..title.at };
            run.start
        });
        let to = title.at.since(begin).unwrap_or(0.0);
        // A screen that was scrolled back may be earlier than the one above it.
        let interval = Some(ReportInterval { from: (to - title.seconds).max(0.0), to });
        let interval = interval.filter(|interval| !is_since_boot && interval.seconds() > 0.0);
        let system: Vec<SystemLine<'_>> = system.iter().filter_map(|(n, text)| SystemLine::parse(*n, text)).collect();
        if let Some(interval) = interval {
            record(run, interval, &system);
            if is_damaged {
                run.lose_row(interval.to);
            }
        }
        processes(lines, run, interval)?;
    }
    Ok(())
}

fn ends_with_bar(text: &str) -> bool {
    text.trim_end().ends_with('|')
}

/// Returns true if a line was part of a screen: its label, or bars between fields, are left.
fn is_damaged(text: &str) -> bool {
    let label = text.split_whitespace().next();
    Title::parse(text).is_none()
        && (label.is_some_and(|label| LABELS.contains(&label)) || text.matches(" | ").count() > 1)
}

/// Returns true if a screen covers much more time than the next one: its mark was lost, and it covers the time since boot.
fn covers_much_more_than_next(lines: &mut Lines<'_>, title: &Title) -> bool {
    /// Maximum number of lines of a screen to search, and factor beyond which an interval is not just irregular.
    const MOST: usize = 300;
    const TIMES: f64 = 10.0;
    let next = (0..MOST).find_map(|at| lines.peek(at).and_then(Title::parse));
    next.is_some_and(|next| title.seconds > TIMES * next.seconds)
}

fn record(run: &mut ToolRun, interval: ReportInterval, lines: &[SystemLine<'_>]) {
    let seconds = interval.seconds();
    let cpus = lines.iter().find(|line| line.label == "CPU").and_then(|line| {
        let used = modes(line);
        let sum: f64 = used.iter().filter_map(|(_, percent)| *percent).sum();
        let cpus = (sum / 100.0).round();
        (cpus >= 1.0 && (sum / 100.0 - cpus).abs() <= ROUNDING * cpus).then_some(cpus)
    });
    for line in lines {
        let rate = |name: &str| line.count(name).map(|count| count / seconds);
        match line.label {
            "CPU" => {
                if let Some(cpus) = cpus {
                    let rates = modes(line).map(|(mode, percent)| (mode, percent.map(|p| p * PERCENT / cpus)));
                    run.grow::<CpuMean>(interval, line.number, MachineKey, &rates);
                    run.row::<MachineInfo>(0.0, line.number, MachineKey).processors = cpus.into();
                }
            }
            "cpu" => {
                // `cpu001 w  1%`
                let named = line.fields.iter().find_map(|(name, rest)| Some((name.strip_prefix("cpu")?, *rest)));
                let Some((cpu, waits)) = named.and_then(|(cpu, rest)| Some((cpu.parse::<u32>().ok()?, rest))) else {
                    run.lose_row(interval.to);
                    continue;
                };
                let waited = waits.strip_prefix('w').and_then(|w| number(w.trim().strip_suffix('%')?));
                let rates = modes(line).map(|(mode, percent)| {
                    (mode, if mode == "iowait" { waited } else { percent }.map(|percent| percent * PERCENT))
                });
                run.grow::<Cpu>(interval, line.number, cpu, &rates);
            }
            "CPL" => {
                let rates = [("context_switches", rate("csw")), ("interrupts", rate("intr"))];
                let row = run.grow::<System>(interval, line.number, MachineKey, &rates);
                row.load_1m = line.count("avg1").into();
                row.load_5m = line.count("avg5").into();
                row.load_15m = line.count("avg15").into();
            }
            "MEM" if line.text("tot").is_some() => {
                let row = run.row::<Meminfo>(interval.to, line.number, MachineKey);
                (row.mem_total, row.mem_free) = (line.size("tot").into(), line.size("free").into());
                (row.cached, row.buffers) = (line.size("cache").into(), line.size("buff").into());
                row.slab = line.size("slab").into();
            }
            "SWP" => {
                let row = run.row::<Meminfo>(interval.to, line.number, MachineKey);
                (row.swap_total, row.swap_free) = (line.size("tot").into(), line.size("free").into());
            }
            "PAG" => {
                let rates = [("pswpin", rate("swin")), ("pswpout", rate("swout"))];
                run.grow::<Vmstat>(interval, line.number, MachineKey, &rates);
            }
            "PSI" => {
                let names = [
                    ("cpu_some", "cpusome"),
                    ("memory_some", "memsome"),
                    ("memory_full", "memfull"),
                    ("io_some", "iosome"),
                    ("io_full", "iofull"),
                ];
                let rates = names.map(|(metric, name)| (metric, line.percent(name).map(|percent| percent * PERCENT)));
                run.grow::<Pressure>(interval, line.number, MachineKey, &rates);
            }
            "DSK" | "MDD" | "LVM" => {
                let Some(name) = line.name() else {
                    run.lose_row(interval.to);
                    continue;
                };
                let bytes = |name: &str| line.count(name).map(|rate| rate * MIB);
                let rates = [
                    ("busy_time", line.percent("busy").map(|percent| percent * PERCENT)),
                    ("reads", rate("read")),
                    ("writes", rate("write")),
                    ("read_bytes", bytes("MBr/s")),
                    ("write_bytes", bytes("MBw/s")),
                ];
                run.grow::<Disk>(interval, line.number, name.into(), &rates);
            }
            "NET" => {
                let Some(name) = line.name() else {
                    run.lose_row(interval.to);
                    continue;
                };
                if ["transport", "network"].contains(&name) {
                    continue;
                }
                let rates = [
                    ("rx_packets", rate("pcki")),
                    ("tx_packets", rate("pcko")),
                    ("rx_bytes", line.text("si").and_then(bits).map(|bits| bits / 8.0)),
                    ("tx_bytes", line.text("so").and_then(bits).map(|bits| bits / 8.0)),
                ];
                run.grow::<Interface>(interval, line.number, interface(name), &rates);
            }
            _ => {}
        }
    }
}

/// Returns CPU shares in per cent of one CPU. User time includes nice time, and irq time includes softirq time.
fn modes(line: &SystemLine<'_>) -> [(&'static str, Option<f64>); 6] {
    let names =
        [("system", "sys"), ("user", "user"), ("irq", "irq"), ("idle", "idle"), ("iowait", "wait"), ("steal", "steal")];
    names.map(|(mode, name)| (mode, line.percent(name)))
}

/// Parses `17 Mbps`, in steps of 1000.
fn bits(text: &str) -> Option<f64> {
    let (value, unit) = text.split_once(' ')?;
    let factor = match unit.trim() {
        "Kbps" => 1e3,
        "Mbps" => 1e6,
        "Gbps" => 1e9,
        _ => return None,
    };
    Some(number(value)? * factor)
}

/// Reads the list of processes below, whose columns depend on the screen.
fn processes(lines: &mut Lines<'_>, run: &mut ToolRun, interval: Option<ReportInterval>) -> ReadResult {
    let is_header = |text: &str| text.split_whitespace().next() == Some("PID") && text.contains("CMD");
    let Some(header) = lines.take_past_blanks_if(is_header) else { return Ok(()) };
    let names: Vec<String> = header.text.split_whitespace().map(str::to_owned).collect();
    // A row may have been joined to the header.
    if names.last().is_none_or(|name| name != "CMD") {
        interval.into_iter().for_each(|interval| run.lose_row(interval.to));
        lines.leave_out_line(&header, "the columns of processes, with CMD as the last")?;
    }
    let mut seen: BTreeMap<u32, u32> = BTreeMap::new();
    while let Some(line) = lines.take_if(|text| {
        text.split_whitespace().next().is_some_and(|pid| pid.parse::<u32>().is_ok()) && !text.contains('|')
    }) {
        let fields: Vec<&str> = line.text.split_whitespace().collect();
        // A command may contain spaces, and comes last.
        let Some(interval) = interval.filter(|_| names.last().is_some_and(|n| n == "CMD")) else { continue };
        // A row that was joined to it also begins with a process.
        let is_shifted = fields.get(names.len() - 1).is_some_and(|command| command.ends_with('%'));
        let is_joined = is_shifted
            || fields.len() >= 2 * names.len() - 1
                && fields.iter().skip(names.len()).any(|word| word.parse::<u32>().is_ok());
        if fields.len() < names.len() || is_joined {
            lines.leave_out_line(&line, format!("{} columns as in the header", names.len()))?;
            run.lose_row(interval.to);
            continue;
        }
        let field = |name: &str| names.iter().position(|own| own == name).and_then(|at| fields.get(at)).copied();
        let Some(pid) = field("PID").and_then(|pid| pid.parse().ok()) else { continue };
        // A thread has its own number, and a row below that of its process.
        if seen.insert(pid, line.number).is_some() {
            continue;
        }
        let time = |name: &str| field(name).and_then(duration).map(|used| used * SECOND / interval.seconds());
        let bytes = |name: &str| field(name).and_then(size).map(|bytes| bytes / interval.seconds());
        let rates = [
            ("user", time("USRCPU")),
            ("system", time("SYSCPU")),
            ("run_delay", time("RDELAY")),
            ("read_bytes", bytes("RDDSK")),
            ("write_bytes", bytes("WRDSK")),
        ];
        let row = run.grow::<Process>(interval, line.number, process(pid), &rates);
        row.command = fields[names.len() - 1..].join(" ").as_str().into();
        row.rss = field("RSIZE").and_then(size).into();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn reports_become_rates() {
        let window = window_of(&fixture("atop.txt"));
        assert_eq!(window.seconds(), 6.0);
        let close = |a: Option<f64>, b: f64| assert!((a.unwrap() - b).abs() < 0.001 * b.max(1.0), "{a:?} {b}");
        let disks = window.changes::<Disk>();
        close(disks[0].rate(|d| d.writes), WRITES / 6.0);
        let interfaces = window.changes::<Interface>();
        let lo = interfaces.iter().find(|i| *i.key().name == *"lo").unwrap();
        close(lo.rate(|i| i.rx_packets), PACKETS / 6.0);
        let idle = window.change::<CpuMean>().unwrap().rate(|c| c.idle);
        close(idle, IDLE / 100.0 / 2.0 / 3.0 * SECOND);
        assert_eq!(window.the::<MachineInfo>().unwrap().processors.get(), Some(2.0));
        assert_eq!(window.the::<Meminfo>().unwrap().mem_total.get(), Some(23.5 * GIB));
        let processes = window.changes::<Process>();
        let python = processes.iter().find(|p| p.last().command.get() == Some("python3")).unwrap();
        assert!(python.rate(|p| p.write_bytes).unwrap() > MIB / 2.0, "{python:?}");
    }

    const WRITES: f64 = 4152.0;
    const PACKETS: f64 = 159056.0;
    const IDLE: f64 = 395.0;

    #[test]
    fn durations_and_counts_are_shortened() {
        assert_eq!((duration("3h39m38s"), duration("73.41s"), duration("x")), (Some(13_178.0), Some(73.41), None));
        assert_eq!((count("12864e3"), count("1388"), count("1e99")), (Some(12_864e3), Some(1388.0), None));
        assert_eq!((size("23.5G"), size("0B")), (Some(23.5 * GIB), Some(0.0)));
        assert_eq!((bits("17 Mbps"), bits("17 Mb")), (Some(17e6), None));
    }

    #[test]
    fn the_report_since_boot_is_no_rate() {
        let text = fixture("atop.txt");
        let first = text.match_indices("ATOP - ").nth(1).unwrap().0;
        assert!(window_of(&text[..first]).newest::<Disk>().is_empty());
    }
}
