//! A change to try, with the options from the command line.

use super::args::TryArgs;
use super::measure::{SignalMeter, TrialMetric};
use super::time_budget::TimeBudget;
use crate::output::Failure;
use crate::tune::failure;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use whyslow_documents::tune::{Effect, Rehearsal, Risk};
use whyslow_tune::experiment::{Design, Load, MetricSpec, TrialSetup};
use whyslow_tune::{ChangeRequest, Machine, Plan};

/// A change that can be made here, with its metric.
pub struct Task {
    pub args: TryArgs,
    target: TrialMetric,
    requests: Vec<ChangeRequest>,
    settle: Duration,
    plan: Plan,
    pub effect: Effect,
}

impl Task {
    /// Creates the task from the command line.
    pub fn from_args(machine: &Machine, args: TryArgs) -> Result<Self, Failure> {
        let mut target = args.metric.clone().unwrap_or(TrialMetric::TIME);
        target.more_is_better |= args.higher_is_better;
        if args.command.is_empty() {
            all_live([&target].into_iter().chain(&args.guard).chain(&args.moves))?;
        }
        let requests: Vec<ChangeRequest> = args
            .changes
            .iter()
            .map(|change| whyslow_tune::parse_change(change))
            .collect::<Result<_, _>>()
            .map_err(failure)?;
        let plan = Plan::new(machine, &format!("try {}", args.changes.join(" ")), &requests);
        plan.all_possible().map_err(failure)?;
        if !plan.changes_anything() {
            return Err(Failure::usage("there is nothing to try: everything is already set"));
        }
        let settle = args.settle.unwrap_or(plan.settle());
        Ok(Self { target, requests, settle, effect: plan.effect(), plan, args })
    }

    /// Returns whether it is risky and --yes is missing.
    pub fn wants_a_yes(&self) -> bool {
        self.plan.risk() > Risk::Low && !self.args.yes
    }

    /// Checks that the change may be made, before minutes are spent on measuring without it.
    ///
    /// # Errors
    /// Fails if it is risky and --yes is missing, or if this user may not write the setting.
    pub fn is_allowed(&self) -> Result<(), Failure> {
        if self.wants_a_yes() {
            return Err(Failure::nothing("nothing was tried, because it is risky; re-run with --yes to try it"));
        }
        self.plan.all_permitted().map_err(failure)
    }

    pub fn rehearsal(&self) -> Result<Rehearsal, Failure> {
        let time_budget = self.time_budget();
        let seconds = match self.load(self.args.time)? {
            Load::Present(block) => Some(time_budget.total(block).as_secs_f64()),
            Load::Command(_) => None,
        };
        Ok(Rehearsal {
            plan: self.plan.document(),
            metric: self.target().name,
            pairs: time_budget.pairs,
            noise_pairs: time_budget.noise_pairs,
            settle: self.settle.as_secs_f64(),
            seconds,
            runs: (!self.args.command.is_empty()).then(|| time_budget.measurements() as usize),
            waiting: time_budget.waiting().as_secs_f64(),
            caveat: self.caveat(),
        })
    }

    /// Checks that the change can be switched on and off repeatedly. One that takes effect after a restart can be only
    /// if each run of the command is that restart.
    pub fn can_alternate(&self) -> Result<(), Failure> {
        let what = match self.effect {
            Effect::Reboot => "at the next boot",
            Effect::Restart if self.args.command.is_empty() => "for processes and connections started afterwards only",
            _ => return Ok(()),
        };
        Err(Failure::usage(format!(
            "it takes effect only {what}, so it cannot be switched on and off: use 'whyslow try --before …' to measure and \
             make the change, and 'whyslow try --after' once it is in effect"
        )))
    }

    /// Returns a caveat if the change, once made, may have no effect: a reader may have opened its file before.
    pub fn caveat(&self) -> Option<String> {
        (self.effect == Effect::Reopen && self.args.command.is_empty()).then(|| {
            "it affects only files opened after the change: a process that keeps its file open does not notice it. Pass the \
             reader as a command (-- COMMAND), so that it opens its files again each time"
                .to_owned()
        })
    }

    /// Returns the division of its time.
    pub fn time_budget(&self) -> TimeBudget {
        TimeBudget { pairs: self.args.pairs, noise_pairs: self.args.noise_pairs, settle: self.settle }
    }

    /// Returns the load, limited to `time` in total.
    pub fn load(&self, time: Option<Duration>) -> Result<Load, Failure> {
        if self.args.command.is_empty() {
            return self.time_budget().block(time).map(Load::Present).map_err(Failure::usage);
        }
        Ok(Load::Command(self.args.command.clone()))
    }

    /// Returns the experiment's design at this alpha.
    pub fn design(&self, alpha: f64) -> Design {
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64);
        Design {
            changes: self.args.changes.clone(),
            target: self.target(),
            guards: self.args.guard.iter().map(|guard| guard.spec(&self.args.command)).collect(),
            mechanism: self.args.moves.as_ref().map(|moves| moves.spec(&self.args.command)),
            pairs: self.args.pairs,
            noise_pairs: self.args.noise_pairs,
            looks: self.args.looks,
            settle: self.settle,
            delta: self.args.delta / 100.0,
            alpha,
            seed: self.args.seed.unwrap_or(clock),
        }
    }

    /// Returns the target metric.
    pub fn target(&self) -> MetricSpec {
        self.target.spec(&self.args.command)
    }

    /// Returns the target metric in the words of the command line.
    pub fn target_words(&self) -> String {
        self.target.to_string()
    }

    /// Returns the setup with the change and its load.
    pub fn around(&self, why: &str, load: Load) -> TrialSetup {
        let all = [&self.target].into_iter().chain(&self.args.guard).chain(&self.args.moves);
        TrialSetup {
            why: format!("{why} {}", self.args.changes.join(" ")),
            requests: self.requests.clone(),
            load,
            measured: all.clone().map(TrialMetric::measured).collect(),
            meter: Box::new(SignalMeter::new(all.filter_map(TrialMetric::selector).cloned().collect())),
        }
    }
}

/// Checks that without a command each metric is a signal of the machine.
fn all_live<'m>(measures: impl IntoIterator<Item = &'m TrialMetric>) -> Result<(), Failure> {
    match measures.into_iter().find(|measure| measure.selector().is_none()) {
        None => Ok(()),
        Some(measure) => Err(Failure::usage(format!(
            "'{measure}' needs a command: add one after --, or choose a signal such as --metric disk.wait@sda"
        ))),
    }
}
