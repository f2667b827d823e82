//! What is measured under: a command of its own, or the load that the machine has anyhow.

use super::run::Sighted;
use crate::error::Error;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often it is looked whether it shall end, and whether a sample is due.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// Reads metrics of the running machine.
pub trait Meter {
    /// Begins a measurement.
    fn start(&mut self);

    /// Called ten times a second in between.
    fn tick(&mut self);

    /// Ends it: the value of each metric over the time since, in an order of its own that stays the same; `None` where it has
    /// none.
    fn stop(&mut self) -> Sighted;
}

/// What is measured under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Load {
    /// A command and its arguments; never empty.
    Command(Vec<String>),
    /// Whatever the machine does, for so long at a time.
    Present(Duration),
}

/// What a command's run comes to.
#[derive(Debug)]
pub(super) struct Done {
    /// How long it took, in seconds.
    pub(super) time: f64,
    /// The last number it wrote to standard output.
    pub(super) number: Option<f64>,
}

impl Load {
    /// Puts the load on, or lets it be, while `meter` looks. What a command came to; its output is read where it is `read`.
    ///
    /// # Errors
    /// Interrupted, or the command failed.
    pub(super) fn run(&self, read: bool, meter: &mut dyn Meter, stop: &AtomicBool) -> Result<Option<Done>, Error> {
        match self {
            Self::Command(words) => Running::start(words, read)?.finish(words, meter, stop).map(Some),
            Self::Present(time) => wait(*time, stop, || meter.tick()).map(|()| None),
        }
    }
}

/// Waits, and calls `tick` meanwhile.
///
/// # Errors
/// Interrupted.
pub(super) fn wait(time: Duration, stop: &AtomicBool, mut tick: impl FnMut()) -> Result<(), Error> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        if stop.load(Ordering::Relaxed) {
            return Err(interrupted());
        }
        tick();
        std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
    }
    Ok(())
}

pub(super) fn interrupted() -> Error {
    Error::Usage("interrupted: all is put back".into())
}

/// A command that runs.
struct Running {
    child: Child,
    start: Instant,
}

impl Running {
    fn start(words: &[String], read: bool) -> Result<Self, Error> {
        let mut command = Command::new(&words[0]);
        let out = if read { Stdio::piped() } else { Stdio::null() };
        command.args(&words[1..]).stdin(Stdio::null()).stdout(out).stderr(Stdio::null());
        let start = Instant::now();
        let child = command.spawn().map_err(|e| Error::Usage(format!("{}: {e}", words[0])))?;
        Ok(Self { child, start })
    }

    /// Waits for it in a thread, so that the time is taken at once and an interrupt is seen.
    fn finish(self, words: &[String], meter: &mut dyn Meter, stop: &AtomicBool) -> Result<Done, Error> {
        let Self { mut child, start } = self;
        let pid = child.id();
        let (send, receive) = mpsc::channel();
        let waiter = std::thread::spawn(move || {
            let number = child.stdout.take().and_then(last_number);
            let status = child.wait();
            let _ = send.send((status, start.elapsed().as_secs_f64(), number));
        });
        let is_stopped = || stop.load(Ordering::Relaxed);
        let (status, time, number) = loop {
            match receive.recv_timeout(LOOK) {
                Ok(done) => break done,
                Err(RecvTimeoutError::Timeout) if is_stopped() => {
                    end(pid);
                    let _ = waiter.join();
                    return Err(interrupted());
                }
                Err(RecvTimeoutError::Timeout) => meter.tick(),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::Usage("nobody waited for the command".into()));
                }
            }
        };
        let named = || words.join(" ");
        match status {
            Ok(status) if status.success() => Ok(Done { time, number }),
            Ok(_) if is_stopped() => Err(interrupted()),
            Ok(status) => Err(Error::Usage(format!("'{}' failed: {status}; all is put back", named()))),
            Err(e) => Err(Error::Usage(format!("'{}': {e}", named()))),
        }
    }
}

/// Ends a command that the waiter has not yet waited for, or has just: kill(1) of a number that is nobody's does nothing.
fn end(pid: u32) {
    let _ = Command::new("kill").arg(pid.to_string()).stderr(Stdio::null()).status();
}

/// The last word that is a number. Output is read to its end, however long, and of it only the end is kept.
fn last_number(mut out: impl Read) -> Option<f64> {
    const KEPT: usize = 64 * 1024;
    let (mut end, mut buffer) = (Vec::new(), [0; 8192]);
    while let Ok(length @ 1..) = out.read(&mut buffer) {
        end.extend_from_slice(&buffer[..length]);
        if end.len() > 2 * KEPT {
            end.drain(..end.len() - KEPT);
        }
    }
    String::from_utf8_lossy(&end).split_whitespace().rev().find_map(|word| word.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::last_number;

    #[test]
    fn the_last_number_counts() {
        assert_eq!(last_number(&b"tps = 812.5 (without initial connection)\n"[..]), Some(812.5));
        assert_eq!(last_number(&b"none"[..]), None);
        let long = format!("1 {}\n2.5 done\n", "word ".repeat(100_000));
        assert_eq!(last_number(long.as_bytes()), Some(2.5));
    }
}
