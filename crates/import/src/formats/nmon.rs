//! Files of nmon (`nmon -f`): one line for each report and snapshot, preceded by one with the names of its columns.
//!
//! Many people sort these files, as nmon itself advises. The times then come last, and the snapshots are placed by their
//! numbers and the interval at the beginning.

use crate::clock::{MONTHS, time_of_day};
use crate::prelude::*;
use crate::timeline::ReportClock;
use jiff::civil::Date;
use std::collections::{BTreeMap, HashMap};
use whyslow_model::catalogue::{Cpu, CpuMean, Disk, Interface, MachineInfo, Meminfo, Process, System, Vmstat};

pub const FORMAT: Format = Format {
    name: "nmon",
    versions: "nmon for Linux 11 to 16: CPU, MEM, VM, PROC, NET, DISK and TOP; sorted or not; of AIX only CPU and DISK",
    shows: "CPU time by mode, memory, paging, runnable tasks, use and throughput of each disk and interface, the processes that use most",
    lacks: "how long requests wait; the configuration at the beginning (BBBP) is not read",
    programs: &[program("nmon")],
    columns: &[&CPU, &MEMORY, &TASKS],
    streamed: true,
    starts: |lines| lines.next_is(|line| line.starts_with("AAA,") || Time::parse(line).is_some()),
    read,
    ..Format::NEW
};

const PERCENT: f64 = SECOND / 100.0;
const CPU: MetricColumns<CpuMean> = columns![
    "User%" => user * PERCENT, "Sys%" => system * PERCENT, "Wait%" => iowait * PERCENT, "Idle%" => idle * PERCENT,
    "Steal%" => steal * PERCENT,
];
const MEMORY: MetricColumns<Meminfo> = columns![
    "memtotal" => mem_total * MIB, "memfree" => mem_free * MIB, "buffers" => buffers * MIB, "cached" => cached * MIB,
    "active" => active * MIB, "inactive" => inactive * MIB, "swaptotal" => swap_total * MIB, "swapfree" => swap_free * MIB,
    "swapcached" => swap_cached * MIB, "memshared" => shmem * MIB,
];
/// Counts over each interval.
const PAGING: MetricColumns<Vmstat> = columns![
    "pgpgin" => pgpgin * KIB, "pgpgout" => pgpgout * KIB, "pswpin" => pswpin, "pswpout" => pswpout, "pgfault" => pgfault,
    "pgmajfault" => pgmajfault,
];
const TASKS: MetricColumns<System> = columns![
    "Blocked" => blocked, "pswitch" => context_switches, "fork" => forks,
];
/// Tolerance for the sum of rounded CPU shares.
const ROUNDING: f64 = 1.0;
/// Maximum length of a section, a word of capital letters, digits and underscores.
const LONGEST_SECTION: usize = 16;
const MOST_SECTIONS: usize = 4096;

/// `ZZZZ,T0002,21:06:39,25-NOV-2026`
struct Time {
    snapshot: u32,
    at: PrintedTime,
}

impl Time {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.trim_end().split(',');
        let (section, snapshot, time) = (fields.next()?, snapshot(fields.next()?)?, fields.next()?);
        let time = time_of_day(&[time])?.0;
        (section == "ZZZZ").then(|| Self { snapshot, at: PrintedTime::new(fields.next().and_then(date), time) })
    }
}

/// Parses `T0002`.
fn snapshot(field: &str) -> Option<u32> {
    let digits = field.strip_prefix('T')?;
    (digits.len() >= 4 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// Parses `25-NOV-2026`.
fn date(text: &str) -> Option<Date> {
    let mut parts = text.split('-');
    let (day, month, year) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?.parse().ok()?);
    let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))?;
    Date::new(year, i8::try_from(month + 1).ok()?, day).ok()
}

/// Returns true if a line belongs to such a file.
fn is_line(line: &str) -> bool {
    line.split_once(',').is_some_and(|(section, _)| {
        section.len() <= LONGEST_SECTION
            && section.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
            && section.starts_with(|c: char| c.is_ascii_uppercase())
    })
}

