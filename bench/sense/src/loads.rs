//! The four loads: disk, network, processes, context switches.

use crate::rig::{self, Wire};
use std::io::{Read, Write, pipe};
use std::process::Command;
use std::time::{Duration, Instant};
use whyslow_pairs::child::{self, Running};
use whyslow_pairs::failure::{Failure, Result};
use whyslow_pairs::held::OneProcessor;
use whyslow_pairs::stop;

/// Something that is done as fast as it can be.
pub trait Load {
    /// Its name.
    fn name(&self) -> &'static str;
    /// What its rate counts.
    fn unit(&self) -> &'static str;
    /// Does it so long; how much in a second.
    ///
    /// # Errors
    /// Where it fails, or a signal came.
    fn run(&mut self, time: Duration) -> Result<f64>;
}

/// Runs a load on one processor; how much it did in a second.
///
/// # Errors
/// Where it fails or did nothing, or a signal came.
pub fn run(load: &mut dyn Load, time: Duration) -> Result<f64> {
    let _held = OneProcessor::keep_to()?;
    let rate = load.run(time)?;
    if rate > 0.0 { Ok(rate) } else { Err(Failure::new(format!("{} did nothing", load.name()))) }
}

/// The loads whose names hold `text`, set up.
///
/// # Errors
/// Where one cannot be set up.
pub fn all(text: &str) -> Result<Vec<Box<dyn Load>>> {
    let _held = OneProcessor::keep_to()?;
    let mut loads: Vec<Box<dyn Load>> = vec![Box::new(Forks), Box::new(PingPong)];
    if Disk::NAME.contains(text) {
        loads.push(Box::new(Disk::new()?));
    }
    if Network::NAME.contains(text) {
        loads.push(Box::new(Network::new()?));
    }
    loads.retain(|load| load.name().contains(text));
    Ok(loads)
}

/// fio: 4 KiB random reads, 32 at a time, past the page cache.
struct Disk {
    file: tempfile::NamedTempFile,
}

impl Disk {
    const NAME: &str = "fio 4 KiB random read, depth 32";

    fn new() -> Result<Self> {
        let disk = Self { file: rig::file()? };
        let made = disk.fio(&["--rw=write", "--bs=1m", "--end_fsync=1"], Duration::from_secs(300));
        made.map(|_| disk)
    }

    fn fio(&self, args: &[&str], patience: Duration) -> Result<serde_json::Value> {
        let file = format!("--filename={}", self.file.path().display());
        let common = ["--name=bench", &file, "--size=512m", "--direct=1", "--ioengine=libaio", "--output-format=json"];
        let said = child::output("fio", &[&common, args].concat(), patience)?;
        // fio may print a note before its JSON.
        Ok(serde_json::from_str(said.get(said.find('{').unwrap_or(0)..).unwrap_or_default())?)
    }
}

impl Load for Disk {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn unit(&self) -> &'static str {
        "reads/s"
    }

    fn run(&mut self, time: Duration) -> Result<f64> {
        let runtime = format!("--runtime={}", time.as_secs());
        let args = ["--rw=randread", "--bs=4k", "--iodepth=32", "--time_based", &runtime];
        number(&self.fio(&args, time + Duration::from_secs(30))?, "/jobs/0/read/iops")
    }
}

/// iperf3: one TCP stream over a veth pair.
struct Network {
    wire: Wire,
    _server: Running,
}

impl Network {
    const NAME: &str = "iperf3 over veth";

    fn new() -> Result<Self> {
        let wire = Wire::new()?;
        // `ip netns exec` becomes iperf3, so that ending the one ends the other.
        let server = Running::start("ip", &["netns", "exec", wire.far(), "iperf3", "--server"])?;
        stop::pause(Duration::from_secs(1))?;
        Ok(Self { wire, _server: server })
    }
}

impl Load for Network {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn unit(&self) -> &'static str {
        "bit/s"
    }

    fn run(&mut self, time: Duration) -> Result<f64> {
        let seconds = time.as_secs().to_string();
        let exec = ["netns", "exec", self.wire.near(), "iperf3", "--json", "--client", Wire::FAR, "--time", &seconds];
        let said = child::output("ip", &exec, time + Duration::from_secs(30))?;
        number(&serde_json::from_str(&said)?, "/end/sum_received/bits_per_second")
    }
}

/// A process that does nothing, started and waited for again and again.
struct Forks;

impl Load for Forks {
    fn name(&self) -> &'static str {
        "fork and exec"
    }

    fn unit(&self) -> &'static str {
        "processes/s"
    }

    fn run(&mut self, time: Duration) -> Result<f64> {
        let start = Instant::now();
        let mut count = 0;
        while start.elapsed() < time {
            stop::check()?;
            Command::new("/bin/true").status()?;
            count += 1;
        }
        Ok(f64::from(count) / start.elapsed().as_secs_f64())
    }
}

/// Two threads that pass a byte to and fro through pipes: two context switches a turn.
struct PingPong;

impl Load for PingPong {
    fn name(&self) -> &'static str {
        "context-switch ping-pong"
    }

    fn unit(&self) -> &'static str {
        "turns/s"
    }

    fn run(&mut self, time: Duration) -> Result<f64> {
        let ((mut from_here, mut to_there), (mut from_there, mut to_here)) = (pipe()?, pipe()?);
        let echo = std::thread::spawn(move || {
            let mut ball = [0];
            while from_here.read_exact(&mut ball).is_ok() && to_here.write_all(&ball).is_ok() {}
        });
        let start = Instant::now();
        let mut turns = 0;
        let mut ball = [0];
        while start.elapsed() < time {
            to_there.write_all(&ball)?;
            from_there.read_exact(&mut ball)?;
            turns += 1;
        }
        let rate = f64::from(turns) / start.elapsed().as_secs_f64();
        // The other thread ends as its pipe does.
        drop(to_there);
        echo.join().map_err(|_| Failure::new("the other thread panicked"))?;
        stop::check()?;
        Ok(rate)
    }
}

fn number(document: &serde_json::Value, at: &str) -> Result<f64> {
    document.pointer(at).and_then(serde_json::Value::as_f64).ok_or_else(|| Failure::new(format!("no number at {at}")))
}
