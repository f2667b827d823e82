//! /sys/kernel/mm/hugepages: reserved huge pages by page size. Documentation/admin-guide/mm/hugetlbpage.rst.

use crate::ttl_cache::Seldom;
use crate::{Miss, Root, Source};
use whyslow_model::catalogue::Hugepages;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Gauge;

const PATH: &str = "sys/kernel/mm/hugepages";

/// Reads the pool of each huge page size.
#[derive(Default)]
pub(super) struct HugepagePools {
    pools: Seldom<Vec<String>>,
}

impl Source for HugepagePools {
    fn name(&self) -> &'static str {
        PATH
    }

    fn tells(&self) -> &'static str {
        "reserved huge pages"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        let pools = self.pools.get(|| root.list(PATH));
        out.memory.hugepages.extend(pools.iter().filter_map(|pool| row(root, pool)));
        if out.memory.hugepages.is_empty() { Err(Miss::Absent("kernel without huge pages".into())) } else { Ok(()) }
    }
}

/// One pool, which is named by its page size: `hugepages-2048kB`.
fn row(root: &Root, pool: &str) -> Option<Hugepages> {
    let kb: u64 = pool.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
    let total = root.kept_number(&format!("{PATH}/{pool}/nr_hugepages"));
    // All others are among these (mm/hugetlb.c): of an empty pool nothing else need be asked.
    let pages = |file: &str| match total {
        Some(0) => Gauge::from(0_u64),
        _ => root.kept_number(&format!("{PATH}/{pool}/{file}")).map(Gauge::from).unwrap_or_default(),
    };
    Some(Hugepages {
        size: kb.saturating_mul(1024),
        total: total.map(Gauge::from).unwrap_or_default(),
        free: pages("free_hugepages"),
        reserved: pages("resv_hugepages"),
        surplus: pages("surplus_hugepages"),
    })
}
