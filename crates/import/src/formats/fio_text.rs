//! fio's text output (stat.c of fio): results of each job, sums of each group, and the disks' statistics. People cut it down to
//! the lines that matter to them, so each of these is read by itself.

use super::fio::{JobTransfer, note_several_groups, options_of, record_disk};
use crate::prelude::*;
use crate::wrap::{Wrap, columns};
use std::collections::BTreeMap;

/// Maximum number of lines into which a mail program breaks one.
const MOST_WRAPPED: usize = 5;
/// Maximum relative distance between a power of two and a rate divided by a count, both rounded to three digits.
const ROUNDING: f64 = 0.02;

/// Kind of a line of the output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineKind {
    /// `job: (g=0): rw=write, bs=4K-4K/4K-4K/4K-4K, ioengine=libaio, iodepth=32`
    Setup,
    /// `job: (groupid=0, jobs=1): err= 0: pid=3351: ...`
    Job,
    /// `  read: IOPS=11.6k, BW=45.2MiB/s (47.4MB/s)(226MiB/5003msec)`,
    /// `  write: io=400004KB, bw=19999KB/s, iops=4999, runt= 20001msec`
    Result,
    /// `    sync (usec): min=94, max=43331, avg=7516.14, stdev=8136.43`
    Syncs,
    /// `     issued rwts: total=57856,57628,0,0 short=0,0,0,0 dropped=0,0,0,0`
    Issued,
    /// `   READ: bw=45.2MiB/s (47.4MB/s), ..., io=226MiB (237MB), run=5003-5003msec`
    Sum,
    /// `Run status group 0 (all jobs):`, `Disk stats (read/write):`
    Heading,
    /// `  loop0: ios=57014/59486, merge=0/496, ticks=9013/15868, in_queue=25813, util=82.45%`
    Disk,
    /// Latencies, percentiles, the state of running jobs.
    Other,
}

/// Placeholder for the name of a job without its title.
const UNNAMED: &str = "fio";
const DIRECTIONS: [&str; 4] = ["read", "write", "trim", "mixed"];
/// First words of lines that are ignored.
const OTHER: [&str; 13] = [
    "slat",
    "clat",
    "lat",
    "bw",
    "iops",
    "cpu",
    "IO",
    "submit",
    "complete",
    "latency",
    "sync",
    "issued",
    "fsync/fdatasync/sync_file_range",
];

fn kind_of(line: &str) -> Option<LineKind> {
    let line = line.trim();
    let (key, rest) = line.split_once(':').unwrap_or((line, ""));
    let (key, rest) = (key.trim(), rest.trim_start());
    let first = key.split_whitespace().next().unwrap_or_default();
    let is_version = || first.strip_prefix("fio-").is_some_and(|v| v.starts_with(|c: char| c.is_ascii_digit()));
    if rest.starts_with("(g=") && rest.contains("): rw=") {
        Some(LineKind::Setup)
    } else if rest.starts_with("(groupid=") && rest.contains("jobs=") {
        Some(LineKind::Job)
    } else if DIRECTIONS.iter().any(|name| key.eq_ignore_ascii_case(name)) && rest.starts_with("IOPS=")
        || DIRECTIONS.contains(&key) && is_old_result(rest)
    {
        Some(LineKind::Result)
    } else if DIRECTIONS.iter().any(|name| key == name.to_ascii_uppercase())
        && (rest.starts_with("bw=") || rest.starts_with("io="))
    {
        Some(LineKind::Sum)
    } else if key.starts_with("Run status group ") || line.starts_with("Disk stats (read/write)") {
        Some(LineKind::Heading)
    } else if rest.starts_with("ios=") && !key.contains(' ') {
        Some(LineKind::Disk)
    } else if first == "sync" && rest.starts_with("min=") {
        Some(LineKind::Syncs)
    } else if first == "issued" && rest.starts_with("total=") {
        Some(LineKind::Issued)
    } else if OTHER.contains(&first)
        && (rest.contains('=') || key.contains("percentiles") || first.starts_with("fsync/"))
        || first == "Jobs" && rest.contains("(f=")
        || line.contains("[eta ")
        || line.contains("th=[")
        || rest.starts_with("Laying out IO file")
        || key == "fio"
        || key == "..."
        || is_version()
        || is_start(line)
    {
        Some(LineKind::Other)
    } else {
        None
    }
}

