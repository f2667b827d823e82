//! Loads with context switches and migrations, excessive or necessary.

use super::cpu::{compute, set_nice};
use super::{Endless, Pacer, ready, sleep_forever};
use clap::Args;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::hint::black_box;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

/// Threads that pass one byte around and do nothing else
#[derive(Args)]
pub struct PipeRing {
    /// Number of threads; a single one would never switch
    #[arg(long, value_parser = clap::value_parser!(u64).range(2..))]
    threads: u64,
}

impl PipeRing {
    pub fn run(self) -> Endless {
        let (mut from, mut to_first) = io::pipe()?;
        to_first.write_all(b"x")?;
        for _ in 1..self.threads {
            let (next, mut to) = io::pipe()?;
            thread::spawn(move || pass_on(&mut from, &mut to));
            from = next;
        }
        ready("")?;
        pass_on(&mut from, &mut to_first)
    }
}

fn pass_on(from: &mut PipeReader, to: &mut PipeWriter) -> Endless {
    let mut byte = [0];
    loop {
        from.read_exact(&mut byte)?;
        to.write_all(&byte)?;
    }
}

/// A computing thread that binds itself to one CPU after another
#[derive(Args)]
pub struct Migrate {
    /// Nice value
    #[arg(long, default_value_t = 0)]
    nice: i32,
    /// Time on each CPU
    #[arg(long)]
    every_us: u64,
    /// Bytes of memory that it touches
    #[arg(long)]
    bytes: usize,
}

impl Migrate {
    pub fn run(self) -> Endless {
        set_nice(self.nice)?;
        let allowed = sched_getaffinity(Pid::from_raw(0))?;
        let cpus = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false));
        let mut memory = vec![1_u8; self.bytes];
        ready("")?;
        for cpu in cpus.cycle() {
            let mut here = CpuSet::new();
            here.set(cpu)?;
            sched_setaffinity(Pid::from_raw(0), &here)?;
            walk(&mut memory, Duration::from_micros(self.every_us));
        }
        Err(io::Error::other("no CPU is allowed"))
    }
}

/// Touches every cache line, repeatedly, for the given time.
fn walk(memory: &mut [u8], time: Duration) {
    const CACHE_LINE: usize = 64;
    let start = Instant::now();
    while start.elapsed() < time {
        memory.iter_mut().step_by(CACHE_LINE).for_each(|byte| *byte = black_box(byte.wrapping_add(1)));
    }
}

/// A server and its clients: each request is a little work and a few context switches
#[derive(Args)]
pub struct RequestServer {
    /// Number of clients, each served by its own thread
    #[arg(long)]
    clients: u64,
    /// Requests per second of each client
    #[arg(long)]
    rate: u64,
    /// CPU time of each request
    #[arg(long)]
    work_us: u64,
}

impl RequestServer {
    pub fn run(self) -> Endless {
        for _ in 0..self.clients {
            let (client, server) = UnixStream::pair()?;
            let (rate, work) = (self.rate, Duration::from_micros(self.work_us));
            thread::spawn(move || answer(server, work));
            thread::spawn(move || ask(client, rate));
        }
        ready("")?;
        sleep_forever()
    }
}

fn answer(mut client: UnixStream, work: Duration) -> Endless {
    let mut request = [0; 64];
    loop {
        client.read_exact(&mut request)?;
        compute(work);
        client.write_all(&request)?;
    }
}

fn ask(mut server: UnixStream, rate: u64) -> Endless {
    let mut pacer = Pacer::rate(rate, 1);
    let mut message = [0; 64];
    loop {
        pacer.wait();
        server.write_all(&message)?;
        server.read_exact(&mut message)?;
    }
}
