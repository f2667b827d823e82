//! mountstats(8), and /proc/self/mountstats, from which it computes: counters since a file system was mounted.

use crate::prelude::*;
use crate::table::is_cell;
use whyslow_model::catalogue::NfsMount;
use whyslow_proc::mountstats::{Operations, age, counts, mount, operations};

pub const FORMAT: Format = Format {
    name: "mountstats",
    versions: "nfs-utils 1 and 2; /proc/self/mountstats",
    shows: "how long operations waited and took since the mount; of two with times, in between",
    lacks: "which process",
    programs: &[program("mountstats")],
    files: &["mountstats"],
    starts: |lines| lines.next_is(|line| title(line).is_some()),
    read,
    ..Format::NEW
};

/// Returns the server and mount point in `Stats for server:/export mounted on /mnt:`, or in the file's `device ... mounted on
/// ...`.
fn title(line: &str) -> Option<(&str, &str)> {
    let printed = || line.strip_prefix("Stats for ")?.trim_end().strip_suffix(':')?.split_once(" mounted on ");
    printed().or_else(|| mount(line).map(|m| (m.device, m.point)))
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut seen: Vec<String> = Vec::new();
    // A repeated mount belongs to the next reading.
    while let Some(line) =
        lines.take_past_blanks_if(|text| title(text).is_some_and(|(_, point)| !seen.iter().any(|p| p == point)))
    {
        let Some((server, point)) = title(&line.text) else { break };
        seen.push(point.to_owned());
        let is_nfs = mount(&line.text).is_none_or(|mount| mount.kind.starts_with("nfs"));
        let totals = totals(lines).and_then(|totals| match is_nfs || totals.is_none() {
            true => Ok(totals),
            false => Err(lines.refuse_at(&line, "an NFS mount above counts of its operations")),
        });
        if let Some((totals, age)) = lines.keep(totals)?.flatten() {
            let row = run.row::<NfsMount>(0.0, line.number, point.into());
            row.server = server.into();
            let ns = |ms: u64| ((ms as f64 * NS_PER_MS) as u64).into();
            row.age = age.map(|seconds| seconds * SECOND).into();
            row.operations = totals.done.into();
            row.sent_again = totals.sent_again.into();
            row.queue_time = ns(totals.queue_ms);
            row.round_trip_time = ns(totals.round_trip_ms);
            row.execute_time = ns(totals.execute_ms);
        }
    }
    Ok(())
}

/// Returns the totals of a mount, and its age in seconds; no totals for a file system of another kind.
fn totals(lines: &mut Lines<'_>) -> Result<Option<(Operations, Option<f64>)>, Refusal> {
    let mut totals = None;
    let mut mounted = None;
    let mut seen: Vec<String> = Vec::new();
    let mut refusal = None;
    while let Some((blanks, text)) = lines.peek_past_blanks(0).map(|(blanks, text)| (blanks, text.to_owned())) {
        // A piece that was broken off a line is not a row of another output.
        let is_piece = blanks == 0 && text.split_whitespace().all(is_cell);
        if title(&text).is_some() || !is_piece && another_output_starts(lines, FORMAT.name) {
            break;
        }
        lines.skip(blanks);
        mounted = mounted.or_else(|| printed_age(&text)).or_else(|| age(&text).map(|seconds| seconds as f64));
        let name = text.trim().split(':').next().unwrap_or_default().to_owned();
        if let Some(counts) = counts(&text) {
            match operations(counts) {
                // This belongs to the next mount, whose title was lost.
                Some(_) if seen.contains(&name) => {
                    refusal.get_or_insert_with(|| lines.refuse("each operation of a mount once"));
                }
                Some(kind) => totals.get_or_insert_with(Operations::default).add(kind),
                None => {
                    refusal.get_or_insert_with(|| lines.refuse("an operation, then eight counts or nine"));
                }
            }
            seen.push(name);
        }
        lines.skip(1);
        if is_operation(&text) {
            totals.get_or_insert_with(Operations::default).add(printed(lines)?);
        }
    }
    match refusal {
        Some(refusal) => Err(refusal),
        None => Ok(totals.map(|totals| (totals, mounted))),
    }
}

/// Returns the seconds in `NFS mount age: 9 days, 1:02:03`, as Python prints a time.
fn printed_age(text: &str) -> Option<f64> {
    let age = text.trim_start().strip_prefix("NFS mount age:")?.trim();
    let (days, time) = match age.split_once(" day") {
        Some((days, time)) => (number(days)?, time.split_once(", ")?.1),
        None => (0.0, age),
    };
    let parts: Option<Vec<f64>> = time.split(':').map(number).collect();
    let [hours, minutes, seconds] = parts?[..] else { return None };
    Some(days * clock::DAY + hours * 3600.0 + minutes * 60.0 + seconds)
}

/// Returns true for `READ:`.
fn is_operation(text: &str) -> bool {
    let name = text.trim_end().strip_suffix(':').unwrap_or_default();
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
}

/// Reads the three lines below an operation's name: counts, bytes, and mean times in milliseconds.
fn printed(lines: &mut Lines<'_>) -> Result<Operations, Refusal> {
    let mut read = Operations::default();
    let mut operations = None;
    while let Some(line) = lines.take_if(|text| text.starts_with(['\t', ' '])) {
        let before = |word: &str| line.text.split_once(word).and_then(|(b, _)| number(b.split_whitespace().last()?));
        let after = |word: &str| line.text.split_once(word).and_then(|(_, a)| number(a.split_whitespace().next()?));
        if line.text.contains(" ops (") {
            let Some(count) = before(" ops (") else {
                return Err(lines.refuse_at(&line, "a count: 1000 ops (10%)"));
            };
            operations = Some(count);
            read.done = count as u64;
            read.sent_again = before(" retrans (").unwrap_or(0.0) as u64;
        } else if line.text.contains("RTT:") {
            let times = [after("backlog wait:"), after("RTT:"), after("total execute time:")];
            let (Some(count), [Some(queue), Some(round_trip), Some(execute)]) = (operations, times) else {
                let expected = "backlog wait, RTT and total execute time, below a count of operations";
                return Err(lines.refuse_at(&line, expected));
            };
            let total = |mean: f64| (mean * count).round() as u64;
            (read.queue_ms, read.round_trip_ms, read.execute_ms) = (total(queue), total(round_trip), total(execute));
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    #[test]
    fn the_tool_and_the_file_tell_the_same() {
        for file in ["layouts/mountstats.txt", "layouts/proc-self-mountstats.txt"] {
            let window = window_of(&fixture(file));
            let row = window.the::<NfsMount>().unwrap_or_else(|| panic!("{file}"));
            assert_eq!((&*row.point, row.server.get()), ("/mnt/data", Some("filer:/export/data")), "{file}");
            assert_eq!((row.operations.get(), row.sent_again.get()), (Some(1500), Some(3)), "{file}");
            assert_eq!(row.round_trip_time.get(), Some(20_500_000_000), "{file}");
            assert_eq!(row.age.get(), Some(86_400e9), "{file}");
            assert_eq!(row.execute_time.get(), Some(30_600_000_000), "{file}");
        }
        assert_eq!(printed_age("  NFS mount age: 9 days, 1:02:03"), Some(781_323.0));
        assert_eq!([printed_age("NFS mount age: 0:00:07"), printed_age("NFS mount age: x")], [Some(7.0), None]);
        let cut = fixture("layouts/proc-self-mountstats.txt").replace("4000000 100 500 600 0", "4000000");
        assert_eq!(refusal_of(&cut).line, 14);
    }
}
