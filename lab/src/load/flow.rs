//! Asynchronous reads at a steady rate, as of a program that has better things to do than to wait for them.

use super::blocks::aligned;
use super::{Endless, Pace, ready};
use crate::dice::Dice;
use clap::Args;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

/// The most requests in flight.
const DEPTH: u64 = 256;

/// How often requests are sent and answers fetched.
const TICK: Duration = Duration::from_millis(1);

/// Reads at random places with io_submit(2), past the page cache, at a steady rate.
#[derive(Args)]
pub struct Flow {
    /// What is read.
    #[arg(long)]
    path: PathBuf,
    /// Bytes a request.
    #[arg(long)]
    size: u64,
    /// Requests a second.
    #[arg(long)]
    rate: u64,
}

impl Flow {
    /// Ends on the first error.
    pub fn run(self) -> Endless {
        let mut file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&self.path)?;
        let blocks = file.seek(SeekFrom::End(0))? / self.size;
        let mut queue = Queue::new(self.size as usize)?;
        let (mut dice, mut pace, mut owed) = (Dice::new(1, "flow"), Pace::every(TICK), 0.0);
        ready("")?;
        loop {
            pace.wait();
            queue.reap()?;
            owed += self.rate as f64 * TICK.as_secs_f64();
            while owed >= 1.0 {
                owed -= 1.0;
                queue.submit(&file, dice.roll() % blocks * self.size)?;
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

/// IOCB_CMD_PREAD.
const READ: u16 = 0;

struct Queue {
    context: libc::c_ulong,
    in_flight: u64,
    /// All requests read into it: nobody looks at what was read.
    buffer: &'static mut [u8],
    /// struct io_event, four words each.
    events: Vec<[u64; 4]>,
}

impl Queue {
    fn new(bytes: usize) -> io::Result<Self> {
        let mut context = 0;
        // SAFETY: io_setup(2) writes the context it makes.
        checked(unsafe { libc::syscall(libc::SYS_io_setup, DEPTH, &raw mut context) })?;
        Ok(Self { context, in_flight: 0, buffer: aligned(bytes), events: vec![[0; 4]; DEPTH as usize] })
    }

    /// Sends one request, or drops it where too many are in flight.
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

    /// Fetches the answers there are, and waits for none.
    fn reap(&mut self) -> io::Result<()> {
        let (events, none) = (self.events.as_mut_ptr(), libc::timespec { tv_sec: 0, tv_nsec: 0 });
        let wait: *const libc::timespec = &none;
        // SAFETY: there is room for DEPTH events, and the time outlives the call.
        let got = unsafe { libc::syscall(libc::SYS_io_getevents, self.context, 0, DEPTH, events, wait) };
        self.in_flight -= checked(got)?;
        Ok(())
    }
}

fn checked(answer: libc::c_long) -> io::Result<u64> {
    u64::try_from(answer).map_err(|_| io::Error::last_os_error())
}
