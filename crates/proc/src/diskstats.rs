//! /proc/diskstats: requests by block device and partition (Documentation/admin-guide/iostats.rst,
//! Documentation/ABI/testing/procfs-diskstats).
//!
//! Kernels print 11 numbers after the name, 15 since 4.18 (discards) and 17 since 5.5 (flushes); 2.6 kernels before 2.6.25
//! print 4 for a partition. Sectors are 512 bytes, times are in milliseconds.

use whyslow_model::catalogue::Disk;
use whyslow_model::value::Counter;

/// The kernel's unit, regardless of the device's own block size.
const SECTOR: u64 = 512;
const NS_PER_MS: u64 = 1_000_000;

/// A parsed line.
pub struct DiskLine {
    /// Values of the line.
    pub disk: Disk,
    /// True if the device has never been used.
    pub idle: bool,
}

/// Parses a line; `None` if it is malformed.
pub fn row(line: &str) -> Option<DiskLine> {
    let mut words = line.split_ascii_whitespace();
    let (major, minor, name) = (words.next()?, words.next()?, words.next()?);
    let n: Vec<u64> = words.map(|w| w.parse().ok()).collect::<Option<_>>()?;
    let mut disk = Disk::new(name.into());
    disk.number = format!("{major}:{minor}").into();
    match n[..] {
        [reads, read_sectors, writes, write_sectors] => {
            disk.reads = reads.into();
            disk.read_bytes = bytes(read_sectors);
            disk.writes = writes.into();
            disk.write_bytes = bytes(write_sectors);
        }
        _ if matches!(n.len(), 11 | 15 | 17..) => fill(&mut disk, &n),
        _ => return None,
    }
    Some(DiskLine { disk, idle: n.iter().all(|&v| v == 0) })
}

/// Fills a row from the 11 or more numbers of a line. Numbers that the line lacks stay absent.
fn fill(disk: &mut Disk, n: &[u64]) {
    let count = |at: usize| n.get(at).map_or_else(Default::default, |&v| v.into());
    let sectors = |at: usize| n.get(at).map_or_else(Default::default, |&v| bytes(v));
    let ms = |at: usize| n.get(at).map_or_else(Default::default, |&v| v.saturating_mul(NS_PER_MS).into());
    disk.reads = count(0);
    disk.reads_merged = count(1);
    disk.read_bytes = sectors(2);
    disk.read_time = ms(3);
    disk.writes = count(4);
    disk.writes_merged = count(5);
    disk.write_bytes = sectors(6);
    disk.write_time = ms(7);
    disk.in_flight = n[8].into();
    disk.busy_time = ms(9);
    disk.weighted_time = ms(10);
    disk.discards = count(11);
    disk.discards_merged = count(12);
    disk.discard_bytes = sectors(13);
    disk.discard_time = ms(14);
    disk.flushes = count(15);
    disk.flush_time = ms(16);
}

fn bytes(sectors: u64) -> Counter {
    sectors.saturating_mul(SECTOR).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str =
        " 254 0 vda 30893 6976 4812754 11858 6561 15420 1398768 3609 2 5356 15735 3458 108 174352 254 358 13";

    fn disk(line: &str) -> Disk {
        row(line).unwrap().disk
    }

    #[test]
    fn every_number_of_a_line_finds_its_place() {
        let d = disk(NOW);
        assert_eq!(d.number.get(), Some("254:0"));
        assert_eq!(d.reads.get(), Some(30893));
        assert_eq!(d.reads_merged.get(), Some(6976));
        assert_eq!(d.read_bytes.get(), Some(4_812_754 * 512));
        assert_eq!(d.read_time.get(), Some(11_858_000_000));
        assert_eq!(d.writes.get(), Some(6561));
        assert_eq!(d.write_bytes.get(), Some(1_398_768 * 512));
        assert_eq!(d.in_flight.get(), Some(2.0));
        assert_eq!(d.busy_time.get(), Some(5_356_000_000));
        assert_eq!(d.weighted_time.get(), Some(15_735_000_000));
        assert_eq!(d.discard_bytes.get(), Some(174_352 * 512));
        assert_eq!((d.flushes.get(), d.flush_time.get()), (Some(358), Some(13_000_000)));
    }

    #[test]
    fn what_an_older_kernel_lacks_is_absent() {
        let without_flush = disk("8 0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15");
        assert_eq!((without_flush.discard_time.get(), without_flush.flushes.get()), (Some(15_000_000), None));
        let without_discard = disk("8 0 sda 1 2 3 4 5 6 7 8 9 10 11");
        assert_eq!((without_discard.weighted_time.get(), without_discard.discards.get()), (Some(11_000_000), None));
        let partition = disk("8 1 sda1 10 80 20 160");
        assert_eq!((partition.reads.get(), partition.write_bytes.get()), (Some(10), Some(160 * 512)));
        assert_eq!((partition.reads_merged.get(), partition.in_flight.get()), (None, None));
    }
}
