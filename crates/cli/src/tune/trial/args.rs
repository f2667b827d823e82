//! The command line of `whyslow try`.

use super::measure::TrialMetric;
use crate::complete;
use crate::options::duration;
use clap::{Args, Parser};
use clap_complete::ArgValueCandidates;
use std::time::Duration;
use whyslow_documents::tune::Promise;
use whyslow_tune::experiment::Design;

/// What to try, and what to measure it by.
#[derive(Clone, Debug, Args)]
pub struct TryArgs {
    /// NAME=VALUE or NAME@THING=VALUE, as for 'whyslow tune set'; several are tried together
    #[arg(add = ArgValueCandidates::new(complete::changes), required_unless_present_any = ["auto", "after"], value_name = "CHANGE")]
    pub changes: Vec<String>,
    /// Command to measure; without one, --metric is measured under the current load
    #[arg(last = true)]
    pub command: Vec<String>,
    /// What to measure: time; number (the last one the command prints); or a signal such as disk.wait@sda, as listed by
    /// `whyslow rules ID`; prefix + if higher is better [default: time]
    #[arg(long)]
    pub metric: Option<TrialMetric>,
    /// A metric that must not get worse: a change that harms it has not helped
    #[arg(long, value_name = "METRIC")]
    pub guard: Vec<TrialMetric>,
    /// A metric through which the change should work: if it does not improve, the result says 'mechanism unconfirmed'
    #[arg(long, value_name = "METRIC")]
    pub moves: Option<TrialMetric>,
    /// Higher values of --metric are better
    #[arg(long)]
    pub higher_is_better: bool,
    /// The gain that a finding promised, to compare with the result: how many times as good --metric becomes, with bounds;
    /// without HIGH (2.1:1.7:) it is the least
    #[arg(long, value_name = "FACTOR[:LOW:[HIGH]]", value_parser = promise)]
    pub promised: Option<Promise>,
    /// Total time without a command [default: ten seconds per measurement]
    #[arg(long = "for", value_name = "TIME", value_parser = duration, conflicts_with = "command")]
    pub time: Option<Duration>,
    /// Number of pairs of runs with and without the change, 6 to 20
    #[arg(long, value_name = "N", default_value = "10", value_parser = pairs)]
    pub pairs: usize,
    /// Number of pairs without a change first, to measure noise
    #[arg(long, value_name = "N", default_value = "4", value_parser = at_most_twenty)]
    pub noise_pairs: usize,
    /// Number of interim analyses that can stop the trial early; each costs some statistical power
    #[arg(long, value_name = "N", default_value = "1", value_parser = looks)]
    pub looks: usize,
    /// Time to wait after each switch [default: depends on the tunable]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub settle: Option<Duration>,
    /// Smallest effect of interest, in percent
    #[arg(long, value_name = "PERCENT", default_value = "1", value_parser = percent)]
    pub delta: f64,
    /// Keep the change if it helped; otherwise it is always rolled back
    #[arg(long)]
    pub keep: bool,
    /// Go ahead even if the change is risky
    #[arg(long, short)]
    pub yes: bool,
    /// Only show what would be tried, and how long it would take
    #[arg(long, conflicts_with_all = ["yes", "keep", "auto", "after"])]
    pub dry_run: bool,
    /// Seed of the random order, to repeat a trial
    #[arg(long)]
    pub seed: Option<u64>,
    /// Diagnose, then try the recommended changes one at a time, and keep what helps
    #[arg(long, conflicts_with_all = ["changes", "before", "after", "keep", "time", "moves"])]
    pub auto: bool,
    /// Start from this finding, such as disk.readahead or disk.readahead@sda, instead of the first
    #[arg(add = ArgValueCandidates::new(complete::rules), long, value_name = "ID", requires = "auto")]
    pub finding: Option<String>,
    /// Time limit of --auto
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    pub budget: Duration,
    /// For changes that need a restart or reboot: measure, make the change, and stop until --after
    #[arg(long, conflicts_with_all = ["after", "guard", "moves", "keep"])]
    pub before: bool,
    /// Measure again, compare with --before, and roll back unless the change helped and --keep is given
    #[arg(long, conflicts_with_all = ["changes", "command", "metric", "guard", "moves", "time"])]
    pub after: bool,
}

/// A line `whyslow try ...` by itself.
#[derive(Parser)]
#[command(name = "try")]
struct TryCommand {
    #[command(flatten)]
    args: TryArgs,
}

impl TryArgs {
    /// Parses the words of a line `whyslow try ...`, as actions print it; `None` if they are not such a line.
    pub fn of_words(words: &[String]) -> Option<Self> {
        let line = words.strip_prefix(&["whyslow".to_owned()])?;
        if line.first()? != "try" {
            return None;
        }
        TryCommand::try_parse_from(line).ok().map(|line| line.args)
    }
}

fn pairs(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| Design::PAIRS.contains(number));
    number.ok_or_else(|| format!("{} to {} pairs", Design::PAIRS.start(), Design::PAIRS.end()))
}

fn at_most_twenty(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| number <= Design::PAIRS.end());
    number.ok_or_else(|| format!("0 to {} pairs", Design::PAIRS.end()))
}

fn looks(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| (1..=10).contains(number)).ok_or_else(|| "1 to 10 looks".to_owned())
}

fn promise(text: &str) -> Result<Promise, String> {
    let (numbers, is_at_least) = match text.strip_suffix(':') {
        Some(numbers) => (numbers, true),
        None => (text, false),
    };
    let numbers: Option<Vec<f64>> = numbers.split(':').map(|number| number.parse().ok()).collect();
    let promise = match (numbers.as_deref(), is_at_least) {
        (Some(&[factor]), false) => Some(Promise { factor, low: factor, high: Some(factor) }),
        (Some(&[factor, low]), true) => Some(Promise { factor, low, high: None }),
        (Some(&[factor, low, high]), false) => Some(Promise { factor, low, high: Some(high) }),
        _ => None,
    };
    let is_above = |p: &Promise| p.high.is_none_or(|high| p.factor <= high && high.is_finite());
    let is_sound = |p: &Promise| 0.0 < p.low && p.low <= p.factor && p.factor.is_finite() && is_above(p);
    promise.filter(is_sound).ok_or_else(|| "a factor such as 2.1, or with its bounds 2.1:1.7:2.6".to_owned())
}

fn percent(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|percent| (0.0..100.0).contains(percent))
        .ok_or_else(|| "a percentage below 100".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_a_factor_with_bounds_around_it() {
        assert_eq!(promise("2.1:1.7:2.6"), Ok(Promise { factor: 2.1, low: 1.7, high: Some(2.6) }));
        assert_eq!(promise("2.1:1.7:"), Ok(Promise { factor: 2.1, low: 1.7, high: None }));
        assert_eq!(promise("3"), Ok(Promise { factor: 3.0, low: 3.0, high: Some(3.0) }));
        for wrong in ["", "x", "2:1", "2:", "2:3:", "inf:1:", "2:3:4", "-1", "2:1:inf", "2:NaN:3", "2:1:3:"] {
            assert!(promise(wrong).is_err(), "{wrong}");
        }
    }
}