fn is_old_result(rest: &str) -> bool {
    rest.starts_with("io=") && rest.contains("bw=")
}

/// Returns true for `Starting 4 processes`, `Starting 1 process and 2 threads`.
fn is_start(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next() == Some("Starting")
        && words.next().is_some_and(|count| number(count).is_some())
        && words.next().is_some_and(|what| what.starts_with("process") || what.starts_with("thread"))
}

/// Returns true if a line of this kind has everything that is read from it.
fn is_complete(kind: LineKind, line: &str) -> bool {
    match kind {
        LineKind::Setup => line.contains("iodepth="),
        LineKind::Result => line.contains("msec"),
        LineKind::Syncs => line.contains("stdev="),
        LineKind::Sum => {
            line.contains("run=") && line.contains("msec") || line.contains("maxt=") && line.ends_with("msec")
        }
        LineKind::Disk => line.contains("util="),
        _ => true,
    }
}

/// Returns true for the wrapped rest of a line: `ticks=0/0, in_queue=0, util=0.00%,`.
fn is_rest(line: &str) -> bool {
    let mut parts = line.trim().split(", ").map(|part| part.trim_end_matches(',')).filter(|part| !part.is_empty());
    let mut any = false;
    parts.all(|part| {
        any = true;
        part.contains('=') || part.starts_with("(T)") || part.ends_with("B/s)")
    }) && any
}

/// Returns true if the output, or a line of it that is meaningful by itself, begins at the next line.
pub fn begins(lines: &mut Lines<'_>) -> bool {
    use LineKind::{Disk, Heading, Job, Result, Setup, Sum};
    let is_first = |kind: LineKind| matches!(kind, Setup | Job | Result | Sum | Heading | Disk);
    lines.next_is(|line| kind_of(line).is_some_and(is_first))
}

pub fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut report = FioReport::default();
    let mut wrap = lines.wrap();
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        let Some(kind) = kind_of(text) else {
            if is_rest(text) && !another_output_starts(lines, super::fio::FORMAT.name) {
                lines.skip(blanks + 1);
                continue;
            }
            break;
        };
        if kind == LineKind::Setup && report.has_results() {
            break;
        }
        lines.skip(blanks);
        let line = lines.number();
        let text = take_joined(lines, kind, &mut wrap);
        report.add(kind, line, text.trim());
    }
    report.record(context, run);
    Ok(())
}

/// Takes a line, and the lines to which it was wrapped.
fn take_joined(lines: &mut Lines<'_>, kind: LineKind, wrap: &mut Wrap) -> String {
    let first = lines.peek(0).unwrap_or_default().to_owned();
    wrap.add(&first);
    let (mut joined, mut last) = (first.clone(), columns(&first));
    let mut count = 1;
    while count <= MOST_WRAPPED {
        let is_rest = |next: &&str| {
            let may_be = !is_complete(kind, &joined) || wrap.breaks(last, next);
            may_be && kind_of(next).is_none() && !next.trim().is_empty()
        };
        let Some(next) = lines.peek(count).filter(is_rest) else { break };
        last = columns(next);
        joined = format!("{joined} {}", next.trim());
        count += 1;
    }
    match is_complete(kind, &joined) {
        true => {
            lines.skip(count);
            joined
        }
        false => lines.take().map(|line| line.text).unwrap_or_default(),
    }
}

/// Setup of a job.
struct JobSetup {
    work: String,
    /// Sizes of reads and of writes, if they are all equal.
    blocks: [Option<f64>; 2],
    engine: Option<String>,
    depth: Option<String>,
}

