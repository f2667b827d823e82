//! iostat(1) of sysstat 4 to 12: a report per interval, the first of which covers the time since boot.

use super::iostat_headerless;
use super::sysstat::{ALL_CPUS, DISK, check_shares, record_disk};
use crate::number::ran_together;
use crate::prelude::*;
use crate::report_intervals::ReportIntervals;
use crate::table::{TableHeader, is_header, is_remark, is_sentence, take_header, take_header_of, take_row};
use std::collections::{BTreeSet, HashMap};

pub const FORMAT: Format = Format {
    name: "iostat",
    versions: "sysstat 4 to 12; basic, -x, -k, -m, -t, -c, -d, -y, -z; old and new columns; two-part tables; rows of -x without header if their numbers agree in one layout only",
    shows: "requests, sizes, queue, wait and utilization of each device; without PSI, requests in flight stand for waiting",
    lacks: "which process; who waits",
    programs: &[program("iostat")],
    files: &["iostat"],
    columns: &[&ALL_CPUS, &DISK],
    streamed: true,
    starts,
    read,
};

/// The columns of device tables that become no metric of their own.
const OTHER_COLUMNS: &str = "Device: Device tps Blk_dscd/s Blk_read Blk_wrtn Blk_dscd Blk_w+d kB_dscd/s kB_read kB_wrtn kB_dscd \
    kB_w+d MB_dscd/s MB_read MB_wrtn MB_dscd MB_w+d %rrqm %wrqm %drqm avgrq-sz areq-sz rareq-sz wareq-sz \
    dareq-sz await r_await w_await d_await f_await";
const CPU_COLUMNS: &[&str] = &["avg-cpu:", "%user", "%nice", "%sys", "%system", "%iowait", "%steal", "%idle"];

fn is_device_column(name: &str) -> bool {
    DISK.has(name) || OTHER_COLUMNS.split(' ').any(|column| column == name)
}

/// The report of one interval.
#[derive(Default)]
pub struct IostatReport {
    pub when: Option<PrintedTime>,
    /// All CPUs together.
    pub cpus: Option<TableRow>,
    pub devices: Vec<TableRow>,
    /// The position of each device's row.
    positions: HashMap<String, usize>,
    /// The columns of the devices so far.
    columns: BTreeSet<String>,
}

impl IostatReport {
    /// A report that was not printed as text.
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

    pub fn record(&self, run: &mut ToolRun, interval: ReportInterval) {
        if let Some(row) = &self.cpus {
            run.rates(interval, MachineKey, row, &ALL_CPUS);
        }
        self.devices.iter().for_each(|row| record_disk(run, interval, row));
    }
}

/// How many fields of time, as added by a filter such as ts(1), precede a device table's header; `None` for other lines.
fn device_header(line: &str) -> Option<usize> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let stamp = clock::time_of_day(&fields).map_or(0, |(_, taken)| taken);
    let names = fields.get(stamp..)?;
    let known = matches!(names.first(), Some(&("Device:" | "Device"))) && names.iter().all(|n| is_device_column(n));
    (known && names.len() >= 3).then_some(stamp)
}

fn is_cpu_header(line: &str) -> bool {
    line.trim_start().starts_with("avg-cpu:") && is_header(line, CPU_COLUMNS, 4)
}

/// The line with which `-t` begins a report: `Time: 14:19:48`, a date and a time, or, where a filter put the time before
/// each line, a time and a date.
fn time_line(line: &str) -> Option<PrintedTime> {
    let mut fields: Vec<&str> = line.trim().trim_start_matches("Time:").split_whitespace().collect();
    let at = fields.iter().position(|f| clock::date(f).is_some());
    let date = at.and_then(|at| clock::date(fields.remove(at)));
    let (time, taken) = clock::time_of_day(&fields)?;
    (fields.len() == taken).then_some(PrintedTime { date, time: Some(time) })
}

fn is_own_header(line: &str) -> bool {
    is_cpu_header(line) || device_header(line).is_some()
}

fn starts(lines: &mut Lines<'_>) -> bool {
    if lines.next_is(|first| time_line(first).is_some()) {
        return lines.peek_past_blanks(1).is_some_and(|(_, line)| is_own_header(line));
    }
    lines.next_is(is_own_header) || iostat_headerless::columns(lines).is_some()
}