#[derive(Default)]
struct NmonFile {
    /// Column names of each section, without its title.
    headers: HashMap<String, Vec<String>>,
    interval: Option<f64>,
    start: PrintedTime,
    clock: ReportClock,
    /// Newest snapshot whose time was read, with its time, and the time of the previous snapshot.
    newest: Option<(u32, f64)>,
    before: Option<f64>,
}

impl NmonFile {
    /// Returns the interval that a snapshot covers. The first one covers a part of an interval.
    fn interval_of(&self, snapshot: u32) -> Option<ReportInterval> {
        match (self.newest, self.before) {
            (Some((newest, to)), Some(from)) if newest == snapshot && to > from => Some(ReportInterval { from, to }),
            (None, _) if snapshot > 1 => {
                let to = f64::from(snapshot - 1) * self.interval?;
                Some(ReportInterval { from: to - self.interval?, to })
            }
            _ => None,
        }
    }

    /// Returns the time of a snapshot.
    fn time_of(&self, snapshot: u32) -> Option<f64> {
        match self.newest {
            Some((newest, at)) => (newest == snapshot).then_some(at),
            None => Some(f64::from(snapshot.checked_sub(1)?) * self.interval?),
        }
    }

    fn general(&mut self, line: &str) {
        let mut fields = line.split(',').skip(1);
        match (fields.next(), fields.next()) {
            (Some("interval"), Some(value)) => self.interval = number(value).filter(|seconds| *seconds > 0.0),
            // The time has a dot before the seconds: `21:06.36`.
            (Some("time"), Some(value)) => self.start.time = time_of_day(&[&value.replace('.', ":")]).map(|(at, _)| at),
            (Some("date"), Some(value)) => self.start.date = date(value),
            _ => {}
        }
    }

    fn timed(&mut self, time: &Time, line: u32, run: &mut ToolRun) {
        if time.at.time.is_some() {
            self.start = if self.start.time.is_none() { time.at } else { self.start };
            // The time of the previous snapshot may have been lost.
            let before = self.newest.filter(|(snapshot, _)| snapshot.checked_add(1) == Some(time.snapshot));
            self.before = before.map(|(_, at)| at);
            let elapsed = run.note_clock(self.clock.read(time.at, self.interval), line);
            self.newest = Some((time.snapshot, elapsed));
        }
    }
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    run.lists_all = true;
    let mut file = NmonFile::default();
    while let Some(line) = lines.take_if(is_line) {
        let fields: Vec<&str> = line.text.trim_end().split(',').collect();
        let (section, second) = (fields[0], fields.get(1).copied().unwrap_or_default());
        if section == "AAA" {
            file.general(&line.text);
            machine(run, line.number, second, fields.get(2).copied().unwrap_or_default());
        } else if let Some(time) = Time::parse(&line.text) {
            file.timed(&time, line.number, run);
        } else if section == "TOP" {
            top(&mut file, run, line.number, &fields);
        } else if let Some(snapshot) = snapshot(second) {
            // If the last field holds more than a number, another line was joined.
            let is_joined = fields.last().is_some_and(|last| last.contains(' '));
            let names = file.headers.get(section).filter(|names| is_joined || names.len() != fields.len() - 2);
            if names.is_some() {
                lines.leave_out_line(&line, "as many numbers as the section has columns")?;
                continue;
            }
            row(&file, run, line.number, section, snapshot, &fields[2..]);
        } else if !section.starts_with("BBB") && file.headers.len() < MOST_SECTIONS {
            let names = fields.iter().skip(2).map(|name| (*name).to_owned()).collect();
            file.headers.insert(section.to_owned(), names);
        }
        lines.reuse(line);
    }
    run.start = if file.start.time.is_some() { file.start } else { run.start };
    Ok(())
}

fn machine(run: &mut ToolRun, line: u32, name: &str, value: &str) {
    match name {
        "host" => {
            run.host = Some(value.into());
            run.row::<MachineInfo>(0.0, line, MachineKey).name = value.into();
        }
        "cpus" => run.row::<MachineInfo>(0.0, line, MachineKey).processors = number(value).into(),
        _ => {}
    }
}

