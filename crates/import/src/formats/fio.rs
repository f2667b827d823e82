//! fio as JSON: what each job transferred in each direction, and the disks' statistics meanwhile.

use crate::json::{self, NonNegative};
use crate::prelude::*;
use serde::Deserialize;
use std::collections::BTreeMap;
use whyslow_model::catalogue::{Disk, Transfer};

pub const FORMAT: Format = Format {
    name: "fio",
    versions: "fio 2.2 to 3, --output-format=json",
    shows: "the rate of each job; requests, queue and utilization of the disks below; of two jobs with different block sizes, what small blocks cost",
    lacks: "who else used the disk",
    programs: &[word("fio")],
    columns: &[&DISK],
    starts: |lines| json::begins(lines, "fioversion"),
    read,
    ..Format::NEW
};

/// What a disk counted while the jobs ran, in the fields of `disk_util`.
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
    #[serde(default, rename = "job options")]
    options: BTreeMap<String, String>,
    read: FioDirection,
    write: FioDirection,
}

#[derive(Deserialize)]
struct FioDirection {
    io_bytes: NonNegative,
    total_ios: NonNegative,
    /// In milliseconds.
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

fn read(lines: &mut Lines<'_>, _: &CaptureContext, run: &mut ToolRun) -> ReadResult {
    let line = lines.number();
    let document: FioDocument = json::take(lines, "the document that fio --output-format=json prints")?;
    let directions = document.jobs.iter().flat_map(|job| [&job.read, &job.write]);
    let longest = directions.map(FioDirection::seconds).fold(0.0, f64::max);
    for job in &document.jobs {
        let option = |name: &str| job.options.get(name).or(document.options.get(name)).map(String::as_str);
        let file = option("filename").or(option("directory")).unwrap_or(&job.jobname);
        // Work of one kind on one file is compared, whatever its block size.
        let kind = option("rw").or(option("readwrite")).unwrap_or("read");
        for (direction, done) in [("read", &job.read), ("write", &job.write)] {
            let seconds = done.seconds();
            if seconds <= 0.0 || done.total_ios.0 <= 0.0 {
                continue;
            }
            let name = format!("{}: {direction}, line {line}", job.jobname);
            let row = run.row::<Transfer>(0.0, line, name.into());
            row.tool = "fio".into();
            row.what = format!("{kind} of {file}, {direction}").into();
            row.bytes = done.io_bytes.0.into();
            row.time = (seconds * SECOND).into();
            row.rate = (done.io_bytes.0 / seconds).into();
            row.block = (done.io_bytes.0 / done.total_ios.0).into();
        }
    }
    for disk in document.disk_util.iter().filter(|_| longest > 0.0) {
        record_disk(lines, run, line, disk, longest)?;
    }
    Ok(())
}

fn record_disk(lines: &Lines<'_>, run: &mut ToolRun, line: u32, disk: &FioDisk, seconds: f64) -> ReadResult {
    let counts = disk.counts.iter().filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)));
    if let Some((name, value)) = counts.clone().find(|(name, value)| DISK.has(name) && *value < 0.0) {
        let expected = format!("{name} not below zero, as {value} is");
        return Err(Refusal::new(lines.file(), line, expected, &value.to_string()));
    }
    let row = TableRow::of(line, &disk.name, counts.map(|(name, count)| (name, count / seconds)));
    let interval = ReportInterval { from: 0.0, to: seconds };
    let busy = [("busy_time", Some(disk.util.0 / 100.0 * SECOND))];
    run.grow::<Disk>(interval, line, disk.name.as_str().into(), &busy);
    run.rates(interval, disk.name.as_str().into(), &row, &DISK);
    Ok(())
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
