//! fio as JSON: what each job moved in each direction, and what its disks did meanwhile.

use crate::format::{Asked, Format};
use crate::json::{self, Amount};
use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::run::{Run, SECOND, Step};
use serde::Deserialize;
use std::collections::BTreeMap;
use whyslow_model::catalogue::{Disk, Transfer};

/// The format.
pub const FORMAT: Format = Format {
    name: "fio",
    versions: "fio 2.2 to 3, --output-format=json",
    tells: "the rate of each job; requests, queue and use of the disks below; of two jobs with different blocks, what the block costs",
    starts: |lines| json::begins(lines, "fioversion"),
    read,
};

/// Milliseconds in seconds, and in nanoseconds.
const MS: f64 = 1e-3;
const NS_PER_MS: f64 = 1e6;
const SECTOR: f64 = 512.0;

#[derive(Deserialize)]
struct Document {
    #[serde(default, rename = "global options")]
    options: BTreeMap<String, String>,
    jobs: Vec<Job>,
    #[serde(default)]
    disk_util: Vec<Usage>,
}

#[derive(Deserialize)]
struct Job {
    jobname: String,
    #[serde(default, rename = "job options")]
    options: BTreeMap<String, String>,
    read: Direction,
    write: Direction,
}

/// A job's reads, or its writes.
#[derive(Deserialize)]
struct Direction {
    io_bytes: Amount,
    total_ios: Amount,
    /// In milliseconds.
    runtime: Amount,
}

/// A disk, as /proc/diskstats counted while the jobs ran; times in milliseconds.
#[derive(Deserialize)]
struct Usage {
    name: String,
    read_ios: Amount,
    write_ios: Amount,
    read_merges: Option<Amount>,
    write_merges: Option<Amount>,
    read_sectors: Option<Amount>,
    write_sectors: Option<Amount>,
    read_ticks: Amount,
    write_ticks: Amount,
    in_queue: Option<Amount>,
    util: Amount,
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let line = lines.number();
    let document: Document = json::take(lines, "the document that fio --output-format=json prints")?;
    let directions = document.jobs.iter().flat_map(|job| [&job.read, &job.write]);
    let longest = directions.map(|d| d.runtime.0).fold(0.0, f64::max) * MS;
    for job in &document.jobs {
        let option = |name: &str| job.options.get(name).or(document.options.get(name)).map(String::as_str);
        let file = option("filename").or(option("directory")).unwrap_or(&job.jobname);
        // Work of one kind on one thing is compared, whatever the size of its blocks.
        let kind = option("rw").or(option("readwrite")).unwrap_or("read");
        for (direction, done) in [("read", &job.read), ("write", &job.write)] {
            transfer(run, line, &job.jobname, direction, &format!("{kind} of {file}, {direction}"), done);
        }
    }
    for usage in document.disk_util.iter().filter(|_| longest > 0.0) {
        disk(run, line, usage, longest);
    }
    Ok(())
}

fn transfer(run: &mut Run, line: u32, job: &str, direction: &str, what: &str, done: &Direction) {
    let seconds = done.runtime.0 * MS;
    if seconds <= 0.0 || done.total_ios.0 <= 0.0 {
        return;
    }
    let row = run.row::<Transfer>(0.0, line, format!("{job}: {direction}, line {line}").into());
    row.tool = "fio".into();
    row.what = what.into();
    row.bytes = done.io_bytes.0.into();
    row.time = (seconds * SECOND).into();
    row.rate = (done.io_bytes.0 / seconds).into();
    row.block = (done.io_bytes.0 / done.total_ios.0).into();
}

fn disk(run: &mut Run, line: u32, usage: &Usage, seconds: f64) {
    let rate = |amount: Amount| Some(amount.0 / seconds);
    let of = |amount: Option<Amount>, unit: f64| amount.map(|amount| amount.0 * unit / seconds);
    let step = Step { from: 0.0, to: seconds };
    run.grow::<Disk>(
        step,
        line,
        usage.name.as_str().into(),
        &[
            ("reads", rate(usage.read_ios)),
            ("writes", rate(usage.write_ios)),
            ("reads_merged", of(usage.read_merges, 1.0)),
            ("writes_merged", of(usage.write_merges, 1.0)),
            ("read_bytes", of(usage.read_sectors, SECTOR)),
            ("write_bytes", of(usage.write_sectors, SECTOR)),
            ("read_time", of(Some(usage.read_ticks), NS_PER_MS)),
            ("write_time", of(Some(usage.write_ticks), NS_PER_MS)),
            ("weighted_time", of(usage.in_queue, NS_PER_MS)),
            ("busy_time", Some(usage.util.0 / 100.0 * SECOND)),
        ],
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    #[test]
    fn what_a_job_moved() {
        let window = window_of(&fixture("fio-read.json.txt"));
        let row = window.the::<Transfer>().unwrap();
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
