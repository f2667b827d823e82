//! iostat(1) of sysstat 4 to 12: a report an interval, the first of which is of the time since boot.

use super::{devices, headless, processor};
use crate::clock::{self, Moment};
use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::pace::Pace;
use crate::refusal::Refusal;
use crate::run::{Run, Step};
use crate::table::{Header, Row, is_header, take_header, take_row};
use crate::{elsewhere, is_remark};
use std::collections::{BTreeSet, HashMap};

/// The format.
pub const FORMAT: Format = Format {
    name: "iostat",
    versions: "sysstat 4 to 12; basic and -x, -k, -m, -t, -c, -d, -y, -z; old and new columns; two-part tables; grepped",
    tells: "requests, sizes, queue, wait and use of each device; without PSI, time in flight stands for waiting",
    starts,
    read,
};

/// What a device table's header may consist of.
const COLUMNS: &[&str] = &[
    "Device:",
    "Device",
    "tps",
    "Blk_read/s",
    "Blk_wrtn/s",
    "Blk_dscd/s",
    "Blk_read",
    "Blk_wrtn",
    "Blk_dscd",
    "Blk_w+d",
    "kB_read/s",
    "kB_wrtn/s",
    "kB_dscd/s",
    "kB_read",
    "kB_wrtn",
    "kB_dscd",
    "kB_w+d",
    "MB_read/s",
    "MB_wrtn/s",
    "MB_dscd/s",
    "MB_read",
    "MB_wrtn",
    "MB_dscd",
    "MB_w+d",
    "rrqm/s",
    "wrqm/s",
    "drqm/s",
    "r/s",
    "w/s",
    "d/s",
    "f/s",
    "rsec/s",
    "wsec/s",
    "dsec/s",
    "rkB/s",
    "wkB/s",
    "dkB/s",
    "rMB/s",
    "wMB/s",
    "dMB/s",
    "%rrqm",
    "%wrqm",
    "%drqm",
    "avgrq-sz",
    "areq-sz",
    "rareq-sz",
    "wareq-sz",
    "dareq-sz",
    "avgqu-sz",
    "aqu-sz",
    "await",
    "r_await",
    "w_await",
    "d_await",
    "f_await",
    "svctm",
    "%util",
];
/// What the processors' header may consist of.
const MODES: &[&str] = &["avg-cpu:", "%user", "%nice", "%sys", "%system", "%iowait", "%steal", "%idle"];

/// What one interval's report tells.
#[derive(Default)]
pub struct Report {
    /// When it was made.
    pub when: Option<Moment>,
    /// All processors together.
    pub processors: Option<Row>,
    /// A row each.
    pub devices: Vec<Row>,
    /// Where the row of each device stands, as they are read one by one.
    pub places: HashMap<String, usize>,
    /// The columns of the devices so far.
    pub columns: BTreeSet<String>,
}

impl Report {
    fn is_empty(&self) -> bool {
        self.processors.is_none() && self.devices.is_empty()
    }

    /// A row of a device, or the second part of its row.
    fn add(&mut self, row: Row) {
        let place = *self.places.entry(row.label().to_owned()).or_insert(self.devices.len());
        match self.devices.get_mut(place) {
            Some(first_part) => first_part.numbers.extend(row.numbers),
            None => self.devices.push(row),
        }
    }

    fn device(&self, name: &str) -> Option<&Row> {
        self.devices.get(*self.places.get(name)?)
    }
}

/// A device table's header without the time that a filter such as ts(1) put before it.
fn device_header(line: &str) -> Option<usize> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let stamp = clock::time_of_day(&fields).map_or(0, |(_, taken)| taken);
    let names = fields.get(stamp..)?;
    let known =
        names.first().is_some_and(|n| ["Device:", "Device"].contains(n)) && names.iter().all(|n| COLUMNS.contains(n));
    (known && names.len() >= 3).then_some(stamp)
}

fn is_processors(line: &str) -> bool {
    line.trim_start().starts_with("avg-cpu:") && is_header(line, MODES, 4)
}

/// The line that `-t` begins a report with: `Time: 14:19:48`, a date and a time, or, where a filter put the time before
/// each line, a time and a date.
fn stamp(line: &str) -> Option<Moment> {
    let mut fields: Vec<&str> = line.trim().trim_start_matches("Time:").split_whitespace().collect();
    let at = fields.iter().position(|f| clock::date(f).is_some());
    let date = at.and_then(|at| clock::date(fields.remove(at)));
    let (time, taken) = clock::time_of_day(&fields)?;
    (fields.len() == taken).then_some(Moment { date, time: Some(time) })
}

fn is_own(line: &str) -> bool {
    is_processors(line) || device_header(line).is_some()
}

fn starts(lines: &mut Lines<'_>) -> bool {
    let Some(first) = lines.peek(0) else { return false };
    if stamp(first).is_some() {
        return lines.peek_past_blanks(1).is_some_and(|(_, line)| is_own(line));
    }
    is_own(first) || headless::columns(lines).is_some()
}

