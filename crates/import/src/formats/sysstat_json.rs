//! JSON of sysstat: `sadf -j`, `iostat -o JSON`, `mpstat -o JSON`. Its names resemble the column headers of the text.

use super::iostat::{self, IostatReport};
use super::sar;
use super::sar_reports::{COLUMNS, SarReport};
use super::sysstat::check_shares;
use crate::json::{self, NonNegative};
use crate::prelude::*;
use crate::report_intervals::ReportIntervals;
use crate::timeline::ReportClock;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use whyslow_model::catalogue::MachineInfo;
use whyslow_model::since_boot::AVERAGED;
use whyslow_model::value::Name;

pub const FORMAT: Format = Format {
    name: "sysstat JSON",
    versions: "sysstat 10 to 12: sadf -j, iostat -o JSON, mpstat -o JSON; binary sa files by this machine's own sadf",
    shows: "what sar, iostat and mpstat show",
    lacks: "evidence points at the document, not at a line in it",
    programs: &[partly_read("sadf")],
    files: &["sadf"],
    columns: COLUMNS,
    streamed: true,
    starts: |lines| json::begins(lines, "sysstat"),
    read,
};

#[derive(Deserialize)]
struct SysstatDocument {
    sysstat: SysstatHosts,
}

#[derive(Deserialize)]
struct SysstatHosts {
    hosts: Vec<SysstatHost>,
}

#[derive(Deserialize)]
struct SysstatHost {
    #[serde(default)]
    nodename: String,
    #[serde(default)]
    release: String,
    #[serde(rename = "number-of-cpus")]
    cpus: Option<NonNegative>,
    #[serde(default)]
    statistics: Vec<Statistics>,
}

/// Sections of one report, by name.
type Statistics = BTreeMap<String, Value>;

/// Rule by which the names in a section become column headers.
#[derive(Clone, Copy)]
enum Naming {
    /// Unchanged.
    Same,
    /// `usr` becomes `%usr`.
    Share,
    /// `rxpck` becomes `rxpck/s`, except for [`LEVELS`].
    Rate,
    /// `memfree` becomes `kbmemfree`.
    Kib,
}

/// A section: its path, the header of the same report as text, the name of its rows' label, and its naming.
struct JsonSection(&'static [&'static str], &'static [&'static str], Option<&'static str>, Naming);

const SECTIONS: &[JsonSection] = &[
    JsonSection(&["cpu-load"], &["CPU", "%idle"], Some("cpu"), Naming::Share),
    JsonSection(&["cpu-load-all"], &["CPU", "%idle"], Some("cpu"), Naming::Share),
    JsonSection(&["process-and-context-switch"], &["cswch/s"], None, Naming::Rate),
    JsonSection(&["interrupts"], &["INTR", "intr/s"], Some("intr"), Naming::Same),
    JsonSection(&["swap-pages"], &["pswpin/s"], None, Naming::Rate),
    JsonSection(&["paging"], &["pgpgin/s"], None, Naming::Rate),
    JsonSection(&["memory"], &["kbmemfree"], None, Naming::Kib),
    JsonSection(&["queue"], &["runq-sz"], None, Naming::Same),
    JsonSection(&["kernel"], &["file-nr"], None, Naming::Same),
    JsonSection(&["disk"], &["DEV", "tps"], Some("disk-device"), Naming::Rate),
    JsonSection(&["network", "net-dev"], &["IFACE", "rxpck/s"], Some("iface"), Naming::Rate),
    JsonSection(&["network", "net-edev"], &["IFACE", "rxerr/s"], Some("iface"), Naming::Rate),
    JsonSection(&["network", "net-sock"], &["tcpsck"], None, Naming::Same),
    JsonSection(&["network", "net-ip"], &["irec/s"], None, Naming::Rate),
    JsonSection(&["network", "net-eip"], &["idisc/s"], None, Naming::Rate),
    JsonSection(&["network", "net-tcp"], &["active/s"], None, Naming::Rate),
    JsonSection(&["network", "net-etcp"], &["atmptf/s"], None, Naming::Rate),
    JsonSection(&["network", "net-udp"], &["idgmerr/s"], None, Naming::Rate),
    JsonSection(&["network", "softnet"], &["CPU", "dropd/s"], Some("cpu"), Naming::Rate),
    JsonSection(&["power-management", "cpu-frequency"], &["CPU", "MHz"], Some("number"), Naming::Same),
    JsonSection(&["psi", "psi-cpu"], &["%scpu"], None, Naming::Same),
    JsonSection(&["psi", "psi-io"], &["%sio"], None, Naming::Same),
    JsonSection(&["psi", "psi-mem"], &["%smem"], None, Naming::Same),
];
/// Names in a section of rates that are not rates.
const LEVELS: [&str; 6] = ["tps", "areq-sz", "avgrq-sz", "avgqu-sz", "aqu-sz", "await"];
/// Names that differ from the column header.
const RENAMED: [(&str, &str, &str); 7] = [
    ("interrupts", "value", "intr/s"),
    ("cpu-frequency", "frequency", "MHz"),
    ("psi-cpu", "some_avg", "%scpu"),
    ("psi-io", "some_avg", "%sio"),
    ("psi-io", "full_avg", "%fio"),
    ("psi-mem", "some_avg", "%smem"),
    ("psi-mem", "full_avg", "%fmem"),
];

