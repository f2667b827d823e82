//! Reading files and devices.

use super::{Endless, Pacer, ready, sleep_forever};
use clap::Args;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::thread;

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
    /// Bytes per second over all jobs; 0 for as many as possible
    #[arg(long, default_value_t = 0)]
    rate: u64,
    /// Seed of the random offsets
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Read {
    pub fn run(self) -> Endless {
        let flags = if self.direct { libc::O_DIRECT } else { 0 };
        let mut file = OpenOptions::new().read(true).custom_flags(flags).open(&self.path)?;
        let length = file.seek(SeekFrom::End(0))?;
        ready("")?;
        for job in 1..self.jobs {
            let (load, file) = (self.clone(), file.try_clone()?);
            thread::spawn(move || exit_on_error(load.job(&file, length, job)));
        }
        self.job(&file, length, 0)
    }

    fn job(&self, file: &File, length: u64, job: u64) -> Endless {
        let buffer = aligned(self.size as usize);
        let mut pacer = Pacer::rate(self.rate / self.jobs, self.size);
        let mut rng = SmallRng::seed_from_u64(self.seed + job);
        let blocks = length / self.size;
        let (first, part) = (blocks / self.jobs * job, (blocks / self.jobs).max(1));
        let mut start = 0;
        for turn in 0_u64.. {
            if self.random && turn % self.run == 0 {
                start = rng.random_range(0..blocks - self.run);
            }
            let block = if self.random { start + turn % self.run } else { first + turn % part };
            pacer.wait();
            file.read_exact_at(buffer, block * self.size)?;
        }
        sleep_forever()
    }
}

/// Ends the whole process when one of its threads fails.
fn exit_on_error(end: Endless) {
    let Err(e) = end;
    eprintln!("whyslow-lab load: {e}");
    std::process::exit(1);
}

/// A buffer that O_DIRECT accepts; it is never freed, because the load never ends.
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
