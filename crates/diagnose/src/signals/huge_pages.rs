//! Huge pages: pools of reserved ones (hugetlbpage.rst), transparent ones (transhuge.rst), and page sharing, which splits those
//! (ksm.rst).

use whyslow_model::catalogue::{Hugepages, Sharing, Vmstat};
use whyslow_model::window::{Change, Window};

/// A pool of reserved huge pages.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Bytes of a page.
    size: u64,
    /// Number of pages in it.
    total: f64,
    /// Pages that are neither in use nor reserved for a program.
    unused: f64,
}

impl Pool {
    fn from_pages(pages: &Hugepages) -> Option<Self> {
        let promised = pages.reserved.get().unwrap_or(0.0);
        let unused = (pages.free.get()? - promised).max(0.0);
        Some(Self { size: pages.size, total: pages.total.get()?, unused })
    }

    /// Returns the pool with the most unused memory.
    pub fn largest_unused(window: &Window) -> Option<Self> {
        let pools = window.newest::<Hugepages>().into_values().filter_map(Self::from_pages);
        pools.max_by(|a, b| a.unused_bytes().total_cmp(&b.unused_bytes()))
    }

    /// Returns its name under /sys/kernel/mm/hugepages.
    pub fn name(&self) -> String {
        format!("hugepages-{}kB", self.size / 1024)
    }

    /// Returns the bytes that are withheld from all other uses and that no program uses.
    pub fn unused_bytes(&self) -> f64 {
        self.unused * self.size as f64
    }

    /// Returns the bytes of all its pages.
    pub fn bytes(&self) -> f64 {
        self.total * self.size as f64
    }

    /// Returns the number of pages that are in use or reserved.
    pub fn needed(&self) -> f64 {
        self.total - self.unused
    }
}

/// Returns the bytes in all pools, for which kernels before 4.16 have no line of their own; `None` if none is known.
pub fn reserved(window: &Window) -> Option<f64> {
    let pools = window.newest::<Hugepages>();
    pools.values().filter_map(|pages| Pool::from_pages(pages)).map(|pool| pool.bytes()).reduce(|a, b| a + b)
}

/// Returns the split transparent huge pages as a share of those allocated.
pub fn split_share(vmstat: &Change<'_, Vmstat>) -> Option<f64> {
    let made = vmstat.grown(|v| v.thp_fault_alloc)? + vmstat.grown(|v| v.thp_collapse_alloc)?;
    (made > 0.0).then_some(vmstat.grown(|v| v.thp_split_page)? / made)
}

/// Returns true if page sharing looks for equal pages.
pub fn ksm_runs(window: &Window) -> Option<bool> {
    window.the::<Sharing>()?.ksm_run.get().map(|run| run == 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window;

    #[test]
    fn the_pool_with_most_unused_memory_is_the_one_that_counts() {
        let window = window([0], |_, s| {
            let pool = |size, total: u64, free: u64, reserved: u64| Hugepages {
                total: total.into(),
                free: free.into(),
                reserved: reserved.into(),
                ..Hugepages::new(size)
            };
            s.memory.hugepages = vec![pool(2 << 20, 1000, 900, 400), pool(1 << 30, 2, 2, 0)];
        });
        let pool = Pool::largest_unused(&window).unwrap();
        assert_eq!((pool.name().as_str(), pool.needed()), ("hugepages-1048576kB", 0.0));
        let small = Pool::from_pages(window.newest::<Hugepages>()[&(2 << 20)]).unwrap();
        // 500 pages of 2 MiB, as 400 of the free ones are reserved.
        assert_eq!((small.unused_bytes(), small.needed()), (500.0 * 2_097_152.0, 500.0));
        assert_eq!(small.bytes(), 1000.0 * 2_097_152.0);
        assert_eq!(reserved(&window), Some(1000.0 * 2_097_152.0 + 2.0 * 1_073_741_824.0));
    }
}
