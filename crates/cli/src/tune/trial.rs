//! `whyslow try`: a change made and taken back in pairs around a command, and what it was worth.

use super::{Tune, failure, stop_on_signals};
use crate::args::{Look, duration};
use crate::output::{Failure, complain};
use crate::progress::Progress;
use clap::{Args, ValueEnum};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use whyslow_model::tune::TrialVerdict;
use whyslow_show::text::tune as text;
use whyslow_tune::experiment::{self, Around, Design, Measured, Workbench};
use whyslow_tune::{Machine, Plan, Store, Wish};

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
    metric: Metric,
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
enum Metric {
    // No doc comments here: clap would draw each as a paragraph of the help.
    Time,
    Number,
}

impl From<Metric> for Measured {
    fn from(metric: Metric) -> Self {
        match metric {
            Metric::Time => Self::Time,
            Metric::Number => Self::Number,
        }
    }
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
    let around = Around { why, wishes, command: args.command.clone(), measured: args.metric.into() };
    let progress = Progress::new("trying", "put all back");
    let tell = |step, steps| progress.say(&format!("trying, run {step} of {steps} (Ctrl-C: put all back)"));
    let mut workbench = Workbench::new(&tune.machine, tune.session()?, around, stop_on_signals()?, &tell);
    let mut trial = experiment::run(&design, &mut workbench).map_err(failure)?;
    if args.keep && trial.verdict == TrialVerdict::Helped {
        trial.kept = Some(workbench.keep().map_err(failure)?);
    }
    drop(workbench);
    drop(progress);
    if let Err(e) = experiment::remember(&tune.store, &trial) {
        complain(&format!("the experiment is not in the history: {e}"));
    }
    tune.tell(&trial, |style| text::trial(&trial, style))?;
    Ok(ExitCode::SUCCESS)
}

impl TryArgs {
    fn design(&self, plan: &Plan) -> Design {
        let what = match self.metric {
            Metric::Time => "s",
            Metric::Number => "as the command says",
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

/// The experiments that were made.
pub fn list(tune: &Tune) -> Result<ExitCode, Failure> {
    let trials = experiment::remembered(&tune.store).map_err(failure)?;
    tune.tell(&trials, |style| text::trials(&trials, style))?;
    Ok(ExitCode::SUCCESS)
}