/// Returns the numbers of a snapshot by column name; nmon prints unknown values as -1 or -0.
fn table(line: u32, names: &[String], fields: &[&str]) -> TableRow {
    let numbers = names.iter().zip(fields).filter_map(|(name, field)| Some((name.clone(), number(field)?)));
    TableRow::new(line, "", numbers)
}

fn row(file: &NmonFile, run: &mut ToolRun, line: u32, section: &str, snapshot: u32, fields: &[&str]) {
    let Some(names) = file.headers.get(section).filter(|names| names.len() >= fields.len()) else { return };
    let (row, interval) = (table(line, names, fields), file.interval_of(snapshot));
    let by_name = || names.iter().zip(fields).filter_map(|(name, field)| Some((name.as_str(), number(field)?)));
    match (section, interval) {
        ("MEM", _) => {
            if let Some(at) = file.time_of(snapshot) {
                run.counts(at, MachineKey, &row, &MEMORY);
            }
        }
        ("CPU_ALL", Some(interval)) if is_whole(&row) => {
            run.rates(interval, MachineKey, &row, &CPU);
        }
        ("VM", Some(interval)) => {
            let mut row = row;
            row.scale(|_| true, 1.0 / interval.seconds());
            run.rates(interval, MachineKey, &row, &PAGING);
        }
        ("PROC", Some(interval)) => {
            let system = run.rates(interval, MachineKey, &row, &TASKS);
            // nmon itself runs while it counts.
            system.running = row.get("Runnable").map(|n| (n - 1.0).max(0.0)).into();
        }
        ("NET" | "NETPACKET", Some(interval)) => {
            let mut rates: BTreeMap<&str, Vec<(&'static str, Option<f64>)>> = BTreeMap::new();
            for (name, value) in by_name() {
                let Some((interface, metric, unit)) = network_column(name) else { continue };
                rates.entry(interface).or_default().push((metric, Some(value * unit)));
            }
            for (name, rates) in rates {
                run.grow::<Interface>(interval, line, interface(name), &rates);
            }
        }
        (section, Some(interval)) => {
            if let Some(cpu) = section.strip_prefix("CPU").and_then(|n| n.parse::<u32>().ok()?.checked_sub(1)) {
                if is_whole(&row) {
                    run.rates(interval, cpu, &row, &CPU.for_family::<Cpu>());
                }
            } else if let Some((metric, unit)) = disk_column(section) {
                for (name, value) in by_name() {
                    run.grow::<Disk>(interval, line, name.into(), &[(metric, Some(value * unit))]);
                }
            }
        }
        _ => {}
    }
}

/// Returns true if the shares add up to the whole: otherwise they are not under their names.
fn is_whole(row: &TableRow) -> bool {
    (CPU.sum(row) / PERCENT - 100.0).abs() <= ROUNDING
}

/// Returns the interface, metric and unit of `eth0-read-KB/s` or `eth0-write/s`.
fn network_column(name: &str) -> Option<(&str, &'static str, f64)> {
    [
        ("-read-KB/s", "rx_bytes", KIB),
        ("-write-KB/s", "tx_bytes", KIB),
        ("-read/s", "rx_packets", 1.0),
        ("-write/s", "tx_packets", 1.0),
    ]
    .into_iter()
    .find_map(|(end, metric, unit)| Some((name.strip_suffix(end)?, metric, unit)))
}

/// Returns the metric and unit of a section of disks. Many disks are spread over several sections: DISKREAD, DISKREAD1.
fn disk_column(section: &str) -> Option<(&'static str, f64)> {
    match section.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "DISKBUSY" => Some(("busy_time", PERCENT)),
        "DISKREAD" => Some(("read_bytes", KIB)),
        "DISKWRITE" => Some(("write_bytes", KIB)),
        "DISKXFER" => Some(("transfers", 1.0)),
        _ => None,
    }
}

