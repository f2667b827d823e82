//! Lists of operations that took longer than a limit, by tools of bcc and libbpf: ext4slower and similar tools, fileslower,
//! runqslower.

use crate::prelude::*;
use crate::table::is_table_row;
use std::collections::BTreeMap;
use whyslow_model::catalogue::Latency;
use whyslow_model::histogram::{Histogram, bucket_of};

pub const FORMAT: Format = Format {
    name: "ext4slower",
    versions: "bcc and libbpf-tools: ext4slower, xfsslower, btrfsslower, nfsslower, zfsslower, fsslower, fileslower, runqslower",
    shows: "which programs wait a long time for reading, writing, opening or syncing files, or for a CPU",
    lacks: "how many operations were faster than the limit; the device",
    programs: &[
        program("ext4slower"),
        program("ext4slower-bpfcc"),
        program("xfsslower"),
        program("xfsslower-bpfcc"),
        program("btrfsslower"),
        program("btrfsslower-bpfcc"),
        program("nfsslower"),
        program("nfsslower-bpfcc"),
        program("zfsslower"),
        program("zfsslower-bpfcc"),
        program("fsslower"),
        program("fileslower"),
        program("fileslower-bpfcc"),
        program("runqslower"),
        program("runqslower-bpfcc"),
    ],
    streamed: true,
    starts: |lines| lines.next_is(|line| limit(line).is_some() || List::parse(line).is_some()),
    read,
    ..Format::NEW
};

/// Returns the limit in nanoseconds in `Tracing ext4 operations slower than 10 ms` or `Tracing run queue latency higher than
/// 10000 us`.
fn limit(line: &str) -> Option<f64> {
    let rest = line.strip_prefix("Tracing ")?;
    let (_, limit) = rest.split_once(" slower than ").or_else(|| rest.split_once(" higher than "))?;
    let mut words = limit.split_whitespace();
    let value = number(words.next()?)?;
    match words.next()?.trim_end_matches(['.', ',']) {
        "ms" => Some(value * NS_PER_MS),
        "us" => Some(value * 1e3),
        _ => None,
    }
}

/// Columns of a list.
#[derive(Clone, Copy, Debug, PartialEq)]
enum List {
    /// `TIME     COMM           PID    T BYTES   OFF_KB   LAT(ms) FILENAME`
    Operations,
    /// `TIME(s)  COMM           TID    D BYTES   LAT(ms) FILENAME`
    ReadsAndWrites,
    /// `TIME     COMM             TID           LAT(us)`
    RunQueue,
}

impl List {
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["TIME", "COMM", "PID", "T", "BYTES", "OFF_KB", "LAT(ms)", "FILENAME"] => Some(Self::Operations),
            ["TIME(s)", "COMM", "TID" | "PID", "D", "BYTES", "LAT(ms)", "FILENAME"] => Some(Self::ReadsAndWrites),
            ["TIME", "COMM", "TID" | "PID", "LAT(us)", ..] => Some(Self::RunQueue),
            _ => None,
        }
    }

    /// Returns the program, the operation, and the time in nanoseconds. The name of a program may contain spaces.
    fn row(self, line: &str) -> Option<(String, Option<&'static str>, f64)> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_time = |word: &&str| word.contains(':') || number(word).is_some();
        words.first().filter(|word| is_time(word))?;
        let (numbers, unit) = match self {
            Self::Operations => (3, NS_PER_MS),
            Self::ReadsAndWrites => (2, NS_PER_MS),
            Self::RunQueue => (1, 1e3),
        };
        (2..words.len()).find_map(|at| {
            words[at].parse::<u32>().ok()?;
            let operation = operation(words.get(at + 1)?);
            let first = at + 1 + usize::from(operation.is_some());
            (operation.is_some() != (self == Self::RunQueue)).then_some(())?;
            // These words must be the name of a program, without another row before this one.
            (!is_table_row(&words[1..at].join(" "))).then_some(())?;
            let values: Option<Vec<f64>> =
                words.get(first..first + numbers)?.iter().map(|word| number(word.trim_start_matches('-'))).collect();
            // The name of a file follows, without text that was joined to it.
            let rest = &words[first + numbers..];
            let is_whole = (self == Self::RunQueue || !rest.is_empty()) && !is_table_row(&rest.join(" "));
            is_whole.then_some(())?;
            Some((words[1..at].join(" "), operation, values?.last()? * unit))
        })
    }
}

