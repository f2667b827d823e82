//! `whyslow try`: makes and rolls back a change in pairs, under a command or the present load, and judges the effect.

mod args;
mod auto;
mod before_after;
mod measure;
#[cfg(test)]
mod rules;
mod task;
mod time_budget;

pub use args::TryArgs;

use super::{Tune, failure, stop_on_signals};
use crate::options::OutputOptions;
use crate::output::{Failure, INTERRUPTED, ProgressLine, complain};
use std::process::ExitCode;
use task::Task;
use whyslow_documents::tune::Trial;
use whyslow_show::text::tune as text;
use whyslow_tune::experiment::{self, Design, LiveTestBed};
use whyslow_tune::{Machine, TuneFolder};

pub fn run(args: &TryArgs, look: &OutputOptions) -> Result<ExitCode, Failure> {
    let tune = Tune { machine: Machine::live(), store: TuneFolder::standard(), look };
    tune.mention_unread();
    if args.after {
        return before_after::after(&tune, args);
    }
    if args.auto {
        return auto::run(&tune, args);
    }
    let task = Task::from_args(&tune.machine, args.clone())?;
    if args.dry_run || task.wants_a_yes() {
        let rehearsal = task.rehearsal()?;
        tune.tell(&rehearsal, |style| text::rehearsal(&rehearsal, style))?;
    }
    if args.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    task.is_allowed()?;
    if args.before {
        return before_after::before(&tune, &task);
    }
    task.can_alternate()?;
    let around = task.around("try", task.load(args.time)?);
    let progress = progress();
    let tell = |step, steps| say_step(&progress, step, steps);
    let mut workbench = LiveTestBed::new(&tune.machine, tune.session()?, around, stop_on_signals()?, &tell);
    let mut trial = experiment::run(&task.design(Design::ALPHA), &mut workbench).map_err(failure)?;
    trial.caveat = task.caveat();
    trial.promised = task.args.promised;
    if args.keep && trial.is_proven() {
        trial.kept = Some(workbench.keep().map_err(failure)?);
    }
    drop(workbench);
    drop(progress);
    tune.remember(&trial);
    tune.tell(&trial, |style| text::trial(&trial, style))?;
    Ok(ended(trial.interrupted))
}

fn ended(interrupted: bool) -> ExitCode {
    if interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS }
}

fn progress() -> ProgressLine {
    ProgressLine::new("trying", "roll back")
}

fn say_step(progress: &ProgressLine, step: usize, steps: usize) {
    progress.say(&format!("trying, measurement {step} of {steps} (Ctrl-C: roll back)"));
}

impl Tune<'_> {
    /// Adds an experiment to the history.
    fn remember(&self, trial: &Trial) {
        if let Err(e) = experiment::remember(&self.store, trial) {
            complain(&format!("the experiment is not in the history: {e}"));
        }
    }
}

/// Lists the experiments in the history.
pub fn list(tune: &Tune) -> Result<ExitCode, Failure> {
    let (trials, unread) = experiment::remembered(&tune.store).map_err(failure)?;
    if unread > 0 {
        let file = tune.store.folder().join("trials.jsonl");
        complain(&format!(
            "{}: {unread} lines are not trials that this version can read; they are kept",
            file.display()
        ));
    }
    tune.tell(&trials, |style| text::trials(&trials, style))?;
    Ok(ExitCode::SUCCESS)
}
