//! iostat(1) of sysstat 4 to 12: a report per interval, the first of which covers the time since boot.

use super::iostat_headerless;
use super::sysstat::{ALL_CPUS, DISK, check_shares, record_disk};
use crate::number::ran_together;
use crate::prelude::*;
use crate::report_intervals::ReportIntervals;
use crate::table::{
    TableHeader, is_cell, is_header, is_remark, is_sentence, take_header, take_header_of, take_row, take_row_of, words,
};
use std::collections::{BTreeSet, HashMap};

pub const FORMAT: Format = Format {
    name: "iostat",
    versions: "sysstat 4 to 12; basic, -x, -k, -m, -t, -c, -d, -y, -z, -s, -h, --human, --pretty; old and new columns; two-part tables; rows of -x without header if their numbers agree in one layout only",
    shows: "requests, sizes, queue, wait and utilization of each device; without PSI, requests in flight stand for waiting",
    lacks: "which process; who waits",
    programs: &[program("iostat")],
    files: &["iostat"],
    columns: &[&ALL_CPUS, &DISK],
    streamed: true,
    starts,
    read,
};

/// Columns of device tables that do not become metrics of their own.
const OTHER_COLUMNS: &str = "Device: Device tps Blk_dscd/s Blk_read Blk_wrtn Blk_dscd Blk_w+d kB_dscd/s kB_read kB_wrtn kB_dscd \
    kB_w+d MB_dscd/s MB_read MB_wrtn MB_dscd MB_w+d %rrqm %wrqm %drqm avgrq-sz areq-sz rareq-sz wareq-sz \
    dareq-sz await r_await w_await d_await f_await Blk_w+d/s kB_w+d/s MB_w+d/s sec/s kB/s MB/s rqm/s";
const LEAST_COLUMNS: usize = 3;
/// Maximum number of devices to remember.
const MOST_DEVICES: usize = 10_000;
const CPU_COLUMNS: &[&str] = &["avg-cpu:", "%user", "%nice", "%sys", "%system", "%iowait", "%steal", "%idle"];

fn is_device_column(name: &str) -> bool {
    DISK.has(name) || OTHER_COLUMNS.split(' ').any(|column| column == name)
}

/// Report of one interval.
#[derive(Default)]
pub struct IostatReport {
    pub when: Option<PrintedTime>,
    /// Line of the time.
    line: u32,
    /// All CPUs together.
    pub cpus: Option<TableRow>,
    pub devices: Vec<TableRow>,
    /// Position of each device's row.
    positions: HashMap<String, usize>,
    /// Columns of the devices so far.
    columns: BTreeSet<String>,
    /// Whether the row of a device was unreadable.
    is_row_lost: bool,
}

impl IostatReport {
    /// Creates a report that was not printed as text.
    pub fn new(when: Option<PrintedTime>, cpus: Option<TableRow>, devices: Vec<TableRow>) -> Self {
        Self { when, cpus, devices, ..Self::default() }
    }

    /// Adds a device's row, or the second part of it.
    fn add(&mut self, row: TableRow) {
        let position = *self.positions.entry(row.label().to_owned()).or_insert(self.devices.len());
        match self.devices.get_mut(position) {
            Some(first_part) => first_part.extend(row),
            None => self.devices.push(row),
        }
    }

    /// Returns true if its amounts belong to a longer time than the interval, at its rates.
    fn is_of_longer_time(&self, interval: ReportInterval) -> bool {
        const AMOUNTS: [(&str, &str); 6] = [
            ("kB_read/s", "kB_read"),
            ("kB_wrtn/s", "kB_wrtn"),
            ("Blk_read/s", "Blk_read"),
            ("Blk_wrtn/s", "Blk_wrtn"),
            ("MB_read/s", "MB_read"),
            ("MB_wrtn/s", "MB_wrtn"),
        ];
        /// Tolerance: times of reports are whole seconds.
        const SLACK: f64 = 2.0;
        let is_longer = |row: &TableRow, (rate, amount): &(&str, &str)| {
            let times = row.get(rate).zip(row.get(amount)).filter(|(rate, _)| *rate >= 1.0);
            times.is_some_and(|(rate, amount)| amount / rate > SLACK * interval.seconds() + SLACK)
        };
        self.devices.iter().any(|row| AMOUNTS.iter().any(|names| is_longer(row, names)))
    }

