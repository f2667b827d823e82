//! fio: transfers of each job by direction, and the disks' statistics during the run. JSON is read here, text in `fio_text`.

use super::fio_text;
use crate::json::{self, NonNegative};
use crate::prelude::*;
use serde::Deserialize;
use std::collections::BTreeMap;
use whyslow_model::catalogue::{Disk, Transfer};
use whyslow_model::settings::Settings;

pub const FORMAT: Format = Format {
    name: "fio",
    versions: "fio 2 to 3, as text, whole or cut down to lines of results, and with --output-format=json",
    shows: "the rate of each job; what fsync costs it; requests, queue and utilization of the disks below; of two jobs with different block sizes, what small blocks cost",
    lacks: "who else used the disk",
    programs: &[word("fio")],
    columns: &[&DISK],
    starts: |lines| json::begins(lines, JSON_KEY) || fio_text::begins(lines),
    read: |lines, context, run| match json::begins(lines, JSON_KEY) {
        true => read_json(lines, run),
        false => fio_text::read(lines, context, run),
    },
    ..Format::NEW
};

/// First key of the JSON document.
const JSON_KEY: &str = "fioversion";

/// Counters of a disk while the jobs ran, in the fields of `disk_util`.
const DISK: MetricColumns<Disk> = columns![
    "read_ios" => reads, "write_ios" => writes, "read_merges" => reads_merged, "write_merges" => writes_merged,
    "read_sectors" => read_bytes * SECTOR, "write_sectors" => write_bytes * SECTOR,
    "read_ticks" => read_time * NS_PER_MS, "write_ticks" => write_time * NS_PER_MS,
    "in_queue" => weighted_time * NS_PER_MS,
];

#[derive(Deserialize)]
struct FioDocument {
    #[serde(default, rename = "global options")]
    options: BTreeMap<String, String>,
    jobs: Vec<FioJob>,
    #[serde(default)]
    disk_util: Vec<FioDisk>,
}

#[derive(Deserialize)]
struct FioJob {
    jobname: String,
    #[serde(default)]
    groupid: u32,
    #[serde(default, rename = "job options")]
    options: BTreeMap<String, String>,
    read: FioDirection,
    write: FioDirection,
    /// Present since fio 3.7.
    sync: Option<FioSync>,
}

/// Calls of fsync, fdatasync and sync_file_range.
#[derive(Deserialize)]
struct FioSync {
    total_ios: NonNegative,
    lat_ns: FioLatency,
}

#[derive(Deserialize)]
struct FioLatency {
    mean: NonNegative,
}

#[derive(Deserialize)]
struct FioDirection {
    io_bytes: NonNegative,
    total_ios: NonNegative,
    /// Run time in milliseconds.
    runtime: NonNegative,
}

impl FioDirection {
    fn seconds(&self) -> f64 {
        self.runtime.0 / 1e3
    }
}

#[derive(Deserialize)]
struct FioDisk {
    name: String,
    util: NonNegative,
    #[serde(flatten)]
    counts: BTreeMap<String, serde_json::Value>,
}

/// Data that a job transferred in one direction.
#[derive(Default)]
pub struct JobTransfer {
    pub job: String,
    pub direction: &'static str,
    /// Kind of the transfer; transfers of the same kind are compared with each other.
    pub kind: String,
    pub line: u32,
    pub bytes: Option<f64>,
    pub seconds: Option<f64>,
    /// Bytes per second.
    pub rate: f64,
    /// Requests per second.
    pub operations: Option<f64>,
    pub block: Option<f64>,
    /// Number of calls that made its writes durable, and the mean time of one such call in nanoseconds.
    pub syncs: Option<(f64, f64)>,
    /// Number of processes that it sums up.
    pub processes: f64,
    pub options: Settings,
}