impl JsonSection {
    fn rows<'v>(&self, report: &'v Statistics) -> Vec<&'v Map<String, Value>> {
        let [first, rest @ ..] = self.0 else { return Vec::new() };
        rows_of(rest.iter().try_fold(report.get(*first), |value, name| Some(value?.get(name))).flatten())
    }

    fn column(&self, name: &str) -> String {
        let section = self.0.last().copied().unwrap_or_default();
        if let Some((.., column)) = RENAMED.iter().find(|(of, from, _)| *of == section && *from == name) {
            return (*column).to_owned();
        }
        if let Some(share) = name.strip_suffix("-percent") {
            return format!("%{share}");
        }
        match self.3 {
            Naming::Share => format!("%{name}"),
            Naming::Kib => format!("kb{name}"),
            Naming::Rate if !LEVELS.contains(&name) => format!("{name}/s"),
            Naming::Rate | Naming::Same => name.to_owned(),
        }
    }
}

/// Returns the rows of a section, which is an object or a list of objects.
fn rows_of(section: Option<&Value>) -> Vec<&Map<String, Value>> {
    match section {
        Some(Value::Object(row)) => vec![row],
        Some(Value::Array(rows)) => rows.iter().filter_map(Value::as_object).collect(),
        _ => Vec::new(),
    }
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let start = DocumentStart { file: lines.file().clone(), line: lines.number() };
    let document: SysstatDocument = json::take(lines, "a JSON document of sysstat")?;
    for host in document.sysstat.hosts {
        // The result is the same as from the tool's text output.
        if host.statistics.iter().any(is_iostat) {
            run.tool = iostat::FORMAT.name;
            let mut intervals = match context.command_of(run.tool).is_some_and(|command| command.has('y')) {
                true => ReportIntervals::without_first(),
                false => ReportIntervals::since_boot(),
            };
            for statistics in &host.statistics {
                let report = iostat_report(&start, statistics)?;
                let when = report.when.map(|when| (when, start.line));
                for (report, interval) in intervals.next(report, when, context, run) {
                    report.record(run, interval);
                }
            }
            iostat::end(intervals, context, run);
        } else {
            let sadf = host.statistics.first().and_then(|s| s.get("timestamp")).is_some_and(Value::is_object);
            run.tool = if sadf { sar::SAR.name } else { sar::MPSTAT.name };
            sar_reports(&start, &host.statistics, context, run)?;
        }
        let at = run.series.values().filter_map(|series| series.first()).min().unwrap_or(0) as f64 / SECOND;
        let machine = run.row::<MachineInfo>(at, start.line, MachineKey);
        machine.name = host.nodename.as_str().into();
        machine.release = host.release.as_str().into();
        machine.processors = host.cpus.map(|count| count.0).into();
        run.host = Some(host.nodename.as_str().into());
    }
    Ok(())
}

