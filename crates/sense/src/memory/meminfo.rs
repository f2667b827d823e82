//! /proc/meminfo: memory by use. Documentation/filesystems/proc.rst, section 1.2.

use crate::{Miss, Root, Source};
use whyslow_model::catalogue::Meminfo;
use whyslow_model::key::Machine;
use whyslow_model::snapshot::Snapshot;
use whyslow_proc::meminfo::take;

const PATH: &str = "proc/meminfo";

/// Reads /proc/meminfo.
pub(super) struct MeminfoFile;

impl Source for MeminfoFile {
    fn name(&self) -> &'static str {
        PATH
    }

    fn tells(&self) -> &'static str {
        "memory use by kind"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        let mut row = Meminfo::new(Machine);
        let result = parse(&root.kept_text(PATH)?, &mut row);
        out.memory.meminfo.push(row);
        result
    }
}

/// Parses /proc/meminfo. Lines the catalogue does not have are passed over; those the kernel does not have stay absent.
pub(super) fn parse(text: &str, row: &mut Meminfo) -> Result<(), Miss> {
    let mut metric = String::with_capacity(32);
    for line in text.lines() {
        take(line, row, &mut metric).ok_or_else(|| Miss::malformed(PATH, line))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::catalogue::Family;

    #[test]
    fn every_metric_of_the_catalogue_is_found_by_the_kernels_name() {
        let names = "MemTotal MemFree MemAvailable Buffers Cached SwapCached Active Inactive Active(anon) Inactive(anon) \
                     Active(file) Inactive(file) Unevictable Mlocked SwapTotal SwapFree Dirty Writeback AnonPages Mapped Shmem \
                     KReclaimable Slab SReclaimable SUnreclaim KernelStack PageTables NFS_Unstable Bounce CommitLimit \
                     Committed_AS VmallocUsed Percpu HardwareCorrupted AnonHugePages ShmemHugePages Hugetlb";
        let text: String = names.split_ascii_whitespace().map(|name| format!("{name}:   3 kB\n")).collect();
        let mut row = Meminfo::new(Machine);
        assert_eq!(parse(&text, &mut row), Ok(()));
        for (column, metric) in Meminfo::INFO.metrics.iter().enumerate() {
            let value = row.value(column);
            assert_eq!(value, Some(whyslow_model::value::Value::Gauge(3072_u64.into())), "{}", metric.name);
        }
    }

    #[test]
    fn what_the_kernel_lacks_is_absent_and_what_is_cut_short_an_error() {
        let mut row = Meminfo::new(Machine);
        assert_eq!(parse("MemTotal: 4 kB\nHugePages_Total:       5\n", &mut row), Ok(()));
        assert_eq!(row.mem_available.get(), None);
        assert_eq!(parse("MemFree: 4 kB\nCach", &mut row), Err(Miss::malformed(PATH, "Cach")));
        assert_eq!(row.mem_free.get(), Some(4096.0));
    }
}
