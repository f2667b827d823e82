//! Reads through a mapping of a file.

use super::{Endless, ready};
use clap::Args;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::ptr::null_mut;

/// Reads single bytes at random offsets of a mapped file: page faults instead of read calls
#[derive(Args)]
pub struct MmapRead {
    /// What to map
    #[arg(long)]
    path: PathBuf,
    /// Seed of the offsets
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl MmapRead {
    pub fn run(self) -> Endless {
        let mut file = File::open(&self.path)?;
        let length = file.seek(SeekFrom::End(0))?;
        let at = map(&file, length as usize)?;
        ready("")?;
        let mut rng = SmallRng::seed_from_u64(self.seed);
        loop {
            // SAFETY: the offset lies within the mapping, which is never removed; nothing writes to the file.
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
