//! Block devices and CPUs in the columns of sysstat 4 to 12, shared by iostat, sar and mpstat.

use crate::prelude::*;
use whyslow_model::catalogue::{Cpu, CpuMean, Disk};
use whyslow_model::topology::device_by_number;
use whyslow_model::value::Name;

const PERCENT: f64 = SECOND / 100.0;

/// CPU modes; a tool prints only one of the names of a mode. It counts guests separately, while the kernel includes them in
/// user and nice.
pub const ALL_CPUS: MetricColumns<CpuMean> = columns![
    "%user" => user * PERCENT, "%usr" => user * PERCENT, "%guest" += user * PERCENT, "%nice" => nice * PERCENT,
    "%gnice" += nice * PERCENT, "%system" => system * PERCENT, "%sys" => system * PERCENT,
    "%iowait" => iowait * PERCENT, "%irq" => irq * PERCENT, "%soft" => softirq * PERCENT,
    "%steal" => steal * PERCENT, "%idle" => idle * PERCENT,
];
pub const ONE_CPU: MetricColumns<Cpu> = ALL_CPUS.for_family();
/// Tolerance: rounded shares do not add up to 100 exactly.
const ROUNDING: f64 = 1.5;

/// Refuses CPU shares that do not add up to 100: they are not under their header.
pub fn check_shares(file: &Name, header: u32, row: TableRow) -> Result<TableRow, Refusal> {
    let sum = ALL_CPUS.sum(&row) / PERCENT;
    if sum == 0.0 || (sum - 100.0).abs() <= ROUNDING {
        return Ok(row);
    }
    let expected = format!("CPU shares that add up to 100, under the header of line {header}");
    Err(Refusal::new(file, row.line, expected, &format!("a sum of {sum:.2}")))
}

/// Columns of a device table that need no arithmetic.
pub const DISK: MetricColumns<Disk> = columns![
    "r/s" => reads, "rrqm/s" => reads_merged, "rsec/s" => read_bytes * SECTOR, "rkB/s" => read_bytes * KIB,
    "rMB/s" => read_bytes * MIB, "Blk_read/s" => read_bytes * SECTOR, "kB_read/s" => read_bytes * KIB,
    "MB_read/s" => read_bytes * MIB, "rd_sec/s" => read_bytes * SECTOR, "w/s" => writes,
    "wrqm/s" => writes_merged, "wsec/s" => write_bytes * SECTOR, "wkB/s" => write_bytes * KIB,
    "wMB/s" => write_bytes * MIB, "Blk_wrtn/s" => write_bytes * SECTOR, "kB_wrtn/s" => write_bytes * KIB,
    "MB_wrtn/s" => write_bytes * MIB, "wr_sec/s" => write_bytes * SECTOR, "d/s" => discards,
    "drqm/s" => discards_merged, "dsec/s" => discard_bytes * SECTOR, "dkB/s" => discard_bytes * KIB,
    "dMB/s" => discard_bytes * MIB, "f/s" => flushes, "avgqu-sz" => weighted_time * SECOND,
    "aqu-sz" => weighted_time * SECOND, "%util" => busy_time * PERCENT, "svctm" => service_time * NS_PER_MS,
];
/// Columns of the mean request size.
const REQUEST_SIZE: [(&str, f64); 2] = [("avgrq-sz", SECTOR), ("areq-sz", KIB)];
/// Relative difference from bytes over requests above which one of the two is wrong, and requests per second from which
/// rounding does not matter.
const CONTRADICTION: f64 = 0.05;
const ENOUGH: f64 = 10.0;

/// Records a row of a device table.
pub fn record_disk(run: &mut ToolRun, interval: ReportInterval, row: &TableRow) {
    let (name, number) = device_name(row.label());
    let (reads, writes) = (row.get("r/s"), row.get("w/s"));
    let both = reads.zip(writes).map(|(r, w)| r + w);
    let transfers = if both.is_none() { row.get("tps") } else { None };
    // The waiting time is the mean wait times the number of requests.
    let time = |wait: &str, count: Option<f64>| row.times(wait, NS_PER_MS).zip(count).map(|(wait, n)| wait * n);
    let read_time = time("r_await", reads);
    let write_time = time("w_await", writes);
    let split = read_time.is_some() && write_time.is_some();
    let computed = [
        ("read_time", read_time),
        ("write_time", write_time),
        ("transfers", transfers),
        ("transfer_time", time("await", both.or(transfers)).filter(|_| !split)),
        ("discard_time", time("d_await", row.get("d/s"))),
        ("flush_time", time("f_await", row.get("f/s"))),
    ];
    let mut row = row.clone();
    if let Some(factor) = contradiction(&row, both) {
        let what = format!("{} on line {}", row.label(), row.line);
        let why = "bytes over requests contradict the mean request size, which is used";
        run.note(&what, why, "look at the original");
        row.scale(is_bytes, factor);
    }
    run.grow::<Disk>(interval, row.line, name.as_str().into(), &computed);
    let disk = run.rates(interval, name.as_str().into(), &row, &DISK);
    if let Some(number) = number {
        disk.number = number.into();
    }
}

/// Returns true for a column of bytes read or written.
fn is_bytes(column: &str) -> bool {
    DISK.metric(|header| header == column).is_some_and(|metric| ["read_bytes", "write_bytes"].contains(&metric))
}

/// Returns the factor by which bytes read and written must be scaled to match the mean request size; `reads_and_writes` are
/// counts.
fn contradiction(row: &TableRow, reads_and_writes: Option<f64>) -> Option<f64> {
    let count = reads_and_writes.or(row.get("tps")).filter(|n| *n >= ENOUGH)?;
    let mean = REQUEST_SIZE.iter().find_map(|(column, unit)| row.times(column, *unit)).filter(|m| *m > 0.0)?;
    let bytes = DISK.value(row, "read_bytes")? + DISK.value(row, "write_bytes")?;
    // The mean over all transfers includes discards (sysstat, common.c).
    let discarded = DISK.value(row, "discard_bytes").filter(|_| reads_and_writes.is_none()).unwrap_or(0.0);
    let per_request = (bytes + discarded) / count;
    ((per_request - mean).abs() > CONTRADICTION * mean && per_request > 0.0).then(|| mean / per_request)
}

/// Returns a device's kernel name, and its number if that was printed: `/dev/sda` and `dev8-0` are `sda`
/// (Documentation/admin-guide/devices.txt). Majors assigned at boot stay numbers.
pub fn device_name(device: &str) -> (String, Option<String>) {
    let device = device.strip_prefix("/dev/").unwrap_or(device);
    let number = device.strip_prefix("dev").and_then(|n| n.split_once('-'));
    match number.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?))) {
        Some((major, minor)) => {
            (device_by_number(major, minor).unwrap_or_else(|| device.to_owned()), Some(format!("{major}:{minor}")))
        }
        None => (device.to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window_of;

    #[test]
    fn discards_are_in_the_mean_size_of_all_transfers() {
        let text = "\
10:00:00          DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util
10:00:01          vda    100.00   1000.00   2000.00  97000.00   1000.00      0.20      1.18     15.80
10:00:02          vda    100.00   1000.00   2000.00  97000.00   1000.00      0.20      1.18     15.80
";
        let window = window_of(text);
        let disk = &window.changes::<Disk>()[0];
        assert_eq!(
            (disk.rate(|d| d.read_bytes), disk.rate(|d| d.write_bytes)),
            (Some(1000.0 * KIB), Some(2000.0 * KIB))
        );
    }

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
            assert_eq!(device_name(printed).0, name);
        }
    }
}
