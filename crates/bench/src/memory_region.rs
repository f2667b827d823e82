//! Anonymous memory with a given page size, on a given NUMA node.

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};
use nix::unistd::{SysconfVar, sysconf};
use std::ffi::c_void;
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use whyslow_model::human;
use whyslow_sense::Root;

const THP: &str = "sys/kernel/mm/transparent_hugepage";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageKind {
    Base,
    /// Transparent huge pages (Documentation/admin-guide/mm/transhuge.rst).
    Transparent,
    /// Huge pages from the pool (Documentation/admin-guide/mm/hugetlbpage.rst).
    Huge,
}

impl PageKind {
    /// Returns the kinds available here. Changes no setting: the huge page pool is used as it is.
    pub(crate) fn available(root: &Root) -> Vec<Self> {
        let transparent = root.maybe(&format!("{THP}/enabled")).is_some_and(|text| !text.contains("[never]"));
        let mut pages = vec![Self::Base];
        pages.extend(transparent.then_some(Self::Transparent));
        pages.extend((free_in_pool(root) > 0).then_some(Self::Huge));
        pages
    }

    /// Returns the reasons why kinds are missing or have too few pages for `wanted` bytes.
    pub(crate) fn missing(root: &Root, wanted: u64) -> Vec<String> {
        let mut missing = Vec::new();
        if !Self::available(root).contains(&Self::Transparent) {
            missing.push(format!("transparent huge pages are not measured: /{THP}/enabled says never"));
        }
        let free = free_in_pool(root);
        if free < wanted {
            let size = |bytes: u64| human::quantity(bytes as f64, "bytes");
            missing.push(match free {
                0 => "huge pages are not measured: none are free in the pool (vm.nr_hugepages)".into(),
                free => format!("huge pages are measured only up to the {} that are free in the pool", size(free)),
            });
        }
        missing
    }

    pub(crate) fn name(self) -> String {
        let size = |bytes: usize| human::quantity(bytes as f64, "bytes");
        match self {
            Self::Base => format!("{} pages", size(base_page())),
            Self::Transparent => "THP".into(),
            Self::Huge => format!("{} huge pages", size(huge_page())),
        }
    }

    /// Returns whether this many bytes are available.
    pub(crate) fn fit(self, bytes: u64, root: &Root) -> bool {
        self != Self::Huge || bytes.next_multiple_of(huge_page() as u64) <= free_in_pool(root)
    }

    /// Returns the size to which mappings are rounded up.
    fn unit(self) -> usize {
        if self == Self::Base { base_page() } else { huge_page() }
    }
}

pub(crate) fn base_page() -> usize {
    sysconf(SysconfVar::PAGE_SIZE).ok().flatten().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(4096)
}

/// Returns the size of a huge page: 2 MiB on most machines.
pub(crate) fn huge_page() -> usize {
    let bytes = Root::live().number(&format!("{THP}/hpage_pmd_size")).and_then(|bytes| usize::try_from(bytes).ok());
    bytes.filter(|bytes| bytes.is_power_of_two()).unwrap_or(2 << 20)
}

/// Returns the free and unreserved bytes of the huge page pool.
fn free_in_pool(root: &Root) -> u64 {
    let folder = format!("sys/kernel/mm/hugepages/hugepages-{}kB", huge_page() >> 10);
    let count = |file: &str| root.number(&format!("{folder}/{file}")).unwrap_or(0);
    count("free_hugepages").saturating_sub(count("resv_hugepages")).saturating_mul(huge_page() as u64)
}

/// An anonymous mapping. Pages are allocated when first written to.
#[derive(Debug)]
pub(crate) struct MemoryRegion {
    start: NonNull<u8>,
    bytes: usize,
    mapping: NonNull<c_void>,
    mapped: usize,
}

// SAFETY: only this value owns the mapping.
unsafe impl Send for MemoryRegion {}

