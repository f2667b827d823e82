//! /proc/vmstat: events of the virtual memory system. `vmstat_text` in mm/vmstat.c; Documentation/filesystems/proc.rst.
//!
//! Names are the kernel's own and map to the catalogue one to one, but for those that changed over time.

use crate::text::{number, word};
use crate::{Miss, Root, Source};
use whyslow_model::catalogue::{Family, Vmstat};
use whyslow_model::key::Machine;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Counter;

const PATH: &str = "proc/vmstat";

/// Suffixes of counters that are kept by memory zone.
const ZONES: [&str; 6] = ["dma", "dma32", "normal", "high", "movable", "device"];

/// Reads /proc/vmstat.
pub(super) struct VmstatFile;

impl Source for VmstatFile {
    fn name(&self) -> &'static str {
        PATH
    }

    fn tells(&self) -> &'static str {
        "paging, reclaim, refaults, compaction, OOM kills"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        let mut row = Vmstat::new(Machine);
        let result = parse(&root.kept_text(PATH)?, &mut row);
        out.memory.vmstat.push(row);
        result
    }
}

/// Parses /proc/vmstat. Lines the catalogue does not have are passed over.
pub(super) fn parse(text: &str, row: &mut Vmstat) -> Result<(), Miss> {
    for line in text.lines() {
        let mut rest = line;
        let name = word(&mut rest).unwrap_or_default();
        let value = number(&mut rest).ok_or_else(|| Miss::malformed(PATH, line))?;
        if let Some(sum) = sum_of_zones(row, name) {
            *sum = sum.get().unwrap_or(0).saturating_add(value).into();
            continue;
        }
        match name {
            // The kernel shows sectors halved, so KiB.
            "pgpgin" | "pgpgout" => row.set(name, value.saturating_mul(1024)),
            // Before 5.9 only file pages were counted, and the names did not say so.
            "workingset_refault" => row.set("workingset_refault_file", value),
            "workingset_activate" => row.set("workingset_activate_file", value),
            "workingset_restore" => row.set("workingset_restore_file", value),
            _ => row.set(name, value),
        };
    }
    Ok(())
}

/// The metric of which `name` is the part of one zone: `allocstall` since 4.10, scans and steals before 4.8.
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
        let mut row = Vmstat::new(Machine);
        parse(text, &mut row).unwrap();
        row
    }

    #[test]
    fn names_of_today() {
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
    fn names_of_older_kernels() {
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
    fn a_line_cut_short_is_an_error() {
        assert!(parse("pgfault 1\npgmajf", &mut Vmstat::new(Machine)).is_err());
    }
}