    pub fn record(&self, run: &mut ToolRun, interval: ReportInterval) {
        if let Some(row) = &self.cpus {
            run.rates(interval, MachineKey, row, &ALL_CPUS);
        }
        self.devices.iter().for_each(|row| record_disk(run, interval, row));
        if self.is_row_lost {
            run.lose_row(interval.to);
        }
    }
}

/// Header of a device table.
#[derive(Clone, Copy, Default)]
struct DeviceHeader {
    /// Number of time fields before it, as added by a filter such as ts(1).
    stamped: usize,
    /// Whether the device is the last column, as with -h and --pretty.
    device_last: bool,
}

/// Parses the header of a device table on a line; its last words may be on the next line.
fn device_header(line: &str, next: Option<&str>) -> Option<DeviceHeader> {
    let is_device = |name: &&str| ["Device:", "Device"].contains(name);
    let fields: Vec<&str> = line.split_whitespace().collect();
    let stamped = clock::time_of_day(&fields).map_or(0, |(_, taken)| taken);
    let names = fields.get(stamped..)?;
    if names.len() < LEAST_COLUMNS || !names.iter().all(|name| is_device_column(name)) {
        return None;
    }
    if is_device(names.first()?) {
        return Some(DeviceHeader { stamped, device_last: false });
    }
    let wrapped = || words(next.unwrap_or_default());
    let ends_with_device = is_device(names.last()?)
        || wrapped().iter().all(|name| is_device_column(name))
            && wrapped().last().is_some_and(|w| is_device(&w.as_str()));
    (stamped == 0 && ends_with_device).then_some(DeviceHeader { stamped, device_last: true })
}

fn is_cpu_header(line: &str) -> bool {
    line.trim_start().starts_with("avg-cpu:") && is_header(line, CPU_COLUMNS, 4)
}

/// Parses the line with which `-t` begins a report: `Time: 14:19:48`, a date and a time, or a time and a date if a filter put
/// the time before each line.
fn time_line(line: &str) -> Option<PrintedTime> {
    let line = line.trim().trim_start_matches("Time:");
    // `2026-11-25T19:15:07+0000`, if S_TIME_FORMAT is ISO.
    if line.contains('T') && !line.trim().contains(' ') {
        return clock::date_line(line);
    }
    let mut fields: Vec<&str> = line.split_whitespace().collect();
    let at = fields.iter().position(|f| clock::date(f).is_some());
    let date = at.and_then(|at| clock::date(fields.remove(at)));
    let (time, taken) = clock::time_of_day(&fields)?;
    (fields.len() == taken).then_some(PrintedTime::new(date, time))
}

/// Returns the header of a device table on the line `at` lines after the next one.
fn device_header_at(lines: &mut Lines<'_>, at: usize) -> Option<DeviceHeader> {
    // Checked first, since every line is tested.
    let line = lines.peek(at).filter(|line| line.contains("Device") || line.contains("/s "))?.to_owned();
    device_header(&line, lines.peek(at + 1))
}

fn is_own_header(lines: &mut Lines<'_>, at: usize) -> bool {
    lines.peek(at).is_some_and(is_cpu_header) || device_header_at(lines, at).is_some()
}

fn starts(lines: &mut Lines<'_>) -> bool {
    if lines.next_is(|first| time_line(first).is_some()) {
        let next = lines.peek_past_blanks(1).map(|(at, _)| at);
        return next.is_some_and(|at| is_own_header(lines, at));
    }
    is_own_header(lines, 0) || iostat_headerless::columns(lines).is_some()
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let header = iostat_headerless::columns(lines).map(|names| TableHeader::new(names, lines.number()));
    let mut reader = ReportReader {
        intervals: match context.command_of("iostat").is_some_and(|command| command.has('y')) {
            true => ReportIntervals::without_first(),
            false => ReportIntervals::since_boot(),
        },
        context,
        run,
        open: IostatReport::default(),
        header,
        layout: DeviceHeader::default(),
        date: context.day().date,
        devices: BTreeSet::new(),
    };
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        let text = text.to_owned();
        lines.skip(blanks);
        if let Some(when) = time_line(&text) {
            reader.next_report();
            reader.at(when, lines.number());
            lines.skip(1);
        } else if is_cpu_header(&text) {
            reader.cpus(lines)?;
        } else if let Some(layout) = device_header_at(lines, 0) {
            reader.header(lines, layout);
        } else if another_output_starts(lines, FORMAT.name) {
            break;
        } else if reader.is_row_at(lines, 0) {
            reader.row(lines)?;
        } else if reader.is_damaged_header(&text) && reader.goes_on(lines) {
            // The rows below it belong to another table.
            reader.header = None;
            lines.leave_out("a header of device columns")?;
        } else if reader.is_known_device(&text) && reader.goes_on(lines) {
            reader.open.is_row_lost = true;
            lines.leave_out("a device and a number in each of its columns")?;
        } else if is_remark(&text) && !is_sentence(&text) && reader.goes_on(lines) {
            lines.skip(1);
        } else {
            break;
        }
    }
    reader.next_report();
    end(reader.intervals, context, reader.run);
    Ok(())
}

