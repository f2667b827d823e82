//! Loads that use memory.

use super::{Endless, Pacer, ready, sleep_forever};
use clap::Args;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use nix::unistd::{ForkResult, fork, ftruncate};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

const PAGE: u64 = 4096;

/// Allocates memory, fills it with incompressible data, and touches its pages at random
#[derive(Args)]
pub struct Touch {
    /// Bytes to allocate
    #[arg(long)]
    bytes: u64,
    /// Pages touched per second; 0 for as many as possible
    #[arg(long, default_value_t = 0)]
    rate: u64,
    /// Touch nothing after filling it
    #[arg(long)]
    still: bool,
    /// Seed of the contents and offsets
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Touch {
    pub fn run(self) -> Endless {
        let mut rng = SmallRng::seed_from_u64(self.seed);
        let mut words = vec![0_u64; (self.bytes / 8) as usize];
        words.fill_with(|| rng.next_u64());
        ready("")?;
        if self.still {
            // Otherwise the compiler may notice that nothing uses the memory.
            std::hint::black_box(&words);
            sleep_forever();
        }
        // Paced by tens: a sleep per page would cost more than the page.
        let mut pacer = Pacer::rate(self.rate, 10);
        loop {
            pacer.wait();
            for _ in 0..10 {
                let page = skewed(rng.random(), self.bytes / PAGE);
                words[(page * PAGE / 8) as usize] ^= 1;
            }
        }
    }
}

/// Turns a random number below 1 into one below `count` that is more often small than large, as programs use some pages
/// more than others: a quarter of the pages gets half of the touches.
fn skewed(random: f64, count: u64) -> u64 {
    (random * random * count as f64) as u64
}

/// Allocates memory until it is killed
#[derive(Args)]
pub struct Hog {
    /// Bytes per second
    #[arg(long)]
    rate: u64,
    /// Bytes at most, so that a machine without a limit survives
    #[arg(long, default_value_t = u64::MAX)]
    most: u64,
}

impl Hog {
    pub fn run(self) -> Endless {
        const STEP: u64 = 1 << 20;
        let (mut held, mut pacer) = (Vec::new(), Pacer::rate(self.rate, STEP));
        ready("")?;
        while (held.len() as u64) < self.most / STEP {
            pacer.wait();
            held.push(vec![1_u8; STEP as usize]);
        }
        sleep_forever()
    }
}

/// Starts a hog again whenever the last one was killed
#[derive(Args)]
pub struct OomLoop {
    /// Bytes that the hog allocates per second
    #[arg(long)]
    rate: u64,
    /// Pause between two hogs
    #[arg(long)]
    pause_ms: u64,
}

impl OomLoop {
    pub fn run(self) -> Endless {
        let mut hog = Command::new("/proc/self/exe");
        std::os::unix::process::CommandExt::arg0(&mut hog, "lab-hog");
        hog.args(["load", "hog", "--rate", &self.rate.to_string()]).stdout(std::process::Stdio::null());
        crate::command::kill_with_parent(&mut hog);
        ready("")?;
        loop {
            hog.spawn()?.wait()?;
            sleep(Duration::from_millis(self.pause_ms));
        }
    }
}

/// Memory mapped by one page of page tables.
const TABLE: u64 = 2 << 20;

/// Maps sparse shared memory in many processes, each with page tables of its own
#[derive(Args)]
pub struct PageTables {
    /// Bytes of address space
    #[arg(long)]
    bytes: u64,
    /// Processes
    #[arg(long)]
    processes: u64,
}

impl PageTables {
    /// Runs the load. Ready when all processes have mapped the memory.
    pub fn run(self) -> Endless {
        let memory = memfd_create(c"lab", MFdFlags::empty())?;
        ftruncate(&memory, self.bytes.cast_signed())?;
        let length = NonZeroUsize::new(self.bytes as usize).ok_or_else(|| io::Error::other("no bytes"))?;
        for _ in 0..self.processes {
            let (touched, touching) = io::pipe()?;
            // SAFETY: this process has one thread.
            if let ForkResult::Child = unsafe { fork() }? {
                nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
                // SAFETY: a new mapping wherever there is room.
                let start = unsafe {
                    mmap(
                        None,
                        length,
                        ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                        MapFlags::MAP_SHARED,
                        memory.as_fd(),
                        0,
                    )?
                };
                for at in (0..self.bytes).step_by(TABLE as usize) {
                    // SAFETY: within the mapping.
                    unsafe { start.byte_add(at as usize).cast::<u8>().write_volatile(1) };
                }
                drop((touched, touching));
                sleep_forever();
            }
            drop(touching);
            // The pipe ends when the child has closed it.
            io::copy(&mut { touched }, &mut io::sink())?;
        }
        ready("")?;
        sleep_forever()
    }
}

/// Keeps allocating memory with equal contents that may be shared (KSM), and frees it after a while
#[derive(Args)]
pub struct Mergeable {
    /// Bytes per second
    #[arg(long)]
    rate: u64,
    /// Bytes held at any time
    #[arg(long)]
    hold: u64,
    /// Ask for huge pages; otherwise for small ones
    #[arg(long)]
    huge: bool,
}

impl Mergeable {
    pub fn run(self) -> Endless {
        let length = NonZeroUsize::new(8 * TABLE as usize).ok_or_else(|| io::Error::other("no bytes"))?;
        let pages = if self.huge { MmapAdvise::MADV_HUGEPAGE } else { MmapAdvise::MADV_NOHUGEPAGE };
        let mut pacer = Pacer::rate(self.rate, length.get() as u64);
        let mut held = std::collections::VecDeque::new();
        ready("")?;
        loop {
            pacer.wait();
            // SAFETY: a new mapping wherever there is room, which nothing else uses.
            unsafe {
                let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
                let start = mmap_anonymous(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, flags)?;
                madvise(start, length.get(), pages)?;
                madvise(start, length.get(), MmapAdvise::MADV_MERGEABLE)?;
                start.cast::<u8>().write_bytes(0x5a, length.get());
                held.push_back(start);
            }
            if (held.len() * length.get()) as u64 > self.hold
                && let Some(oldest) = held.pop_front()
            {
                // SAFETY: mapped above, and no longer used.
                unsafe { munmap(oldest, length.get())? };
            }
        }
    }
}

/// Looks for files that do not exist, which the kernel remembers
#[derive(Args)]
pub struct Lookups {
    /// The directory
    #[arg(long)]
    dir: PathBuf,
    /// Files per second
    #[arg(long)]
    rate: u64,
}

impl Lookups {
    pub fn run(self) -> Endless {
        const STEP: u64 = 1000;
        let mut pacer = Pacer::rate(self.rate, STEP);
        ready("")?;
        for number in 0_u64.. {
            if number % STEP == 0 {
                pacer.wait();
            }
            // The file does not exist, as intended.
            drop(fs::metadata(self.dir.join(number.to_string())));
        }
        sleep_forever()
    }
}
