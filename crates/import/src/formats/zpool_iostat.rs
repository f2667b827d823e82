//! zpool-iostat(8) of OpenZFS: reads and writes of pools and their devices, with -l also their latencies
//! (cmd/zpool/zpool_main.c). The first report covers the time since boot, except with -y.

use super::zpool::GROUPS;
use crate::lines::TextLine;
use crate::prelude::*;
use crate::report_intervals::ReportIntervals;
use std::collections::BTreeMap;
use whyslow_model::catalogue::Disk;

pub const FORMAT: Format = Format {
    name: "zpool iostat",
    versions: "OpenZFS 0.6 to 2.3, with -v, -l, -y, -p, -T; of pools where no devices are listed",
    shows: "reads and writes of each device, and with -l how long they took",
    lacks: "how busy a device is; which process",
    programs: &[partly_read("zpool")],
    files: &["zpool_iostat"],
    streamed: true,
    starts: |lines| {
        let title = usize::from(lines.next_is(is_time));
        lines.peek(title).is_some_and(is_title) && lines.peek(title + 1).is_some_and(is_header)
    },
    read,
    ..Format::NEW
};

/// Returns true for `              capacity     operations     bandwidth    total_wait     disk_wait    syncq_wait
/// asyncq_wait  scrub   trim`.
fn is_title(line: &str) -> bool {
    line.split_whitespace().take(3).eq(["capacity", "operations", "bandwidth"])
}

/// Returns true for `pool        alloc   free   read  write   read  write   read  write   read  write`.
fn is_header(line: &str) -> bool {
    line.split_whitespace().take(7).eq(["pool", "alloc", "free", "read", "write", "read", "write"])
}

fn is_rule(line: &str) -> bool {
    line.starts_with("---") && line.bytes().all(|b| b == b'-' || b == b' ')
}

/// Returns true for the time above each report: with -T d a date, with -T u seconds since 1970.
fn is_time(line: &str) -> bool {
    let is_number = |text: &str| text.len() == 10 && text.bytes().all(|b| b.is_ascii_digit());
    is_number(line.trim()) || clock::date_line(line).is_some()
}

/// Parses a time with its unit, or without unit in nanoseconds (-p). Returns nanoseconds. A dash means that nothing waited.
fn wait(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", NS_PER_MS), ("s", SECOND)];
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(unit));
    unit.map_or_else(|| number(text), |(unit, scale)| Some(number(text.strip_suffix(unit)?)? * scale))
}

/// Reads and writes of a pool or device per second, reads first.
struct Row {
    line: u32,
    is_pool: bool,
    operations: [f64; 2],
    bytes: [f64; 2],
    /// Latency of the disk per operation, if printed.
    waits: Option<[f64; 2]>,
}

impl Row {
    fn parse(line: &TextLine, has_waits: bool) -> Option<(String, Self)> {
        let fields: Vec<&str> = line.text.split_whitespace().collect();
        let [name, _, _, cells @ ..] = &fields[..] else { return None };
        let pair = |at: usize| Some([scaled(cells.get(at)?, KIB, 1.0)?, scaled(cells.get(at + 1)?, KIB, 1.0)?]);
        let operations = pair(0)?;
        // The latency of the disk follows the one that includes waiting in queues of ZFS. Without reads, there is no time for
        // them.
        let time = |direction: usize| match cells.get(6 + direction).copied() {
            Some("-") if operations[direction] < 1.0 => Some(0.0),
            text => wait(text?),
        };
        let waits = if has_waits { Some([time(0)?, time(1)?]) } else { None };
        let is_pool = !line.text.starts_with([' ', '\t']);
        Some((name.to_string(), Self { line: line.number, is_pool, operations, bytes: pair(2)?, waits }))
    }

    fn record(&self, name: &str, interval: ReportInterval, run: &mut ToolRun) {
        let time = |direction: usize| self.waits.map(|waits| waits[direction] * self.operations[direction]);
        let rates = [
            ("reads", Some(self.operations[0])),
            ("writes", Some(self.operations[1])),
            ("read_bytes", Some(self.bytes[0])),
            ("write_bytes", Some(self.bytes[1])),
            ("read_time", time(0)),
            ("write_time", time(1)),
            ("weighted_time", time(0).zip(time(1)).map(|(reads, writes)| reads + writes)),
        ];
        run.grow::<Disk>(interval, self.line, name.into(), &rates);
    }
}

/// Rows of a report by name.
type Report = BTreeMap<String, Row>;

