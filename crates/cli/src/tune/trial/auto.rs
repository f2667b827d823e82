//! `whyslow try --auto`: tries the proposals of the first finding, one change at a time.

use super::args::TryArgs;
use super::task::Task;
use super::{ended, progress, say_step};
use crate::live::cannot_start;
use crate::observe::diagnosed;
use crate::options::Observe;
use crate::output::{Failure, complain};
use crate::tune::{Tune, failure, stop_on_signals};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use whyslow_documents::diagnosis::{Action, ActionKind, Finding};
use whyslow_documents::tune::{Trial, Walk, WalkStep};
use whyslow_show::text::tune as text;
use whyslow_tune::Error;
use whyslow_tune::experiment::{self, AlphaBudget, Design, LiveTestBed, Load};

/// Maximum time for observing the machine first, and its maximum share of the budget, as a divisor.
const WATCH: Duration = Duration::from_secs(10);
const WATCH_SHARE: u32 = 10;

/// Diagnoses, and tries the proposals of the first finding.
pub fn run(tune: &Tune, args: &TryArgs) -> Result<ExitCode, Failure> {
    let end = Instant::now() + args.budget;
    let stop = stop_on_signals()?;
    // A user who may not change anything need not wait for the observation.
    drop(tune.session()?);
    let finding = finding(args, &stop)?;
    let proposals = proposals(&finding, args)?;
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::interrupted("interrupted before anything was tried"));
    }
    let walk =
        AutoTrial { tune, stop, end, purse: AlphaBudget::new(Design::ALPHA, proposals.len()), left: proposals.len() }
            .walk(&finding, proposals)?;
    tune.tell(&walk, |style| text::walk(&walk, style))?;
    Ok(ended(walk.interrupted))
}

/// Returns the finding to work on: the named one, or the first cause, while the load is on.
fn finding(args: &TryArgs, stop: &AtomicBool) -> Result<Finding, Failure> {
    let time = WATCH.min(args.budget / WATCH_SHARE).max(Duration::from_secs(2));
    let observe = Observe { time, interval: Duration::from_secs(1), no_bpf: false, check: false, nagios: false };
    let diagnosis = under(&args.command, stop, || diagnosed(&observe))??;
    let is_it = |finding: &&Finding| match &args.finding {
        Some(name) => is_named(finding, name),
        None => finding.explained_by.is_none(),
    };
    let found = diagnosis.findings.iter().find(is_it).cloned();
    found.ok_or_else(|| Failure::nothing(not_found(args.finding.as_deref(), &diagnosis.findings)))
}

/// Returns whether a name is the finding's: its id, with or without its subject.
fn is_named(finding: &Finding, name: &str) -> bool {
    let Finding { id, subject, .. } = finding;
    name == id || name == finding.key() || name.split_once('@') == Some((id, &subject.name))
}

fn not_found(name: Option<&str>, findings: &[Finding]) -> String {
    match name {
        None => "no finding can be fixed by a setting; 'whyslow -v' shows what was checked".into(),
        Some(name) if findings.is_empty() => {
            format!("{name} was not found, nor anything else; 'whyslow -v' shows what was checked")
        }
        Some(name) => {
            let found: Vec<String> = findings.iter().map(Finding::key).collect();
            format!("{name} was not found, but {}", found.join(", "))
        }
    }
}