/// Start of the document: nothing in it has a line of its own.
struct DocumentStart {
    file: Name,
    line: u32,
}

impl DocumentStart {
    /// Returns a row with its label, and its numbers under the column headers that `column` gives them.
    fn row(
        &self,
        row: &Map<String, Value>,
        label: Option<&str>,
        column: impl Fn(&str) -> String,
    ) -> Result<TableRow, Refusal> {
        let named = label.and_then(|label| row.get(label));
        let named = named.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        let mut numbers = Vec::new();
        for (name, value) in row.iter().filter(|(name, _)| Some(name.as_str()) != label) {
            let Some(number) = value.as_f64() else { continue };
            if number < 0.0 {
                let expected = format!("{name} not below zero");
                return Err(Refusal::new(&self.file, self.line, expected, &value.to_string()));
            }
            numbers.push((column(name), number));
        }
        Ok(TableRow::new(self.line, named.as_deref().unwrap_or_default(), numbers))
    }

    fn check_shares(&self, row: TableRow) -> Result<TableRow, Refusal> {
        check_shares(&self.file, self.line, row)
    }
}

/// Returns true for a report of iostat; `sadf` calls a device `disk-device`.
fn is_iostat(report: &Statistics) -> bool {
    report.contains_key("avg-cpu") || rows_of(report.get("disk")).iter().any(|row| row.contains_key("disk_device"))
}

fn iostat_report(start: &DocumentStart, statistics: &Statistics) -> Result<IostatReport, Refusal> {
    let column = |name: &str| if name == "util" { "%util".to_owned() } else { name.to_owned() };
    let cpus = rows_of(statistics.get("avg-cpu")).into_iter().next();
    let cpus = cpus.map(|row| start.check_shares(start.row(row, None, |name| format!("%{name}"))?)).transpose()?;
    let devices = rows_of(statistics.get("disk")).into_iter().map(|row| start.row(row, Some("disk_device"), column));
    let when = report_time(statistics.get("timestamp")).0;
    Ok(IostatReport::new(when, cpus, devices.collect::<Result<_, _>>()?))
}

/// Returns the time of a report, and the seconds that it covers: `sadf` has both, `iostat` a date and a time, `mpstat` a time.
fn report_time(timestamp: Option<&Value>) -> (Option<PrintedTime>, Option<f64>) {
    let of = |date: Option<&str>, time: &str| {
        let time = clock::time_of_day(&time.split_whitespace().collect::<Vec<_>>())?.0;
        Some(PrintedTime::new(date.and_then(clock::date), time))
    };
    match timestamp {
        Some(Value::String(text)) => match text.split_once(' ') {
            Some((date, time)) if clock::date(date).is_some() => (of(Some(date), time), None),
            _ => (of(None, text), None),
        },
        Some(Value::Object(parts)) => {
            let text = |name: &str| parts.get(name).and_then(Value::as_str);
            let when = text("time").and_then(|time| of(text("date"), time));
            (when, parts.get("interval").and_then(Value::as_f64).filter(|seconds| *seconds > 0.0))
        }
        _ => (None, None),
    }
}