fn read(lines: &mut Lines<'_>, asked: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let mut reports = Reports {
        integration: Integration::default(),
        asked,
        run,
        open: Report::default(),
        header: None,
        stamped: 0,
        date: asked.banner.as_ref().and_then(|b| b.date),
    };
    if let Some(names) = headless::columns(lines) {
        reports.header =
            Some(Header { names: names.iter().map(|name| (*name).to_owned()).collect(), line: lines.number() });
    }
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        let text = text.to_owned();
        lines.skip(blanks);
        if let Some(when) = stamp(&text) {
            reports.next();
            reports.at(when);
            lines.skip(1);
        } else if is_processors(&text) {
            reports.processors(lines)?;
        } else if let Some(stamped) = device_header(&text) {
            reports.header(lines, stamped);
        } else if elsewhere(lines, FORMAT.name) {
            break;
        } else if reports.is_row(&text) {
            reports.row(lines)?;
        } else if is_remark(&text)
            && lines.peek_past_blanks(1).is_some_and(|(_, next)| is_own(next) || reports.is_row(next))
        {
            lines.skip(1);
        } else {
            break;
        }
    }
    reports.next();
    reports.integration.end(asked, reports.run);
    Ok(())
}

/// The report that is being read; those before it are integrated already.
struct Reports<'a> {
    integration: Integration,
    asked: &'a Asked,
    run: &'a mut Run,
    open: Report,
    header: Option<Header>,
    /// How many fields of time stand before each row.
    stamped: usize,
    date: Option<jiff::civil::Date>,
}

impl Reports<'_> {
    fn next(&mut self) {
        if !self.open.is_empty() {
            self.integration.add(std::mem::take(&mut self.open), self.asked, self.run);
        }
    }

    fn at(&mut self, when: Moment) {
        self.date = when.date.or(self.date);
        self.open.when = Some(Moment { date: self.date, ..when });
    }

    fn processors(&mut self, lines: &mut Lines<'_>) -> Result<(), Refusal> {
        self.next();
        let mut header = take_header(lines, MODES);
        header.names.remove(0);
        if let Some((blanks, _)) = lines.peek_past_blanks(0) {
            lines.skip(blanks);
            let row = take_row(lines, &header.names, 0);
            let row = row.and_then(|row| processor::check(lines.file(), header.line, &row).map(|()| row));
            self.open.processors = lines.keep(row)?;
        }
        Ok(())
    }

    /// A header with columns that the report has already begins the next one; with others it is its second part.
    fn header(&mut self, lines: &mut Lines<'_>, stamped: usize) {
        let mut header = if stamped == 0 {
            take_header(lines, COLUMNS)
        } else {
            let line = lines.number();
            let text = lines.take().map(|l| l.text).unwrap_or_default();
            Header { names: text.split_whitespace().skip(stamped).map(str::to_owned).collect(), line }
        };
        header.names.remove(0);
        if header.names.iter().any(|name| self.open.columns.contains(name)) {
            self.next();
        }
        self.stamped = stamped;
        self.header = Some(header);
    }

    /// A device's name, then numbers: as many as not to be taken for something else.
    fn is_row(&self, text: &str) -> bool {
        let Some(header) = &self.header else { return false };
        let fields: Vec<&str> = text.split_whitespace().skip(self.stamped).collect();
        let name =
            fields.first().is_some_and(|f| f.starts_with(|c: char| c.is_alphabetic() || c == '/') && !f.ends_with(':'));
        let numbers = fields.iter().skip(1).filter(|f| crate::number::number(f).is_some()).count();
        let wrapped = fields.len() == 1 && text.contains(['/', '-']);
        let glued = fields.iter().any(|f| crate::number::ran_together(f));
        name && (numbers * 3 >= header.names.len() || wrapped || glued)
    }

    fn row(&mut self, lines: &mut Lines<'_>) -> Result<(), Refusal> {
        let header = self.header.as_ref().map(|h| h.names.clone()).unwrap_or_default();
        let row = take_row(lines, &header, self.stamped + 1);
        let Some(row) = lines.keep(row)? else { return Ok(()) };
        let seen = self.open.device(row.label());
        // Without headers between them, reports are told apart by a device that comes again.
        if seen.is_some_and(|d| header.iter().any(|name| d.numbers.contains_key(name))) {
            self.next();
        }
        if self.stamped > 0 {
            let fields: Vec<&str> = row.labels.iter().map(String::as_str).collect();
            if let Some((time, _)) = clock::time_of_day(&fields) {
                self.at(Moment { date: None, time: Some(time) });
            }
        }
        if header.iter().any(|name| !self.open.columns.contains(name)) {
            self.open.columns.extend(header);
        }
        self.open.add(row);
        Ok(())
    }
}

/// Lets the counters grow by what the reports tell, one after the other.
#[derive(Default)]
pub struct Integration {
    pace: Pace,
    first: Option<Report>,
}

impl Integration {
    /// Takes the next report.
    pub fn add(&mut self, report: Report, asked: &Asked, run: &mut Run) {
        match self.pace.next(report.when, asked, run) {
            Some(step) => tell(run, &report, step),
            None => self.first = self.first.take().or(Some(report)),
        }
    }

    /// Puts down the first report, where it stayed the only one.
    pub fn end(self, asked: &Asked, run: &mut Run) {
        if let Some((report, step)) = self.first.zip(self.pace.only(asked, run)) {
            tell(run, &report, step);
        }
        run.start.date = run.start.date.or(asked.banner.as_ref().and_then(|b| b.date));
    }
}

fn tell(run: &mut Run, report: &Report, step: Step) {
    if let Some(row) = &report.processors {
        processor::mean(run, step, row);
    }
    for row in &report.devices {
        devices::grow(run, step, row.label(), row);
    }
}
