//! Measures time and memory of a command from a process that runs nothing else.

use nix::sys::resource::{UsageWho, getrusage};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Time and memory of a command.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Wall time in seconds.
    pub wall: f64,
    /// CPU time in seconds.
    pub cpu: f64,
    /// Peak resident memory in bytes.
    pub peak: f64,
}

/// Runs a command as this process's only child, and prints its cost: wall seconds, CPU seconds, bytes.
pub fn only_child(command: &[String]) -> io::Result<()> {
    let (program, arguments) = command.split_first().ok_or_else(|| io::Error::other("no command"))?;
    let start = Instant::now();
    // grep does not read a file to its end if its output is discarded.
    let out = Command::new(program).args(arguments).stderr(Stdio::inherit()).output()?;
    let wall = start.elapsed().as_secs_f64();
    // grep exits with 1 if it found nothing.
    if out.status.code().is_none_or(|code| code > 1) {
        return Err(io::Error::other(format!("{program}: {}", out.status)));
    }
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
    let cpu = seconds(usage.user_time()) + seconds(usage.system_time());
    println!("{wall} {cpu} {}", usage.max_rss() * 1024);
    Ok(())
}

/// Measures a command from a separate process, so that the peak is that of this command alone.
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

/// Reads the whole file once, so that it is in the page cache.
pub fn warm(path: &Path) -> io::Result<u64> {
    io::copy(&mut std::fs::File::open(path)?, &mut io::sink())
}
