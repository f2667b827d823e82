//! /proc/vmstat: events of the virtual memory system.

use crate::Root;
use crate::source::SourceInfo;
use crate::source_error::SourceError;
use whyslow_model::catalogue::Vmstat;
use whyslow_model::key::MachineKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_proc::vmstat;

pub(super) const INFO: SourceInfo = SourceInfo::new("proc/vmstat", "paging, reclaim, refaults, compaction, OOM kills");

pub(super) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let mut row = Vmstat::new(MachineKey);
    let result = parse(&root.polled_text(INFO.name)?, &mut row);
    out.memory.vmstat.push(row);
    result
}

/// Parses the file; skips lines that are not in the catalogue.
fn parse(text: &str, row: &mut Vmstat) -> Result<(), SourceError> {
    for line in text.lines() {
        vmstat::take(line, row).ok_or_else(|| SourceError::malformed(INFO.name, line))?;
    }
    Ok(())
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
