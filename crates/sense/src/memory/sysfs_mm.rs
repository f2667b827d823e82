//! /sys/kernel/mm: huge page pools, transparent huge pages and page sharing (KSM).
//! Documentation/admin-guide/mm/hugetlbpage.rst, transhuge.rst and ksm.rst.

use crate::text::chosen;
use crate::{Root, SourceError, SourceInfo};
use whyslow_model::catalogue::{Hugepages, Sharing};
use whyslow_model::key::MachineKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Gauge, State};

const POOLS: &str = "sys/kernel/mm/hugepages";

pub(super) const HUGEPAGES: SourceInfo = SourceInfo::new(POOLS, "reserved huge pages");

pub(super) fn hugepage_pools(root: &Root) -> Vec<String> {
    root.list(POOLS)
}

pub(super) fn read_hugepages(pools: &[String], root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    out.memory.hugepages.extend(pools.iter().filter_map(|pool| pool_row(root, pool)));
    if out.memory.hugepages.is_empty() {
        return Err(SourceError::Absent("this kernel has no huge pages (needs CONFIG_HUGETLBFS=y)".into()));
    }
    Ok(())
}

/// Reads a pool, which is named after its page size: `hugepages-2048kB`.
fn pool_row(root: &Root, pool: &str) -> Option<Hugepages> {
    let kb: u64 = pool.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
    let total = root.polled_number(&format!("{POOLS}/{pool}/nr_hugepages"));
    // The total includes all other counts (mm/hugetlb.c), so an empty pool needs no further reads.
    let pages = |file: &str| match total {
        Some(0) => Gauge::from(0_u64),
        _ => root.polled_number(&format!("{POOLS}/{pool}/{file}")).into(),
    };
    Some(Hugepages {
        size: kb.saturating_mul(1024),
        total: total.into(),
        free: pages("free_hugepages"),
        reserved: pages("resv_hugepages"),
        surplus: pages("surplus_hugepages"),
    })
}

pub(super) const SHARING: SourceInfo =
    SourceInfo::new("sys/kernel/mm", "transparent huge pages and page sharing (KSM)");

pub(super) fn read_sharing(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let thp = |file: &str| {
        let text = root.setting(&format!("sys/kernel/mm/transparent_hugepage/{file}"));
        State::from(text.as_deref().and_then(chosen))
    };
    let ksm = |file: &str| root.polled_number(&format!("sys/kernel/mm/ksm/{file}"));
    let row = Sharing {
        host: MachineKey,
        thp_enabled: thp("enabled"),
        thp_defrag: thp("defrag"),
        ksm_run: ksm("run").into(),
        ksm_pages_shared: ksm("pages_shared").into(),
        ksm_pages_sharing: ksm("pages_sharing").into(),
        ksm_full_scans: ksm("full_scans").into(),
    };
    if row.thp_enabled.get().is_none() && row.ksm_run.get().is_none() {
        return Err(SourceError::Absent("this kernel has neither transparent huge pages nor KSM".into()));
    }
    out.memory.sharing.push(row);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::listed;
    use crate::testing::CapturedTree;

    #[test]
    fn the_counts_of_an_empty_pool_are_zero_without_being_read() {
        let tree = CapturedTree::with_files(&[
            ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "8\n"),
            ("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "3\n"),
            ("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n"),
        ]);
        let (outcome, out) = tree.read(&mut *listed(HUGEPAGES, hugepage_pools, read_hugepages));
        let seen: Vec<_> = out.memory.hugepages.iter().map(|h| (h.size, h.free.get(), h.surplus.get())).collect();
        assert_eq!(outcome, Ok(()));
        assert_eq!(seen, [(2 << 20, Some(3.0), None), (1 << 30, Some(0.0), Some(0.0))]);
    }

    #[test]
    fn the_selected_thp_mode_is_read_and_a_kernel_without_either_is_absent() {
        let mut out = Snapshot::default();
        let tree =
            CapturedTree::with_files(&[("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")]);
        assert_eq!(read_sharing(&tree.root(), &mut out), Ok(()));
        assert_eq!(out.memory.sharing[0].thp_enabled.get(), Some("madvise"));
        assert!(matches!(read_sharing(&CapturedTree::with_files(&[]).root(), &mut out), Err(SourceError::Absent(_))));
    }
}
