//! Experiments: what a change was worth.

use super::PlanDocument;
use serde::{Deserialize, Serialize};

/// One experiment: a change made and taken back again and again, and what was measured with it and without.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// When it ended, RFC 3339.
    pub at: String,
    /// The changes, as they were asked for.
    pub changes: Vec<String>,
    /// What was measured, and in which unit.
    pub metric: String,
    /// Whether less of it is better.
    pub lower_is_better: bool,
    /// How the two sides were compared.
    #[serde(default)]
    pub evidence: TrialEvidence,
    /// The numbers of pairs after which it was looked at, fixed beforehand; it ends at the first that tells.
    #[serde(default)]
    pub looks: Vec<usize>,
    /// Pairs in which nothing was changed: how much comes about by itself.
    pub noise: Vec<Pair>,
    /// The smallest effect, as a ratio, that the pairs planned probably show, by those without any change; `None` where there
    /// were too few to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detectable: Option<f64>,
    /// Pairs with and without the change, in the order they were measured.
    pub pairs: Vec<Pair>,
    /// The effect, where there were pairs to tell it by.
    pub effect: Option<Effect>,
    /// What must not get worse meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guards: Vec<Watched>,
    /// What the change works through: 'helped' of it says that it moved as it should.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mechanism: Option<Watched>,
    /// The answer in one word.
    pub verdict: TrialVerdict,
    /// How many pairs would probably tell, where these did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs_needed: Option<u64>,
    /// Whether it was ended before all its pairs were measured: then they tell what was seen so far, and prove nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// The change that was kept; `None` where all was put back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<u64>,
    /// What keeps the change from showing, where something may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
}

impl Trial {
    /// What was measured without the change and with it: the medians of the pairs.
    pub fn before_and_after(&self) -> Option<(f64, f64)> {
        let median = |value: fn(&Pair) -> f64| {
            let mut values: Vec<f64> = self.pairs.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
            Some(f64::midpoint(*low, *high))
        };
        Some((median(|pair| pair.without)?, median(|pair| pair.with)?))
    }

    /// The unit of what was measured, where it is a known one.
    pub fn unit(&self) -> &str {
        unit_of(&self.metric)
    }

    /// Whether something that had to move for the change to be the cause did not.
    pub fn is_mechanism_unconfirmed(&self) -> bool {
        self.mechanism.as_ref().is_some_and(|watched| watched.verdict != TrialVerdict::Helped)
    }

    /// Whether it is worth keeping: it helped, and by what it was meant to work through, where that was named.
    pub fn is_proven(&self) -> bool {
        self.verdict == TrialVerdict::Helped && !self.is_mechanism_unconfirmed()
    }
}

/// The unit that a metric's name ends with: `disk.wait@sda in s`; a command's time is `s, of: COMMAND`.
pub fn unit_of(metric: &str) -> &str {
    if metric.starts_with("s, of: ") {
        return "s";
    }
    if metric.starts_with("as the command says") {
        return "";
    }
    metric.rsplit_once(" in ").map_or("", |(_, unit)| unit)
}

/// An experiment that would be made: the document of `try --dry-run --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rehearsal {
    /// What would be changed, made and taken back again and again.
    #[serde(flatten)]
    pub plan: PlanDocument,
    /// What would be measured, and in which unit.
    pub metric: String,
    /// Pairs with and without the change.
    pub pairs: usize,
    /// Pairs without any, before.
    pub noise_pairs: usize,
    /// Seconds to wait after each switch.
    pub settle: f64,
    /// Seconds it would take in all; `None` where that is for the command to say.
    pub seconds: Option<f64>,
    /// How often the command would be run, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<usize>,
    /// Seconds in which nothing is measured, between runs and after switches.
    pub waiting: f64,
    /// What keeps the change from showing, where something may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
}

/// Something measured beside what the change is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Watched {
    /// What was measured, and in which unit.
    pub metric: String,
    /// Whether less of it is better.
    pub lower_is_better: bool,
    /// Pairs with and without the change of which both values are known.
    pub pairs: Vec<Pair>,
    /// The effect, where there were pairs to tell it by.
    pub effect: Option<Effect>,
    /// What became of it.
    pub verdict: TrialVerdict,
}

/// How much better it is with the change: 0.1 is 10 % better, -0.1 worse.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Hodges-Lehmann estimate of the ratios.
    pub better: f64,
    /// Its interval, with the confidence that the look and the other tests leave: 95 % where there is but one.
    pub low: f64,
    /// The interval's other end.
    pub high: f64,
    /// Exact p: of the sign-flip test for pairs, of the rank-sum test for a block before against a block after.
    pub p: f64,
    /// What p must not exceed.
    #[serde(default = "one_test")]
    pub alpha: f64,
    /// What the interval must be clear of: the smallest effect of interest, or what came about by itself.
    pub threshold: f64,
}

/// What p must not exceed where there is one test.
fn one_test() -> f64 {
    0.05
}

/// Two measurements one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Without the change.
    pub without: f64,
    /// With it.
    pub with: f64,
    /// Whether the one with it came first.
    pub with_first: bool,
}

/// How the two sides were compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrialEvidence {
    /// In interleaved pairs: what drifts hits both sides alike.
    #[default]
    Paired,
    /// A block before against a block after: whatever else has changed in between counts as an effect.
    BeforeAfter,
}

/// The answer of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrialVerdict {
    /// Better, by more than matters or comes about by itself, and nothing that was guarded got worse.
    Helped,
    /// Worse by as much, or something that was guarded is.
    Harmed,
    /// Neither: the whole interval lies within the smallest effect of interest.
    Equivalent,
    /// These pairs do not tell.
    Inconclusive,
}