/// Returns the options of a job that decide what is measured; `option` looks up one of them. Options that a complete job lacks
/// have their default. `processes` is the number of processes in the sum.
pub fn options_of<'o>(
    direction: &str,
    is_complete: bool,
    processes: f64,
    option: impl Fn(&str) -> Option<&'o str>,
) -> Settings {
    let default = |value: &'static str| is_complete.then_some(value);
    let mut options = Settings::default();
    options.set("rw", option("rw").or(option("readwrite")).or(default("read")));
    options.set("file", option("filename").or(option("directory")));
    options.set("ioengine", option("ioengine"));
    options.set("iodepth", option("iodepth").or(default("1")));
    let started = option("numjobs").filter(|jobs| *jobs != "1");
    options.set(
        "numjobs",
        match started {
            _ if processes > 1.0 => Some(format!("{processes:.0}")),
            Some(jobs) => Some(format!("each of {jobs}")),
            None => default("1").map(str::to_owned),
        },
    );
    options.set("rwmixread", option("rwmixread"));
    options.set("rate", option("rate").or(option("rate_iops")));
    let is_buffered = option("buffered").map(|value| if value == "0" { "1" } else { "0" });
    options.set("direct", option("direct").or(is_buffered).or(default("0")).map(is_on));
    if direction == "write" {
        let each = option("fsync").or(option("fdatasync")).filter(|every| *every != "0");
        let each = each.or(option("sync").filter(|sync| !["0", "none"].contains(sync)));
        let at_end = option("end_fsync").filter(|end| is_on(end) == "1");
        let flush = match (each, at_end) {
            (Some("1" | "sync" | "dsync"), _) => Some("after each write".to_owned()),
            (Some(every), _) => Some(format!("after every {every} writes")),
            (None, Some(_)) => Some("at the end".to_owned()),
            (None, None) => default("never").map(str::to_owned),
        };
        options.set("flush", flush);
    }
    options
}

/// Converts an option to `0` or `1`; an option without a value is on.
fn is_on(value: &str) -> &'static str {
    if value == "0" { "0" } else { "1" }
}

impl JobTransfer {
    /// Returns the kind of a transfer. Work of one kind on one file is compared regardless of its block size.
    pub fn kind_of(work: &str, file: &str, direction: &str) -> String {
        format!("{work} of {file}, {direction}")
    }

    pub fn record(self, run: &mut ToolRun) {
        let name = format!("{}: {}, line {}", self.job, self.direction, self.line);
        let row = run.row::<Transfer>(0.0, self.line, name.into());
        row.tool = "fio".into();
        row.what = self.kind.into();
        row.bytes = self.bytes.into();
        row.time = self.seconds.map(|seconds| seconds * SECOND).into();
        row.rate = self.rate.into();
        row.operations = self.operations.into();
        row.block = self.block.into();
        row.options = self.options.to_state();
        if let Some((count, mean)) = self.syncs.filter(|(count, _)| *count > 0.0) {
            row.syncs = count.into();
            row.sync_wait = mean.into();
            let of_one = count * mean / SECOND / self.processes.max(1.0);
            row.sync_share = self.seconds.map(|seconds| (of_one / seconds).min(1.0)).into();
        }
    }
}

/// Notes that the disks' counts cover an unknown time: groups of jobs run one after another, or at once.
pub fn note_several_groups(run: &mut ToolRun) {
    run.note(
        "the disks' statistics",
        "they cover several groups of jobs, and the time of all together is not printed",
        "run each group by itself",
    );
}

