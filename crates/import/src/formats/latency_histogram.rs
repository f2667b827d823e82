//! Latency histograms as printed by bcc (print_log2_hist, print_linear_hist) and bpftrace: runqlat, ext4dist and similar tools,
//! biolatency of all devices together.

use super::biolatency;
use crate::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::catalogue::Latency;
use whyslow_model::histogram::{Histogram, bucket_of};

pub const FORMAT: Format = Format {
    name: "latency histogram",
    versions: "bcc, libbpf-tools, bpftrace: runqlat, biolatency, ext4dist, xfsdist, btrfsdist, nfsdist, zfsdist, fsdist; by process, operation or flags, too",
    shows: "how long tasks wait for a CPU, block requests and operations of files take, and how that is spread",
    lacks: "how much time that is of all; times more exact than within a factor of two; the device, without -D",
    programs: &[
        program("runqlat"),
        program("runqlat-bpfcc"),
        program("runqlat.bt"),
        program("biolatency.bt"),
        program("ext4dist"),
        program("ext4dist-bpfcc"),
        program("xfsdist"),
        program("xfsdist-bpfcc"),
        program("xfsdist.bt"),
        program("btrfsdist"),
        program("btrfsdist-bpfcc"),
        program("nfsdist"),
        program("nfsdist-bpfcc"),
        program("zfsdist"),
        program("zfsdist-bpfcc"),
        program("fsdist"),
    ],
    starts: |lines| {
        let below = |lines: &mut Lines<'_>, is: fn(&str) -> bool| lines.peek_past_blanks(1).is_some_and(|(_, t)| is(t));
        lines.next_is(|line| title(line).is_some() || biolatency::unit(line).is_some())
            || (lines.next_is(|line| section(line).is_some()) && below(lines, |line| biolatency::unit(line).is_some()))
            || (lines.next_is(|line| map(line).is_some()) && below(lines, |line| map_bucket(line).is_some()))
    },
    read,
    ..Format::NEW
};

const RUN_QUEUE: &str = "run queue";
const BLOCK: &str = "block request";
const FILE: &str = "file operation";

/// Kinds of latency, by the first words that the tools print.
const TITLES: [(&str, &str); 3] = [
    ("Tracing run queue latency...", RUN_QUEUE),
    ("Tracing CPU scheduler...", RUN_QUEUE),
    ("Tracing block device I/O...", BLOCK),
];

fn title(line: &str) -> Option<&'static str> {
    let operations = || line.strip_prefix("Tracing ").is_some_and(|rest| rest.contains(" operation latency..."));
    TITLES.iter().find(|(words, _)| line.starts_with(words)).map(|(_, kind)| *kind).or(operations().then_some(FILE))
}

/// Returns the kind of latency that a tool measures.
fn kind_of(program: &str) -> Option<&'static str> {
    let name = program.trim_end_matches(".bt").trim_end_matches("-bpfcc").trim_end_matches(".py");
    match name {
        "runqlat" => Some(RUN_QUEUE),
        "biolatency" => Some(BLOCK),
        name if name.ends_with("dist") && name != "cpudist" => Some(FILE),
        _ => None,
    }
}

/// Returns the name and value above the histogram of a part: `operation = 'read'`, `pid = 812 mysqld`, `flags = Sync-Write`.
fn section(line: &str) -> Option<(&str, &str)> {
    let (name, value) =
        line.trim().split_once('=').map_or((line.trim(), ""), |(name, value)| (name.trim(), value.trim()));
    let value = value.strip_prefix('b').filter(|rest| rest.starts_with(['\'', '"'])).unwrap_or(value);
    ["operation", "pid", "tid", "pidns", "flags"].contains(&name).then(|| (name, value.trim_matches(['\'', '"'])))
}

/// Returns the name and key of a bpftrace map: `@usecs:`, `@us[xfs_file_read_iter]: `.
fn map(line: &str) -> Option<(&str, &str)> {
    let rest = line.trim_end().strip_prefix('@')?.strip_suffix(':')?;
    Some(rest.strip_suffix(']').and_then(|rest| rest.split_once('[')).unwrap_or((rest, "")))
}

