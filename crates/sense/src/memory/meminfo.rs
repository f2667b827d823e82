//! /proc/meminfo: memory by use. Documentation/filesystems/proc.rst, section 1.2.

use crate::text::{number, word};
use crate::{Miss, Root, Source};
use whyslow_model::catalogue::{Family, Meminfo};
use whyslow_model::key::Machine;
use whyslow_model::snapshot::Snapshot;

const PATH: &str = "proc/meminfo";

/// Reads /proc/meminfo.
pub(super) struct MeminfoFile;

impl Source for MeminfoFile {
    fn name(&self) -> &'static str {
        PATH
    }

    fn tells(&self) -> &'static str {
        "what holds memory"
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
        let (name, value) = entry(line).ok_or_else(|| Miss::malformed(PATH, line))?;
        snake_case(name, &mut metric);
        row.set(&metric, value);
    }
    Ok(())
}

/// A line `Name:  value kB`, in bytes; without the unit it is a count and stays as it is.
pub(super) fn entry(line: &str) -> Option<(&str, u64)> {
    let (name, mut rest) = line.split_once(':')?;
    let value = number(&mut rest)?;
    let scale = if word(&mut rest) == Some("kB") { 1024 } else { 1 };
    Some((name, value.saturating_mul(scale)))
}

/// Writes the catalogue's form of a kernel name: `Active(anon)` is `active_anon`, `SReclaimable` is `s_reclaimable`.
fn snake_case(name: &str, out: &mut String) {
    out.clear();
    let bytes = name.as_bytes();
    for (i, &b) in bytes.iter().enumerate() {
        let next_is_lower = bytes.get(i + 1).is_some_and(u8::is_ascii_lowercase);
        let starts_word = match i.checked_sub(1).map(|before| bytes[before]) {
            Some(before) => before.is_ascii_lowercase() || before.is_ascii_uppercase() && next_is_lower,
            None => false,
        };
        match b {
            b'(' => out.push('_'),
            b')' => {}
            b'A'..=b'Z' => {
                if starts_word {
                    out.push('_');
                }
                out.push(b.to_ascii_lowercase().into());
            }
            _ => out.push(b.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