fn read(lines: &mut Lines<'_>, context: &CaptureContext, run: &mut ToolRun) -> ReadResult {
    let header = iostat_headerless::columns(lines).map(|names| TableHeader::new(names, lines.number()));
    let mut reader = ReportReader {
        intervals: ReportIntervals::default(),
        context,
        run,
        open: IostatReport::default(),
        header,
        stamped: 0,
        date: context.day().date,
    };
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        let text = text.to_owned();
        lines.skip(blanks);
        if let Some(when) = time_line(&text) {
            reader.next_report();
            reader.at(when);
            lines.skip(1);
        } else if is_cpu_header(&text) {
            reader.cpus(lines)?;
        } else if let Some(stamped) = device_header(&text) {
            reader.header(lines, stamped);
        } else if another_output_starts(lines, FORMAT.name) {
            break;
        } else if reader.is_row(&text) {
            reader.row(lines)?;
        } else if is_remark(&text)
            && !is_sentence(&text)
            && lines.peek_past_blanks(1).is_some_and(|(_, next)| is_own_header(next) || reader.is_row(next))
        {
            lines.skip(1);
        } else {
            break;
        }
    }
    reader.next_report();
    end(reader.intervals, context, reader.run);
    Ok(())
}

/// Records the only report.
pub fn end(intervals: ReportIntervals<IostatReport>, context: &CaptureContext, run: &mut ToolRun) {
    if let Some((report, interval)) = intervals.only(context, run) {
        report.record(run, interval);
    }
    run.start.date = run.start.date.or(context.day().date);
}

struct ReportReader<'a> {
    intervals: ReportIntervals<IostatReport>,
    context: &'a CaptureContext,
    run: &'a mut ToolRun,
    open: IostatReport,
    header: Option<TableHeader>,
    /// How many fields of time precede each row.
    stamped: usize,
    date: Option<jiff::civil::Date>,
}

impl ReportReader<'_> {
    fn next_report(&mut self) {
        if self.open.cpus.is_some() || !self.open.devices.is_empty() {
            let report = std::mem::take(&mut self.open);
            let when = report.when;
            if let Some((report, interval)) = self.intervals.next(report, when, self.context, self.run) {
                report.record(self.run, interval);
            }
        }
    }

    fn at(&mut self, when: PrintedTime) {
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

    /// A header with columns that the report already has begins the next one; with others it is its second part.
    fn header(&mut self, lines: &mut Lines<'_>, stamped: usize) {
        let line = lines.number();
        let header = if stamped == 0 {
            take_header_of(lines, is_device_column)
        } else {
            let text = lines.take().map(|l| l.text).unwrap_or_default();
            TableHeader::new(text.split_whitespace().skip(stamped), line)
        };
        let names = header.names[1..].into();
        let header = TableHeader { names, line };
        if header.names.iter().any(|name| self.open.columns.contains(name)) {
            self.next_report();
        }
        self.stamped = stamped;
        self.header = Some(header);
    }

    /// A device's name, then enough numbers not to be something else.
    fn is_row(&self, text: &str) -> bool {
        let Some(header) = &self.header else { return false };
        let fields: Vec<&str> = text.split_whitespace().skip(self.stamped).collect();
        let name =
            fields.first().is_some_and(|f| f.starts_with(|c: char| c.is_alphabetic() || c == '/') && !f.ends_with(':'));
        let numbers = fields.iter().skip(1).filter(|f| number(f).is_some()).count();
        let wrapped = fields.len() == 1 && text.contains(['/', '-']);
        name && (numbers * 3 >= header.names.len() || wrapped || fields.iter().any(|f| ran_together(f)))
    }

    fn row(&mut self, lines: &mut Lines<'_>) -> ReadResult {
        let names = self.header.as_ref().map(|h| h.names.clone()).unwrap_or_default();
        let row = take_row(lines, &names, self.stamped + 1);
        let Some(row) = lines.keep(row)? else { return Ok(()) };
        let seen = self.open.positions.get(row.label()).and_then(|at| self.open.devices.get(*at));
        // Without headers between them, a device that comes again marks the next report.
        if seen.is_some_and(|first| first.has_any(&names)) {
            self.next_report();
        }
        if self.stamped > 0 {
            let fields: Vec<&str> = row.labels.iter().map(String::as_str).collect();
            if let Some((time, _)) = clock::time_of_day(&fields) {
                self.at(PrintedTime { date: None, time: Some(time) });
            }
        }
        if names.iter().any(|name| !self.open.columns.contains(name)) {
            self.open.columns.extend(names.iter().cloned());
        }
        self.open.add(row);
        Ok(())
    }
}