impl MemoryRegion {
    /// Maps memory. Fails if such pages, memory or the node are not available.
    pub(crate) fn new(bytes: u64, pages: PageKind, node: Option<u32>) -> io::Result<Self> {
        let unit = pages.unit();
        let bytes = usize::try_from(bytes).ok().and_then(|bytes| bytes.max(1).checked_next_multiple_of(unit));
        // The kernel aligns mappings to small pages; a spare unit allows aligning them to huge ones.
        let spare = if pages == PageKind::Transparent { unit } else { 0 };
        let whole = |bytes: usize| NonZeroUsize::new(bytes.checked_add(spare)?);
        let (bytes, mapped) = bytes.and_then(|b| Some((b, whole(b)?))).ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = match pages {
            PageKind::Huge => MapFlags::MAP_PRIVATE | MapFlags::MAP_HUGETLB,
            _ => MapFlags::MAP_PRIVATE,
        };
        // SAFETY: a new anonymous mapping at an address the kernel chooses replaces nothing.
        let mapping = unsafe { mmap_anonymous(None, mapped, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, flags)? };
        let first = mapping.cast::<u8>();
        let skipped = first.as_ptr().align_offset(if spare > 0 { unit } else { 1 });
        // SAFETY: less than a unit is skipped, and the mapping has one unit to spare.
        let start = unsafe { first.add(skipped) };
        let region = Self { start, bytes, mapping, mapped: mapped.get() };
        region.advise(pages)?;
        node.map_or(Ok(()), |node| region.bind(node))?;
        Ok(region)
    }

    fn advise(&self, pages: PageKind) -> io::Result<()> {
        match pages {
            PageKind::Transparent => self.madvise(MmapAdvise::MADV_HUGEPAGE),
            // A kernel without huge pages refuses the advice, and does not need it.
            PageKind::Base => self.madvise(MmapAdvise::MADV_NOHUGEPAGE).or(Ok(())),
            PageKind::Huge => Ok(()),
        }
    }

    fn madvise(&self, advice: MmapAdvise) -> io::Result<()> {
        // SAFETY: the range is mapped and belongs to this value; no advice used here discards its content.
        unsafe { madvise(self.start.cast(), self.bytes, advice) }?;
        Ok(())
    }

    /// Binds the memory to a node (mbind(2), MPOL_BIND).
    fn bind(&self, node: u32) -> io::Result<()> {
        const BITS: usize = u64::BITS as usize;
        let mut mask = [0_u64; 16];
        let word = mask.get_mut(node as usize / BITS).ok_or(io::ErrorKind::InvalidInput)?;
        *word = 1 << (node as usize % BITS);
        // The kernel subtracts one (mm/mempolicy.c, get_nodes).
        let length = mask.len() * BITS + 1;
        // SAFETY: the range belongs to this value; the mask outlives the call and has `length` bits or more.
        let status = unsafe {
            libc::syscall(libc::SYS_mbind, self.start.as_ptr(), self.bytes, libc::MPOL_BIND, mask.as_ptr(), length, 0)
        };
        match status {
            0 => Ok(()),
            _ => match io::Error::last_os_error() {
                // A kernel without NUMA has one node and no such call.
                e if e.raw_os_error() == Some(libc::ENOSYS) && node == 0 => Ok(()),
                e => Err(e),
            },
        }
    }

    /// Faults in all pages in one call (MADV_POPULATE_WRITE of madvise(2), since 5.14).
    pub(crate) fn populate(&self) -> io::Result<()> {
        self.madvise(MmapAdvise::MADV_POPULATE_WRITE)
    }

