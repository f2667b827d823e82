//! /proc/diskstats: requests by block device and partition (Documentation/admin-guide/iostats.rst,
//! Documentation/ABI/testing/procfs-diskstats).
//!
//! Kernels have 11 numbers after the name, 15 since 4.18 (discards) and 17 since 5.5 (flushes); 2.6 kernels before
//! 2.6.25 have 4 for a partition. Sectors are 512 bytes, times milliseconds.

use super::device::SECTOR;
use crate::{Miss, Root, Source};
use whyslow_model::catalogue::Disk;
use whyslow_model::snapshot::Snapshot;

const PATH: &str = "proc/diskstats";
const NS_PER_MS: u64 = 1_000_000;

/// The source of family `disk`.
pub(super) struct DiskStats;

impl Source for DiskStats {
    fn name(&self) -> &'static str {
        PATH
    }

    fn tells(&self) -> &'static str {
        "requests by disk and partition"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        let text = root.kept_text(PATH)?;
        let mut miss = Ok(());
        for line in text.lines().filter(|l| !l.trim().is_empty()) {
            match parse(line) {
                Some(row) if row.idle && is_empty(root, &row.disk.device) => {}
                Some(row) => out.block.disk.push(row.disk),
                None => miss = Err(Miss::malformed(PATH, line)),
            }
        }
        miss
    }
}

/// Whether a device has no capacity: a loop device or RAM disk that waits to be set up. One that is set up keeps its
/// row of zeros, so that its first work is measured.
fn is_empty(root: &Root, device: &str) -> bool {
    root.kept_number(&format!("sys/class/block/{}/size", device.replace('/', "!"))) == Some(0)
}

/// One line.
struct Row {
    disk: Disk,
    /// Whether it never did anything.
    idle: bool,
}

/// Reads one line; `None` where it makes no sense.
fn parse(line: &str) -> Option<Row> {
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
        [_, _, _, _, _, _, _, _, _, _, _, ..] => fill(&mut disk, &n),
        _ => return None,
    }
    Some(Row { disk, idle: n.iter().all(|&v| v == 0) })
}

/// Fills a row from the 11 or more numbers of a whole line. A number that the line lacks stays absent.
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

fn bytes(sectors: u64) -> whyslow_model::value::Counter {
    sectors.saturating_mul(SECTOR).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::fixture::Tree;
    use proptest::prelude::*;
    use whyslow_model::window::Window;

    const NOW: &str =
        " 254 0 vda 30893 6976 4812754 11858 6561 15420 1398768 3609 2 5356 15735 3458 108 174352 254 358 13";

    fn disk(line: &str) -> Disk {
        parse(line).unwrap().disk
    }

    fn read(root: &Root) -> Snapshot {
        let mut s = Snapshot::default();
        DiskStats.read(root, &mut s).unwrap();
        s
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

    #[test]
    fn a_malformed_line_is_reported_and_the_others_kept() {
        let tree = Tree::of(&[(PATH, "8 0 sda x\n8 16 sdb 1 2 3 4 5 6 7 8 9 10 11\n")]);
        let mut s = Snapshot::default();
        assert!(matches!(DiskStats.read(&tree.root(), &mut s), Err(Miss::Failed(why)) if why.contains("sda x")));
        assert_eq!(s.block.disk.len(), 1);
    }

    #[test]
    fn an_idle_device_is_kept_unless_it_has_no_capacity() {
        let zeros = "0 0 0 0 0 0 0 0 0 0 0";
        let tree = Tree::of(&[
            (PATH, &format!("7 0 loop0 {zeros}\n7 1 loop1 {zeros}\n8 0 sda {zeros}\n")),
            ("sys/class/block/loop0/size", "0\n"),
            ("sys/class/block/loop1/size", "2048\n"),
        ]);
        let s = read(&tree.root());
        let names: Vec<&str> = s.block.disk.iter().map(|d| &*d.device).collect();
        assert_eq!(names, ["loop1", "sda"]);
    }

    #[test]
    fn a_disk_plugged_in_between_samples_is_measured_from_its_first_reading() {
        let tree = Tree::of(&[(PATH, NOW)]);
        let mut readings = vec![read(&tree.root())];
        for reads in [0, 40] {
            tree.write(PATH, &format!("{NOW}\n8 0 sda {reads} 0 0 0 0 0 0 0 0 0 0\n"));
            readings.push(read(&tree.root()));
        }
        for (second, s) in (1..).zip(&mut readings) {
            s.boot_ns = second * 1_000_000_000;
            s.sort();
        }
        let window = Window::new(readings);
        let rates: Vec<_> = window.changes::<Disk>().iter().map(|c| c.rate(|d| d.reads)).collect();
        assert_eq!(rates, [Some(40.0), Some(0.0)]);
    }

    #[test]
    fn this_machine_has_disks() {
        assert!(!read(&Root::live()).block.disk.is_empty());
    }

    proptest! {
        #[test]
        fn any_line_is_survived(line in "[0-9a-z ]{0,80}|.*") {
            let _ = parse(&line);
        }
    }
}