/// Returns the unit in nanoseconds that the name of a map indicates.
fn unit_of(name: &str) -> Option<f64> {
    let is = |units: &[&str]| name.split('_').any(|word| units.contains(&word));
    match () {
        () if is(&["ns", "nsecs", "nsec"]) => Some(1.0),
        () if is(&["us", "usecs", "usec"]) => Some(1e3),
        () if is(&["ms", "msecs", "msec"]) => Some(NS_PER_MS),
        () => None,
    }
}

/// Returns a bucket's limits and its count: `[2K, 4K)               229 |@@@@@@    |`, `[1]   12 |@@ |`, `[4096, ...)   1 |@
/// |`.
fn map_bucket(line: &str) -> Option<(f64, f64, u64)> {
    let rest = line.trim_start().strip_prefix('[')?;
    let end = rest.find([']', ')'])?;
    let limit = |text: &str| scaled(text.trim(), KIB, 1.0);
    let (from, to) = match rest[..end].split_once(',') {
        Some((from, to)) if to.trim() == "..." => (limit(from)?, limit(from)?),
        Some((from, to)) => (limit(from)?, limit(to)?),
        None => (limit(&rest[..end])?, limit(&rest[..end])?),
    };
    (line.matches('|').count() == 2).then_some(())?;
    let mut words = rest[end + 1..].split_whitespace();
    let count = words.next()?.parse().ok()?;
    (to >= from && words.next().is_some_and(|bar| bar.starts_with('|'))).then_some((from, to, count))
}

/// Returns the start of the next bucket: a single value has a bucket of its own.
fn end_of((from, to, _): (f64, f64, u64)) -> f64 {
    if to > from { to } else { from + 1.0 }
}

/// Returns true if a line may be the remnant of a bucket or of its headings.
fn is_damaged(line: &str) -> bool {
    let is_number = |word: &str| word == "-" || number(word).is_some();
    line.contains("->") || line.contains('|') || line.split_whitespace().all(is_number)
}

/// Returns true for lines that may stand between histograms.
fn is_between(line: &str) -> bool {
    let line = line.trim();
    clock::time_of_day(&[line]).is_some()
        || line == "^C"
        || (line.starts_with("Attaching ") && line.ends_with(" probes..."))
}

/// Part that a histogram describes: the process and the operation, if they are printed.
type Part = (Option<String>, Option<String>);

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let program = context.command().map(|command| command.program().to_owned()).unwrap_or_default();
    let mut kind = kind_of(&program);
    if let Some(titled) = lines.peek(0).and_then(title) {
        kind = Some(titled);
        lines.skip(1);
    }
    if kind == Some(BLOCK) && biolatency::device_of(context).is_some() {
        return biolatency::read(lines, context, run);
    }
    let line = lines.number();
    let mut open: Option<f64> = None;
    // Start of the next bucket; all buckets of a histogram are printed.
    let mut next: Option<f64> = None;
    let mut damaged: BTreeSet<Part> = BTreeSet::new();
    let mut is_named = false;
    let mut part: Part = (None, None);
    let mut parts: BTreeMap<Part, Vec<(u32, u64)>> = BTreeMap::new();
    let mut is_unknown = false;
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        if let Some((name, value)) = section(text) {
            part = match name {
                "operation" | "flags" => (None, Some(value.to_owned())),
                _ => (Some(process_of(value)), None),
            };
            is_named = true;
            if value.is_empty() {
                damaged.insert(part.clone());
            }
        } else if let Some(unit) = biolatency::unit(text) {
            // The name of this part was lost.
            if !is_named && part != (None, None) {
                part = (None, None);
                damaged.insert(part.clone());
            }
            (open, next, is_named) = (Some(unit), None, false);
        } else if let Some((name, key)) = map(text) {
            (open, next) = (unit_of(name), None);
            is_unknown |= open.is_none();
            part = (None, Some(key.to_owned()).filter(|key| !key.is_empty()));
        } else if let Some((from, to, count)) =
            biolatency::bucket(text).map(|(from, to, count)| (from, to + 1.0, count)).or(map_bucket(text))
        {
            let bucket = (from, to, count);
            if next.is_some_and(|next| next != from) {
                damaged.insert(part.clone());
            }
            next = Some(end_of(bucket));
            if let Some(unit) = open {
                let value = ((from + to) / 2.0 * unit) as u64;
                parts.entry(part.clone()).or_default().push((bucket_of(value), count));
            }
        } else if blanks == 0 && is_damaged(text) && !is_command(text) {
            damaged.insert(part.clone());
        } else if !is_between(text) {
            break;
        }
        lines.skip(blanks + 1);
    }
    // Either all parts have a name, or there is only one.
    if parts.len() > 1 {
        parts.remove(&(None, None));
    }
    if parts.keys().any(|part| damaged.contains(part)) {
        run.note("a histogram", "lines are missing or damaged: it is left out", "give it as it was printed");
        parts.retain(|part, _| !damaged.contains(part));
    }
    let Some(kind) = kind.filter(|_| !is_unknown) else {
        let why = "what it counts, or its unit, is not printed";
        run.note("a histogram", why, "keep the command line, and the first line that the tool prints");
        return Ok(());
    };
    for ((subject, operation), buckets) in parts {
        let of = [subject.as_deref(), operation.as_deref()].into_iter().flatten().next();
        let what =
            of.map_or(kind.to_owned(), |of| if subject.is_some() { of.to_owned() } else { format!("{kind}: {of}") });
        let row = run.row::<Latency>(0.0, line, what.as_str().into());
        row.kind = kind.into();
        row.subject = subject.as_deref().into();
        row.operation = operation.as_deref().into();
        row.time = Histogram::from_counts(buckets);
    }
    Ok(())
}

