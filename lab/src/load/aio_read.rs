//! Asynchronous reads: at a steady rate, by a program that never waits for them, or with a fixed number in flight.

use super::read::aligned;
use super::{Endless, Pacer, ready};
use clap::Args;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum number of requests in flight.
const DEPTH: u64 = 256;

/// Interval for submitting requests and reaping completions.
const TICK: Duration = Duration::from_millis(1);

/// Reads at random offsets with io_submit(2), bypassing the page cache
#[derive(Args)]
pub struct AioRead {
    /// What to read
    #[arg(long)]
    path: PathBuf,
    /// Bytes per request
    #[arg(long)]
    size: u64,
    /// Requests per second, whether earlier ones are done or not
    #[arg(long, default_value_t = 0)]
    rate: u64,
    /// Requests in flight, each followed by the next when it is done; instead of a rate
    #[arg(long, default_value_t = 0)]
    depth: u64,
    /// Only waits for a completion, with nothing in flight
    #[arg(long)]
    idle: bool,
}

impl AioRead {
    pub fn run(self) -> Endless {
        let mut file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&self.path)?;
        let blocks = file.seek(SeekFrom::End(0))? / self.size;
        let mut queue = Queue::new(self.size as usize)?;
        let (mut rng, mut pacer, mut due) = (SmallRng::seed_from_u64(1), Pacer::every(TICK), 0.0);
        ready("")?;
        loop {
            if self.idle {
                queue.reap(1)?;
            }
            if self.depth > 0 {
                while queue.in_flight < self.depth {
                    queue.submit(&file, rng.random_range(0..blocks) * self.size)?;
                }
                queue.reap(1)?;
                continue;
            }
            pacer.wait();
            queue.reap(0)?;
            due += self.rate as f64 * TICK.as_secs_f64();
            while due >= 1.0 {
                due -= 1.0;
                queue.submit(&file, rng.random_range(0..blocks) * self.size)?;
            }
        }
    }
}

/// struct iocb, include/uapi/linux/aio_abi.h, little endian.
#[repr(C)]
#[derive(Default)]
struct Request {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_file: u32,
}

/// Opcode IOCB_CMD_PREAD.
const READ: u16 = 0;

struct Queue {
    context: libc::c_ulong,
    in_flight: u64,
    /// Shared by all requests, because the data read does not matter.
    buffer: &'static mut [u8],
    /// Array of struct io_event, four words each.
    events: Vec<[u64; 4]>,
}

impl Queue {
    fn new(bytes: usize) -> io::Result<Self> {
        let mut context = 0;
        // SAFETY: io_setup(2) writes the context that it creates.
        checked(unsafe { libc::syscall(libc::SYS_io_setup, DEPTH, &raw mut context) })?;
        Ok(Self { context, in_flight: 0, buffer: aligned(bytes), events: vec![[0; 4]; DEPTH as usize] })
    }

    /// Submits one request, or drops it if too many are in flight.
    fn submit(&mut self, file: &File, offset: u64) -> io::Result<()> {
        if self.in_flight == DEPTH {
            return Ok(());
        }
        let request = Request {
            opcode: READ,
            file: file.as_raw_fd() as u32,
            buffer: self.buffer.as_mut_ptr() as u64,
            bytes: self.buffer.len() as u64,
            offset: offset as i64,
            ..Request::default()
        };
        let list = [&raw const request];
        // SAFETY: the request is copied by the call; the buffer is never freed.
        self.in_flight += checked(unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1, list.as_ptr()) })?;
        Ok(())
    }

    /// Reaps completions, and waits for at least this many of them.
    fn reap(&mut self, least: u64) -> io::Result<()> {
        let (events, forever) = (self.events.as_mut_ptr(), std::ptr::null::<libc::timespec>());
        // SAFETY: there is room for DEPTH events.
        let got = unsafe { libc::syscall(libc::SYS_io_getevents, self.context, least, DEPTH, events, forever) };
        self.in_flight -= checked(got)?;
        Ok(())
    }
}

fn checked(result: libc::c_long) -> io::Result<u64> {
    u64::try_from(result).map_err(|_| io::Error::last_os_error())
}
