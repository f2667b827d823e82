//! vmstat -d: requests since boot by device, once or every interval.

use crate::prelude::*;
use crate::table::take_row;
use std::collections::BTreeSet;
use whyslow_model::catalogue::Disk;

pub const FORMAT: Format = Format {
    name: "vmstat -d",
    versions: "procps 3 and 4",
    shows: "with an interval, requests, wait and utilization of each device; once, requests in flight",
    lacks: "what happens now, if read once",
    columns: &[&DISK],
    streamed: true,
    starts: |lines| lines.next_is(is_title),
    read,
    ..Format::NEW
};

/// Two groups of columns have the same names, so they are numbered.
const COLUMNS: [&str; 10] =
    ["reads", "merged", "sectors", "ms", "writes", "merged 2", "sectors 2", "ms 2", "cur", "sec"];
/// The last column is in whole seconds: too coarse for a share of an interval.
const DISK: MetricColumns<Disk> = columns![
    "reads" => reads, "merged" => reads_merged, "sectors" => read_bytes * SECTOR, "ms" => read_time * NS_PER_MS,
    "writes" => writes, "merged 2" => writes_merged, "sectors 2" => write_bytes * SECTOR,
    "ms 2" => write_time * NS_PER_MS, "cur" => in_flight,
];

/// Returns true for `disk- ------------reads------------ ------------writes----------- -----IO------`.
fn is_title(line: &str) -> bool {
    line.starts_with("disk") && line.contains("-reads-") && line.contains("-writes-") && line.contains("-IO-")
}

fn is_header(line: &str) -> bool {
    line.split_whitespace().collect::<Vec<_>>().starts_with(&["total", "merged", "sectors", "ms"])
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let header = COLUMNS.map(str::to_owned).into();
    let mut seen = BTreeSet::new();
    let mut at = 0.0;
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        if is_title(text) || is_header(text) {
            lines.skip(blanks + 1);
            continue;
        }
        let device = text.split_whitespace().next().unwrap_or_default().to_owned();
        if text.split_whitespace().count() < COLUMNS.len() / 2 || another_output_starts(lines, FORMAT.name) {
            break;
        }
        // A repeated device belongs to the next report, whose time is known only if the interval is.
        if seen.contains(&device) {
            let Some(interval) = context.interval() else {
                run.note("vmstat -d", "unknown interval: only the first report is used", "include the command line");
                while !another_output_starts(lines, FORMAT.name) {
                    lines.skip(1);
                }
                break;
            };
            at += interval;
            seen.clear();
        }
        seen.insert(device);
        lines.skip(blanks);
        let row = take_row(lines, &header, 1);
        if let Some(row) = lines.keep(row)? {
            run.counts(at, row.label().into(), &row, &DISK);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    #[test]
    fn counts_and_rates_are_read() {
        let text = fixture("vmstat-d.txt");
        let rows = |text: &str| window_of(text).newest::<Disk>().len();
        assert_eq!(rows(&text), 10);
        let later = text.replace("2038529", "2038579").lines().skip(2).map(|l| format!("{l}\n")).collect::<String>();
        let window = window_of(&format!("$ vmstat -d 5 2\n{text}{later}"));
        let changes = window.changes::<Disk>();
        let vda = changes.iter().find(|c| &*c.key().clone() == "vda").unwrap();
        assert_eq!(vda.rate(|d| d.reads), Some(10.0));
        assert_eq!(refusal_of(&text.replace(" 53408874", "53408874")).line, 11);
    }

    #[test]
    fn without_an_interval_there_is_no_rate() {
        let text = fixture("vmstat-d.txt");
        let window = window_of(&format!("{text}{text}"));
        assert!(window.changes::<Disk>().iter().all(|c| c.rate(|d| d.reads).is_none()));
    }
}
