//! `whyslow try`: a change made and taken back in pairs around a command, and what it was worth.

use super::{Tune, failure, stop_on_signals};
use crate::args::{Look, duration};
use crate::output::{Failure, complain};
use crate::progress::Progress;
use clap::{Args, ValueEnum};
use std::io::Read;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use whyslow_model::tune::TrialVerdict;
use whyslow_show::text::tune as text;
use whyslow_tune::experiment::{self, Bench, Design};
use whyslow_tune::{Error, Machine, Plan, Session, Store, Terms, Wish};

/// How often it is looked whether it shall end.
const LOOK: Duration = Duration::from_millis(100);

/// What to try, and what to measure it by.
#[derive(Debug, Args)]
pub struct TryArgs {
    /// NAME=VALUE or NAME@THING=VALUE, as for 'whyslow tune set'
    #[arg(required = true, value_name = "CHANGE")]
    changes: Vec<String>,
    /// The command whose time, or number, is measured
    #[arg(last = true, required = true)]
    command: Vec<String>,
    /// What of the command is measured: its time, or the last number it writes to standard output
    #[arg(long, default_value = "time")]
    metric: Measured,
    /// More of it is better
    #[arg(long)]
    higher_is_better: bool,
    /// Pairs with and without the change, 6 to 20
    #[arg(long, value_name = "N", default_value = "10", value_parser = pairs)]
    pairs: usize,
    /// Pairs without any change before, which show what comes about by itself
    #[arg(long, value_name = "N", default_value = "4")]
    noise_pairs: usize,
    /// How long to wait after each switch [default: by the tunable; nothing for what shows at once]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    settle: Option<Duration>,
    /// The smallest effect of interest, in percent
    #[arg(long, value_name = "PERCENT", default_value = "1", value_parser = percent)]
    delta: f64,
    /// Keep the change where it helped; else, and in any other case, all is put back
    #[arg(long)]
    keep: bool,
    /// Do it though it is risky
    #[arg(long, short)]
    yes: bool,
    /// Where the random order comes from, to repeat an experiment
    #[arg(long)]
    seed: Option<u64>,
}

/// What of a command is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Measured {
    // No doc comments here: clap would draw each as a paragraph of the help.
    Time,
    Number,
}

fn pairs(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| Design::PAIRS.contains(number));
    number.ok_or_else(|| format!("{} to {} pairs", Design::PAIRS.start(), Design::PAIRS.end()))
}

fn percent(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|percent| (0.0..100.0).contains(percent))
        .ok_or_else(|| "a percentage below 100".to_owned())
}

/// Tries a change.
///
/// # Errors
/// What kept it from being tried; all is then as it was.
pub fn run(args: &TryArgs, look: &Look) -> Result<ExitCode, Failure> {
    let tune = Tune { machine: Machine::live(), store: Store::standard(), look };
    let wishes: Vec<Wish> =
        args.changes.iter().map(|change| whyslow_tune::wish(change)).collect::<Result<_, _>>().map_err(failure)?;
    let why = format!("try {}", args.changes.join(" "));
    let plan = Plan::of(&tune.machine, &why, &wishes);
    plan.all_possible().map_err(failure)?;
    if !plan.changes_anything() {
        return Err(Failure::usage("there is nothing to try: all is so already"));
    }
    if plan.risk() > whyslow_model::tune::Risk::Low && !args.yes {
        return Err(Failure::nothing("nothing was tried, because it is risky; the same with --yes does it"));
    }
    let design = args.design(&plan);
    let mut workbench = Workbench {
        session: tune.session()?,
        machine: tune.machine.clone(),
        why,
        wishes,
        args,
        stop: stop_on_signals()?,
        made: None,
        is_guarded: false,
        progress: Progress::new("trying", "put all back"),
    };
    let mut trial = experiment::run(&design, &mut workbench).map_err(failure)?;
    if args.keep && trial.verdict == TrialVerdict::Helped {
        trial.kept = Some(workbench.keep().map_err(failure)?);
    }
    drop(workbench);
    if let Err(e) = experiment::remember(&tune.store, &trial) {
        complain(&format!("the experiment is not in the history: {e}"));
    }
    tune.tell(&trial, |style| text::trial(&trial, style))?;
    Ok(ExitCode::SUCCESS)
}

