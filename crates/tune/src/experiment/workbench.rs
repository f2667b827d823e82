//! The machine, the change, and the command it is measured by.

use super::Bench;
use crate::error::Error;
use crate::guardian;
use crate::machine::Machine;
use crate::plan::{Plan, Wish};
use crate::session::{Guard, Session, Terms, all_clean};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often it is looked whether it shall end.
const LOOK: Duration = Duration::from_millis(100);

/// What of a command is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// How long it takes.
    Time,
    /// The last number it writes to standard output.
    Number,
}

/// A change and the command it is tried around.
#[derive(Clone, Debug)]
pub struct Around {
    /// What for, for the history.
    pub why: String,
    /// The change.
    pub wishes: Vec<Wish>,
    /// The command and its arguments; never empty.
    pub command: Vec<String>,
    /// What of it is measured.
    pub measured: Measured,
}

/// Makes and takes back a change around a command. However it is dropped, the change is taken back unless it was kept; a guard
/// does so where the program dies.
pub struct Workbench<'a> {
    session: Session,
    machine: Machine,
    around: Around,
    stop: Arc<AtomicBool>,
    made: Option<u64>,
    is_guarded: bool,
    tell: &'a dyn Fn(usize, usize),
}

impl<'a> Workbench<'a> {
    /// With the run that may change settings. `stop` is raised where it shall end early; `tell` hears of each measurement.
    pub fn new(
        machine: &Machine,
        session: Session,
        around: Around,
        stop: Arc<AtomicBool>,
        tell: &'a dyn Fn(usize, usize),
    ) -> Self {
        Self { session, machine: machine.clone(), around, stop, made: None, is_guarded: false, tell }
    }

    /// Makes the change once more, for good; the number of the transaction.
    ///
    /// # Errors
    /// It could not be made; all is as it was.
    pub fn keep(&mut self) -> Result<u64, Error> {
        self.switch(true)?;
        let id = self.made.take().ok_or_else(|| Error::Usage("there is nothing to keep".into()))?;
        self.session.keep(id)?;
        Ok(id)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Bench for Workbench<'_> {
    fn switch(&mut self, with: bool) -> Result<(), Error> {
        match (with, self.made.take()) {
            (true, None) => {
                let plan = Plan::of(&self.machine, &self.around.why, &self.around.wishes);
                plan.all_possible()?;
                // One guard is enough: it waits for the lock, and finds whatever is being tried when this program is gone.
                let guard = (!self.is_guarded).then_some(&guardian::start as Guard);
                let stop = Arc::clone(&self.stop);
                self.made = Some(self.session.try_out(&plan, &Terms { guard, stop: Some(&stop), ..Terms::default() })?);
                self.is_guarded = true;
            }
            (false, Some(id)) => {
                let outcomes = self.session.undo(id)?;
                if !all_clean(&outcomes) {
                    return Err(Error::TakenBack { why: "somebody else changes settings meanwhile".into(), outcomes });
                }
            }
            (_, made) => self.made = made,
        }
        Ok(())
    }

    fn wait(&mut self, time: Duration) -> Result<(), Error> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            if self.is_stopped() {
                return Err(interrupted());
            }
            std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }

    fn measure(&mut self, step: usize, steps: usize) -> Result<f64, Error> {
        (self.tell)(step, steps);
        let words = &self.around.command;
        let mut command = Command::new(&words[0]);
        let out = if self.around.measured == Measured::Number { Stdio::piped() } else { Stdio::null() };
        command.args(&words[1..]).stdin(Stdio::null()).stdout(out).stderr(Stdio::null());
        let start = Instant::now();
        let child = command.spawn().map_err(|e| Error::Usage(format!("{}: {e}", words[0])))?;
        let Done { time, output } = self.finished(child, start)?;
        match self.around.measured {
            Measured::Time => Ok(time.as_secs_f64()),
            Measured::Number => last_number(&output)
                .ok_or_else(|| Error::Usage(format!("{} writes no number to standard output", words[0]))),
        }
    }
}

impl Drop for Workbench<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.made.take() {
            // What cannot be put back now stands in the journal as begun: the next run tries again, and says so.
            let _ = self.session.undo(id);
        }
    }
}

/// A command that has ended well.
struct Done {
    time: Duration,
    output: String,
}

impl Workbench<'_> {
    /// Waits for a command in a thread, so that the time is taken at once and an interrupt is seen.
    fn finished(&self, mut child: Child, start: Instant) -> Result<Done, Error> {
        let pid = child.id();
        let (send, receive) = mpsc::channel();
        let waiter = std::thread::spawn(move || {
            let mut output = String::new();
            if let Some(mut out) = child.stdout.take() {
                // What is no text holds no number.
                let _ = out.read_to_string(&mut output);
            }
            let status = child.wait();
            let _ = send.send((status, start.elapsed(), output));
        });
        let (status, time, output) = loop {
            match receive.recv_timeout(LOOK) {
                Ok(done) => break done,
                Err(RecvTimeoutError::Timeout) if self.is_stopped() => {
                    end(pid);
                    let _ = waiter.join();
                    return Err(interrupted());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::Usage("nobody waited for the command".into()));
                }
            }
        };
        match status {
            Ok(status) if status.success() => Ok(Done { time, output }),
            Ok(_) if self.is_stopped() => Err(interrupted()),
            Ok(status) => {
                Err(Error::Usage(format!("'{}' failed: {status}; all is put back", self.around.command.join(" "))))
            }
            Err(e) => Err(Error::Usage(format!("'{}': {e}", self.around.command.join(" ")))),
        }
    }
}

/// Ends a command that the waiter has not yet waited for, or has just: kill(1) of a number that is nobody's does nothing.
fn end(pid: u32) {
    let _ = Command::new("kill").arg(pid.to_string()).stderr(Stdio::null()).status();
}

/// The last word that is a number.
fn last_number(text: &str) -> Option<f64> {
    text.split_whitespace().rev().find_map(|word| word.parse().ok())
}

fn interrupted() -> Error {
    Error::Usage("interrupted: all is put back".into())
}

#[cfg(test)]
mod tests {
    use super::last_number;

    #[test]
    fn the_last_number_counts() {
        assert_eq!(last_number("tps = 812.5 (without initial connection)\n"), Some(812.5));
        assert_eq!(last_number("none"), None);
    }
}
