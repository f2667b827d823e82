//! Loads of the processor.

use super::{Endless, Pace, ready, rest};
use clap::{Args, ValueEnum};
use nix::unistd::gettid;
use std::fs::File;
use std::hint::black_box;
use std::io::Read as _;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Threads that compute, beside threads that sleep.
#[derive(Args)]
pub struct Spin {
    /// How many compute.
    #[arg(long, default_value_t = 1)]
    threads: u64,
    /// How many sleep.
    #[arg(long, default_value_t = 0)]
    idle: u64,
    /// Priority, up to 19, the lowest.
    #[arg(long, default_value_t = 0)]
    nice: i32,
}

impl Spin {
    /// Says the number of one thread that computes.
    pub fn run(self) -> Endless {
        set_nice(self.nice)?;
        for _ in 0..self.idle {
            thread::spawn(|| rest());
        }
        let (say, heard) = mpsc::channel();
        for _ in 0..self.threads {
            let say = say.clone();
            thread::spawn(move || {
                // The receiver lives until the end of the process.
                let _ = say.send(gettid());
                compute(Duration::MAX)
            });
        }
        ready(heard.recv().map_or(0, |tid| tid.as_raw()))?;
        rest()
    }
}

/// Sets the priority of this process.
///
/// # Errors
/// Where it may not be set.
pub fn set_nice(nice: i32) -> std::io::Result<()> {
    // SAFETY: setpriority(2) takes three numbers.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

/// Computes for a time.
pub fn compute(time: Duration) {
    let start = Instant::now();
    let mut x = 1_u64;
    while start.elapsed() < time {
        for _ in 0..10_000 {
            x = black_box(x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1));
        }
    }
}

/// Many threads that compute and sleep in short turns.
#[derive(Args)]
pub struct Naps {
    /// How many.
    #[arg(long)]
    threads: u64,
    /// Length of one turn at the processor.
    #[arg(long)]
    busy_us: u64,
    /// From the beginning of one turn to the next.
    #[arg(long)]
    every_us: u64,
}

impl Naps {
    /// Never ends.
    pub fn run(self) -> Endless {
        for i in 0..self.threads {
            // Spread over the period, or they would all want the processor at the same time.
            let shift = Duration::from_micros(self.every_us * i / self.threads);
            thread::spawn(move || {
                thread::sleep(shift);
                let mut pace = Pace::every(Duration::from_micros(self.every_us));
                loop {
                    pace.wait();
                    compute(Duration::from_micros(self.busy_us));
                }
            });
        }
        ready("")?;
        rest()
    }
}

/// A system call that costs the kernel much and the caller little.
#[derive(Clone, Copy, ValueEnum)]
pub enum Call {
    /// read(2) of /dev/zero.
    Zero,
    /// read(2) of /dev/urandom.
    Random,
    /// mmap(2), touching every page, munmap(2).
    Map,
}

/// Nothing but system calls.
#[derive(Args)]
pub struct Syscalls {
    /// Which.
    #[arg(long, value_enum)]
    call: Call,
    /// Bytes each is about.
    #[arg(long)]
    bytes: usize,
}

impl Syscalls {
    /// Never ends.
    pub fn run(self) -> Endless {
        ready("")?;
        match self.call {
            Call::Zero => self.read("/dev/zero"),
            Call::Random => self.read("/dev/urandom"),
            Call::Map => self.map(),
        }
    }

    fn read(&self, path: &str) -> Endless {
        let (mut file, mut buffer) = (File::open(path)?, vec![0; self.bytes]);
        loop {
            file.read_exact(&mut buffer)?;
        }
    }

    fn map(&self) -> Endless {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        loop {
            // SAFETY: a new private mapping, populated by the kernel, which nobody keeps a pointer into.
            unsafe {
                let flags = flags | libc::MAP_POPULATE;
                let at = libc::mmap(std::ptr::null_mut(), self.bytes, protection, flags, -1, 0);
                if at == libc::MAP_FAILED || libc::munmap(at, self.bytes) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
            }
        }
    }
}