/// Runs `act` while a command runs repeatedly; waits for its last run.
fn under<T>(command: &[String], stop: &AtomicBool, act: impl FnOnce() -> T) -> Result<T, Failure> {
    if command.is_empty() {
        return Ok(act());
    }
    let (load, done) = (Load::Command(command.to_vec()), AtomicBool::new(false));
    let run_again = || {
        while !done.load(Ordering::Relaxed) {
            match load.once(stop) {
                Err(e) if !done.load(Ordering::Relaxed) => return Err(failure(e)),
                _ => {}
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let runs = std::thread::Builder::new().name("load".into()).spawn_scoped(scope, run_again);
        let runs = runs.map_err(cannot_start)?;
        let acted = act();
        done.store(true, Ordering::Relaxed);
        match runs.join() {
            Ok(ended) => ended.map(|()| acted),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Returns the proposals of a finding: the command line of each action, under our own load.
fn proposals(finding: &Finding, args: &TryArgs) -> Result<Vec<Proposal>, Failure> {
    let settings = finding.actions.iter().filter(|action| action.kind == ActionKind::Tunable);
    let proposals: Vec<Proposal> = settings.filter_map(|action| Proposal::from_action(action, args)).collect();
    if proposals.is_empty() {
        let advice = finding.actions.first().map_or(String::new(), |action| format!("; {}", action.text));
        return Err(Failure::nothing(format!("{}, and no setting to try: {}{advice}", finding.key(), finding.summary)));
    }
    Ok(proposals)
}

/// An action as a trial.
struct Proposal {
    text: String,
    args: TryArgs,
}

impl Proposal {
    /// Parses an action; `None` if it names no trial.
    fn from_action(action: &Action, own: &TryArgs) -> Option<Self> {
        let proposed = TryArgs::of_words(&shlex::split(action.try_command.as_ref()?)?)?;
        let metric = if own.command.is_empty() { proposed.metric.clone() } else { own.metric.clone() };
        let args = TryArgs {
            changes: proposed.changes,
            moves: proposed.moves,
            // It refers to the metric that the action names.
            promised: proposed.promised.filter(|_| own.command.is_empty()),
            guard: own.guard.iter().cloned().chain(proposed.guard).collect(),
            metric,
            ..own.clone()
        };
        Some(Self { text: action.text.clone(), args })
    }
}

/// Tries proposals within a budget.
struct AutoTrial<'a> {
    tune: &'a Tune<'a>,
    stop: Arc<AtomicBool>,
    end: Instant,
    purse: AlphaBudget,
    /// Number of proposals not reached yet.
    left: usize,
}

impl AutoTrial<'_> {
    fn walk(mut self, finding: &Finding, proposals: Vec<Proposal>) -> Result<Walk, Failure> {
        let progress = progress();
        let tell = |step, steps| say_step(&progress, step, steps);
        let mut bench: Option<LiveTestBed> = None;
        let mut helped: Vec<Task> = Vec::new();
        let mut steps = Vec::new();
        for proposal in proposals {
            let mut step =
                WalkStep { text: proposal.text, changes: proposal.args.changes.clone(), trial: None, skipped: None };
            if self.is_stopped() {
                step.skipped = Some(Error::Interrupted.to_string());
                steps.push(step);
                continue;
            }
            match self.prepared(proposal.args, self.purse.next()) {
                Err(why) => step.skipped = Some(why.words().to_owned()),
                Ok((task, load)) => {
                    let bench = self.bench(&mut bench, &task, load, &tell)?;
                    match self.tried(&task.design(self.purse.next()), bench)? {
                        Err(why) => step.skipped = Some(why),
                        Ok(mut trial) => {
                            trial.caveat = task.caveat();
                            trial.promised = task.args.promised;
                            self.purse.settle(trial.is_proven());
                            if trial.is_proven() {
                                bench.let_stand().map_err(failure)?;
                                helped.push(task);
                            }
                            step.trial = Some(trial);
                        }
                    }
                }
            }
            self.left -= 1;
            steps.push(step);
        }
        let (together, kept) = match &mut bench {
            Some(bench) if !helped.is_empty() && !self.is_stopped() => self.together(bench, helped)?,
            _ => (None, None),
        };
        if let Some(bench) = &mut bench {
            bench.clear().map_err(failure)?;
        }
        let Finding { id, subject, summary, .. } = finding.clone();
        let interrupted = self.is_stopped() && kept.is_none();
        Ok(Walk { id, subject, summary, steps, together, interrupted, kept })
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Runs an experiment, or returns why it has no result. Only a failed rollback is an error that ends the trial of
    /// all actions.
    fn tried(&self, design: &Design, bench: &mut LiveTestBed) -> Result<Result<Trial, String>, Failure> {
        match experiment::run(design, bench) {
            Ok(trial) => {
                self.tune.remember(&trial);
                Ok(Ok(trial))
            }
            Err(e @ (Error::Usage(_) | Error::Interrupted)) => Ok(Err(e.to_string())),
            Err(e) => Err(failure(e)),
        }
    }

    /// Prepares the task and its load, with as many pairs as fit into its part of the time.
    fn prepared(&self, args: TryArgs, alpha: f64) -> Result<(Task, Load), Failure> {
        let mut task = Task::from_args(&self.tune.machine, args)?;
        task.is_allowed()?;
        task.can_alternate()?;
        // One part is reserved for measuring all changes together at the end.
        let parts = u32::try_from(self.left + 1).unwrap_or(u32::MAX);
        let part = self.end.saturating_duration_since(Instant::now()) / parts;
        if !task.args.command.is_empty() {
            task.args.pairs = self.pairs_within(&task, part)?;
        }
        let load = task.load(Some(part))?;
        experiment::can_tell(&task.design(alpha)).map_err(failure)?;
        Ok((task, load))
    }

    fn pairs_within(&self, task: &Task, part: Duration) -> Result<usize, Failure> {
        let start = Instant::now();
        Load::Command(task.args.command.clone()).once(&self.stop).map_err(failure)?;
        Ok(task.time_budget().pairs_within(part, start.elapsed()))
    }

    /// Returns the test bed, set up for the next task.
    fn bench<'b, 't>(
        &self,
        bench: &'b mut Option<LiveTestBed<'t>>,
        task: &Task,
        load: Load,
        tell: &'t dyn Fn(usize, usize),
    ) -> Result<&'b mut LiveTestBed<'t>, Failure> {
        let around = task.around("try --auto", load);
        match bench {
            Some(bench) => {
                bench.turn_to(around).map_err(failure)?;
                Ok(bench)
            }
            None => {
                let session = self.tune.session()?;
                Ok(bench.insert(LiveTestBed::new(&self.tune.machine, session, around, Arc::clone(&self.stop), tell)))
            }
        }
    }

    /// Measures all helpful changes together against none of them, because the best of several looks better than it is. Keeps
    /// the changes if the gain holds.
    fn together(
        &mut self,
        bench: &mut LiveTestBed,
        helped: Vec<Task>,
    ) -> Result<(Option<Trial>, Option<u64>), Failure> {
        bench.clear().map_err(failure)?;
        let mut args = helped[0].args.clone();
        for task in &helped[1..] {
            args.changes.extend(task.args.changes.iter().cloned());
            let new = task.args.guard.iter().filter(|guard| !args.guard.contains(guard)).cloned().collect::<Vec<_>>();
            args.guard.extend(new);
        }
        let task = Task::from_args(&self.tune.machine, args)?;
        // Do not give up helpful changes because earlier steps took longer than planned.
        let time = self.end.saturating_duration_since(Instant::now()).max(task.time_budget().least());
        let load = task.load(Some(time))?;
        bench.turn_to(task.around("try --auto", load)).map_err(failure)?;
        let mut trial = match self.tried(&task.design(Design::ALPHA), bench)? {
            Ok(trial) => trial,
            Err(why) => {
                complain(&format!("all that helped, together: {why}"));
                return Ok((None, None));
            }
        };
        if trial.is_proven() {
            trial.kept = Some(bench.keep().map_err(failure)?);
        }
        let kept = trial.kept;
        Ok((Some(trial), kept))
    }
}
