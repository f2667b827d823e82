//! Loads whose threads wait for each other: for a lock, or for work.

use super::cpu::compute;
use super::{Endless, Pace, ready, rest};
use clap::Args;
use std::sync::{Arc, Barrier, Condvar, Mutex, PoisonError};
use std::thread::{self, sleep};
use std::time::Duration;

/// Threads that want one lock.
#[derive(Args)]
pub struct Fight {
    /// How many.
    #[arg(long)]
    threads: u64,
    /// How long each holds it.
    #[arg(long)]
    hold_us: u64,
    /// How long each computes without it.
    #[arg(long)]
    outside_us: u64,
    /// Whether the holder sleeps, as one that waits for somebody else does, and does not compute.
    #[arg(long)]
    asleep: bool,
}

impl Fight {
    /// Never ends.
    pub fn run(self) -> Endless {
        let lock = Arc::new(Mutex::new(()));
        let hold = if self.asleep { sleep } else { compute };
        for _ in 0..self.threads {
            let (lock, held, outside) = (lock.clone(), self.hold_us, self.outside_us);
            thread::spawn(move || {
                loop {
                    let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
                    hold(Duration::from_micros(held));
                    drop(guard);
                    compute(Duration::from_micros(outside));
                }
            });
        }
        ready("")?;
        rest()
    }
}

/// A pool of threads that wait for work, of which there is little.
#[derive(Args)]
pub struct Pool {
    /// How many.
    #[arg(long)]
    threads: u64,
    /// Jobs a second.
    #[arg(long)]
    rate: u64,
    /// What each job takes.
    #[arg(long)]
    work_us: u64,
}

impl Pool {
    /// Never ends.
    pub fn run(self) -> Endless {
        let jobs = Arc::new((Mutex::new(0_u64), Condvar::new()));
        let work = Duration::from_micros(self.work_us);
        for _ in 0..self.threads {
            let jobs = jobs.clone();
            thread::Builder::new().stack_size(64 << 10).spawn(move || {
                loop {
                    take(&jobs);
                    compute(work);
                }
            })?;
        }
        ready("")?;
        let mut pace = Pace::rate(self.rate, 1);
        loop {
            pace.wait();
            *jobs.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            jobs.1.notify_one();
        }
    }
}

/// Takes a job, once there is one.
fn take((jobs, more): &(Mutex<u64>, Condvar)) {
    let left = jobs.lock().unwrap_or_else(PoisonError::into_inner);
    let mut left = more.wait_while(left, |left| *left == 0).unwrap_or_else(PoisonError::into_inner);
    *left -= 1;
}

/// A game's loop: at each frame threads do their part and wait for each other and for the next frame.
#[derive(Args)]
pub struct Frames {
    /// How many.
    #[arg(long)]
    threads: usize,
    /// Frames a second.
    #[arg(long)]
    rate: u64,
    /// What each thread computes for a frame.
    #[arg(long)]
    work_us: u64,
}

impl Frames {
    /// Ends where no thread can be made.
    pub fn run(self) -> Endless {
        let frame = Arc::new(Barrier::new(self.threads + 1));
        for _ in 0..self.threads {
            let (frame, work) = (frame.clone(), Duration::from_micros(self.work_us));
            thread::Builder::new().spawn(move || {
                loop {
                    frame.wait();
                    compute(work);
                    frame.wait();
                }
            })?;
        }
        ready("")?;
        let mut pace = Pace::rate(self.rate, 1);
        loop {
            pace.wait();
            frame.wait();
            frame.wait();
        }
    }
}
