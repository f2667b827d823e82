//! Reads with io_uring, one at a time, that a kernel thread submits.

use super::read::aligned;
use super::{Endless, ready};
use clap::Args;
use io_uring::{IoUring, opcode, types};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::fs::OpenOptions;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

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
            // SAFETY: the buffer is never freed, and the file is open as long as the program runs.
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
