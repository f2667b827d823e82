//! Time and memory of a command, taken by a process that runs nothing else.

use nix::sys::resource::{UsageWho, getrusage};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// What a command took.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Time that passed, seconds.
    pub wall: f64,
    /// Processor time, seconds.
    pub cpu: f64,
    /// Largest resident memory, bytes.
    pub peak: f64,
}

/// Runs a command in this process' only child, and prints what it took: seconds, processor seconds, bytes.
pub fn only_child(command: &[String]) -> io::Result<()> {
    let (program, arguments) = command.split_first().ok_or_else(|| io::Error::other("no command"))?;
    let start = Instant::now();
    // grep does not read a file to its end where nobody reads what it prints.
    let out = Command::new(program).args(arguments).stderr(Stdio::inherit()).output()?;
    let wall = start.elapsed().as_secs_f64();
    // grep ends with 1 where it found nothing.
    if out.status.code().is_none_or(|code| code > 1) {
        return Err(io::Error::other(format!("{program}: {}", out.status)));
    }
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
    let cpu = seconds(usage.user_time()) + seconds(usage.system_time());
    println!("{wall} {cpu} {}", usage.max_rss() * 1024);
    Ok(())
}

/// What a command took, measured by a process of its own, so that the peak is that of this command alone.
pub fn measure(command: &[&str]) -> io::Result<Taken> {
    let own = std::env::current_exe()?;
    let out = Command::new(own).arg("--only-child").args(command).stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8_lossy(&out.stdout);
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    match numbers[..] {
        [wall, cpu, peak] => Ok(Taken { wall, cpu, peak }),
        _ => Err(io::Error::other(format!("{} could not be measured", command.join(" ")))),
    }
}

/// The whole file once, so that it lies in the page cache.
pub fn warm(path: &Path) -> io::Result<u64> {
    io::copy(&mut std::fs::File::open(path)?, &mut io::sink())
}
