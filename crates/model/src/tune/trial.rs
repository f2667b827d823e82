//! Experiments: what a change was worth.

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
    /// Pairs in which nothing was changed: how much comes about by itself.
    pub noise: Vec<Pair>,
    /// Pairs with and without the change, in the order they were measured.
    pub pairs: Vec<Pair>,
    /// The effect, where there were pairs to tell it by.
    pub effect: Option<Effect>,
    /// The answer in one word.
    pub verdict: TrialVerdict,
    /// How many pairs would probably tell, where these did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs_needed: Option<u64>,
    /// The change that was kept; `None` where all was put back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<u64>,
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

/// How much better it is with the change: 0.1 is 10 % better, -0.1 worse.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Hodges-Lehmann estimate of the paired ratios.
    pub better: f64,
    /// Its interval at 95 %.
    pub low: f64,
    /// Its interval at 95 %.
    pub high: f64,
    /// Exact p of the sign-flip test.
    pub p: f64,
    /// What the interval must be clear of: the smallest effect of interest, or what came about by itself.
    pub threshold: f64,
}

/// The answer of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrialVerdict {
    /// Better, by more than matters or comes about by itself.
    Helped,
    /// Worse by as much.
    Harmed,
    /// Neither, by as much as matters.
    Equivalent,
    /// These pairs do not tell.
    Inconclusive,
}