#[derive(Default)]
struct FioJob {
    /// Name, group and process.
    id: [String; 3],
    processes: f64,
    results: Vec<FioResult>,
    /// Mean time of a call of fsync or fdatasync, in nanoseconds.
    sync_time: Option<f64>,
    /// Numbers of reads, writes, discards and, since fio 3, syncs.
    issued: Vec<f64>,
}

struct FioResult {
    direction: &'static str,
    line: u32,
    per_second: Option<f64>,
    rate: f64,
    bytes: Option<f64>,
    seconds: Option<f64>,
}

struct FioDisk {
    line: u32,
    name: String,
    counts: BTreeMap<String, f64>,
    busy: f64,
}

#[derive(Default)]
struct FioReport {
    setups: BTreeMap<String, JobSetup>,
    jobs: Vec<FioJob>,
    /// Index of the job whose results follow.
    open: usize,
    sums: Vec<FioResult>,
    disks: Vec<FioDisk>,
}

impl FioReport {
    fn has_results(&self) -> bool {
        !self.jobs.is_empty() || !self.sums.is_empty() || !self.disks.is_empty()
    }

    fn add(&mut self, kind: LineKind, line: u32, text: &str) {
        let (key, rest) = text.split_once(':').map_or(("", ""), |(key, rest)| (key.trim(), rest.trim()));
        match kind {
            LineKind::Setup => drop(self.setups.insert(key.to_owned(), setup(rest))),
            LineKind::Job => self.open_job(key, rest),
            LineKind::Result => {
                if let Some((direction, result)) = direction(key).zip(result(rest)) {
                    // A second result belongs to a job whose title was lost.
                    if self.job().results.iter().any(|earlier| earlier.direction == direction) {
                        self.open_job(UNNAMED, "");
                    }
                    self.job().results.push(FioResult { direction, line, ..result });
                }
            }
            LineKind::Syncs => {
                let unit =
                    [("(nsec)", 1.0), ("(usec)", 1e3), ("(msec)", 1e6)].iter().find(|(name, _)| key.contains(name));
                let mean = fields(rest).find(|(name, _)| *name == "avg").and_then(|(_, value)| number(value));
                self.job().sync_time = unit.zip(mean).map(|((_, unit), mean)| mean * unit);
            }
            LineKind::Issued => self.job().issued = issued(rest),
            LineKind::Sum => {
                if let Some((direction, result)) = direction(key).zip(sum(rest)) {
                    self.sums.push(FioResult { direction, line, ..result });
                }
            }
            LineKind::Disk => {
                if let Some(disk) = disk(line, key, rest) {
                    self.disks.retain(|earlier| earlier.name != disk.name);
                    self.disks.push(disk);
                }
            }
            LineKind::Heading | LineKind::Other => {}
        }
    }

    /// Opens a job. With --status-interval, a later report of a job replaces the earlier one.
    fn open_job(&mut self, name: &str, rest: &str) {
        let after = |key: &str, ends: &[char]| rest.split_once(key).and_then(|(_, r)| r.split(ends).next());
        let id = [name, after("groupid=", &[',']).unwrap_or(""), after("pid=", &[':']).unwrap_or("")];
        let job = FioJob {
            id: id.map(|part| part.trim().to_owned()),
            processes: after("jobs=", &[')']).and_then(number).unwrap_or(1.0),
            ..FioJob::default()
        };
        self.open = self.jobs.iter().position(|earlier| earlier.id == job.id).unwrap_or(self.jobs.len());
        match self.jobs.get_mut(self.open) {
            Some(earlier) => *earlier = job,
            None => self.jobs.push(job),
        }
    }

    /// Returns the job that a line belongs to; its title may have been cut off.
    fn job(&mut self) -> &mut FioJob {
        if self.jobs.is_empty() {
            self.open = 0;
            self.jobs.push(FioJob {
                id: [UNNAMED.into(), String::new(), String::new()],
                processes: 1.0,
                ..FioJob::default()
            });
        }
        &mut self.jobs[self.open]
    }

