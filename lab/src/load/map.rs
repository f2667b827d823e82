//! Looking at places of a mapped file.

use super::{Endless, ready};
use crate::dice::Dice;
use clap::Args;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::ptr::null_mut;

/// Looks at one byte after the other, each at a random place of a mapped file: every look is a page fault, and no read
/// call is made.
#[derive(Args)]
pub struct Map {
    /// What is mapped.
    #[arg(long)]
    path: PathBuf,
    /// The seed of the places.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Map {
    /// Ends where the file cannot be mapped.
    pub fn run(self) -> Endless {
        let mut file = File::open(&self.path)?;
        let length = file.seek(SeekFrom::End(0))?;
        let at = map(&file, length as usize)?;
        ready("")?;
        let mut dice = Dice::new(self.seed, "map");
        loop {
            // SAFETY: the place lies within the mapping, which is never taken away; nobody writes to the file.
            black_box(unsafe { at.add((dice.roll() % length) as usize).read_volatile() });
        }
    }
}

/// Maps a whole file to be read.
fn map(file: &File, length: usize) -> io::Result<*const u8> {
    // SAFETY: a new mapping at a place of the kernel's choosing takes no memory from anybody.
    let at = unsafe { libc::mmap(null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(at.cast()) }
}