/// Records the remaining reports.
pub fn end(intervals: ReportIntervals<IostatReport>, context: OutputContext<'_>, run: &mut ToolRun) {
    for (report, interval) in intervals.finish(context, run) {
        report.record(run, interval);
    }
    run.start.date = run.start.date.or(context.day().date);
}

struct ReportReader<'a> {
    intervals: ReportIntervals<IostatReport>,
    context: OutputContext<'a>,
    run: &'a mut ToolRun,
    open: IostatReport,
    header: Option<TableHeader>,
    layout: DeviceHeader,
    date: Option<jiff::civil::Date>,
    /// Devices with at least one row.
    devices: BTreeSet<String>,
}

impl ReportReader<'_> {
    fn next_report(&mut self) {
        if self.open.cpus.is_some() || !self.open.devices.is_empty() {
            let report = std::mem::take(&mut self.open);
            let when = report.when.map(|when| (when, report.line));
            for (report, interval) in self.intervals.next(report, when, self.context, self.run) {
                // iostat was restarted, and the report before this one was lost.
                if report.when.is_some() && report.is_of_longer_time(interval) {
                    self.run.lose_row(interval.to);
                } else {
                    report.record(self.run, interval);
                }
            }
        }
    }

    fn at(&mut self, when: PrintedTime, line: u32) {
        self.open.line = line;
        self.date = when.date.or(self.date);
        self.open.when = Some(PrintedTime { date: self.date, ..when });
    }

    fn cpus(&mut self, lines: &mut Lines<'_>) -> ReadResult {
        self.next_report();
        let header = take_header(lines, CPU_COLUMNS);
        let names = header.names[1..].into();
        if let Some((blanks, _)) = lines.peek_past_blanks(0) {
            lines.skip(blanks);
            let row = take_row(lines, &names, 0).and_then(|row| check_shares(lines.file(), header.line, row));
            self.open.cpus = lines.keep(row)?;
        }
        Ok(())
    }

    /// Takes a header. If the report already has one of its columns, the header begins the next report; otherwise it is the
    /// second part of this one.
    fn header(&mut self, lines: &mut Lines<'_>, layout: DeviceHeader) {
        let line = lines.number();
        let header = if layout.stamped == 0 {
            take_header_of(lines, is_device_column)
        } else {
            let text = lines.take().map(|l| l.text).unwrap_or_default();
            TableHeader::new(text.split_whitespace().skip(layout.stamped), line)
        };
        let columns = header.names.len() - 1;
        let names = if layout.device_last { header.names[..columns].into() } else { header.names[1..].into() };
        let header = TableHeader { names, line };
        if header.names.iter().any(|name| self.open.columns.contains(name)) {
            self.next_report();
        }
        self.layout = layout;
        self.header = Some(header);
    }

    /// Returns true if a line begins with a device that already had a row.
    fn is_known_device(&self, text: &str) -> bool {
        let first = text.split_whitespace().nth(self.layout.stamped);
        self.header.is_some() && first.is_some_and(|name| self.devices.contains(name))
    }

    /// Returns true if a line has names of columns but is not a header.
    fn is_damaged_header(&self, text: &str) -> bool {
        let is_name = |word: &str| word.contains("/s") || word.starts_with('%') || word.ends_with("_await");
        self.header.is_some() && text.split_whitespace().any(|word| is_device_column(word) && is_name(word))
    }

    /// Returns true if the output continues after the next line.
    fn goes_on(&self, lines: &mut Lines<'_>) -> bool {
        let Some(at) = lines.peek_past_blanks(1).map(|(at, _)| at) else { return false };
        is_own_header(lines, at) || self.is_row_at(lines, at)
    }

    /// Returns true if a row begins on the line `at` lines after the next one.
    fn is_row_at(&self, lines: &mut Lines<'_>, at: usize) -> bool {
        lines.peek(at).is_some_and(|text| self.is_row(text)) || self.is_broken_row_at(lines, at)
    }

    /// Returns true if a row spans several lines from there: one that a mail program broke, or, with -h of sysstat 9 to 11, one
    /// with the name on a line of its own.
    fn is_broken_row_at(&self, lines: &mut Lines<'_>, at: usize) -> bool {
        let Some(header) = &self.header else { return false };
        let cells = |fields: &[String]| fields.iter().all(|field| is_cell(field)).then_some(fields.len());
        let of_row = |text: &str| {
            let fields = words(text);
            let fields = fields.get(self.layout.stamped..)?;
            (!fields.is_empty() && !is_cell(&fields[0])).then(|| cells(&fields[1..])).flatten()
        };
        let Some(mut count) = lines.peek(at).and_then(of_row) else { return false };
        let mut next = at + 1;
        while count < header.names.len() {
            let more = lines.peek(next).and_then(|text| cells(&words(text))).filter(|more| *more > 0);
            let Some(more) = more else { return false };
            (count, next) = (count + more, next + 1);
        }
        count == header.names.len() && next > at + 1 && !self.layout.device_last
    }

    /// Returns true for a device's name followed by enough numbers to rule out anything else.
    fn is_row(&self, text: &str) -> bool {
        let Some(header) = &self.header else { return false };
        let fields: Vec<&str> = text.split_whitespace().skip(self.layout.stamped).collect();
        let is_name = |f: &&str| f.starts_with(|c: char| c.is_alphabetic() || c == '/') && !f.ends_with(':');
        let numbers = fields.iter().filter(|f| is_cell(f)).count();
        let enough = numbers * 3 >= header.names.len();
        if self.layout.device_last {
            let all = numbers == header.names.len() && fields.get(numbers).is_some_and(is_name);
            let wrapped = numbers == fields.len() && fields.len() <= header.names.len();
            return enough && (all || wrapped);
        }
        let wrapped = fields.len() == 1 && text.contains(['/', '-']);
        fields.first().is_some_and(is_name) && (enough || wrapped || fields.iter().any(|f| ran_together(f)))
    }

    fn row(&mut self, lines: &mut Lines<'_>) -> ReadResult {
        let names = self.header.as_ref().map(|h| h.names.clone()).unwrap_or_default();
        let row = take_row_of(lines, &names, self.layout.stamped + 1, self.layout.device_last);
        let Some(row) = lines.keep(row)? else {
            self.open.is_row_lost = true;
            return Ok(());
        };
        let seen = self.open.positions.get(row.label()).and_then(|at| self.open.devices.get(*at));
        // Without headers between reports, a repeated device marks the next report. This layout never omits headers, so it is
        // the next table.
        if seen.is_some_and(|first| first.has_any(&names)) {
            if self.layout.device_last {
                self.header = None;
                self.open.is_row_lost = true;
                let expected = "a header between two rows of a device";
                return lines
                    .keep(Err(Refusal::described(lines.file(), row.line, expected, "none")))
                    .map(|_: Option<()>| ());
            }
            self.next_report();
        }
        if !self.devices.contains(row.label()) && self.devices.len() < MOST_DEVICES {
            self.devices.insert(row.label().to_owned());
        }
        if self.layout.stamped > 0 {
            let fields: Vec<&str> = row.labels.iter().map(String::as_str).collect();
            if let Some((time, _)) = clock::time_of_day(&fields) {
                self.at(PrintedTime::of_day(time), row.line);
            }
        }
        if names.iter().any(|name| !self.open.columns.contains(name)) {
            self.open.columns.extend(names.iter().cloned());
        }
        self.open.add(row);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};
    use whyslow_model::catalogue::{CpuMean, Disk};

    fn rates(file: &str, device: &str) -> Vec<Option<f64>> {
        let window = window_of(&fixture(file));
        let changes = window.changes::<Disk>();
        let change = changes.iter().find(|change| **change.key() == *device).unwrap();
        let of: [fn(&Disk) -> whyslow_model::value::Counter; 6] =
            [|d| d.reads, |d| d.read_bytes, |d| d.writes, |d| d.write_bytes, |d| d.flushes, |d| d.busy_time];
        of.into_iter().map(|metric| change.rate(metric)).collect()
    }

    #[test]
    fn times_begin_a_report_in_any_format() {
        for time in ["Time: 19:15:07", "11/25/26 19:15:07", "2026-11-25T19:15:07+0000", "2026-11-25T19:15:07Z"] {
            assert_eq!(time_line(time).and_then(|when| when.time), Some(69_307.0), "{time}");
        }
    }

    fn are_close(found: &[Option<f64>], expected: &[f64]) {
        let close = |(found, want): (&Option<f64>, &f64)| found.is_some_and(|n| (n - want).abs() <= 0.01 * want);
        assert!(found.len() == expected.len() && found.iter().zip(expected).all(close), "{found:?} {expected:?}");
    }

    #[test]
    fn units_and_the_device_in_the_last_column() {
        let both = [300.0, 1.2 * MIB, (1050.0 + 1258.0) / 2.0, (2.6 + 2.8) / 2.0 * MIB, (696.0 + 893.5) / 2.0];
        let found = rates("iostat-h-x.txt", "loop0");
        are_close(&found[..5], &both);
        are_close(&found[5..], &[(0.636 + 0.5) / 2.0 * SECOND]);
        let window = window_of(&fixture("iostat-h-x.txt"));
        assert!((window.changes::<CpuMean>()[0].rate(|c| c.user).unwrap() / SECOND - 0.715).abs() < 0.001);
        let found = rates("iostat-h.txt", "vda");
        are_close(&[found[1], found[3]], &[(5.7 + 30.1) / 2.0 * MIB, (31.6 + 15.9) / 2.0 * MIB]);
    }

    #[test]
    fn units_and_the_device_in_the_first_column() {
        let found = rates("layouts/iostat-human.txt", "vda");
        assert!(found[1].is_some_and(|bytes| bytes > 0.0) && found[3].is_some(), "{found:?}");
    }

    #[test]
    fn headers_and_rows_that_a_mail_program_wrapped() {
        let clean = fixture("iostat-h.txt");
        let wrap = |line: &str| match line.rsplit_once(' ').filter(|_| line.len() > 80) {
            Some((first, last)) => format!("{first}\n{last}\n"),
            None => format!("{line}\n"),
        };
        let wrapped: String = clean.lines().map(wrap).collect();
        assert_ne!(clean, wrapped);
        let of =
            |text: &str| window_of(text).changes::<Disk>().iter().map(|c| c.rate(|d| d.read_bytes)).collect::<Vec<_>>();
        assert_eq!(of(&clean), of(&wrapped));
    }

    #[test]
    fn names_on_lines_of_their_own() {
        let text = "Device:            tps    kB_read/s    kB_wrtn/s    kB_read    kB_wrtn\nsda\n                 \
            10.00       100.00         8.00       1000        80\nsdb\n                 20.00       200.00         \
            8.00       2000        80\n";
        let rates: Vec<_> = window_of(text).changes::<Disk>().iter().map(|c| c.rate(|d| d.transfers)).collect();
        assert_eq!(rates, [Some(10.0), Some(20.0)]);
    }

    #[test]
    fn the_short_layout_has_no_sum_of_reads_and_writes() {
        let window = window_of(&fixture("layouts/iostat-x-s.txt"));
        let changes = window.changes::<Disk>();
        let change = changes.iter().find(|change| **change.key() == *"loop0").unwrap();
        are_close(&[change.rate(|d| d.transfers), change.rate(|d| d.busy_time)], &[1739.0, 0.596 * SECOND]);
        assert_eq!(change.rate(|d| d.write_bytes), None);
    }

    #[test]
    fn the_first_report_is_an_interval_with_y() {
        let text = |option: &str| {
            let report = |reads: u32| format!("\nDevice r/s w/s rkB/s wkB/s\nsda {reads}.00 0.00 40.00 0.00\n");
            format!("$ iostat -x{option} 2 2\n{}{}", report(100), report(50))
        };
        let reads = |text: &str| window_of(text).changes::<Disk>()[0].grown(|d| d.reads);
        assert_eq!((reads(&text("")), reads(&text("y"))), (Some(100.0), Some(300.0)));
    }
}