    /// Writes to each page in order, and returns the number of writes.
    pub(crate) fn touch(&mut self, page: usize) -> u64 {
        let mut touched = 0;
        for at in (0..self.bytes).step_by(page.max(1)) {
            // SAFETY: `at` is within the mapping. Volatile, so that the write is not removed.
            unsafe { self.start.add(at).write_volatile(1) };
            touched += 1;
        }
        touched
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn as_u64(&mut self) -> &mut [u64] {
        // SAFETY: the mapping is page-aligned and this long; any bytes are valid numbers; `&mut self` makes this the
        // only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.bytes / size_of::<u64>()) }
    }

    pub(crate) fn as_f64(&mut self) -> &mut [f64] {
        // SAFETY: as in `as_u64`.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.bytes / size_of::<f64>()) }
    }

    /// Returns the share of the region in huge pages, from /proc/self/smaps (proc(5)).
    pub(crate) fn share_in_large_pages(&self) -> Option<f64> {
        let maps = fs::read_to_string("/proc/self/smaps").ok()?;
        Some((large(&maps, self.start.as_ptr().addr() as u64)? as f64 / self.bytes as f64).min(1.0))
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; nothing refers to it any more.
        let _ = unsafe { munmap(self.mapping, self.mapped) };
    }
}

/// Returns `AnonHugePages` of the mapping that contains an address, in bytes.
fn large(maps: &str, address: u64) -> Option<u64> {
    let holds = |line: &str| {
        let (first, last) = line.split_once(' ')?.0.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some((number(first)?..number(last)?).contains(&address))
    };
    let mut lines = maps.lines().skip_while(|line| holds(line) != Some(true)).skip(1);
    let size = lines.find_map(|line| line.strip_prefix("AnonHugePages:"))?;
    size.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_topology::tests::machine;

    #[test]
    fn every_available_kind_of_page_can_be_mapped() {
        for pages in PageKind::available(&Root::live()) {
            let mut region = MemoryRegion::new(3 << 20, pages, Some(0)).unwrap();
            assert!(region.bytes() >= 3 << 20 && region.as_u64().iter().all(|&word| word == 0), "{pages:?}");
            assert!(region.start.as_ptr().addr().is_multiple_of(pages.unit()), "{pages:?}");
            assert_eq!(region.touch(pages.unit()), (region.bytes() / pages.unit()) as u64);
            if pages == PageKind::Base {
                assert_eq!(region.share_in_large_pages(), Some(0.0));
            }
        }
    }

    #[test]
    fn pages_are_allocated_on_the_given_node() {
        let region = MemoryRegion::new(1 << 20, PageKind::Base, Some(0)).unwrap();
        region.populate().unwrap();
        let mut node = -1_i32;
        /// MPOL_F_NODE and MPOL_F_ADDR (include/uapi/linux/mempolicy.h).
        const NODE_OF_ADDRESS: libc::c_int = 1 | 2;
        let (no_mask, address) = (std::ptr::null_mut::<u64>(), region.start.as_ptr());
        // SAFETY: `node` may be written to, the address is mapped, and no mask is passed (get_mempolicy(2)).
        let status =
            unsafe { libc::syscall(libc::SYS_get_mempolicy, &raw mut node, no_mask, 0, address, NODE_OF_ADDRESS) };
        assert!(status != 0 || node == 0, "{node}");
        assert!(MemoryRegion::new(1 << 20, PageKind::Base, Some(1023)).is_err());
        assert!(MemoryRegion::new(1 << 20, PageKind::Base, Some(u32::MAX)).is_err());
    }

    #[test]
    fn impossible_mappings_are_refused() {
        assert!(MemoryRegion::new(u64::MAX, PageKind::Base, None).is_err());
        assert!(MemoryRegion::new(u64::MAX, PageKind::Transparent, None).is_err());
    }

    #[test]
    fn only_free_and_unreserved_huge_pages_are_used() {
        let pool = format!("sys/kernel/mm/hugepages/hugepages-{}kB", huge_page() >> 10);
        let (free, promised) = (format!("{pool}/free_hugepages"), format!("{pool}/resv_hugepages"));
        let enabled = "sys/kernel/mm/transparent_hugepage/enabled";
        let (_folder, root) = machine(&[(&free, "5\n"), (&promised, "2\n"), (enabled, "always madvise [never]\n")]);
        let three = 3 * huge_page() as u64;
        assert_eq!(PageKind::available(&root), [PageKind::Base, PageKind::Huge]);
        assert!(PageKind::Huge.fit(three, &root) && !PageKind::Huge.fit(three + 1, &root));
        assert_eq!(PageKind::missing(&root, three).len(), 1);
        assert!(PageKind::missing(&root, three + 1)[1].contains("6 MiB"));
    }

    #[test]
    fn huge_pages_are_counted_for_one_mapping_only() {
        let maps = "1000-2000 rw-p 0 0:0 0\nAnonHugePages:         0 kB\n2000-9000 rw-p 0 0:0 0 \nRss: 8 kB\n\
                    AnonHugePages:      2048 kB\n";
        assert_eq!((large(maps, 0x1fff), large(maps, 0x2000), large(maps, 0x9000)), (Some(0), Some(2 << 20), None));
    }
}
