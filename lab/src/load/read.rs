//! Loads that read files and devices: with read calls, through a mapping, and with io_uring.

use super::{Endless, Pacer, ready, sleep_forever};
use clap::Args;
use io_uring::{IoUring, opcode, types};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Reads a file or device; each job is a thread with one request at a time
#[derive(Args, Clone)]
pub struct Read {
    /// What to read
    #[arg(long)]
    path: PathBuf,
    /// Number of threads
    #[arg(long, default_value_t = 1)]
    jobs: u64,
    /// Bytes per request
    #[arg(long)]
    size: u64,
    /// Read at random offsets; otherwise each job reads its own part sequentially, over and over
    #[arg(long)]
    random: bool,
    /// Sequential requests at each random offset
    #[arg(long, default_value_t = 1)]
    run: u64,
    /// Bypass the page cache (O_DIRECT)
    #[arg(long)]
    direct: bool,
    /// Bytes per second over all jobs, each run at once; 0 for as many as possible
    #[arg(long, default_value_t = 0)]
    rate: u64,
    /// Threads that never pause, with --pause-ms
    #[arg(long, default_value_t = 0)]
    steady: u64,
    /// The other threads read for so long, and pause for as long, all at the same time; 0 for never
    #[arg(long, default_value_t = 0)]
    pause_ms: u64,
    /// Open it again and go on after so long: a file keeps the read-ahead that its device had when it was opened; 0 for never
    #[arg(long, default_value_t = 0)]
    reopen_ms: u64,
    /// Seed of the random offsets
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Read {
    fn open(&self) -> io::Result<File> {
        let flags = if self.direct { libc::O_DIRECT } else { 0 };
        OpenOptions::new().read(true).custom_flags(flags).open(&self.path)
    }

    pub fn run(self) -> Endless {
        let mut file = self.open()?;
        let length = file.seek(SeekFrom::End(0))?;
        ready("")?;
        for job in 1..self.jobs {
            let (load, file) = (self.clone(), file.try_clone()?);
            thread::spawn(move || exit_on_error(load.job(file, length, job)));
        }
        self.job(file, length, 0)
    }

    fn job(&self, mut file: File, length: u64, job: u64) -> Endless {
        let buffer = aligned(self.size as usize);
        let mut pacer = Pacer::rate(self.rate / self.jobs, self.size * self.run);
        let mut opened = Instant::now();
        let mut rng = SmallRng::seed_from_u64(self.seed + job);
        let blocks = length / self.size;
        let (first, part) = (blocks / self.jobs * job, (blocks / self.jobs).max(1));
        let mut start = 0;
        for turn in 0_u64.. {
            if self.random && turn % self.run == 0 {
                start = rng.random_range(0..blocks - self.run);
            }
            let block = if self.random { start + turn % self.run } else { first + turn % part };
            if turn % self.run == 0 {
                pacer.wait();
            }
            if self.reopen_ms > 0 && opened.elapsed() >= Duration::from_millis(self.reopen_ms) {
                (file, opened) = (self.open()?, Instant::now());
            }
            if self.pause_ms > 0 && job >= self.steady {
                pause_in_every_other(Duration::from_millis(self.pause_ms));
            }
            file.read_exact_at(buffer, block * self.size)?;
        }
        sleep_forever()
    }
}

/// Sleeps until the end of the current interval if its number is odd. The intervals are the same for all threads.
fn pause_in_every_other(interval: Duration) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let into = now.as_nanos() % (2 * interval.as_nanos());
    let left = (2 * interval.as_nanos()).saturating_sub(into);
    if into >= interval.as_nanos() {
        thread::sleep(Duration::from_nanos(u64::try_from(left).unwrap_or(0)));
    }
}

/// Reads single bytes at random offsets of a mapped file: page faults instead of read calls
#[derive(Args)]
pub struct MmapRead {
    /// What to map
    #[arg(long)]
    path: PathBuf,
    /// Open and map it again after so long: a file keeps the read-ahead that its device had when it was opened; 0 for never
    #[arg(long, default_value_t = 0)]
    reopen_ms: u64,
    /// Seed of the offsets
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl MmapRead {
    pub fn run(self) -> Endless {
        let mut file = File::open(&self.path)?;
        let length = file.seek(SeekFrom::End(0))?;
        let (mut at, mut opened) = (map(&file, length as usize)?, Instant::now());
        ready("")?;
        let mut rng = SmallRng::seed_from_u64(self.seed);
        loop {
            if self.reopen_ms > 0 && opened.elapsed() >= Duration::from_millis(self.reopen_ms) {
                // SAFETY: the mapping has this length and is no longer used.
                unsafe { libc::munmap(at.cast_mut().cast(), length as usize) };
                file = File::open(&self.path)?;
                (at, opened) = (map(&file, length as usize)?, Instant::now());
            }
            // SAFETY: the offset lies within the mapping; nothing writes to the file.
            black_box(unsafe { at.add(rng.random_range(0..length) as usize).read_volatile() });
        }
    }
}

/// Maps a whole file read-only.
fn map(file: &File, length: usize) -> io::Result<*const u8> {
    // SAFETY: the kernel chooses an address that is not in use.
    let at = unsafe { libc::mmap(null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(at.cast()) }
}

/// Milliseconds for which the kernel thread polls for requests before it sleeps.
const POLLS_FOR: u32 = 1;

/// Reads at random offsets with io_uring and SQPOLL, bypassing the page cache; waits for each request in turn
#[derive(Args)]
pub struct UringRead {
    /// What to read
    #[arg(long)]
    path: PathBuf,
    /// Bytes per request
    #[arg(long)]
    size: u64,
}

impl UringRead {
    pub fn run(self) -> Endless {
        let mut file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&self.path)?;
        let blocks = file.seek(SeekFrom::End(0))? / self.size;
        let buffer = aligned(self.size as usize);
        let mut ring: IoUring = IoUring::builder().setup_sqpoll(POLLS_FOR).build(1)?;
        let mut rng = SmallRng::seed_from_u64(1);
        ready("")?;
        loop {
            let read = opcode::Read::new(types::Fd(file.as_raw_fd()), buffer.as_mut_ptr(), buffer.len() as u32);
            let request = read.offset(rng.random_range(0..blocks) * self.size).build();
            // SAFETY: the buffer is never freed, and the file stays open as long as the program runs.
            unsafe { ring.submission().push(&request) }.map_err(io::Error::other)?;
            ring.submit_and_wait(1)?;
            for done in ring.completion() {
                if done.result() < 0 {
                    return Err(io::Error::from_raw_os_error(-done.result()));
                }
            }
        }
    }
}

/// Ends the whole process when one of its threads fails.
fn exit_on_error(end: Endless) {
    let Err(e) = end;
    eprintln!("whyslow-lab load: {e}");
    std::process::exit(1);
}

/// Returns a buffer that O_DIRECT accepts; it is never freed, because the load never ends.
pub fn aligned(bytes: usize) -> &'static mut [u8] {
    let Ok(layout) = Layout::from_size_align(bytes.max(1), 4096) else { std::process::abort() };
    // SAFETY: the layout is not of size zero; the memory is zeroed, `bytes` long, and not shared.
    unsafe {
        let at = alloc_zeroed(layout);
        if at.is_null() {
            handle_alloc_error(layout);
        }
        std::slice::from_raw_parts_mut(at, bytes)
    }
}
