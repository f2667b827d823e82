//! Programs that take memory in bursts of small pages, or in huge ones. The kernel kills them first if memory runs out.

use super::{Endless, Pacer, ready, sleep_forever};
use clap::Args;
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::ffi::c_void;
use std::fs::{self, File};
use std::hint::black_box;
use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::thread;
use std::time::Duration;

const PAGE: usize = 4096;
const HUGE_PAGE: usize = 2 << 20;

/// Memory of this program, unmapped when dropped.
struct Mapping {
    start: NonNull<c_void>,
    length: NonZeroUsize,
}

// SAFETY: nothing else uses the memory, which is not tied to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(bytes: usize, flags: MapFlags) -> io::Result<Self> {
        let length = NonZeroUsize::new(bytes).ok_or_else(|| io::Error::other("no bytes"))?;
        let flags = MapFlags::MAP_PRIVATE | flags;
        // SAFETY: a new mapping wherever there is room.
        let start = unsafe { mmap_anonymous(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, flags)? };
        Ok(Self { start, length })
    }

    /// Maps memory of small or huge pages, without allocating any of them yet.
    fn reserve(bytes: usize, pages: MmapAdvise) -> io::Result<Self> {
        let mapping = Self::new(bytes, MapFlags::MAP_NORESERVE)?;
        mapping.advise(0, bytes, pages)?;
        Ok(mapping)
    }

    /// Maps a file read-only.
    fn of_file(file: &File, bytes: usize) -> io::Result<Self> {
        let length = NonZeroUsize::new(bytes).ok_or_else(|| io::Error::other("no bytes"))?;
        // SAFETY: a new mapping wherever there is room.
        let start = unsafe { mmap(None, length, ProtFlags::PROT_READ, MapFlags::MAP_SHARED, file, 0)? };
        Ok(Self { start, length })
    }

    fn advise(&self, at: usize, bytes: usize, advice: MmapAdvise) -> io::Result<()> {
        // SAFETY: within the mapping, to which there are no references.
        unsafe { madvise(self.start.byte_add(at), bytes, advice) }.map_err(io::Error::from)
    }

    /// Touches each small page of a part of it.
    fn touch(&self, from: usize, bytes: usize) {
        for at in (from..from + bytes).step_by(PAGE) {
            // SAFETY: within the mapping.
            unsafe { self.start.byte_add(at).cast::<u8>().write_volatile(1) };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by us, and no longer used.
        let _ = unsafe { munmap(self.start, self.length.get()) };
    }
}

/// Makes the OOM killer choose this program first, so that others survive.
fn die_first() -> io::Result<()> {
    fs::write("/proc/self/oom_score_adj", "1000")
}

/// Is promised reserved huge pages, and uses none
#[derive(Args)]
pub struct Promised {
    /// Bytes
    #[arg(long)]
    bytes: usize,
}

impl Promised {
    pub fn run(self) -> Endless {
        let _promised = Mapping::new(self.bytes, MapFlags::MAP_HUGETLB)?;
        ready("")?;
        sleep_forever()
    }
}

/// Reads a file once through a mapping, page by page: what it has cached stays mapped until it is reclaimed
#[derive(Args)]
pub struct MapStream {
    /// The file, larger than will be read
    #[arg(long)]
    path: PathBuf,
    /// Bytes it reads at once
    #[arg(long)]
    first: usize,
    /// Bytes per second from then on
    #[arg(long)]
    rate: u64,
}

impl MapStream {
    /// Runs the load. Ready when it has read the first bytes.
    pub fn run(self) -> Endless {
        const STEP: usize = 1 << 20;
        let file = File::open(&self.path)?;
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let mapping = Mapping::of_file(&file, length)?;
        // Read pages one by one.
        mapping.advise(0, length, MmapAdvise::MADV_RANDOM)?;
        let mut pacer = Pacer::rate(self.rate, STEP as u64);
        for at in (0..length).step_by(STEP) {
            if at / STEP == self.first / STEP {
                ready("")?;
            }
            if at >= self.first {
                pacer.wait();
            }
            for page in (at..at + STEP).step_by(PAGE) {
                // SAFETY: within the mapping of a file that is not truncated.
                black_box(unsafe { mapping.start.byte_add(page).cast::<u8>().read_volatile() });
            }
        }
        Err(io::Error::other("the file is too short"))
    }
}

/// Takes memory in bursts of small pages, which it frees at once
#[derive(Args)]
pub struct MemoryBursts {
    /// Bytes of a burst
    #[arg(long)]
    bytes: usize,
    /// Threads that take them
    #[arg(long)]
    threads: usize,
    /// Time between the beginnings of bursts
    #[arg(long)]
    every_ms: u64,
}

