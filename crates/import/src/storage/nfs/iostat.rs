//! nfsiostat(8): reads and writes of each NFS mount, an interval a report; the first is of the time since the mount.

use super::MS;
use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::number::number;
use crate::pace::Pace;
use crate::refusal::Refusal;
use crate::run::{Run, Step};
use std::collections::BTreeMap;
use whyslow_model::catalogue::NfsMount;

/// The format.
pub const FORMAT: Format = Format {
    name: "nfsiostat",
    versions: "nfs-utils 1.2 to 2",
    tells: "reads and writes of each mount: how long they waited here, were on their way and at the server; sent again",
    starts: |lines| lines.peek(0).is_some_and(|line| head(line).is_some()) && follows(lines),
    read,
};

/// `filer:/export mounted on /mnt:`
fn head(line: &str) -> Option<(&str, &str)> {
    let (server, point) = line.trim_end().strip_suffix(':')?.split_once(" mounted on ")?;
    (!server.contains(' ')).then_some((server, point))
}

fn follows(lines: &mut Lines<'_>) -> bool {
    lines
        .peek_past_blanks(1)
        .is_some_and(|(_, line)| line.contains("op") && line.contains("/s") && line.contains("rpc bklog"))
}

/// What a report says of a mount's reads and writes together, each per second but for what was sent again.
#[derive(Clone, Default)]
struct Report {
    line: u32,
    server: String,
    operations: f64,
    queue: Option<f64>,
    round_trip: f64,
    execute: f64,
    sent_again: f64,
}

fn read(lines: &mut Lines<'_>, asked: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let mut pace = Pace::default();
    let (mut first, mut open) = (None, BTreeMap::<String, Report>::new());
    while let Some((blanks, text)) = lines.peek_past_blanks(0).map(|(blanks, text)| (blanks, text.to_owned())) {
        let Some((server, point)) = head(&text) else { break };
        lines.skip(blanks);
        let mut report = Report { line: lines.number(), server: server.into(), ..Report::default() };
        let point = point.to_owned();
        lines.skip(1);
        mount(lines, &mut report)?;
        // A mount that comes again is of the next report.
        if open.contains_key(&point) {
            next(&mut pace, std::mem::take(&mut open), &mut first, asked, run);
        }
        open.insert(point, report);
    }
    if !open.is_empty() {
        next(&mut pace, open, &mut first, asked, run);
    }
    if let Some((mounts, step)) = first.zip(pace.only(asked, run)) {
        tell(run, &mounts, step);
    }
    Ok(())
}

/// The mounts of one report, by where they are mounted.
type Mounts = BTreeMap<String, Report>;

fn next(pace: &mut Pace, mounts: Mounts, first: &mut Option<Mounts>, asked: &Asked, run: &mut Run) {
    match pace.next(None, asked, run) {
        Some(step) => tell(run, &mounts, step),
        None => *first = first.take().or(Some(mounts)),
    }
}

fn tell(run: &mut Run, mounts: &Mounts, step: Step) {
    for (point, mount) in mounts {
        let row = run.grow::<NfsMount>(
            step,
            mount.line,
            point.as_str().into(),
            &[
                ("operations", Some(mount.operations)),
                ("sent_again", Some(mount.sent_again / step.seconds())),
                ("queue_time", mount.queue.map(|ms| ms * MS)),
                ("round_trip_time", Some(mount.round_trip * MS)),
                ("execute_time", Some(mount.execute * MS)),
            ],
        );
        row.server = mount.server.as_str().into();
    }
}

/// The two tables of a mount.
fn mount(lines: &mut Lines<'_>, report: &mut Report) -> Result<(), Refusal> {
    let mut columns: Option<Vec<String>> = None;
    while let Some((blanks, text)) = lines.peek_past_blanks(0).map(|(blanks, text)| (blanks, text.to_owned())) {
        let named = text.trim_start().starts_with("read:") || text.trim_start().starts_with("write:");
        let numbers = text.split_whitespace().next().is_some_and(|w| number(w).is_some());
        if head(&text).is_some() || !(named || numbers || text.contains("rpc bklog")) {
            break;
        }
        lines.skip(blanks);
        if named {
            columns = Some(names(&text));
        } else if let Some(columns) = columns.take().filter(|_| numbers) {
            operation(lines, &columns, &text, report)?;
        }
        lines.skip(1);
    }
    Ok(())
}

/// `read:  ops/s  kB/s  kB/op  retrans  avg RTT (ms)  avg exe (ms)`: names of several words.
fn names(text: &str) -> Vec<String> {
    let text = text.replace("avg RTT (ms)", "rtt").replace("avg exe (ms)", "exe").replace("avg queue (ms)", "queue");
    text.split_whitespace().skip(1).map(str::to_owned).collect()
}

/// `  10.000   160.000   16.000   2 (1.0%)   4.500   4.600   0.100   0 (0.0%)`: counts with their share are one column.
fn operation(lines: &mut Lines<'_>, columns: &[String], text: &str, report: &mut Report) -> Result<(), Refusal> {
    let fields: Vec<&str> = text.split_whitespace().filter(|f| !(f.starts_with('(') && f.ends_with(')'))).collect();
    let values: Option<Vec<f64>> = fields.iter().map(|f| number(f)).collect();
    let Some(values) = values.filter(|v| v.len() == columns.len()) else {
        return Err(lines.refuse(format!("a number in each of the columns {}", columns.join(" "))));
    };
    let of = |name: &str| columns.iter().position(|c| c == name).map(|at| values[at]);
    let (Some(operations), Some(round_trip), Some(execute)) = (of("ops/s"), of("rtt"), of("exe")) else {
        return Err(lines.refuse("columns ops/s, avg RTT (ms) and avg exe (ms)"));
    };
    report.operations += operations;
    report.round_trip += operations * round_trip;
    report.execute += operations * execute;
    report.sent_again += of("retrans").unwrap_or(0.0);
    if let Some(queue) = of("queue") {
        *report.queue.get_or_insert(0.0) += operations * queue;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    #[test]
    fn the_first_report_is_since_the_mount() {
        let text = fixture("layouts/nfsiostat-5.txt");
        let window = window_of(&text);
        let change = &window.changes::<NfsMount>()[0];
        assert_eq!((window.seconds(), change.rate(|n| n.operations)), (5.0, Some(30.0)));
        // Ten reads of 4.5 ms, twenty writes of 40 ms.
        assert!((change.rate(|n| n.round_trip_time).unwrap() / 0.845e9 - 1.0).abs() < 1e-6);
        assert_eq!(change.grown(|n| n.sent_again), Some(3.0));
        assert_eq!(refusal_of(&text.replace("40.000          60.000", "40.000")).line, 22);
    }
}
