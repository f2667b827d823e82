//! What iostat and sar tell of a block device, in the columns of sysstat 4 to 12.

use crate::number::KIB;
use crate::run::{Run, SECOND, Step};
use crate::table::Row;
use whyslow_model::catalogue::Disk;
use whyslow_model::device::by_number;

/// A sector, in which the kernel counts whatever the device's own unit is.
const SECTOR: f64 = 512.0;
const MIB: f64 = 1_048_576.0;
/// A millisecond in nanoseconds.
const MS: f64 = 1e6;
/// How far the mean request may be from bytes over requests before one of them is wrong, and from how many requests a
/// second on their rounding does not matter.
const CONTRADICTION: f64 = 0.05;
const ENOUGH: f64 = 10.0;

/// Requests of one kind: how many, how large, how long.
struct Kind {
    count: Option<f64>,
    bytes: Option<f64>,
    merged: Option<f64>,
    time: Option<f64>,
}

impl Kind {
    fn of(row: &Row, count: &str, bytes: &[(&str, f64)], merged: &str, wait: &str) -> Self {
        let count = row.get(count);
        let time = row.get(wait).zip(count).map(|(ms, n)| ms * MS * n);
        Self { count, bytes: row.first(bytes), merged: row.get(merged), time }
    }
}

/// Lets a device's counters grow over a step by what a row of it tells.
pub fn grow(run: &mut Run, step: Step, device: &str, row: &Row) {
    let mut reads = Kind::of(
        row,
        "r/s",
        &[
            ("rsec/s", SECTOR),
            ("rkB/s", KIB),
            ("rMB/s", MIB),
            ("Blk_read/s", SECTOR),
            ("kB_read/s", KIB),
            ("MB_read/s", MIB),
            ("rd_sec/s", SECTOR),
        ],
        "rrqm/s",
        "r_await",
    );
    let mut writes = Kind::of(
        row,
        "w/s",
        &[
            ("wsec/s", SECTOR),
            ("wkB/s", KIB),
            ("wMB/s", MIB),
            ("Blk_wrtn/s", SECTOR),
            ("kB_wrtn/s", KIB),
            ("MB_wrtn/s", MIB),
            ("wr_sec/s", SECTOR),
        ],
        "wrqm/s",
        "w_await",
    );
    let discards = Kind::of(row, "d/s", &[("dsec/s", SECTOR), ("dkB/s", KIB), ("dMB/s", MIB)], "drqm/s", "d_await");
    let both = reads.count.zip(writes.count).map(|(r, w)| r + w);
    if let Some(scale) = contradiction(row, &reads, &writes, both.or(row.get("tps"))) {
        let what = format!("{device} on line {}", row.line);
        let why = "bytes over requests and the mean request contradict each other; the mean request is taken";
        run.note(&what, why, "look at the original");
        reads.bytes = reads.bytes.map(|b| b * scale);
        writes.bytes = writes.bytes.map(|b| b * scale);
    }
    let transfers = if both.is_none() { row.get("tps") } else { None };
    let split = reads.time.is_some() && writes.time.is_some();
    let transfer_time = row.get("await").zip(both.or(transfers)).map(|(ms, n)| ms * MS * n).filter(|_| !split);
    let queue = row.first(&[("avgqu-sz", SECOND), ("aqu-sz", SECOND)]);
    let (name, number) = named(device);
    let disk = run.grow::<Disk>(
        step,
        row.line,
        name.as_str().into(),
        &[
            ("reads", reads.count),
            ("reads_merged", reads.merged),
            ("read_bytes", reads.bytes),
            ("read_time", reads.time),
            ("writes", writes.count),
            ("writes_merged", writes.merged),
            ("write_bytes", writes.bytes),
            ("write_time", writes.time),
            ("transfers", transfers),
            ("transfer_time", transfer_time),
            ("weighted_time", queue),
            ("busy_time", row.times("%util", SECOND / 100.0)),
            ("discards", discards.count),
            ("discards_merged", discards.merged),
            ("discard_bytes", discards.bytes),
            ("discard_time", discards.time),
            ("flushes", row.get("f/s")),
            ("flush_time", row.get("f_await").zip(row.get("f/s")).map(|(ms, n)| ms * MS * n)),
        ],
    );
    disk.service_time = row.times("svctm", MS).into();
    if let Some(number) = number {
        disk.number = number.into();
    }
}

/// By how much the bytes are to be scaled to agree with the mean request that stands beside them.
fn contradiction(row: &Row, reads: &Kind, writes: &Kind, count: Option<f64>) -> Option<f64> {
    let count = count.filter(|n| *n >= ENOUGH)?;
    let mean = row.first(&[("avgrq-sz", SECTOR), ("areq-sz", KIB)]).filter(|m| *m > 0.0)?;
    let bytes = (reads.bytes? + writes.bytes?) / count;
    ((bytes - mean).abs() > CONTRADICTION * mean && bytes > 0.0).then(|| mean / bytes)
}

/// A device's name as the kernel has it, and its number where that is what was printed: `/dev/sda` and `dev8-0` are
/// `sda` (Documentation/admin-guide/devices.txt). Majors that are given out at boot stay numbers.
pub fn named(device: &str) -> (String, Option<String>) {
    let device = device.strip_prefix("/dev/").unwrap_or(device);
    let number = device.strip_prefix("dev").and_then(|n| n.split_once('-'));
    let number = number.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    match number {
        Some((major, minor)) => {
            (by_number(major, minor).unwrap_or_else(|| device.to_owned()), Some(format!("{major}:{minor}")))
        }
        None => (device.to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_names_where_they_are_fixed() {
        for (printed, name) in [
            ("dev8-144", "sdj"),
            ("dev8-96", "sdg"),
            ("dev8-3", "sda3"),
            ("dev65-161", "sdaa1"),
            ("dev9-1", "md1"),
            ("dev252-2", "dev252-2"),
            ("/dev/sdb1", "sdb1"),
            ("devil-may-care", "devil-may-care"),
        ] {
            assert_eq!(named(printed).0, name);
        }
    }
}