fn record(report: &Report, interval: ReportInterval, run: &mut ToolRun) {
    let lists_devices = report.values().any(|row| !row.is_pool);
    for (name, row) in report.iter().filter(|(_, row)| row.is_pool != lists_devices) {
        row.record(name, interval, run);
    }
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut intervals = match context.command_of("zpool").is_some_and(|command| command.has('y')) {
        true => ReportIntervals::without_first(),
        false => ReportIntervals::since_boot().headed(context.prints_once("zpool")),
    };
    let mut next = |report: Report, run: &mut ToolRun| {
        for (report, interval) in intervals.next(report, None, context, run) {
            record(&report, interval, run);
        }
    };
    let mut has_waits = false;
    let mut report = Report::new();
    let is_frame = |text: &str| is_title(text) || is_header(text) || is_rule(text) || is_time(text);
    let is_own = |text: &str| {
        // Groups of logs and caches have only dashes.
        let fields: Vec<&str> = text.split_whitespace().collect();
        let is_row =
            fields.len() >= 7 && fields[1..7].iter().all(|cell| *cell == "-" || scaled(cell, KIB, 1.0).is_some());
        is_frame(text) || is_row && !is_command(text)
    };
    let is_damaged = |text: &str| {
        let mut cells = text.split_whitespace().skip(1);
        cells.next().zip(cells.next()).is_some_and(|(alloc, free)| {
            [alloc, free]
                .iter()
                .all(|cell| scaled(cell, KIB, 1.0).is_some() && cell.ends_with(['K', 'M', 'G', 'T', 'P']))
        })
    };
    while let Some(line) = lines.take_own(is_own, is_damaged, "a pool or device and its six numbers")? {
        if is_frame(&line.text) {
            has_waits = if is_title(&line.text) { line.text.contains("total_wait") } else { has_waits };
            continue;
        }
        let Some((name, row)) = Row::parse(&line, has_waits) else { continue };
        // The activity of a group is that of its devices.
        if !row.is_pool && GROUPS.iter().any(|group| name.starts_with(group)) {
            continue;
        }
        // A repeated name belongs to the next report.
        if report.contains_key(&name) {
            next(std::mem::take(&mut report), run);
        }
        report.insert(name, row);
    }
    if !report.is_empty() {
        next(report, run);
    }
    for (report, interval) in intervals.finish(context, run) {
        record(&report, interval, run);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn devices_of_a_pool_with_their_times() {
        let window = window_of(&fixture("layouts/zpool-iostat-vly.txt"));
        let changes = window.changes::<Disk>();
        let names: Vec<&str> = changes.iter().map(|change| &**change.key()).collect();
        assert_eq!(names, ["sda", "sdb", "sdc", "sdd"]);
        let slow = changes.iter().find(|change| &**change.key() == "sdc").unwrap();
        let rate = |metric: fn(&Disk) -> whyslow_model::value::Counter| slow.rate(metric).unwrap();
        assert_eq!((rate(|d| d.reads), rate(|d| d.writes)), (20.0, 31.0));
        assert_eq!(rate(|d| d.read_time).round(), 20.0 * 380.0 * NS_PER_MS);
    }

    #[test]
    fn times_between_reports_are_no_end() {
        let row = |reads: u32| format!("tank        27.1T  16.6T  {reads:>5}    228  2.05M  5.34M\n");
        let frame = "              capacity     operations     bandwidth \npool        alloc   free   read  write   read  write\n\
            ----------  -----  -----  -----  -----  -----  -----\n";
        let first = "Sun Nov 29 01:20:00 UTC 2026\n";
        let text =
            format!("$ zpool iostat -T d tank 5\n{first}{frame}{}{first}{}{first}{}", row(131), row(400), row(600));
        let window = window_of(&text);
        assert_eq!(window.changes::<Disk>()[0].rate(|d| d.reads), Some(500.0));
    }

    #[test]
    fn pools_where_no_devices_are_listed() {
        let text = "              capacity     operations     bandwidth \npool        alloc   free   read  write   read  write\n\
            ----------  -----  -----  -----  -----  -----  -----\ntank        27.1T  16.6T    131    228  2.05M  5.34M\n\
            tank        27.1T  16.6T     10  1.20K   100K  50.0M\n";
        let window = window_of(&format!("$ zpool iostat tank 5\n{text}"));
        let changes = window.changes::<Disk>();
        let [change] = &changes[..] else { panic!("{}", changes.len()) };
        assert_eq!((change.rate(|d| d.reads), change.rate(|d| d.writes)), (Some(10.0), Some(1.2 * KIB)));
        assert_eq!(change.rate(|d| d.read_time), None);
    }

    #[test]
    fn times_have_units() {
        let expected = [("71ms", 71e6), ("22us", 22e3), ("1.5s", 1.5e9), ("999ns", 999.0), ("12345", 12345.0)];
        expected.iter().for_each(|(text, ns)| assert_eq!(wait(text), Some(*ns), "{text}"));
        assert_eq!(wait("-"), None);
    }
}