/// Formats `812 mysqld` or `812` for a person to read.
fn process_of(value: &str) -> String {
    match value.split_once(' ') {
        Some((pid, name)) => format!("{} ({pid})", name.trim()),
        None => format!("process {value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    fn rows(text: &str) -> Vec<(String, Option<u64>, f64)> {
        let window = window_of(text);
        let rows = window.newest::<Latency>();
        rows.into_values()
            .map(|row| (row.what.to_string(), row.time.count(), row.time.quantile(0.5).unwrap()))
            .collect()
    }

    #[test]
    fn waits_for_a_cpu() {
        let found = rows(&fixture("runqlat.txt"));
        let [(what, count, median)] = &found[..] else { panic!("{found:?}") };
        // 37 + 212 + 132 + 397 + 220 + 12 + 10 + 5 + 5 + 3 + 2; the first 518 of them are among the 778 below 16 µs.
        assert_eq!((what.as_str(), *count), ("run queue", Some(1035)));
        assert!((8e3..16e3).contains(median), "{median}");
    }

    #[test]
    fn operations_and_processes_are_told_apart() {
        let found = rows(&fixture("layouts/ext4dist.txt"));
        let counts: Vec<_> = found.iter().map(|(what, count, _)| (what.as_str(), count.unwrap())).collect();
        assert_eq!(counts, [("file operation: fsync", 92), ("file operation: read", 1210)]);
        assert!((32.768e6..65.536e6).contains(&found[0].2), "{found:?}");
        let text = fixture("runqlat.txt").replace("     usecs", "pid = 812 mysqld\n     usecs");
        assert_eq!(rows(&text)[0].0, "mysqld (812)");
    }

    #[test]
    fn maps_of_bpftrace() {
        let found = rows(&fixture("layouts/biolatency-bt.txt"));
        // 4 + 120 + 40 + 9 + 1; the 87th of these 174 is between 256 and 512 µs.
        assert_eq!((found[0].0.as_str(), found[0].1), ("block request", Some(174)));
        assert!((256e3..512e3).contains(&found[0].2), "{found:?}");
        for (line, bucket) in [
            ("[1]                    3 |@@ |", Some((1.0, 1.0, 3))),
            ("[2K, 4K)              12 |@@ |", Some((2048.0, 4096.0, 12))),
            ("[100, ...)             1 |@ |", Some((100.0, 100.0, 1))),
            ("[2, 4) 12", None),
            ("[a, b) 12 |", None),
        ] {
            assert_eq!(map_bucket(line), bucket, "{line}");
        }
    }

    #[test]
    fn what_was_timed_must_be_known() {
        let text = fixture("layouts/biolatency-bt.txt");
        let untitled = text.lines().filter(|line| !line.starts_with("Tracing") && !line.starts_with('#'));
        let window = window_of(&untitled.map(|line| format!("{line}\n")).collect::<String>());
        assert!(window.newest::<Latency>().is_empty());
        assert!(window.snapshots()[0].sources.iter().any(|source| source.tells.contains("histogram")));
    }
}
