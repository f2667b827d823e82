//! /proc/vmstat: events of the virtual memory system. `vmstat_text` in mm/vmstat.c; Documentation/filesystems/proc.rst.
//!
//! The catalogue uses the kernel's names, except where they changed over time.

use crate::Root;
use crate::source::SourceInfo;
use crate::source_error::SourceError;
use crate::text::{number, word};
use whyslow_model::catalogue::{Family, Vmstat};
use whyslow_model::key::MachineKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Counter;

pub(super) const INFO: SourceInfo = SourceInfo::new("proc/vmstat", "paging, reclaim, refaults, compaction, OOM kills");

/// Suffixes of counters that are kept per memory zone.
const ZONES: [&str; 6] = ["dma", "dma32", "normal", "high", "movable", "device"];

pub(super) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let mut row = Vmstat::new(MachineKey);
    let result = parse(&root.polled_text(INFO.name)?, &mut row);
    out.memory.vmstat.push(row);
    result
}

/// Skips lines that are not in the catalogue.
fn parse(text: &str, row: &mut Vmstat) -> Result<(), SourceError> {
    for line in text.lines() {
        let mut rest = line;
        let name = word(&mut rest).unwrap_or_default();
        let value = number(&mut rest).ok_or_else(|| SourceError::malformed(INFO.name, line))?;
        if let Some(sum) = sum_of_zones(row, name) {
            *sum = sum.get().unwrap_or(0).saturating_add(value).into();
            continue;
        }
        match name {
            // In KiB.
            "pgpgin" | "pgpgout" => row.set(name, value.saturating_mul(1024)),
            // Before 5.9 these counted only file pages.
            "workingset_refault" => row.set("workingset_refault_file", value),
            "workingset_activate" => row.set("workingset_activate_file", value),
            "workingset_restore" => row.set("workingset_restore_file", value),
            _ => row.set(name, value),
        };
    }
    Ok(())
}

/// The metric that `name` counts for one zone: `allocstall` since 4.10, scans and steals before 4.8.
fn sum_of_zones<'r>(row: &'r mut Vmstat, name: &str) -> Option<&'r mut Counter> {
    let (total, zone) = name.rsplit_once('_')?;
    let sum = match total {
        "allocstall" => &mut row.allocstall,
        "pgscan_kswapd" => &mut row.pgscan_kswapd,
        "pgscan_direct" => &mut row.pgscan_direct,
        "pgsteal_kswapd" => &mut row.pgsteal_kswapd,
        "pgsteal_direct" => &mut row.pgsteal_direct,
        _ => return None,
    };
    ZONES.contains(&zone).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> Vmstat {
        let mut row = Vmstat::new(MachineKey);
        parse(text, &mut row).unwrap();
        row
    }

    #[test]
    fn names_of_current_kernels_are_read() {
        let row = row("pgpgin 2\npgscan_direct 7\npgscan_direct_throttle 1\nallocstall_dma 1\nallocstall_normal 2\n\
                       pgalloc_dma 4\npgalloc_normal 5\nworkingset_refault_anon 8\nworkingset_refault_file 9\nnr_dirty 3\n");
        assert_eq!(row.pgpgin.get(), Some(2048));
        assert_eq!(row.pgscan_direct.get(), Some(7));
        assert_eq!(row.pgscan_direct_throttle.get(), Some(1));
        assert_eq!(row.allocstall.get(), Some(3));
        assert_eq!(row.pgalloc_normal.get(), Some(5));
        assert_eq!(row.workingset_refault_anon.get(), Some(8));
        assert_eq!(row.workingset_refault_file.get(), Some(9));
        assert_eq!(row.nr_dirty.get(), Some(3.0));
        assert_eq!(row.oom_kill.get(), None);
    }

    #[test]
    fn names_of_older_kernels_are_read() {
        let row =
            row("pgscan_direct_dma 1\npgscan_direct_normal 2\npgscan_direct_movable 4\npgscan_direct_throttle 8\n\
                       pgsteal_kswapd_dma32 3\npgsteal_kswapd_normal 4\nallocstall 6\nworkingset_refault 5\n");
        assert_eq!(row.pgscan_direct.get(), Some(7));
        assert_eq!(row.pgscan_direct_throttle.get(), Some(8));
        assert_eq!(row.pgsteal_kswapd.get(), Some(7));
        assert_eq!(row.allocstall.get(), Some(6));
        assert_eq!(row.workingset_refault_file.get(), Some(5));
        assert_eq!(row.workingset_refault_anon.get(), None);
    }

    #[test]
    fn a_truncated_line_is_an_error() {
        let outcome = parse("pgfault 1\npgmajf", &mut Vmstat::new(MachineKey));
        assert_eq!(outcome, Err(SourceError::malformed(INFO.name, "pgmajf")));
    }
}
