//! The load during measurements: a command, or the machine's present load.

use super::run::MetricValues;
use crate::Error;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use whyslow_model::human;

/// Interval at which a run checks for an interrupt and a sample that is due.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// Time that a command has to end after a signal.
const GRACE: Duration = Duration::from_secs(1);

/// Reads metrics of the running machine.
pub trait Meter {
    /// Begins a measurement.
    fn start(&mut self);

    /// Updates the measurement; called ten times a second.
    fn tick(&mut self);

    /// Ends the measurement. Returns the value of each metric since the start, in a fixed order; `None` for a metric without a
    /// value.
    fn stop(&mut self) -> MetricValues;
}

struct NoMeter;

impl Meter for NoMeter {
    fn start(&mut self) {}

    fn tick(&mut self) {}

    fn stop(&mut self) -> MetricValues {
        Vec::new()
    }
}

/// The load under which a trial measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Load {
    /// A command and its arguments; never empty.
    Command(Vec<String>),
    /// The machine's present load; each measurement takes this long.
    Present(Duration),
}

/// The result of a command's run.
#[derive(Debug)]
pub(super) struct LoadResult {
    /// Duration of the run, in seconds.
    pub(super) time: f64,
    /// The last number it wrote to standard output.
    pub(super) number: Option<f64>,
}

impl Load {
    /// Runs the load once without measuring.
    ///
    /// # Errors
    /// Fails if interrupted, or if the command failed.
    pub fn once(&self, stop: &AtomicBool) -> Result<(), Error> {
        self.run(false, &mut NoMeter, stop).map(|_| ())
    }

    /// Runs the load, or waits while the present load runs, and calls `meter` meanwhile. Returns the result of a command; reads
    /// its output only if `read` is true.
    pub(super) fn run(
        &self,
        read: bool,
        meter: &mut dyn Meter,
        stop: &AtomicBool,
    ) -> Result<Option<LoadResult>, Error> {
        match self {
            Self::Command(words) => RunningCommand::start(words, read)?.finish(words, meter, stop).map(Some),
            Self::Present(time) => wait(*time, stop, || meter.tick()).map(|()| None),
        }
    }
}

/// Waits, and calls `tick` meanwhile.
pub(super) fn wait(time: Duration, stop: &AtomicBool, mut tick: impl FnMut()) -> Result<(), Error> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        tick();
        std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
    }
    Ok(())
}

/// A running command in a process group of its own: Ctrl-C reaches us first, and processes that the command started end with it.
struct RunningCommand {
    child: Child,
    group: GroupWatcher,
    start: Instant,
}

/// The leader of a process group: a process that kills the group when this program dies, for whatever reason. A signal at the
/// death of the parent (`PR_SET_PDEATHSIG`) would reach the command, but none of the processes that it has started.
struct GroupWatcher(Child);

impl GroupWatcher {
    fn start() -> io::Result<Self> {
        let mut command = Command::new("sh");
        // Its input ends when this program does, because no other process has the pipe open.
        command.args(["-c", "trap '' HUP INT TERM; read line; kill -KILL 0"]);
        command.process_group(0).current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(Self)
    }

    fn group(&self) -> Pid {
        Pid::from_raw(self.0.id().cast_signed())
    }
}

impl Drop for GroupWatcher {
    /// Ends only the watcher.
    fn drop(&mut self) {
        // Both fail only if the watcher has been reaped already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Exit status, run time, and the last number of a command.
type Ended = (io::Result<ExitStatus>, f64, Option<f64>);

impl RunningCommand {
    fn start(words: &[String], read: bool) -> Result<Self, Error> {
        let mut command = Command::new(&words[0]);
        let out = if read { Stdio::piped() } else { Stdio::null() };
        let group = GroupWatcher::start().map_err(|e| Error::Usage(format!("sh: {e}")))?;
        command.args(&words[1..]).process_group(group.group().as_raw());
        command.stdin(Stdio::null()).stdout(out).stderr(Stdio::null());
        let start = Instant::now();
        let child = command.spawn().map_err(|e| Error::Usage(format!("{}: {e}", words[0])))?;
        Ok(Self { child, group, start })
    }

    /// Waits for the command in a thread, so that the time is taken at once and an interrupt is noticed.
    fn finish(self, words: &[String], meter: &mut dyn Meter, stop: &AtomicBool) -> Result<LoadResult, Error> {
        let Self { mut child, group, start } = self;
        let (send, receive) = mpsc::channel();
        let wait = move || {
            let number = child.stdout.take().and_then(last_number);
            let status = child.wait();
            let _ = send.send((status, start.elapsed().as_secs_f64(), number));
        };
        if let Err(e) = std::thread::Builder::new().name("load".into()).spawn(wait) {
            let _ = killpg(group.group(), Signal::SIGKILL);
            return Err(Error::Usage(human::no_thread(&e)));
        }
        let (status, time, number) = loop {
            match receive.recv_timeout(LOOK) {
                Ok(ended) => break ended,
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => {
                    end(group.group(), &receive);
                    return Err(Error::Interrupted);
                }
                Err(RecvTimeoutError::Timeout) => meter.tick(),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::Usage("the command was not waited for".into()));
                }
            }
        };
        let named = || words.join(" ");
        match status {
            Ok(status) if status.success() => Ok(LoadResult { time, number }),
            // The signal that ended us may have ended the command too.
            Ok(_) if stop.load(Ordering::Relaxed) => Err(Error::Interrupted),
            Ok(status) => Err(Error::Usage(format!("'{}' failed: {status}; everything was rolled back", named()))),
            Err(e) => Err(Error::Usage(format!("'{}': {e}", named()))),
        }
    }
}

/// Ends a command and all processes that it started: with SIGTERM, then SIGKILL. Does not wait for processes that have left the
/// group.
fn end(group: Pid, ended: &Receiver<Ended>) {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        // The watcher has not been reaped, so the group ID is still ours.
        let _ = killpg(group, signal);
        if ended.recv_timeout(GRACE).is_ok() {
            return;
        }
    }
}

/// Returns the last word that is a number. Reads the output to its end, but keeps only the last part.
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
    use super::*;

    #[test]
    fn an_interrupt_ends_a_command_that_will_not_with_all_it_started() {
        // The shell ignores SIGTERM, and its child keeps its output open.
        let words = ["sh", "-c", "trap '' TERM; sleep 3600 & sleep 3600; sleep 3600"].map(str::to_owned);
        let stop = AtomicBool::new(true);
        let ended = Load::Command(words.to_vec()).run(true, &mut NoMeter, &stop);
        assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
    }

    #[test]
    fn the_last_number_counts() {
        assert_eq!(last_number(&b"tps = 812.5 (without initial connection)\n"[..]), Some(812.5));
        assert_eq!(last_number(&b"none"[..]), None);
        let long = format!("1 {}\n2.5 done\n", "word ".repeat(100_000));
        assert_eq!(last_number(long.as_bytes()), Some(2.5));
    }
}
