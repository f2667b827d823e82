//! Child processes, which end with this program.

use crate::failure::{Failure, Result};
use crate::stop;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running program, killed when dropped.
pub struct Running(Child);

impl Running {
    /// Starts a program, discarding its output.
    ///
    /// # Errors
    /// Fails if it is not installed.
    pub fn start(program: &str, args: &[&str]) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        spawn(&mut command, program).map(Self)
    }

    /// Returns its PID.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Returns the CPU time of all its threads, including those that ended, to the nanosecond
    /// (`clock_getcpuclockid`(3)); /proc/PID/stat counts in units of 10 ms.
    ///
    /// # Errors
    /// Fails if it has ended.
    pub fn processor_time(&mut self) -> Result<Duration> {
        if self.0.try_wait()?.is_some() {
            return Err(Failure::new("it has ended by itself"));
        }
        let clock = ClockId::pid_cpu_clock_id(self.number()?).map_err(std::io::Error::from)?;
        Ok(Duration::from(clock_gettime(clock).map_err(std::io::Error::from)?))
    }

    /// Sends SIGTERM and waits.
    ///
    /// # Errors
    /// Fails if a signal arrives or it takes longer than `patience`.
    pub fn end(&mut self, patience: Duration) -> Result<()> {
        // Once waited for, its PID may belong to another process.
        if self.0.try_wait()?.is_none() {
            kill(self.number()?, Signal::SIGTERM).map_err(std::io::Error::from)?;
        }
        self.wait(patience).map(drop)
    }

    fn number(&self) -> Result<Pid> {
        Ok(Pid::from_raw(i32::try_from(self.0.id()).map_err(|_| Failure::new("no process number"))?))
    }

    /// Waits for the program to end. Returns whether it succeeded.
    ///
    /// # Errors
    /// Fails if a signal arrives or it takes longer than `patience`.
    pub fn wait(&mut self, patience: Duration) -> Result<bool> {
        let end = Instant::now() + patience;
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status.success());
            }
            if Instant::now() > end {
                return Err(Failure::new("a program did not end in time"));
            }
            stop::pause(Duration::from_millis(5))?;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may already have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program and returns its output.
///
/// # Errors
/// Fails if it is not installed, fails, or takes longer than `patience`.
pub fn output(program: &str, args: &[&str], patience: Duration) -> Result<String> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(&mut command, program)?;
    let (mut said, complained) = (child.stdout.take(), child.stderr.take());
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        said.as_mut().map_or(Ok(0), |pipe| pipe.read_to_string(&mut text)).map(|_| text)
    });
    let success = Running(child).wait(patience)?;
    let text = reader.join().map_err(|_| Failure::new("the reader of a pipe panicked"))??;
    if success {
        return Ok(text);
    }
    let mut why = String::new();
    complained.map_or(Ok(0), |mut pipe| pipe.read_to_string(&mut why))?;
    Err(Failure::new(format!("{program} {}: {}", args.join(" "), if why.is_empty() { &text } else { &why }.trim())))
}

/// Runs a clean-up command, even after a signal; errors are ignored.
pub fn clean_up(program: &str, args: &[&str]) {
    let _ = Command::new(program).args(args).stdin(Stdio::null()).output();
}

/// Returns the CPU seconds that a program and its children use from start to end.
///
/// # Errors
/// Fails if it is not installed, fails, or takes longer than `patience`.
pub fn processor_time(program: &str, args: &[&str], patience: Duration) -> Result<f64> {
    let before = ended_children()?;
    if !Running::start(program, args)?.wait(patience)? {
        return Err(Failure::new(format!("{program} {} failed", args.join(" "))));
    }
    Ok(ended_children()? - before)
}

/// Returns the CPU seconds of all children waited for.
///
/// # Errors
/// Fails if getrusage(2) fails.
pub fn ended_children() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(std::io::Error::from)?;
    Ok((usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 / 1e6)
}

/// Returns the number after a word in a file such as /proc/PID/status; 0 if missing.
pub fn number(file: impl AsRef<Path>, word: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(word));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn spawn(command: &mut Command, program: &str) -> Result<Child> {
    command.spawn().map_err(|e| match e.kind() {
        ErrorKind::NotFound => Failure::new(format!("{program} is missing: scripts/install-missing.sh bench")),
        _ => Failure::new(format!("{program}: {e}")),
    })
}