    fn record(self, context: OutputContext<'_>, run: &mut ToolRun) {
        let command = context.command_of("fio");
        let argument = |name: &str| {
            command?.arguments().find_map(|a| match a.trim_start_matches('-').strip_prefix(name)? {
                "" => Some("1"),
                value => value.strip_prefix('='),
            })
        };
        // The options in a job file are not printed.
        let is_complete = command.is_some_and(|command| command.operands().next().is_none());
        let results = || self.jobs.iter().flat_map(|job| job.results.iter().map(move |result| (job, result)));
        for (job, result) in results() {
            let name = job.id[0].as_str();
            let setup = self.setups.get(name);
            let work = setup.map_or(result.direction, |setup| setup.work.as_str());
            let file = argument("filename").or(argument("directory")).unwrap_or(name);
            let at = usize::from(result.direction == "write");
            // fio does not count the calls that fdatasync= causes.
            let counted = job.issued.get(3).copied().filter(|count| *count > 0.0);
            let estimated = || Some(job.issued.get(1)? / argument("fdatasync").or(argument("fsync")).and_then(number)?);
            let syncs = counted.or_else(estimated).zip(job.sync_time).filter(|_| result.direction == "write");
            JobTransfer {
                job: name.to_owned(),
                direction: result.direction,
                kind: JobTransfer::kind_of(work, file, result.direction),
                line: result.line,
                bytes: result.bytes,
                seconds: result.seconds,
                rate: result.rate,
                operations: result.per_second,
                block: setup.and_then(|setup| setup.blocks[at]).or_else(|| block(result, job.issued.get(at).copied())),
                syncs,
                processes: job.processes,
                options: options_of(result.direction, is_complete, job.processes, |option| match (option, setup) {
                    ("rw", Some(setup)) => Some(setup.work.as_str()),
                    ("ioengine", Some(setup)) => setup.engine.as_deref().or(argument(option)),
                    ("iodepth", Some(setup)) => setup.depth.as_deref().or(argument(option)),
                    _ => argument(option),
                }),
            }
            .record(run);
        }
        // The sums repeat the results, unless those were cut off.
        for result in self.sums.iter().filter(|_| results().next().is_none()) {
            JobTransfer {
                job: "fio".to_owned(),
                direction: result.direction,
                kind: JobTransfer::kind_of(
                    result.direction,
                    argument("filename").unwrap_or("all jobs"),
                    result.direction,
                ),
                line: result.line,
                bytes: result.bytes,
                seconds: result.seconds,
                rate: result.rate,
                ..JobTransfer::default()
            }
            .record(run);
        }
        let seconds = results().map(|(_, result)| result).chain(&self.sums).filter_map(|r| r.seconds);
        let longest = seconds.fold(0.0, f64::max);
        if self.disks.is_empty() {
        } else if self.jobs.iter().any(|job| job.id[1] != self.jobs[0].id[1]) {
            note_several_groups(run);
        } else if longest > 0.0 {
            for disk in self.disks {
                record_disk(run, disk.line, &disk.name, disk.counts, disk.busy, longest);
            }
        } else {
            run.note("the disks' statistics", "the time that they cover was cut off", "give the whole output of fio");
        }
    }
}

/// Returns the size of a request: bytes over their exact number, or the rate over the requests per second, both rounded.
fn block(result: &FioResult, issued: Option<f64>) -> Option<f64> {
    if let Some((bytes, count)) = result.bytes.zip(issued).filter(|(_, count)| *count > 0.0) {
        return Some(rounded(bytes / count));
    }
    result.per_second.filter(|n| *n > 0.0).map(|n| rounded(result.rate / n))
}

fn rounded(size: f64) -> f64 {
    let power = size.log2().round().exp2();
    if (size / power - 1.0).abs() < ROUNDING { power } else { size }
}

