//! Who holds the machine's memory: each holder with its part of the whole, and what nothing accounts for
//! (Documentation/filesystems/proc.rst: meminfo).

use crate::signals::huge_pages;
use whyslow_model::catalogue::Meminfo;
use whyslow_model::diagnosis::{MemoryHolding, MemoryLedger};
use whyslow_model::value::Gauge;
use whyslow_model::window::Window;

/// Share of memory below which what is not accounted for is left out: the lines of /proc/meminfo are not read at one instant.
const NEGLIGIBLE: f64 = 0.005;
/// Holder of the memory that no line of /proc/meminfo accounts for.
const UNACCOUNTED: &str = "the kernel, unaccounted";

/// Holders that are large only if something is wrong, or on purpose, and that have no cause of their own: names in the ledger.
const SELDOM_LARGE: [&str; 4] = ["shared memory and tmpfs", "per-CPU data of the kernel", "vmalloc", "kernel stacks"];

/// Returns the ledger of the newest sample; `None` if the main parts are unknown.
pub(crate) fn ledger(window: &Window) -> Option<MemoryLedger> {
    let memory = window.the::<Meminfo>()?;
    let known = |gauge: &Gauge| gauge.get();
    let total = known(&memory.mem_total)?;
    let sum = |parts: &[&Gauge]| parts.iter().filter_map(|gauge| known(gauge)).reduce(|a, b| a + b);
    let shared = known(&memory.shmem);
    let cache = sum(&[&memory.cached, &memory.buffers, &memory.swap_cached]);
    let cache = Some((cache? - shared.unwrap_or(0.0)).max(0.0));
    let stacks = known(&memory.kernel_stack);
    let huge = known(&memory.hugetlb).or_else(|| huge_pages::reserved(window));
    // The stacks of tasks are mapped with vmalloc.
    let vmalloc = known(&memory.vmalloc_used).map(|used| (used - stacks.unwrap_or(0.0)).max(0.0));
    let slab = if known(&memory.s_unreclaim).is_none() { known(&memory.slab) } else { None };
    let parts = [
        ("free", Some(known(&memory.mem_free)?), "MemFree"),
        ("memory of programs", Some(known(&memory.anon_pages)?), "AnonPages"),
        ("page cache of files", cache, "Cached + Buffers + SwapCached - Shmem"),
        ("shared memory and tmpfs", shared, "Shmem"),
        ("huge pages", huge, "Hugetlb"),
        ("kernel objects that can be reclaimed", known(&memory.s_reclaimable), "SReclaimable"),
        ("kernel objects that cannot be reclaimed", known(&memory.s_unreclaim), "SUnreclaim"),
        ("kernel objects", slab, "Slab"),
        ("page tables", known(&memory.page_tables), "PageTables"),
        ("kernel stacks", stacks, "KernelStack"),
        ("per-CPU data of the kernel", known(&memory.percpu), "Percpu"),
        ("vmalloc", vmalloc, "VmallocUsed - KernelStack"),
    ];
    let holding = |holder: &str, bytes: f64, how: &str| MemoryHolding {
        holder: holder.to_owned(),
        bytes,
        share: bytes / total,
        how: how.to_owned(),
    };
    let mut holders: Vec<MemoryHolding> =
        parts.iter().filter_map(|(holder, bytes, how)| Some(holding(holder, (*bytes)?, how))).collect();
    let rest = total - holders.iter().map(|holding| holding.bytes).sum::<f64>();
    if rest > NEGLIGIBLE * total {
        holders.push(holding(UNACCOUNTED, rest, "MemTotal - all of these"));
    }
    holders.retain(|holding| holding.bytes > 0.0);
    holders.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
    Some(MemoryLedger { total, holders })
}

/// Returns the largest of the holders that are seldom large.
pub(crate) fn seldom_large(ledger: &MemoryLedger) -> Option<&MemoryHolding> {
    ledger.holders.iter().find(|holding| SELDOM_LARGE.contains(&&*holding.holder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window;

    const GIB: f64 = 1_073_741_824.0;

    #[test]
    fn the_parts_and_what_nothing_accounts_for_are_the_whole() {
        let window = window([0], |_, s| {
            s.memory.meminfo.push(Meminfo {
                mem_total: (32.0 * GIB).into(),
                mem_free: GIB.into(),
                anon_pages: (8.0 * GIB).into(),
                cached: (3.0 * GIB).into(),
                shmem: GIB.into(),
                percpu: (12.0 * GIB).into(),
                kernel_stack: GIB.into(),
                vmalloc_used: GIB.into(),
                ..Meminfo::new(whyslow_model::key::MachineKey)
            });
        });
        let ledger = ledger(&window).unwrap();
        let named = |name: &str| ledger.holders.iter().find(|holding| holding.holder == name).map(|h| h.bytes / GIB);
        assert_eq!((named("page cache of files"), named(UNACCOUNTED), named("vmalloc")), (Some(2.0), Some(7.0), None));
        assert_eq!(ledger.holders.iter().map(|holding| holding.bytes).sum::<f64>(), ledger.total);
        assert_eq!(ledger.holders[0].holder, "per-CPU data of the kernel");
        assert_eq!(seldom_large(&ledger).map(|holding| holding.share), Some(0.375));
    }
}