impl MemoryBursts {
    pub fn run(self) -> Endless {
        die_first()?;
        let mut pacer = Pacer::every(Duration::from_millis(self.every_ms));
        ready("")?;
        loop {
            pacer.wait();
            let parts =
                (0..self.threads).map(|_| Mapping::reserve(self.bytes / self.threads, MmapAdvise::MADV_NOHUGEPAGE));
            let parts: Vec<Mapping> = parts.collect::<io::Result<_>>()?;
            thread::scope(|scope| {
                for part in parts {
                    scope.spawn(move || part.touch(0, part.length.get()));
                }
            });
        }
    }
}

/// Takes huge pages in turns, splits them, and returns as much memory in single pages that it picks at random: free memory is fragmented
#[derive(Args)]
pub struct Fragment {
    /// Bytes of free memory down to which it takes small pages at first, a fifth of which it returns
    #[arg(long)]
    leave: u64,
    /// Bytes of huge pages it takes in a turn
    #[arg(long)]
    bytes: usize,
    /// Time between the beginnings of turns
    #[arg(long)]
    every_ms: u64,
    /// Seed of what it picks
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Fragment {
    /// Number of turns after which compaction should have set in.
    const TURNS: u64 = 200;

    /// Runs the load. Ready when its huge pages need compaction.
    pub fn run(self) -> Endless {
        die_first()?;
        let mut held = Pages::new(self.seed);
        while number_in("/proc/meminfo", "MemFree:")? * 1024 > self.leave {
            let part = Mapping::reserve(16 * HUGE_PAGE, MmapAdvise::MADV_NOHUGEPAGE)?;
            part.touch(0, 16 * HUGE_PAGE);
            held.add(part, 0, 16 * HUGE_PAGE);
        }
        held.release(held.addresses.len() / 5)?;
        let mut pacer = Pacer::every(Duration::from_millis(self.every_ms));
        let before = number_in("/proc/vmstat", "compact_stall")?;
        let needs_compaction = || io::Result::Ok(number_in("/proc/vmstat", "compact_stall")? > before + 100);
        let mut is_ready = false;
        for turn in 0_u64.. {
            pacer.wait();
            let huge = Mapping::reserve(self.bytes + HUGE_PAGE, MmapAdvise::MADV_HUGEPAGE)?;
            let first = huge.start.as_ptr().align_offset(HUGE_PAGE);
            // Touch each small page, because the kernel frees those full of zeros when it splits a huge one.
            huge.touch(first, self.bytes);
            for at in (first..first + self.bytes).step_by(HUGE_PAGE) {
                // Split the huge page: otherwise none of its small pages would become free when released.
                huge.advise(at, PAGE, MmapAdvise::MADV_FREE)?;
            }
            held.add(huge, first, self.bytes);
            held.release(self.bytes / PAGE)?;
            if !is_ready && needs_compaction()? {
                is_ready = true;
                ready("")?;
            } else if !is_ready && turn > Self::TURNS {
                println!("free memory that is fragmented");
            }
        }
        sleep_forever()
    }
}

/// Small pages that were touched and not yet released.
struct Pages {
    addresses: Vec<NonNull<c_void>>,
    mappings: Vec<Mapping>,
    rng: SmallRng,
}

impl Pages {
    fn new(seed: u64) -> Self {
        Self { addresses: Vec::new(), mappings: Vec::new(), rng: SmallRng::seed_from_u64(seed) }
    }

    /// Adds the touched part of a mapping.
    fn add(&mut self, mapping: Mapping, from: usize, bytes: usize) {
        // SAFETY: within the mapping.
        self.addresses.extend((from..from + bytes).step_by(PAGE).map(|at| unsafe { mapping.start.byte_add(at) }));
        self.mappings.push(mapping);
    }

    /// Releases this many pages to the kernel, picked at random.
    fn release(&mut self, count: usize) -> io::Result<()> {
        for _ in 0..count.min(self.addresses.len()) {
            let page = self.addresses.swap_remove(self.rng.random_range(0..self.addresses.len()));
            // SAFETY: within a mapping that still exists, to which there are no references.
            unsafe { madvise(page, PAGE, MmapAdvise::MADV_DONTNEED)? };
        }
        Ok(())
    }
}

/// Returns the number after a name in a file of /proc.
fn number_in(file: &str, name: &str) -> io::Result<u64> {
    let text = fs::read_to_string(file)?;
    let numbers =
        text.lines().filter_map(|line| line.strip_prefix(name)).filter_map(|rest| rest.split_whitespace().next());
    numbers
        .filter_map(|number| number.parse().ok())
        .next()
        .ok_or_else(|| io::Error::other(format!("{file}: no {name}")))
}
