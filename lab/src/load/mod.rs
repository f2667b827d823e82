//! The load programs: each does one thing until it is killed, under a name of its own.

mod blocks;
mod cpu;
mod disk;
mod fill;
mod flow;
mod forks;
mod limits;
mod listen;
mod lock;
mod log;
mod map;
mod memory;
mod relay;
mod switch;
mod tcp;
mod udp;

use clap::Subcommand;
use std::convert::Infallible;
use std::ffi::CString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What a load ends with: never, but for a failure.
pub type Endless = io::Result<Infallible>;

/// One load program and its parameters.
#[derive(Subcommand)]
pub enum Load {
    /// Threads that compute, beside threads that sleep.
    Spin(cpu::Spin),
    /// Nothing but system calls.
    Syscalls(cpu::Syscalls),
    /// Many threads that compute and sleep in short turns.
    Naps(cpu::Naps),
    /// Threads that hand a byte round and round.
    Ring(switch::Ring),
    /// A thread that binds itself to one processor after the other.
    Hop(switch::Hop),
    /// A server and its clients.
    Serve(switch::Serve),
    /// Threads that want one lock.
    Fight(lock::Fight),
    /// Threads that wait for work.
    Pool(lock::Pool),
    /// Threads that work frame by frame.
    Frames(lock::Frames),
    /// Starts one short-lived program after the other.
    Forks(forks::Forks),
    /// Keeps a number of jobs running.
    Build(forks::Build),
    /// Computes for a while and ends.
    Job(forks::Job),
    /// Waits in vfork for one child after the other.
    Vfork(forks::Vfork),
    /// Touches anonymous memory.
    Touch(memory::Touch),
    /// Takes memory until it is killed.
    Hog(memory::Hog),
    /// Starts a hog again and again.
    Oom(memory::Oom),
    /// Reads a file or device.
    Read(blocks::Read),
    /// Looks at random places of a mapped file.
    Map(map::Map),
    /// Reads at a steady rate without waiting.
    Flow(flow::Flow),
    /// Appends a record and makes it durable, again and again.
    Log(log::Log),
    /// Fills a file system up and keeps trying.
    Fill(fill::Fill),
    /// Receives a TCP stream.
    Sink(tcp::Sink),
    /// Sends a TCP stream.
    Source(tcp::Source),
    /// Makes short connections.
    Visits(tcp::Visits),
    /// Accepts connections slowly.
    Accept(listen::Accept),
    /// Connects again and again.
    Connect(listen::Connect),
    /// Receives datagrams slowly.
    UdpSink(udp::UdpSink),
    /// Sends datagrams.
    UdpSource(udp::UdpSource),
    /// Opens files up to a limit.
    Files(limits::Files),
    /// Makes shared memory segments up to a limit.
    Shm(limits::Shm),
    /// Carries packets between two namespaces, later.
    Relay(relay::Relay),
    /// Serves the disk of known physics.
    Disk(disk::Serve),
}

impl Load {
    /// Runs it until it is killed.
    pub fn run(self) -> ExitCode {
        call_ourselves(&std::env::args().next().unwrap_or_default());
        let end = match self {
            Self::Spin(load) => load.run(),
            Self::Syscalls(load) => load.run(),
            Self::Naps(load) => load.run(),
            Self::Ring(load) => load.run(),
            Self::Hop(load) => load.run(),
            Self::Serve(load) => load.run(),
            Self::Fight(load) => load.run(),
            Self::Pool(load) => load.run(),
            Self::Frames(load) => load.run(),
            Self::Forks(load) => load.run(),
            Self::Build(load) => load.run(),
            Self::Job(load) => load.run(),
            Self::Vfork(load) => load.run(),
            Self::Touch(load) => load.run(),
            Self::Hog(load) => load.run(),
            Self::Oom(load) => load.run(),
            Self::Read(load) => load.run(),
            Self::Map(load) => load.run(),
            Self::Flow(load) => load.run(),
            Self::Log(load) => load.run(),
            Self::Fill(load) => load.run(),
            Self::Sink(load) => load.run(),
            Self::Source(load) => load.run(),
            Self::Visits(load) => load.run(),
            Self::Accept(load) => load.run(),
            Self::Connect(load) => load.run(),
            Self::UdpSink(load) => load.run(),
            Self::UdpSource(load) => load.run(),
            Self::Files(load) => load.run(),
            Self::Shm(load) => load.run(),
            Self::Relay(load) => load.run(),
            Self::Disk(load) => load.run(),
        };
        let Err(e) = end;
        eprintln!("whyslow-lab load: {e}");
        ExitCode::FAILURE
    }
}

/// Gives the process the name it was started under; the program's file is called otherwise.
fn call_ourselves(name: &str) {
    if let Ok(name) = CString::new(name) {
        let _ = nix::sys::prctl::set_name(&name);
    }
}

/// Tells the lab that the load is running.
///
/// # Errors
/// Where the lab is gone.
pub fn ready(note: impl std::fmt::Display) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "ready {note}")?;
    out.flush()
}

/// Sleeps for ever.
pub fn rest() -> ! {
    loop {
        sleep(Duration::from_secs(3600));
    }
}

/// Keeps a rate: `wait` returns when the next unit of work is due. A load that falls behind does not catch up.
pub struct Pace {
    gap: Duration,
    due: Instant,
}

impl Pace {
    /// One unit every `gap`; no waiting where it is zero.
    pub fn every(gap: Duration) -> Self {
        Self { gap, due: Instant::now() }
    }

    /// `rate` units of `unit` a second; no waiting where the rate is 0.
    pub fn rate(rate: u64, unit: u64) -> Self {
        let gap = if rate == 0 { Duration::ZERO } else { Duration::from_secs_f64(unit as f64 / rate as f64) };
        Self::every(gap)
    }

    /// Waits until the next unit is due.
    pub fn wait(&mut self) {
        if self.gap.is_zero() {
            return;
        }
        let now = Instant::now();
        sleep(self.due.saturating_duration_since(now));
        self.due = self.due.max(now) + self.gap;
    }
}
