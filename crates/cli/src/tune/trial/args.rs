//! The command line of `whyslow try`.

use super::measure::Measure;
use crate::options::duration;
use clap::{Args, Parser};
use std::time::Duration;
use whyslow_tune::experiment::Design;

/// What to try, and what to measure it by.
#[derive(Clone, Debug, Args)]
pub struct TryArgs {
    /// NAME=VALUE or NAME@THING=VALUE, as for 'whyslow tune set'; several are made together
    #[arg(required_unless_present_any = ["auto", "after"], value_name = "CHANGE")]
    pub changes: Vec<String>,
    /// The command to measure; without one, --metric is measured on the machine as it is
    #[arg(last = true)]
    pub command: Vec<String>,
    /// What is measured: time, or number (the last that the command writes to standard output), or a signal of the machine such
    /// as disk.wait@sda; + before it where more is better [default: time]
    #[arg(long)]
    pub metric: Option<Measure>,
    /// What must not get worse, likewise: a change that harms it has not helped
    #[arg(long, value_name = "METRIC")]
    pub guard: Vec<Measure>,
    /// What the change works through, likewise: where it does not get better, 'mechanism unconfirmed'
    #[arg(long, value_name = "METRIC")]
    pub moves: Option<Measure>,
    /// More of the metric is better
    #[arg(long)]
    pub higher_is_better: bool,
    /// How long it may take in all, without a command [default: ten seconds at a time]
    #[arg(long = "for", value_name = "TIME", value_parser = duration, conflicts_with = "command")]
    pub time: Option<Duration>,
    /// Pairs with and without the change, 6 to 20
    #[arg(long, value_name = "N", default_value = "10", value_parser = pairs)]
    pub pairs: usize,
    /// Pairs without any change before, which show what comes about by itself
    #[arg(long, value_name = "N", default_value = "4", value_parser = at_most_twenty)]
    pub noise_pairs: usize,
    /// How often to look whether the pairs tell already; each look costs some certainty
    #[arg(long, value_name = "N", default_value = "1", value_parser = looks)]
    pub looks: usize,
    /// How long to wait after each switch [default: by the tunable; nothing for what shows at once]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub settle: Option<Duration>,
    /// The smallest effect of interest, in percent
    #[arg(long, value_name = "PERCENT", default_value = "1", value_parser = percent)]
    pub delta: f64,
    /// Keep the change where it helped; else, and in any other case, all is put back
    #[arg(long)]
    pub keep: bool,
    /// Do it though it is risky
    #[arg(long, short)]
    pub yes: bool,
    /// Only say what would be tried, and how long it would take
    #[arg(long, conflicts_with_all = ["yes", "keep", "auto", "after"])]
    pub dry_run: bool,
    /// Where the random order comes from, to repeat an experiment
    #[arg(long)]
    pub seed: Option<u64>,
    /// Diagnose, then try what the first finding proposes, one change at a time, and keep what helps
    #[arg(long, conflicts_with_all = ["changes", "before", "after", "keep", "time", "moves"])]
    pub auto: bool,
    /// Walk this finding, such as disk.readahead or disk.readahead@sda, rather than the first
    #[arg(long, value_name = "ID", requires = "auto")]
    pub finding: Option<String>,
    /// How long --auto may take
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    pub budget: Duration,
    /// For what shows only after a restart or reboot: measure, make the change, and leave it until --after
    #[arg(long, conflicts_with_all = ["after", "guard", "moves", "keep"])]
    pub before: bool,
    /// Measure again, compare with --before, and put the change back unless it helped and --keep is given
    #[arg(long, conflicts_with_all = ["changes", "command", "metric", "guard", "moves", "time"])]
    pub after: bool,
}

/// A line `whyslow try ...` by itself.
#[derive(Parser)]
#[command(name = "try")]
struct Line {
    #[command(flatten)]
    args: TryArgs,
}

impl TryArgs {
    /// Reads the words of a line `whyslow try ...`, as actions print it; `None` where they are not one.
    pub fn of_words(words: &[String]) -> Option<Self> {
        let line = words.strip_prefix(&["whyslow".to_owned()])?;
        if line.first()? != "try" {
            return None;
        }
        Line::try_parse_from(line).ok().map(|line| line.args)
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

fn percent(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|percent| (0.0..100.0).contains(percent))
        .ok_or_else(|| "a percentage below 100".to_owned())
}