/// Records reports of sadf and mpstat: each covers the time since the previous one, or its own interval if it has one.
fn sar_reports(
    start: &DocumentStart,
    statistics: &[Statistics],
    context: OutputContext<'_>,
    run: &mut ToolRun,
) -> ReadResult {
    let times: Vec<_> = statistics.iter().map(|report| report_time(report.get("timestamp"))).collect();
    let begin = times.first().and_then(|(when, _)| *when).unwrap_or_default();
    let mut clock = ReportClock::default();
    let mut elapsed = |(when, interval): &(Option<PrintedTime>, Option<f64>)| {
        let reading = clock.read((*when)?, interval.or(context.interval()));
        Some(run.note_clock(reading, start.line))
    };
    let ends: Vec<Option<f64>> = times.iter().map(&mut elapsed).collect();
    let spacing = ends.get(1).copied().flatten().zip(ends.first().copied().flatten()).map(|(b, a)| b - a);
    let first = times.first().and_then(|(_, interval)| *interval).or(context.interval()).or(spacing).unwrap_or(1.0);
    run.start = begin.after(-first);
    // With an interval, the first report of mpstat already covers that interval.
    let is_since_boot = run.tool == sar::MPSTAT.name && context.interval().is_none() && context.prints_once(run.tool);
    if let ([report], true) = (statistics, is_since_boot) {
        run.is_average = true;
        return record_sections(start, report, ReportInterval { from: 0.0, to: AVERAGED }, run);
    }
    let mut from = 0.0;
    for ((report, end), (_, interval)) in statistics.iter().zip(ends).zip(&times) {
        // A report without time comes one interval after the previous one.
        let to = end.map_or(from + first, |end| end + first);
        let covered = ReportInterval { from: interval.map_or(from, |interval| (to - interval).max(from)), to };
        from = to;
        if covered.seconds() > 0.0 {
            record_sections(start, report, covered, run)?;
        }
    }
    Ok(())
}

fn record_sections(
    start: &DocumentStart,
    report: &Statistics,
    interval: ReportInterval,
    run: &mut ToolRun,
) -> ReadResult {
    for section in SECTIONS {
        let Some(sar_report) = SarReport::from_header(section.1) else { continue };
        for row in section.rows(report) {
            let row = start.row(row, section.2, |name| section.column(name))?;
            let row = if sar_report.is_cpu_shares() { start.check_shares(row)? } else { row };
            (sar_report.record)(run, interval, &row);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};
    use whyslow_model::catalogue::{Cpu, Disk, Pressure, System};
    use whyslow_model::window::Window;

    fn close(a: Option<f64>, b: f64) {
        assert!(a.is_some_and(|a| (a - b).abs() <= 0.005 * b.abs() + 1e-9), "{a:?} is not {b}");
    }

    #[test]
    fn every_section_is_a_report_of_sar() {
        let unknown =
            SECTIONS.iter().filter(|section| SarReport::from_header(section.1).is_none()).map(|section| section.0);
        assert_eq!(unknown.collect::<Vec<_>>(), Vec::<&[&str]>::new());
    }

    #[test]
    fn sadf_tells_what_sar_tells() {
        let document = window_of(&fixture("sadf-j.json.txt"));
        let text = window_of(&fixture("sar-A.txt"));
        assert_eq!((document.seconds(), text.seconds()), (6.0, 6.0));
        let switches = |w: &Window| w.change::<System>().and_then(|c| c.rate(|s| s.context_switches));
        close(switches(&document), switches(&text).unwrap());
        let pressure = |w: &Window| w.change::<Pressure>().and_then(|c| c.rate(|p| p.cpu_some));
        close(pressure(&document), pressure(&text).unwrap());
        let user = |w: &Window| w.changes::<Cpu>().iter().map(|c| c.rate(|c| c.user).unwrap()).collect::<Vec<_>>();
        assert_eq!(user(&document).len(), 2);
        for (a, b) in user(&document).into_iter().zip(user(&text)) {
            close(Some(a), b);
        }
        assert_eq!(document.the::<MachineInfo>().unwrap().processors.get(), Some(2.0));
    }

    #[test]
    fn iostat_without_its_first_report() {
        let text = fixture("iostat-x-t.json.txt");
        let window = window_of(&text);
        assert_eq!(window.seconds(), 2.0);
        assert!(
            window.changes::<Disk>().iter().any(|c| &*c.key().clone() == "vda" && c.rate(|d| d.busy_time).is_some())
        );
        assert_eq!(refusal_of(&text.replace("\"idle\": ", "\"idle\": 9")).line, 1);
    }

    #[test]
    fn mpstat_rows_become_cpus() {
        let window = window_of(&fixture("mpstat-P-ALL.json.txt"));
        assert_eq!((window.seconds(), window.changes::<Cpu>().len()), (3.0, 2));
    }
}
