//! The four loads: disk, network, processes, context switches.
//!
//! Each runs from its start until it is dropped, and its counter is read at the start and end of each comparison:
//! restarting a load for each run would measure its start-up.

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
    /// Name of the load.
    pub name: &'static str,
    /// Unit of its rate.
    pub unit: &'static str,
    begin: fn() -> Result<Box<dyn Work>>,
}

/// All kinds of loads.
pub const KINDS: [Kind; 4] = [
    Kind { name: "fork and exec", unit: "processes/s", begin: forks },
    Kind { name: "context-switch ping-pong", unit: "turns/s", begin: ping_pong },
    Kind { name: "fio 4 KiB random read, depth 32", unit: "reads/s", begin: disk },
    Kind { name: "iperf3 over veth", unit: "bytes/s", begin: network },
];

/// Work that runs as fast as it can until dropped.
trait Work {
    /// Returns the amount done since the start.
    fn done(&self) -> Result<u64>;
}

/// Running work on one CPU.
pub struct Load {
    work: Box<dyn Work>,
    _held: Pinning,
}

impl Load {
    /// Starts to work.
    pub fn begin(kind: &Kind) -> Result<Self> {
        let held = Pinning::on_one()?;
        let work = (kind.begin)()?;
        held.unpin_this_thread()?;
        Ok(Self { work, _held: held })
    }

    /// Returns the amount done per second over this time.
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

/// A thread that repeats an action.
struct Turns {
    done: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Turns {
    /// Starts the thread, which runs until an action fails.
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
        // A thread that panicked has already reported it.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Starts and waits for processes that do nothing.
fn forks() -> Result<Box<dyn Work>> {
    Ok(Box::new(Turns::begin(|| Command::new("/bin/true").status().map(drop))))
}

/// Runs two threads that pass a byte back and forth through pipes: two context switches per turn.
fn ping_pong() -> Result<Box<dyn Work>> {
    let ((mut from_here, mut to_there), (mut from_there, mut to_here)) = (pipe()?, pipe()?);
    // It ends when its pipe closes.
    thread::spawn(move || {
        let mut ball = [0];
        while from_here.read_exact(&mut ball).is_ok() && to_here.write_all(&ball).is_ok() {}
    });
    let mut ball = [0];
    Ok(Box::new(Turns::begin(move || to_there.write_all(&ball).and_then(|()| from_there.read_exact(&mut ball)))))
}

/// fio load: 4 KiB random reads, 32 at a time, bypassing the page cache.
struct Disk {
    reader: Running,
    _file: tempfile::NamedTempFile,
}

/// Size of a read in bytes.
const READ: u64 = 4096;
/// Duration in seconds: longer than any measurement, and the maximum of iperf3; the load is ended instead.
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
        // Bytes that its threads have read from the disk (proc_pid_io(5)).
        let text = fs::read_to_string(format!("/proc/{}/io", self.reader.pid()))?;
        let bytes = text.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse::<u64>().ok());
        bytes.map(|bytes| bytes / READ).ok_or_else(|| Failure::new("no read_bytes in /proc/PID/io"))
    }
}

/// iperf3 load: one TCP stream over a veth pair.
struct Network {
    client: Running,
    _server: Running,
    _wire: Wire,
}

fn network() -> Result<Box<dyn Work>> {
    let wire = Wire::new()?;
    // `ip netns exec` becomes iperf3, so that ending one ends the other.
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
        // Interfaces of its network namespace (proc_pid_net(5)): sent bytes are the ninth number.
        let text = fs::read_to_string(format!("/proc/{}/net/dev", self.client.pid()))?;
        let numbers = text.lines().find_map(|line| line.trim_start().strip_prefix(Wire::NAME)?.strip_prefix(':'));
        let sent = numbers.and_then(|numbers| numbers.split_whitespace().nth(8)?.parse().ok());
        sent.ok_or_else(|| Failure::new(format!("no interface {} in /proc/PID/net/dev", Wire::NAME)))
    }
}
