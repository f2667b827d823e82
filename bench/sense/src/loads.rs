//! The four loads: disk, network, processes, context switches.
//!
//! Each goes on from when it begins until it is dropped, and its counter is read before and after what it is to be compared with:
//! to start a load anew for each run is to measure how it starts.

use crate::rig::{self, Wire};
use std::fs;
use std::io::{self, Read, Write, pipe};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use whyslow_pairs::child::{self, Running};
use whyslow_pairs::failure::{Failure, Result};
use whyslow_pairs::pinning::Pinning;
use whyslow_pairs::stop;

/// A kind of load.
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// What its rate counts.
    pub unit: &'static str,
    begin: fn() -> Result<Box<dyn Work>>,
}

/// All kinds.
pub const KINDS: [Kind; 4] = [
    Kind { name: "fork and exec", unit: "processes/s", begin: forks },
    Kind { name: "context-switch ping-pong", unit: "turns/s", begin: ping_pong },
    Kind { name: "fio 4 KiB random read, depth 32", unit: "reads/s", begin: disk },
    Kind { name: "iperf3 over veth", unit: "bytes/s", begin: network },
];

/// What goes on as fast as it can until it is dropped.
trait Work {
    /// How much it did since it began.
    fn done(&self) -> Result<u64>;
}

/// Work that goes on, on one processor.
pub struct Load {
    work: Box<dyn Work>,
    _held: Pinning,
}

impl Load {
    /// Begins to work.
    pub fn begin(kind: &Kind) -> Result<Self> {
        let held = Pinning::on_one()?;
        let work = (kind.begin)()?;
        held.unpin_this_thread()?;
        Ok(Self { work, _held: held })
    }

    /// How much it does in a second, over this time.
    pub fn rate(&self, time: Duration) -> Result<f64> {
        let (start, before) = (Instant::now(), self.work.done()?);
        stop::pause(time)?;
        let done = self.work.done()?.saturating_sub(before);
        if done > 0 {
            Ok(done as f64 / start.elapsed().as_secs_f64())
        } else {
            Err(Failure::new("the load did nothing"))
        }
    }
}

/// What a thread does again and again.
struct Turns {
    done: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Turns {
    /// Until one fails.
    fn begin(mut turn: impl FnMut() -> io::Result<()> + Send + 'static) -> Self {
        let (done, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (count, stopped) = (done.clone(), stop.clone());
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) && turn().is_ok() {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { done, stop, thread: Some(thread) }
    }
}

impl Work for Turns {
    fn done(&self) -> Result<u64> {
        Ok(self.done.load(Ordering::Relaxed))
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // One that panicked has said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A process that does nothing, started and waited for.
fn forks() -> Result<Box<dyn Work>> {
    Ok(Box::new(Turns::begin(|| Command::new("/bin/true").status().map(drop))))
}

/// Two threads that pass a byte to and fro through pipes: two context switches a turn.
fn ping_pong() -> Result<Box<dyn Work>> {
    let ((mut from_here, mut to_there), (mut from_there, mut to_here)) = (pipe()?, pipe()?);
    // It ends as its pipe does.
    thread::spawn(move || {
        let mut ball = [0];
        while from_here.read_exact(&mut ball).is_ok() && to_here.write_all(&ball).is_ok() {}
    });
    let mut ball = [0];
    Ok(Box::new(Turns::begin(move || to_there.write_all(&ball).and_then(|()| from_there.read_exact(&mut ball)))))
}

/// fio: 4 KiB random reads, 32 at a time, past the page cache.
struct Disk {
    reader: Running,
    _file: tempfile::NamedTempFile,
}

/// Bytes of a read.
const READ: u64 = 4096;
/// Longer than any measurement, and as long as iperf3 can: the load is ended, and does not end.
const EVER: &str = "86400";

fn disk() -> Result<Box<dyn Work>> {
    let file = rig::file()?;
    let name = format!("--filename={}", file.path().display());
    let common = ["--name=bench", &name, "--size=512m", "--direct=1", "--ioengine=libaio", "--thread"];
    child::output(
        "fio",
        &[&common[..], &["--rw=write", "--bs=1m", "--end_fsync=1"]].concat(),
        Duration::from_secs(300),
    )?;
    let runtime = format!("--runtime={EVER}");
    let reads = ["--rw=randread", "--bs=4k", "--iodepth=32", "--time_based", &runtime];
    let reader = Running::start("fio", &[&common[..], &reads].concat())?;
    stop::pause(Duration::from_secs(1))?;
    Ok(Box::new(Disk { reader, _file: file }))
}

impl Work for Disk {
    fn done(&self) -> Result<u64> {
        // What its threads had read from the disk (proc_pid_io(5)).
        let text = fs::read_to_string(format!("/proc/{}/io", self.reader.pid()))?;
        let bytes = text.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse::<u64>().ok());
        bytes.map(|bytes| bytes / READ).ok_or_else(|| Failure::new("no read_bytes in /proc/PID/io"))
    }
}

/// iperf3: one TCP stream over a veth pair.
struct Network {
    client: Running,
    _server: Running,
    _wire: Wire,
}

fn network() -> Result<Box<dyn Work>> {
    let wire = Wire::new()?;
    // `ip netns exec` becomes iperf3, so that ending the one ends the other.
    let within = |namespace: &str, args: &[&str]| {
        Running::start("ip", &[&["netns", "exec", namespace, "iperf3"], args].concat())
    };
    let server = within(wire.far(), &["--server"])?;
    stop::pause(Duration::from_secs(1))?;
    let client = within(wire.near(), &["--client", Wire::FAR, "--time", EVER])?;
    stop::pause(Duration::from_secs(1))?;
    Ok(Box::new(Network { client, _server: server, _wire: wire }))
}

impl Work for Network {
    fn done(&self) -> Result<u64> {
        // The interfaces of its network namespace (proc_pid_net(5)): what was sent is the ninth number.
        let text = fs::read_to_string(format!("/proc/{}/net/dev", self.client.pid()))?;
        let numbers = text.lines().find_map(|line| line.trim_start().strip_prefix(Wire::NAME)?.strip_prefix(':'));
        let sent = numbers.and_then(|numbers| numbers.split_whitespace().nth(8)?.parse().ok());
        sent.ok_or_else(|| Failure::new(format!("no interface {} in /proc/PID/net/dev", Wire::NAME)))
    }
}
