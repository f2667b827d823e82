//! btt(1): times and sums of a block trace (btt/output.c of blktrace).

use crate::prelude::*;
use std::collections::BTreeMap;
use whyslow_model::catalogue::Disk;
use whyslow_model::topology::device_by_number;

pub const FORMAT: Format = Format {
    name: "btt",
    versions: "blktrace 1.0 to 1.3",
    shows: "requests, merges and busy time of each device; their mean time, if the trace is of one device",
    lacks: "sizes by direction; processes; of several devices, the time of each one's requests",
    programs: &[program("btt")],
    files: &["btt"],
    starts: |lines| lines.next_is(|line| section(line) == Some("All Devices")),
    read,
    ..Format::NEW
};

/// Returns the name in `==================== All Devices ====================`.
fn section(line: &str) -> Option<&str> {
    let name = line.trim().strip_prefix("=====")?.trim_start_matches('=').strip_suffix("=====")?;
    Some(name.trim_end_matches('=').trim())
}

/// Parses a row of times: name, mean in seconds, and count.
fn times(line: &str) -> Option<(&str, f64, f64)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    match fields[..] {
        [name, least, mean, most, count] => {
            number(least)?;
            number(most)?;
            Some((name, number(mean)?, number(count)?))
        }
        _ => None,
    }
}

/// Returns the device and the numbers of ` (  7,  0) |     1925     1727     1.1 |        8        8       16    15392`.
fn device_row(line: &str) -> Option<((u32, u32), Vec<f64>)> {
    let (device, rest) = line.trim().strip_prefix('(')?.split_once(')')?;
    let (major, minor) = device.split_once(',')?;
    let numbers: Option<Vec<f64>> =
        rest.split_whitespace().filter(|field| *field != "|").map(|f| number(f.trim_end_matches('%'))).collect();
    Some(((major.trim().parse().ok()?, minor.trim().parse().ok()?), numbers?))
}

#[derive(Default)]
struct TracedDevice {
    line: u32,
    /// Requests issued to the device after merges of the incoming I/O.
    issued: Option<f64>,
    /// Share of the time in which any request was in flight.
    live: Option<f64>,
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut all: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    let mut devices: BTreeMap<(u32, u32), TracedDevice> = BTreeMap::new();
    let mut open = String::new();
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        if let Some(name) = section(text) {
            if name == "All Devices" && !open.is_empty() {
                break;
            }
            name.clone_into(&mut open);
        } else if let Some((device, numbers)) = device_row(text) {
            let own = devices.entry(device).or_default();
            match (open.as_str(), &numbers[..]) {
                ("Device Merge Information", [_, issued, ..]) => own.issued = Some(*issued),
                ("I/O Active Period Information", [.., live]) => own.live = Some(live / 100.0),
                _ => {}
            }
            lines.skip(blanks);
            devices.get_mut(&device).into_iter().filter(|own| own.line == 0).for_each(|own| own.line = lines.number());
            lines.skip(1);
            continue;
        } else if let Some((name, mean, count)) = times(text) {
            if open == "All Devices" {
                all.insert(name.to_owned(), (mean, count));
            }
        } else if !is_other(text) {
            break;
        }
        lines.skip(blanks + 1);
    }
    let of = |name: &str| all.get(name).copied();
    // The times between consecutive incoming requests add up to the length of the trace.
    let seconds = of("Q2Q").map(|(mean, count)| mean * count).filter(|seconds| *seconds > 0.0);
    let Some(seconds) = seconds.filter(|_| !devices.is_empty()) else {
        run.note(
            "the times of the trace",
            "the device or the length of the trace was cut off",
            "give all of btt's output",
        );
        return Ok(());
    };
    let wait = of("Q2C").map(|(mean, _)| mean).filter(|_| devices.len() == 1);
    for ((major, minor), device) in devices {
        let name = device_by_number(major, minor).unwrap_or_else(|| format!("dev{major}-{minor}"));
        let count = device.issued.map(|issued| issued / seconds);
        let time = count.zip(wait).map(|(count, wait)| count * wait * SECOND);
        let rates = [
            ("transfers", count),
            ("transfer_time", time),
            ("weighted_time", time),
            ("busy_time", device.live.map(|share| share * SECOND)),
        ];
        run.grow::<Disk>(ReportInterval { from: 0.0, to: seconds }, device.line, name.as_str().into(), &rates);
    }
    Ok(())
}

/// Returns true for headings, rulers, sums and the lists at the end.
fn is_other(line: &str) -> bool {
    const STARTS: [&str; 10] = ["(", "...", "ALL", "---", "DEV", "Overall", "Average", "Total Sys", "#", "Q2"];
    let line = line.trim();
    STARTS.iter().any(|start| line.starts_with(start)) || line.split_whitespace().all(|field| number(field).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn requests_and_their_mean_time() {
        let window = window_of(&fixture("layouts/btt.txt"));
        let change = &window.changes::<Disk>()[0];
        assert_eq!(&**change.key(), "loop0");
        let seconds = 0.001_652_908 * 153.0;
        let close = |found: Option<f64>, want: f64| assert!((found.unwrap() / want - 1.0).abs() < 0.001, "{found:?}");
        close(change.rate(|d| d.transfers), 154.0 / seconds);
        close(change.rate(|d| d.transfer_time).map(|t| t / SECOND), 154.0 * 0.000_751_021 / seconds);
        close(change.rate(|d| d.busy_time).map(|t| t / SECOND), 0.3438);
    }
}
