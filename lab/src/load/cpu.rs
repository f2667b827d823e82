//! CPU load.

use super::{Endless, Pacer, ready, sleep_forever};
use clap::{Args, ValueEnum};
use nix::unistd::gettid;
use std::fs::File;
use std::hint::black_box;
use std::io::Read as _;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Threads that compute, beside threads that sleep
#[derive(Args)]
pub struct Spin {
    /// Threads that compute
    #[arg(long, default_value_t = 1)]
    threads: u64,
    /// Threads that sleep
    #[arg(long, default_value_t = 0)]
    idle: u64,
    /// Nice value
    #[arg(long, default_value_t = 0)]
    nice: i32,
    /// Milliseconds for which they compute, again and again; they never rest if none are given
    #[arg(long, requires = "rest_ms")]
    for_ms: Option<u64>,
    /// Milliseconds for which they rest before
    #[arg(long, default_value_t = 0)]
    rest_ms: u64,
}

impl Spin {
    /// Runs the load; prints the id of a computing thread.
    pub fn run(self) -> Endless {
        set_nice(self.nice)?;
        for _ in 0..self.idle {
            thread::spawn(|| sleep_forever());
        }
        let (sender, tids) = mpsc::channel();
        let rest = Duration::from_millis(self.rest_ms);
        let time = self.for_ms.map_or(Duration::MAX, Duration::from_millis);
        for _ in 0..self.threads {
            let sender = sender.clone();
            thread::spawn(move || {
                // The receiver exists until the process ends.
                let _ = sender.send(gettid());
                loop {
                    thread::sleep(rest);
                    compute(time);
                }
            });
        }
        ready(tids.recv().map_or(0, |tid| tid.as_raw()))?;
        sleep_forever()
    }
}

/// Sets the nice value of this process.
pub fn set_nice(nice: i32) -> std::io::Result<()> {
    // SAFETY: setpriority(2) takes three numbers.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

/// Computes for the given time.
pub fn compute(time: Duration) {
    let start = Instant::now();
    let mut x = 1_u64;
    while start.elapsed() < time {
        for _ in 0..10_000 {
            x = black_box(x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1));
        }
    }
}

/// Many threads that compute in short bursts
#[derive(Args)]
pub struct Bursts {
    /// Number of threads
    #[arg(long)]
    threads: u64,
    /// Length of a burst
    #[arg(long)]
    busy_us: u64,
    /// Time between the starts of two bursts
    #[arg(long)]
    every_us: u64,
}

impl Bursts {
    pub fn run(self) -> Endless {
        for i in 0..self.threads {
            // Spread over the period, so that the threads do not all want the CPU at the same time.
            let shift = Duration::from_micros(self.every_us * i / self.threads);
            thread::spawn(move || {
                thread::sleep(shift);
                let mut pacer = Pacer::every(Duration::from_micros(self.every_us));
                loop {
                    pacer.wait();
                    compute(Duration::from_micros(self.busy_us));
                }
            });
        }
        ready("")?;
        sleep_forever()
    }
}

/// A system call that costs the kernel much more than the caller
#[derive(Clone, Copy, ValueEnum)]
pub enum Call {
    /// read(2) of /dev/zero
    Zero,
    /// read(2) of /dev/urandom
    Random,
    /// mmap(2) with MAP_POPULATE, then munmap(2)
    Map,
}

/// Nothing but system calls
#[derive(Args)]
pub struct Syscalls {
    /// Which call
    #[arg(long, value_enum)]
    call: Call,
    /// Bytes per call
    #[arg(long)]
    bytes: usize,
}

impl Syscalls {
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
            // SAFETY: a new private mapping, populated by the kernel, to which no pointer is kept.
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