impl TryArgs {
    fn design(&self, plan: &Plan) -> Design {
        let what = match self.metric {
            Measured::Time => "s",
            Measured::Number => "as the command says",
        };
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64);
        Design {
            changes: self.changes.clone(),
            metric: format!("{what}, of: {}", self.command.join(" ")),
            lower_is_better: !self.higher_is_better,
            pairs: self.pairs,
            noise_pairs: self.noise_pairs,
            settle: self.settle.unwrap_or(plan.settle()),
            delta: self.delta / 100.0,
            seed: self.seed.unwrap_or(clock),
        }
    }
}

/// The machine, the change, and the command it is measured by.
struct Workbench<'a> {
    session: Session,
    machine: Machine,
    why: String,
    wishes: Vec<Wish>,
    args: &'a TryArgs,
    stop: Arc<AtomicBool>,
    made: Option<u64>,
    is_guarded: bool,
    progress: Progress,
}

impl Workbench<'_> {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn interrupted(&self) -> Error {
        Error::Usage("interrupted: all is put back".into())
    }

    fn keep(&mut self) -> Result<u64, Error> {
        self.switch(true)?;
        let id = self.made.take().ok_or_else(|| Error::Usage("there is nothing to keep".into()))?;
        self.session.keep(id)?;
        Ok(id)
    }
}

impl Bench for Workbench<'_> {
    fn switch(&mut self, with: bool) -> Result<(), Error> {
        match (with, self.made.take()) {
            (true, None) => {
                let plan = Plan::of(&self.machine, &self.why, &self.wishes);
                plan.all_possible()?;
                // One guard is enough: it waits for the lock, and finds whatever is being tried when this program is gone.
                let guard = (!self.is_guarded).then_some(&whyslow_tune::start_guard as whyslow_tune::Guard);
                let stop = Arc::clone(&self.stop);
                self.made = Some(self.session.try_out(&plan, &Terms { guard, stop: Some(&stop), ..Terms::default() })?);
                self.is_guarded = true;
            }
            (false, Some(id)) => {
                let outcomes = self.session.undo(id)?;
                if !whyslow_tune::all_clean(&outcomes) {
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
                return Err(self.interrupted());
            }
            std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }

    fn measure(&mut self, step: usize, steps: usize) -> Result<f64, Error> {
        self.progress.say(&format!("trying, run {step} of {steps} (Ctrl-C: put all back)"));
        let words = &self.args.command;
        let mut command = Command::new(&words[0]);
        let out = if self.args.metric == Measured::Number { Stdio::piped() } else { Stdio::null() };
        command.args(&words[1..]).stdin(Stdio::null()).stdout(out).stderr(Stdio::null());
        let start = Instant::now();
        let child = command.spawn().map_err(|e| Error::Usage(format!("{}: {e}", words[0])))?;
        let Done { time, output } = self.finished(child, start)?;
        match self.args.metric {
            Measured::Time => Ok(time.as_secs_f64()),
            Measured::Number => last_number(&output)
                .ok_or_else(|| Error::Usage(format!("{} writes no number to standard output", words[0]))),
        }
    }
}

impl Drop for Workbench<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.made.take()
            && let Err(e) = self.session.undo(id)
        {
            complain(&format!("the change is not put back: {e}; 'whyslow tune recover' tries again"));
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
                    return Err(self.interrupted());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::Usage("nobody waited for the command".into()));
                }
            }
        };
        match status {
            Ok(status) if status.success() => Ok(Done { time, output }),
            Ok(_) if self.is_stopped() => Err(self.interrupted()),
            Ok(status) => {
                Err(Error::Usage(format!("'{}' failed: {status}; all is put back", self.args.command.join(" "))))
            }
            Err(e) => Err(Error::Usage(format!("'{}': {e}", self.args.command.join(" ")))),
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

/// The experiments that were made.
pub fn list(tune: &Tune) -> Result<ExitCode, Failure> {
    let trials = experiment::remembered(&tune.store).map_err(failure)?;
    tune.tell(&trials, |style| text::trials(&trials, style))?;
    Ok(ExitCode::SUCCESS)
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