/// A program and its operation.
type SlowOperation = (String, Option<&'static str>);

fn operation(letter: &str) -> Option<&'static str> {
    match letter {
        "R" => Some("read"),
        "W" => Some("write"),
        "O" => Some("open"),
        "S" => Some("fsync"),
        _ => None,
    }
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let asked = context.command().filter(|c| c.program().starts_with("runqslower")).and_then(|c| {
        let limit = c.operands().next().and_then(number);
        limit.map(|us| us * 1e3)
    });
    let mut slower_than = asked;
    if let Some(titled) = lines.peek(0).and_then(limit) {
        slower_than = Some(titled);
        lines.skip(1);
    }
    let Some(header) = lines.take_past_blanks_if(|text| List::parse(text).is_some()) else { return Ok(()) };
    let Some(list) = List::parse(&header.text) else { return Ok(()) };
    let mut times: BTreeMap<SlowOperation, (u32, Vec<(u32, u64)>)> = BTreeMap::new();
    let is_damaged =
        |text: &str| text.split_whitespace().next().is_some_and(|word| clock::time_of_day(&[word]).is_some());
    while let Some(line) = lines.take_own(|text| list.row(text).is_some(), is_damaged, "an operation in one line")? {
        if let Some((program, operation, time)) = list.row(&line.text) {
            let (_, buckets) = times.entry((program, operation)).or_insert((line.number, Vec::new()));
            let bucket = bucket_of(time as u64);
            match buckets.iter_mut().find(|(known, _)| *known == bucket) {
                Some((_, count)) => *count += 1,
                None => buckets.push((bucket, 1)),
            }
        }
    }
    for ((program, operation), (line, buckets)) in times {
        let what = operation.map_or(program.clone(), |operation| format!("{program}: {operation}"));
        let row = run.row::<Latency>(0.0, line, what.as_str().into());
        row.kind = if list == List::RunQueue { "run queue" } else { "file operation" }.into();
        row.subject = program.as_str().into();
        row.operation = operation.into();
        row.slower_than = slower_than.into();
        row.time = Histogram::from_counts(buckets);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn slow_operations_are_counted_by_program() {
        let window = window_of(&fixture("layouts/ext4slower.txt"));
        let rows: Vec<_> = window
            .newest::<Latency>()
            .into_values()
            .map(|row| (&*row.what, row.operation.get(), row.slower_than.get(), row.time.count()))
            .collect();
        assert_eq!(
            rows,
            [
                ("my daemon: read", Some("read"), Some(10e6), Some(1)),
                ("mysqld: fsync", Some("fsync"), Some(10e6), Some(12)),
            ]
        );
    }

    #[test]
    fn waits_for_a_cpu_are_read() {
        let window = window_of(&fixture("runqslower.txt"));
        let rows: Vec<_> = window
            .newest::<Latency>()
            .into_values()
            .map(|row| (&*row.what, row.kind.get(), row.time.count()))
            .collect();
        assert_eq!(rows, [("dd", Some("run queue"), Some(24))]);
    }

    #[test]
    fn rows_of_every_list() {
        let time = |list: List, line: &str| list.row(line).map(|(program, _, time)| (program, time));
        let read = "0.000    randread.pl    5167   R 8192   0.84 data1";
        assert_eq!(time(List::ReadsAndWrites, read), Some(("randread.pl".into(), 0.84e6)));
        assert_eq!(time(List::RunQueue, "04:16:32 a b   12924   12739"), Some(("a b".into(), 12739e3)));
        assert_eq!(time(List::Operations, "Then it became slow 5 R"), None);
    }
}
