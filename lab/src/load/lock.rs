//! Loads of threads that wait for each other: for a lock, or for work.

use super::cpu::compute;
use super::{Endless, Pacer, ready, sleep_forever};
use clap::Args;
use std::sync::{Arc, Barrier, Condvar, Mutex, PoisonError};
use std::thread::{self, sleep};
use std::time::Duration;

/// Threads that contend for one lock
#[derive(Args)]
pub struct Contend {
    /// Number of threads
    #[arg(long)]
    threads: u64,
    /// Time for which each holds it
    #[arg(long)]
    hold_us: u64,
    /// Time for which each computes without it
    #[arg(long)]
    outside_us: u64,
    /// The holder sleeps instead of computing
    #[arg(long)]
    asleep: bool,
}

impl Contend {
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
        sleep_forever()
    }
}

/// A pool of threads that wait for rare work
#[derive(Args)]
pub struct Pool {
    /// Number of threads
    #[arg(long)]
    threads: u64,
    /// Jobs per second
    #[arg(long)]
    rate: u64,
    /// CPU time of each job
    #[arg(long)]
    work_us: u64,
}

impl Pool {
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
        let mut pacer = Pacer::rate(self.rate, 1);
        loop {
            pacer.wait();
            *jobs.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            jobs.1.notify_one();
        }
    }
}

/// Waits for a job and takes it.
fn take((jobs, more): &(Mutex<u64>, Condvar)) {
    let left = jobs.lock().unwrap_or_else(PoisonError::into_inner);
    let mut left = more.wait_while(left, |left| *left == 0).unwrap_or_else(PoisonError::into_inner);
    *left -= 1;
}

/// A game loop: in each frame, threads do their part and wait for each other and for the next frame
#[derive(Args)]
pub struct Frames {
    /// Number of threads
    #[arg(long)]
    threads: usize,
    /// Frames per second
    #[arg(long)]
    rate: u64,
    /// CPU time of each thread per frame
    #[arg(long)]
    work_us: u64,
}

impl Frames {
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
        let mut pacer = Pacer::rate(self.rate, 1);
        loop {
            pacer.wait();
            frame.wait();
            frame.wait();
        }
    }
}