fn direction(key: &str) -> Option<&'static str> {
    ["read", "write"].into_iter().find(|name| key.eq_ignore_ascii_case(name))
}

/// Splits text into `name=value` pairs, with spaces before some values.
fn fields(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(',').filter_map(|field| field.trim().split_once('=')).map(|(name, value)| (name.trim(), value.trim()))
}

fn value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    fields(text).find(|(own, _)| *own == name).map(|(_, value)| value)
}

/// Parses bytes: `45.2MiB`, `413696B`. Since fio 3 `MB` is decimal; before, `KB` is 1024 bytes (kb_base).
fn bytes(text: &str, is_old: bool) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let thousand = if is_old { KIB } else { 1e3 };
    let unit = match &text[digits.len()..] {
        "" | "B" => 1.0,
        "K" | "KiB" => KIB,
        "M" | "MiB" => MIB,
        "G" | "GiB" => GIB,
        "T" | "TiB" => GIB * KIB,
        "kB" | "KB" => thousand,
        "MB" => thousand.powi(2),
        "GB" => thousand.powi(3),
        "TB" => thousand.powi(4),
        _ => return None,
    };
    Some(number(digits)? * unit)
}

fn milliseconds(text: &str) -> Option<f64> {
    Some(number(text.trim().strip_suffix("msec")?)? / 1e3).filter(|seconds| *seconds > 0.0)
}

/// Parses `(g=0): rw=randrw, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=libaio, iodepth=8`.
fn setup(text: &str) -> JobSetup {
    let work = text.split_once("rw=").and_then(|(_, rest)| rest.split(',').next());
    let same = |range: &str| {
        let (least, most) = range.trim().split_once('-')?;
        let (least, most) = (bytes(least, false)?, bytes(most.trim_end_matches(','), false)?);
        (least == most && least > 0.0).then_some(least)
    };
    let sizes = text.split_once("bs=").map_or("", |(_, rest)| rest);
    let of = |mark: &str| sizes.split_once(mark).and_then(|(_, rest)| rest.split_whitespace().next());
    let blocks = match sizes.starts_with("(R)") {
        true => [of("(R)"), of("(W)")].map(|range| range.and_then(same)),
        false => {
            let mut ranges = sizes.split([',', ' ']).next().unwrap_or_default().split('/');
            [ranges.next().and_then(same), ranges.next().and_then(same)]
        }
    };
    let after =
        |key: &str| text.split_once(key).and_then(|(_, rest)| rest.split(',').next()).map(|v| v.trim().to_owned());
    let (engine, depth) = (after("ioengine="), after("iodepth="));
    JobSetup { work: work.unwrap_or("read").trim().to_owned(), blocks, engine, depth }
}

/// Parses the text after `read: `; the caller sets direction and line.
fn result(text: &str) -> Option<FioResult> {
    if is_old_result(text) {
        let rate = bytes(value(text, "bw")?.strip_suffix("/s")?, true)?;
        return Some(FioResult {
            direction: "",
            line: 0,
            per_second: value(text, "iops").and_then(|n| scaled(n, 1e3, 1.0)),
            rate,
            bytes: value(text, "io").and_then(|n| bytes(n, true)),
            seconds: value(text, "runt").and_then(milliseconds),
        })
        .filter(|result| result.rate > 0.0);
    }
    // People who type these lines omit commas, and align the numbers.
    let after = |name: &str| text.split_once(name)?.1.trim_start().split([',', ' ', '(', ';']).next();
    let rate = after("BW=")?.strip_suffix("/s").and_then(|rate| bytes(rate, false))?;
    // `(226MiB/5003msec)`
    let total = text.split('(').filter_map(|part| part.split_once(')')).map(|(inside, _)| inside);
    let total = total.filter_map(|inside| inside.split_once('/')).find(|(_, time)| time.ends_with("msec"));
    Some(FioResult {
        direction: "",
        line: 0,
        per_second: after("IOPS=").and_then(|n| scaled(n, 1e3, 1.0)),
        rate,
        bytes: total.and_then(|(size, _)| bytes(size, false)),
        seconds: total.and_then(|(_, time)| milliseconds(time)),
    })
    .filter(|result| result.rate > 0.0)
}

