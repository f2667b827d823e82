//! Reading files and devices.

use super::{Endless, Pace, ready, rest};
use crate::dice::Dice;
use clap::Args;
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::thread;

/// Reads a file or device, each job a thread with one request at a time.
#[derive(Args, Clone)]
pub struct Read {
    /// What is read.
    #[arg(long)]
    path: PathBuf,
    /// How many at a time.
    #[arg(long, default_value_t = 1)]
    jobs: u64,
    /// Bytes a request.
    #[arg(long)]
    size: u64,
    /// At random places; else each job reads its own part from one end to the other, again and again.
    #[arg(long)]
    random: bool,
    /// Requests in a row at each random place.
    #[arg(long, default_value_t = 1)]
    run: u64,
    /// Past the page cache (O_DIRECT).
    #[arg(long)]
    direct: bool,
    /// Bytes a second, all jobs together; 0 for as many as possible.
    #[arg(long, default_value_t = 0)]
    rate: u64,
    /// The seed of the random places.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Read {
    /// Ends on the first error.
    pub fn run(self) -> Endless {
        let flags = if self.direct { libc::O_DIRECT } else { 0 };
        let mut file = OpenOptions::new().read(true).custom_flags(flags).open(&self.path)?;
        let length = file.seek(SeekFrom::End(0))?;
        ready("")?;
        for job in 1..self.jobs {
            let (load, file) = (self.clone(), file.try_clone()?);
            thread::spawn(move || fail_together(load.job(&file, length, job)));
        }
        self.job(&file, length, 0)
    }

    fn job(&self, file: &File, length: u64, job: u64) -> Endless {
        let buffer = aligned(self.size as usize);
        let mut pace = Pace::rate(self.rate / self.jobs, self.size);
        let mut dice = Dice::new(self.seed + job, "read");
        let blocks = length / self.size;
        let (first, part) = (blocks / self.jobs * job, (blocks / self.jobs).max(1));
        let mut place = 0;
        for turn in 0_u64.. {
            if self.random && turn % self.run == 0 {
                place = dice.roll() % (blocks - self.run);
            }
            let block = if self.random { place + turn % self.run } else { first + turn % part };
            pace.wait();
            file.read_exact_at(buffer, block * self.size)?;
        }
        rest()
    }
}

/// Ends the whole process where one of its threads failed.
fn fail_together(end: Endless) {
    let Err(e) = end;
    eprintln!("whyslow-lab load: {e}");
    std::process::exit(1);
}

/// A buffer that O_DIRECT accepts; it is never freed, for the load never ends.
pub fn aligned(bytes: usize) -> &'static mut [u8] {
    let Ok(layout) = Layout::from_size_align(bytes.max(1), 4096) else { std::process::abort() };
    // SAFETY: the layout is not of size zero; the memory is zeroed, `bytes` long, and nobody else has it.
    unsafe {
        let at = alloc_zeroed(layout);
        if at.is_null() {
            handle_alloc_error(layout);
        }
        std::slice::from_raw_parts_mut(at, bytes)
    }
}