/// Reads `TOP,0002345,T0002,12.3,10.0,2.3,size,rss,…,Command`, below `TOP,+PID,Time,%CPU,%Usr,%Sys,Size,ResSet,…,Command`.
fn top(file: &mut NmonFile, run: &mut ToolRun, line: u32, fields: &[&str]) {
    let Some(snapshot) = fields.get(2).and_then(|field| snapshot(field)) else {
        if fields.get(1) == Some(&"+PID") {
            file.headers.insert("TOP".to_owned(), fields[1..].iter().map(|name| (*name).to_owned()).collect());
        }
        return;
    };
    let Some((names, interval)) = file.headers.get("TOP").zip(file.interval_of(snapshot)) else { return };
    let field = |name: &str| names.iter().position(|own| own == name).and_then(|at| fields.get(at + 1)).copied();
    let Some(pid) = fields[1].parse().ok().filter(|_| fields.len() <= names.len() + 1) else { return };
    let share = |name: &str| field(name).and_then(number).map(|share| share * PERCENT);
    let rates = [("user", share("%Usr")), ("system", share("%Sys"))];
    let rss = field("ResSet").and_then(number).map(|kilobytes| kilobytes * KIB);
    let process = run.grow::<Process>(interval, line, process(pid), &rates);
    process.rss = rss.into();
    process.command = field("Command").into();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};
    use whyslow_model::window::Window;

    fn check(window: &Window) {
        // The second to the fifth snapshot: 8 s, without the 1797.4 kB/s of the first one.
        let disks = window.changes::<Disk>();
        let vda = disks.iter().find(|disk| &**disk.key() == "vda").unwrap();
        let close = |a: Option<f64>, b: f64| assert!((a.unwrap() - b).abs() < 0.001 * b.max(1.0), "{a:?} {b}");
        close(vda.rate(|d| d.write_bytes), (1837.6 + 1829.6 + 1863.6 + 1883.6) / 4.0 * KIB);
        close(vda.rate(|d| d.transfers), (690.8 + 689.4 + 700.9 + 706.9) / 4.0);
        close(vda.rate(|d| d.busy_time), (3.0 + 3.0 + 2.0 + 3.0) / 4.0 * PERCENT);
        let cpus = window.change::<CpuMean>().unwrap();
        close(cpus.rate(|c| c.system), (28.3 + 29.1 + 30.6 + 30.5) / 4.0 * PERCENT);
        close(window.change::<Vmstat>().unwrap().rate(|v| v.pgpgout), (3676.0 + 3660.0 + 3728.0 + 3768.0) / 8.0 * KIB);
        assert_eq!(window.the::<Meminfo>().unwrap().mem_free.get(), Some(5641.3 * MIB));
        assert_eq!(window.the::<System>().unwrap().running.get(), Some(2.0));
        assert_eq!(window.the::<MachineInfo>().unwrap().processors.get(), Some(2.0));
    }

    #[test]
    fn snapshots_become_rates() {
        check(&window_of(&fixture("nmon.txt")));
    }

    #[test]
    fn a_sorted_file_is_read_the_same() {
        let text = fixture("nmon.txt");
        // The names of the columns sort before the snapshots, except those of TOP.
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_by_key(|line| line.split(',').take(2).map(|f| f.replace('T', "~")).collect::<Vec<_>>());
        check(&window_of(&lines.iter().map(|line| format!("{line}\n")).collect::<String>()));
    }

    #[test]
    fn processes_are_read() {
        let text = "AAA,interval,10
TOP,%CPU Utilisation
TOP,+PID,Time,%CPU,%Usr,%Sys,Size,ResSet,ResText,ResData,ShdLib,MinorFault,MajorFault,Command
ZZZZ,T0001,10:00:00,02-JUN-2025
TOP,0000812,T0001,90.00,80.00,10.00,2048,1024,4,900,0,12,0,mysqld
ZZZZ,T0002,10:00:10,02-JUN-2025
TOP,0000812,T0002,50.00,45.00,5.00,2048,1024,4,900,0,12,0,mysqld
";
        let window = window_of(text);
        let changes = window.changes::<Process>();
        assert_eq!(changes[0].rate(|p| p.user), Some(0.45 * SECOND));
        assert_eq!(
            (changes[0].last().command.get(), changes[0].last().rss.get()),
            (Some("mysqld"), Some(1024.0 * KIB))
        );
    }
}