fn read_json(lines: &mut Lines<'_>, run: &mut ToolRun) -> ReadResult {
    let line = lines.number();
    let document: FioDocument = json::take(lines, "the document that fio --output-format=json prints")?;
    let directions = document.jobs.iter().flat_map(|job| [&job.read, &job.write]);
    let longest = directions.map(FioDirection::seconds).fold(0.0, f64::max);
    for job in &document.jobs {
        let option = |name: &str| job.options.get(name).or(document.options.get(name)).map(String::as_str);
        let file = option("filename").or(option("directory")).unwrap_or(&job.jobname);
        let work = option("rw").or(option("readwrite")).unwrap_or("read");
        let summed = option("group_reporting").and(option("numjobs")).and_then(number);
        for (direction, done) in [("read", &job.read), ("write", &job.write)] {
            let seconds = done.seconds();
            if seconds <= 0.0 || done.total_ios.0 <= 0.0 {
                continue;
            }
            let syncs = job.sync.as_ref().filter(|_| direction == "write");
            JobTransfer {
                job: job.jobname.clone(),
                direction,
                kind: JobTransfer::kind_of(work, file, direction),
                line,
                bytes: Some(done.io_bytes.0),
                seconds: Some(seconds),
                rate: done.io_bytes.0 / seconds,
                operations: Some(done.total_ios.0 / seconds),
                block: Some(done.io_bytes.0 / done.total_ios.0),
                syncs: syncs.map(|sync| (sync.total_ios.0, sync.lat_ns.mean.0)),
                processes: summed.unwrap_or(1.0),
                options: options_of(direction, true, summed.unwrap_or(1.0), option),
            }
            .record(run);
        }
    }
    if document.jobs.iter().any(|job| job.groupid != document.jobs[0].groupid) {
        if !document.disk_util.is_empty() {
            note_several_groups(run);
        }
        return Ok(());
    }
    for disk in document.disk_util.iter().filter(|_| longest > 0.0) {
        let counts = disk.counts.iter().filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)));
        if let Some((name, value)) = counts.clone().find(|(name, value)| DISK.has(name) && *value < 0.0) {
            let expected = format!("{name} not below zero, as {value} is");
            return Err(Refusal::new(lines.file(), line, expected, &value.to_string()));
        }
        record_disk(run, line, &disk.name, counts.collect(), disk.util.0 / 100.0, longest);
    }
    Ok(())
}

/// Records a disk's counters in the fields of [`DISK`], and the share of the time in which it was busy.
pub fn record_disk(
    run: &mut ToolRun,
    line: u32,
    name: &str,
    mut counts: BTreeMap<String, f64>,
    busy: f64,
    seconds: f64,
) {
    let sum = |counts: &BTreeMap<String, f64>, of: &[&str]| of.iter().filter_map(|name| counts.get(*name)).sum::<f64>();
    let ticks = sum(&counts, &["read_ticks", "write_ticks"]);
    // Some drivers, among them md before kernel 5.10, count requests but not their time.
    let timed = ticks > 0.0 || busy > 0.0 || sum(&counts, &["read_ios", "write_ios"]) == 0.0;
    if !timed {
        counts.retain(|name, _| !["read_ticks", "write_ticks", "in_queue"].contains(&name.as_str()));
    } else if ticks > 0.0 && counts.get("in_queue") == Some(&0.0) {
        // Kernel 5.0 to 5.9 left the total at 0. It is the sum of the time of all requests.
        counts.insert("in_queue".into(), ticks);
    }
    let row = TableRow::new(line, name, counts.into_iter().map(|(name, count)| (name, count / seconds)));
    let interval = ReportInterval { from: 0.0, to: seconds };
    let busy = [("busy_time", Some(busy * SECOND).filter(|_| timed))];
    run.grow::<Disk>(interval, line, name.into(), &busy);
    run.rates(interval, name.into(), &row, &DISK);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, row_of, window_of};

    #[test]
    fn transfers_of_a_job_are_read() {
        let row = row_of::<Transfer>(&fixture("fio-read.json.txt"));
        assert_eq!(row.bytes.get(), Some(3_722_444_800.0));
        assert!((row.rate.get().unwrap() / 1_240_401_466.0 - 1.0).abs() < 1e-3);
        assert!((row.block.get().unwrap() / 1_048_576.0 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn both_directions_and_the_disk_below() {
        let text = fixture("fio-randrw.json.txt");
        let window = window_of(&text);
        assert_eq!(window.newest::<Transfer>().len(), 2);
        let change = &window.changes::<Disk>()[0];
        assert!((change.rate(|d| d.busy_time).unwrap() / SECOND - 0.687_165).abs() < 1e-3);
        assert!((change.rate(|d| d.reads).unwrap() / (31_672.0 / 3.0) - 1.0).abs() < 0.01);
        let refusal = refusal_of(&text.replace("\"read_ios\" : 31672", "\"read_ios\" : -31672"));
        assert!(refusal.expected.contains("-31672"), "{refusal}");
    }
}
