//! nfsiostat(8): reads and writes of each NFS mount, a report per interval; the first covers the time since the mount.

use crate::prelude::*;
use crate::report_intervals::ReportIntervals;
use std::collections::BTreeMap;
use whyslow_model::catalogue::NfsMount;

pub const FORMAT: Format = Format {
    name: "nfsiostat",
    versions: "nfs-utils 1.2 to 2",
    shows: "reads and writes of each mount: how long they were queued, on the network and at the server; retransmissions",
    lacks: "which process",
    programs: &[program("nfsiostat")],
    files: &["nfsiostat"],
    streamed: true,
    starts: |lines| {
        lines.next_is(|line| title(line).is_some())
            && lines
                .peek_past_blanks(1)
                .is_some_and(|(_, line)| line.contains("op") && line.contains("/s") && line.contains("rpc bklog"))
    },
    read,
    ..Format::NEW
};

/// Parses `filer:/export mounted on /mnt:`.
fn title(line: &str) -> Option<(&str, &str)> {
    let (server, point) = line.trim_end().strip_suffix(':')?.split_once(" mounted on ")?;
    (!server.contains(' ')).then_some((server, point.trim()))
}

/// Reads and writes of a mount together, per second except for retransmissions.
#[derive(Clone, Default)]
struct MountReport {
    line: u32,
    server: String,
    operations: f64,
    queue: Option<f64>,
    round_trip: f64,
    execute: f64,
    /// Number in the interval, or since the mount.
    retransmissions: f64,
    /// The same per second, computed from their percentage of the operations.
    retransmission_rate: Option<f64>,
}

impl MountReport {
    /// Returns the retransmissions per second. If the time over which they were counted is unknown, their number gives no rate,
    /// but their share does.
    fn sent_again(&self, interval: ReportInterval, is_known: bool) -> Option<f64> {
        if is_known { Some(self.retransmissions / interval.seconds()) } else { self.retransmission_rate }
    }
}

/// Mounts of one report by mount point.
type MountReports = BTreeMap<String, MountReport>;

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut intervals = ReportIntervals::since_boot();
    let mut open = MountReports::new();
    let mut next = |open: MountReports, run: &mut ToolRun| {
        for (mounts, interval) in intervals.next(open, None, context, run) {
            record(run, &mounts, interval, context);
        }
    };
    while let Some(line) = lines.take_past_blanks_if(|text| title(text).is_some()) {
        let Some((server, point)) = title(&line.text) else { break };
        let mut report = MountReport { line: line.number, server: server.into(), ..MountReport::default() };
        let read = tables(lines, &mut report);
        let Some(()) = lines.keep(read)? else { continue };
        // A repeated mount belongs to the next report.
        if open.contains_key(point) {
            next(std::mem::take(&mut open), run);
        }
        open.insert(point.to_owned(), report);
    }
    if !open.is_empty() {
        next(open, run);
    }
    for (mounts, interval) in intervals.finish(context, run) {
        record(run, &mounts, interval, context);
    }
    Ok(())
}

fn record(run: &mut ToolRun, mounts: &MountReports, interval: ReportInterval, context: OutputContext<'_>) {
    let is_known = context.interval().is_some() && !run.is_average;
    for (point, mount) in mounts {
        let rates = [
            ("operations", Some(mount.operations)),
            ("sent_again", mount.sent_again(interval, is_known)),
            ("queue_time", mount.queue.map(|ms| ms * NS_PER_MS)),
            ("round_trip_time", Some(mount.round_trip * NS_PER_MS)),
            ("execute_time", Some(mount.execute * NS_PER_MS)),
        ];
        run.grow::<NfsMount>(interval, mount.line, point.as_str().into(), &rates).server = mount.server.as_str().into();
    }
}

/// Reads the two tables of a mount.
fn tables(lines: &mut Lines<'_>, report: &mut MountReport) -> ReadResult {
    let is_header = |text: &str| text.trim_start().starts_with("read:") || text.trim_start().starts_with("write:");
    let is_row = |text: &str| text.split_whitespace().next().is_some_and(|w| number(w).is_some());
    /// Reads and writes: both are needed for the sums.
    const TABLES: usize = 2;
    let begin = report.line;
    let mut columns: Option<Vec<String>> = None;
    let mut read = 0;
    let mut refusal = None;
    while let Some(line) = lines.take_past_blanks_if(|text| {
        title(text).is_none() && (is_header(text) || is_row(text) || text.contains("rpc bklog"))
    }) {
        if is_header(&line.text) {
            columns = Some(names(&line.text));
        } else if let Some(columns) = columns.take().filter(|_| is_row(&line.text)) {
            read += 1;
            refusal = refusal.or(operation(lines, &columns, &line, report).err());
        }
    }
    match refusal {
        Some(refusal) => Err(refusal),
        None if read != TABLES => {
            Err(Refusal::described(lines.file(), begin, "reads and writes of a mount", "only a part of it"))
        }
        None => Ok(()),
    }
}

/// Columns of all versions.
const COLUMNS: [&str; 8] = ["ops/s", "kB/s", "kB/op", "retrans", "rtt", "exe", "queue", "errors"];

/// Returns the column names in `read:  ops/s  kB/s  kB/op  retrans  avg RTT (ms)  avg exe (ms)`; some names have several words.
fn names(text: &str) -> Vec<String> {
    let text = text.replace("avg RTT (ms)", "rtt").replace("avg exe (ms)", "exe").replace("avg queue (ms)", "queue");
    text.split_whitespace().skip(1).map(str::to_owned).collect()
}

/// Reads `  10.000   160.000   16.000   2 (1.0%)   4.500   4.600   0.100   0 (0.0%)`; a count and its percentage are one
/// column.
fn operation(
    lines: &Lines<'_>,
    columns: &[String],
    line: &crate::lines::TextLine,
    report: &mut MountReport,
) -> ReadResult {
    let fields = line.text.split_whitespace().filter(|f| !(f.starts_with('(') && f.ends_with(')')));
    let values: Option<Vec<f64>> = fields.map(number).collect();
    let are_known = columns.iter().all(|name| COLUMNS.contains(&name.as_str()));
    let Some(values) = values.filter(|v| v.len() == columns.len() && are_known) else {
        return Err(lines.refuse_at(line, format!("a number in each of the columns {}", columns.join(" "))));
    };
    let row = TableRow::new(line.number, "", columns.iter().cloned().zip(values));
    let (Some(operations), Some(round_trip), Some(execute)) = (row.get("ops/s"), row.get("rtt"), row.get("exe")) else {
        return Err(lines.refuse_at(line, "columns ops/s, avg RTT (ms) and avg exe (ms)"));
    };
    report.operations += operations;
    report.round_trip += operations * round_trip;
    report.execute += operations * execute;
    report.retransmissions += row.get("retrans").unwrap_or(0.0);
    if let Some(percent) = retransmission_percent(&line.text) {
        *report.retransmission_rate.get_or_insert(0.0) += operations * percent / 100.0;
    }
    if let Some(queue) = row.get("queue") {
        *report.queue.get_or_insert(0.0) += operations * queue;
    }
    Ok(())
}

/// Returns 1 for `2 (1.0%)`, the first percentage of a row: errors come after retransmissions.
fn retransmission_percent(row: &str) -> Option<f64> {
    let (percent, _) = row.split_once('(')?.1.split_once("%)")?;
    number(percent)
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
