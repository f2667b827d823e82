//! Load programs: each does one thing until it is killed, under a process name of its own.

mod aio_read;
mod append;
mod cpu;
mod disk;
mod fill;
mod forks;
mod http;
mod limits;
mod listen;
mod lock;
mod memory;
mod netlink;
mod pages;
mod read;
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

/// Result of a load, which ends only with an error.
pub type Endless = io::Result<Infallible>;

/// Declares the load programs, each with its parameters.
macro_rules! loads {
    ($($name:ident($load:path),)*) => {
        #[derive(Subcommand)]
        pub enum Load {
            $($name($load),)*
        }

        impl Load {
            fn run_endlessly(self) -> Endless {
                match self {
                    $(Self::$name(load) => load.run(),)*
                }
            }
        }
    };
}

loads! {
    Spin(cpu::Spin),
    Syscalls(cpu::Syscalls),
    Bursts(cpu::Bursts),
    PipeRing(switch::PipeRing),
    Migrate(switch::Migrate),
    Serve(switch::RequestServer),
    Mutex(lock::Contend),
    Pool(lock::Pool),
    Frames(lock::Frames),
    Forks(forks::Forks),
    Build(forks::Build),
    Job(forks::Job),
    Vfork(forks::Vfork),
    Touch(memory::Touch),
    Hog(memory::Hog),
    OomLoop(memory::OomLoop),
    PageTables(memory::PageTables),
    Mergeable(memory::Mergeable),
    Lookups(memory::Lookups),
    Promised(pages::Promised),
    MapStream(pages::MapStream),
    MemoryBursts(pages::MemoryBursts),
    Fragment(pages::Fragment),
    Read(read::Read),
    MmapRead(read::MmapRead),
    AioRead(aio_read::AioRead),
    UringRead(read::UringRead),
    Append(append::Append),
    Fill(fill::Fill),
    Sink(tcp::Sink),
    Source(tcp::Source),
    ShortConns(tcp::ShortConns),
    HttpGet(http::HttpGet),
    HoldConns(tcp::HoldConns),
    Accept(listen::Accept),
    Connect(listen::Connect),
    UdpSink(udp::UdpSink),
    UdpSource(udp::UdpSource),
    UdpFlows(udp::UdpFlows),
    NetlinkListener(netlink::NetlinkListener),
    LinkChanges(netlink::LinkChanges),
    Files(limits::Files),
    Shm(limits::Shm),
    Mappings(limits::Mappings),
    Messages(limits::Messages),
    Relay(relay::Relay),
    Disk(disk::DiskServer),
}

impl Load {
    /// Runs the load until it is killed.
    pub fn run(self) -> ExitCode {
        set_process_name(&std::env::args().next().unwrap_or_default());
        let Err(e) = self.run_endlessly();
        eprintln!("whyslow-lab load: {e}");
        ExitCode::FAILURE
    }
}

/// Gives the process the name under which it was started, which differs from the file name of the program.
fn set_process_name(name: &str) {
    if let Ok(name) = CString::new(name) {
        let _ = nix::sys::prctl::set_name(&name);
    }
}

/// Reports to the lab that the load is running.
pub fn ready(note: impl std::fmt::Display) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "ready {note}")?;
    out.flush()
}

pub fn sleep_forever() -> ! {
    loop {
        sleep(Duration::from_secs(3600));
    }
}

/// Keeps a rate: `wait` returns when the next unit of work is due. A load that falls behind does not catch up.
pub struct Pacer {
    gap: Duration,
    due: Instant,
}

impl Pacer {
    /// Creates a pacer with one unit per `gap`, or without waiting if it is zero.
    pub fn every(gap: Duration) -> Self {
        Self { gap, due: Instant::now() }
    }

    /// Creates a pacer for `rate` per second in steps of `unit`, or without waiting if the rate is 0.
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
