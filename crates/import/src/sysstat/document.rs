//! The JSON of sysstat: `sadf -j`, `iostat -o JSON`, `mpstat -o JSON`. Its names are those of the text with other signs.

mod sections;

use super::sar::reports::Report;
use super::{iostat, processor, sar};
use crate::clock::{self, Moment, Rewound};
use crate::format::{Asked, Format};
use crate::json::{self, Amount};
use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::run::{Run, SECOND, Step};
use crate::table::Row;
use sections::{SECTIONS, rows_of};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use whyslow_model::catalogue::MachineInfo;
use whyslow_model::key::Machine;
use whyslow_model::value::Name;

/// The format.
pub const FORMAT: Format = Format {
    name: "sysstat JSON",
    versions: "sysstat 10 to 12: sadf -j, iostat -o JSON, mpstat -o JSON; binary sa files by this machine's sadf",
    tells: "what sar, iostat and mpstat tell",
    starts: |lines| json::begins(lines, "sysstat"),
    read,
};

#[derive(Deserialize)]
struct Document {
    sysstat: Sysstat,
}

#[derive(Deserialize)]
struct Sysstat {
    hosts: Vec<Host>,
}

#[derive(Deserialize)]
struct Host {
    #[serde(default)]
    nodename: String,
    #[serde(default)]
    release: String,
    #[serde(rename = "number-of-cpus")]
    processors: Option<Amount>,
    #[serde(default)]
    statistics: Vec<BTreeMap<String, Value>>,
}

fn read(lines: &mut Lines<'_>, asked: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let place = Place { file: lines.file().clone(), line: lines.number() };
    let document: Document = json::take(lines, "a document of sysstat's")?;
    for host in document.sysstat.hosts {
        if host.statistics.iter().any(is_iostat) {
            // A document is what the tool would have printed otherwise.
            run.tool = iostat::FORMAT.name;
            let mut integration = iostat::Integration::default();
            for statistics in &host.statistics {
                integration.add(iostat_report(&place, statistics)?, asked, run);
            }
            integration.end(asked, run);
        } else {
            let sadf =
                host.statistics.first().is_some_and(|report| report.get("timestamp").is_some_and(Value::is_object));
            run.tool = if sadf { sar::SAR.name } else { sar::MPSTAT.name };
            sar_reports(&place, &host.statistics, asked, run)?;
        }
        let at = run.series.values().filter_map(|series| series.first()).min().unwrap_or(0) as f64 / SECOND;
        let machine = run.row::<MachineInfo>(at, place.line, Machine);
        machine.name = host.nodename.as_str().into();
        machine.release = host.release.as_str().into();
        machine.processors = host.processors.map(|count| count.0).into();
    }
    Ok(())
}

/// Where the document begins: nothing in it has a line of its own.
struct Place {
    file: Name,
    line: u32,
}

impl Place {
    /// The numbers of a row by the names `column` gives them, and its label.
    fn row(
        &self,
        row: &Map<String, Value>,
        label: Option<&str>,
        column: impl Fn(&str) -> String,
    ) -> Result<Row, Refusal> {
        let mut read = Row { line: self.line, ..Row::default() };
        for (name, value) in row {
            if Some(name.as_str()) == label {
                read.labels.push(value.as_str().map_or_else(|| value.to_string(), str::to_owned));
            } else if let Some(number) = value.as_f64() {
                if number < 0.0 {
                    return Err(Refusal::new(
                        &self.file,
                        self.line,
                        format!("no {name} below nought"),
                        &value.to_string(),
                    ));
                }
                read.numbers.insert(column(name), number);
            }
        }
        Ok(read)
    }

    /// The same of a processor, whose shares must add up.
    fn shares(&self, row: Row) -> Result<Row, Refusal> {
        processor::check(&self.file, self.line, &row).map(|()| row)
    }
}

/// `sadf` calls a device `disk-device`.
fn is_iostat(report: &BTreeMap<String, Value>) -> bool {
    report.contains_key("avg-cpu") || rows_of(report.get("disk")).iter().any(|row| row.contains_key("disk_device"))
}

fn iostat_report(place: &Place, statistics: &BTreeMap<String, Value>) -> Result<iostat::Report, Refusal> {
    let column = |name: &str| if name == "util" { "%util".to_owned() } else { name.to_owned() };
    let processors = rows_of(statistics.get("avg-cpu")).into_iter().next();
    let processors =
        processors.map(|row| place.shares(place.row(row, None, |name| format!("%{name}"))?)).transpose()?;
    let devices = rows_of(statistics.get("disk"));
    let devices =
        devices.into_iter().map(|row| place.row(row, Some("disk_device"), column)).collect::<Result<_, _>>()?;
    Ok(iostat::Report { when: moment(statistics.get("timestamp")).0, processors, devices, ..iostat::Report::default() })
}

/// When a report was made, and how many seconds it is of: `sadf` tells both, `iostat` a date and a time, `mpstat` a time.
fn moment(timestamp: Option<&Value>) -> (Option<Moment>, Option<f64>) {
    let of = |date: Option<&str>, time: &str| {
        let time = clock::time_of_day(&time.split_whitespace().collect::<Vec<_>>())?.0;
        Some(Moment { date: date.and_then(clock::date), time: Some(time) })
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

/// Reports of sadf and mpstat: each is of the time since the one before it, or of its own interval where that is told.
fn sar_reports(
    place: &Place,
    statistics: &[BTreeMap<String, Value>],
    asked: &Asked,
    run: &mut Run,
) -> Result<(), Refusal> {
    let times: Vec<_> = statistics.iter().map(|report| moment(report.get("timestamp"))).collect();
    let mut rewound = Rewound::default();
    let begin = times.first().and_then(|(when, _)| *when).unwrap_or_default();
    let elapsed = |when: Option<Moment>, rewound: &mut Rewound| {
        let when = when?;
        let exact = when.since_1970().zip(begin.since_1970()).map(|(at, begin)| at - begin);
        Some(exact.unwrap_or_else(|| rewound.read(when.time.unwrap_or_default())))
    };
    let ends: Vec<Option<f64>> = times.iter().map(|(when, _)| elapsed(*when, &mut rewound)).collect();
    let spacing = ends.get(1).copied().flatten().zip(ends.first().copied().flatten()).map(|(b, a)| b - a);
    let first = times.first().and_then(|(_, interval)| *interval).or(asked.interval()).or(spacing).unwrap_or(1.0);
    run.start = Moment { time: begin.time.map(|time| (time - first).max(0.0)), ..begin };
    let mut from = 0.0;
    for ((report, end), (_, interval)) in statistics.iter().zip(ends).zip(&times) {
        // Without a time of its own a report comes one interval after the one before it.
        let to = end.map_or(from + first, |end| end + first);
        let step = Step { from: interval.map_or(from, |interval| (to - interval).max(from)), to };
        from = to;
        if step.seconds() > 0.0 {
            sections(place, report, step, run)?;
        }
    }
    Ok(())
}

fn sections(place: &Place, report: &BTreeMap<String, Value>, step: Step, run: &mut Run) -> Result<(), Refusal> {
    for section in SECTIONS {
        let Some(of_text) = Report::of(section.header) else { continue };
        for row in section.rows(report) {
            let row = place.row(row, section.label, |name| section.column(name))?;
            let row = if of_text.is_processors() { place.shares(row)? } else { row };
            of_text.tell(run, step, &row);
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
    fn mpstat_tells_each_processor() {
        let window = window_of(&fixture("mpstat-P-ALL.json.txt"));
        assert_eq!((window.seconds(), window.changes::<Cpu>().len()), (3.0, 2));
    }
}
