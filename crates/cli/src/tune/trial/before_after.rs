//! Trials of changes that take effect only after a restart or a reboot: measures before and after it.

use super::args::TryArgs;
use super::measure::{SignalMeter, TrialMetric};
use super::task::Task;
use super::{progress, say_step};
use crate::output::Failure;
use crate::tune::{Tune, failure, stop_on_signals};
use std::process::ExitCode;
use whyslow_documents::tune::{Effect, HistoryEntry, PreparedChange, TrialVerdict};
use whyslow_show::text::tune as text;
use whyslow_tune::experiment::{LiveTestBed, Load, Prepared, TestBed, TrialSetup};
use whyslow_tune::{Error, all_clean};

/// Measures, makes the change, and leaves the second half of the trial for later.
pub fn before(tune: &Tune, task: &Task) -> Result<ExitCode, Failure> {
    let session = tune.session()?;
    if let Some(waiting) = Prepared::waiting(&tune.store).map_err(failure)?.filter(|p| p.stands(session.history())) {
        return Err(Failure::usage(format!(
            "the trial of {} has been waiting since {} for 'whyslow try --after'",
            waiting.changes.join(" "),
            waiting.at
        )));
    }
    let args = &task.args;
    let load = task.load(args.time)?;
    let progress = progress();
    let tell = |step, steps| say_step(&progress, step, steps);
    let around = task.around("try, before", load.clone());
    let mut workbench = LiveTestBed::new(&tune.machine, session, around, stop_on_signals()?, &tell);
    let before = measured(&mut workbench, args.pairs).map_err(failure)?;
    let spec = task.target();
    let note = |entry: &HistoryEntry| {
        let prepared = Prepared {
            at: entry.transaction.at.clone(),
            id: entry.transaction.id,
            boot: entry.transaction.boot.clone(),
            needs_reboot: task.effect == Effect::Reboot,
            changes: args.changes.clone(),
            measured: task.target_words(),
            metric: spec.name.clone(),
            lower_is_better: spec.lower_is_better,
            command: args.command.clone(),
            seconds: if let Load::Present(time) = load { time.as_secs_f64() } else { 0.0 },
            delta: args.delta / 100.0,
            before,
        };
        prepared.keep(&tune.store)
    };
    let id = workbench.keep_noted(note).map_err(failure)?;
    drop(workbench);
    drop(progress);
    let what = if task.effect == Effect::Reboot { "reboot" } else { "restart what it applies to" };
    tune.tell(&PreparedChange { change: id }, |_| {
        format!(
            "change {id} is made, after measuring without it\n{what}, apply the same load, then run: whyslow try --after\n"
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

pub fn after(tune: &Tune, args: &TryArgs) -> Result<ExitCode, Failure> {
    let Some(prepared) = Prepared::waiting(&tune.store).map_err(failure)? else {
        return Err(Failure::usage("no trial is waiting for --after; start one with 'whyslow try --before …'"));
    };
    let session = tune.session()?;
    if !prepared.stands(session.history()) {
        Prepared::forget(&tune.store).map_err(failure)?;
        return Err(Failure::nothing(format!(
            "change {} is no longer in effect, so there is nothing to compare; the trial is abandoned",
            prepared.id
        )));
    }
    if !prepared.can_show(&tune.machine) {
        return Err(Failure::usage("the machine has not been rebooted yet: reboot, then run 'whyslow try --after'"));
    }
    let measure: TrialMetric = prepared.measured.parse().map_err(Failure::usage)?;
    let around = TrialSetup {
        why: String::new(),
        requests: Vec::new(),
        load: prepared.load(),
        measured: vec![measure.measured()],
        meter: Box::new(SignalMeter::new(measure.selector().cloned().into_iter().collect())),
    };
    let progress = progress();
    let tell = |step, steps| say_step(&progress, step, steps);
    let mut workbench = LiveTestBed::new(&tune.machine, session, around, stop_on_signals()?, &tell);
    let after = measured(&mut workbench, prepared.before.len()).map_err(|e| match e {
        Error::Interrupted => Failure::interrupted("interrupted; the trial is still waiting for 'whyslow try --after'"),
        other => failure(other),
    })?;
    drop(workbench);
    drop(progress);
    let mut trial = prepared.judged(&after);
    if args.keep && trial.verdict == TrialVerdict::Helped {
        trial.kept = Some(prepared.id);
    } else {
        let outcomes = tune.session()?.undo(prepared.id).map_err(failure)?;
        if !all_clean(&outcomes) {
            return Err(failure(Error::RolledBack { why: "not everything could be rolled back".into(), outcomes }));
        }
    }
    Prepared::forget(&tune.store).map_err(failure)?;
    tune.remember(&trial);
    tune.tell(&trial, |style| text::trial(&trial, style))?;
    Ok(ExitCode::SUCCESS)
}

/// Measures `count` values, after one that warms caches and is discarded.
fn measured(bench: &mut dyn TestBed, count: usize) -> Result<Vec<f64>, Error> {
    let mut values = Vec::new();
    for step in 0..=count {
        let measurement = bench.measure(step + 1, count + 1)?;
        match measurement.first().copied().flatten() {
            Some(value) if value.is_finite() && value >= 0.0 => values.push(value),
            other => {
                return Err(Error::Usage(format!("measured {other:?}, but only values above zero can be compared")));
            }
        }
    }
    values.remove(0);
    Ok(values)
}