/// Parses `bw=45.2MiB/s (47.4MB/s), ..., io=226MiB (237MB), run=5003-5003msec` or `io=400004KB, aggrb=19999KB/s,
/// minb=19999KB/s, maxb=19999KB/s, mint=20001msec, maxt=20001msec`.
fn sum(text: &str) -> Option<FioResult> {
    let is_old = text.starts_with("io=");
    let first = |name: &str| value(text, name).and_then(|v| v.split_whitespace().next());
    let rate = bytes(first(if is_old { "aggrb" } else { "bw" })?.strip_suffix("/s")?, is_old)?;
    let longest = if is_old { first("maxt") } else { first("run").and_then(|times| times.rsplit('-').next()) };
    let total = first("io").and_then(|n| bytes(n, is_old));
    Some(FioResult {
        direction: "",
        line: 0,
        per_second: None,
        rate,
        bytes: total,
        seconds: longest.and_then(milliseconds),
    })
    .filter(|result| result.rate > 0.0)
}

/// Parses `total=57856,57628,0,0 short=...` since fio 3, `total=r=0/w=100001/d=0, short=...` before.
fn issued(text: &str) -> Vec<f64> {
    let total = text.trim_start_matches("total=").split(' ').next().unwrap_or_default().trim_end_matches(',');
    let counts = total.split([',', '/']).map(|n| n.trim_start_matches(['r', 'w', 'd', '=']));
    counts.map_while(|n| n.parse().ok()).collect()
}

/// Parses `ios=57014/59486, merge=0/496, ticks=9013/15868, in_queue=25813, util=82.45%`; sums over an array's members follow.
fn disk(line: u32, name: &str, text: &str) -> Option<FioDisk> {
    const PAIRS: [(&str, &str); 4] = [("ios", "ios"), ("merge", "merges"), ("sectors", "sectors"), ("ticks", "ticks")];
    let mut counts = BTreeMap::new();
    let mut busy = None;
    for (field, value) in fields(text) {
        if let Some((_, what)) = PAIRS.iter().find(|(own, _)| *own == field) {
            let (read, write) = value.split_once('/')?;
            counts.insert(format!("read_{what}"), number(read)?);
            counts.insert(format!("write_{what}"), number(write)?);
        } else if field == "in_queue" {
            counts.insert(field.to_owned(), number(value)?);
        } else if field == "util" {
            busy = number(value.strip_suffix('%')?).map(|percent| percent / 100.0);
        }
    }
    Some(FioDisk { line, name: name.to_owned(), counts, busy: busy? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, row_of, window_of};
    use whyslow_model::catalogue::{Disk, Transfer};

    fn close(found: Option<f64>, expected: f64) {
        assert!(found.is_some_and(|n| (n / expected - 1.0).abs() < 0.01), "{found:?} is not {expected}");
    }

    #[test]
    fn both_directions_and_the_disk_below() {
        let window = window_of(&fixture("fio-randrw.txt"));
        let rows = window.newest::<Transfer>();
        let [read, write] = ["randrw: read, line 8", "randrw: write, line 20"].map(|name| {
            rows.values().find(|row| *row.transfer == *name).unwrap_or_else(|| panic!("{name}: {:?}", rows.keys()))
        });
        close(read.rate.get(), 45.2 * MIB);
        close(write.bytes.get(), 225.0 * MIB);
        assert_eq!((read.block.get(), read.time.get()), (Some(4096.0), Some(5.003 * SECOND)));
        let change = &window.changes::<Disk>()[0];
        close(change.rate(|d| d.reads), 57_014.0 / 5.003);
        close(change.rate(|d| d.write_time).map(|t| t / SECOND), 15.868 / 5.003);
        close(change.rate(|d| d.busy_time).map(|t| t / SECOND), 0.8245);
    }

    #[test]
    fn what_fsync_costs_and_the_last_of_several_reports() {
        let row = row_of::<Transfer>(&fixture("fio-fsync-status.txt"));
        close(row.rate.get(), 516.0 * KIB);
        assert_eq!(row.syncs.get(), Some(388.0));
        close(row.sync_wait.get(), 7516.14e3);
        close(row.sync_share.get(), 388.0 * 7.51614 / 3007.0);
    }

    #[test]
    fn syncs_that_were_not_counted_are_as_many_as_were_asked_for() {
        let text = fixture("fio-fsync-status.txt").replace("total=0,", "total=0,64,0,0 x=0,");
        let of = |command: &str| row_of::<Transfer>(&format!("$ fio --name=small {command}\n{text}")).syncs.get();
        assert_eq!((of("--fdatasync=1"), of("--fdatasync=32"), of("job.fio")), (Some(64.0), Some(2.0), None));
    }

    #[test]
    fn the_disks_of_several_groups_have_no_rate() {
        let window = window_of(&fixture("fio-groups.txt"));
        assert_eq!(window.newest::<Transfer>().len(), 2);
        assert_eq!(window.changes::<Disk>().len(), 0);
    }

    #[test]
    fn the_layout_of_version_2_wrapped_by_a_mail_program() {
        let text = "job: (g=0): rw=write, bs=16K-16K/16K-16K/16K-16K, ioengine=libaio,\niodepth=32\nfio-2.2.10\n\
            Starting 1 process\n\njob: (groupid=0, jobs=1): err= 0: pid=7: Fri Aug  2 15:31:26 2019\n  \
            write: io=400000KB, bw=20000KB/s, iops=1250, runt=\n20000msec\n    slat (usec): min=3, max=26, avg= 3.12, stdev= 0.36\n     \
            issued    : total=r=0/w=25000/d=0, short=r=0/w=0/d=0, drop=r=0/w=0/d=0\n\n\
            Disk stats (read/write):\n    md0: ios=61/25000, merge=0/0, ticks=0/0, in_queue=0, util=0.00%,\n\
            aggrios=0/0, aggrmerge=0/0, aggrticks=0/0, aggrin_queue=0,\naggrutil=0.00%\n  \
            sda: ios=0/25000, merge=0/0, ticks=0/10000, in_queue=0,\nutil=50.00%\n";
        let window = window_of(text);
        let row = window.the::<Transfer>().unwrap();
        assert_eq!((row.rate.get(), row.block.get()), (Some(20_000.0 * KIB), Some(16.0 * KIB)));
        let changes = window.changes::<Disk>();
        let [md, disk] = ["md0", "sda"].map(|name| changes.iter().find(|c| **c.key() == *name).unwrap());
        close(md.rate(|d| d.writes), 1250.0);
        assert_eq!(md.rate(|d| d.busy_time), None, "its time is not counted");
        close(disk.rate(|d| d.weighted_time).map(|t| t / SECOND), 0.5);
    }

    #[test]
    fn single_lines_of_results_and_sums() {
        let row = row_of::<Transfer>("  read: IOPS=11.6k, BW=45.2MiB/s (47.4MB/s)\n");
        assert_eq!((row.block.get(), row.bytes.get()), (Some(4096.0), None));
        let typed = row_of::<Transfer>("WRITE: IOPS=  232K BW=  935MiB/s\n");
        assert_eq!(typed.rate.get(), Some(935.0 * MIB));
        let sum = row_of::<Transfer>(
            "   READ: bw=45.2MiB/s (47.4MB/s), 45.2MiB/s-45.2MiB/s (47.4MB/s-47.4MB/s), io=226MiB (237MB), run=5003-5003msec\n",
        );
        close(sum.rate.get(), 45.2 * MIB);
        assert_eq!((sum.time.get(), sum.block.get()), (Some(5.003 * SECOND), None));
    }
}
