//! Experiments that measure the effect of a change.

use super::PlanDocument;
use crate::diagnosis::Subject;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An experiment: a change is made and rolled back repeatedly, and a metric is measured with it and without.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// When it ended, RFC 3339.
    pub at: String,
    /// The changes, as given.
    pub changes: Vec<String>,
    /// The metric, with its unit.
    pub metric: String,
    /// Whether lower is better.
    pub lower_is_better: bool,
    /// How the two sides were compared.
    #[serde(default)]
    pub evidence: TrialEvidence,
    /// The numbers of pairs after which it is evaluated, fixed beforehand; it ends at the first conclusive one.
    #[serde(default)]
    pub looks: Vec<usize>,
    /// Pairs without any change: the noise.
    pub noise: Vec<TrialPair>,
    /// The smallest effect, as a ratio, that the planned pairs will probably show, given the noise; `None` with too few pairs
    /// to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detectable: Option<f64>,
    /// Pairs with and without the change, in the order of measurement.
    pub pairs: Vec<TrialPair>,
    /// The effect; `None` without pairs.
    pub effect: Option<TrialEffect>,
    /// Metrics that must not get worse (guards).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guards: Vec<Watched>,
    /// Metrics the change works through: 'helped' means that it moved as expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mechanism: Option<Watched>,
    /// The answer in one word.
    pub verdict: TrialVerdict,
    /// How many pairs would probably be conclusive, if these were not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs_needed: Option<u64>,
    /// Whether it was ended before all pairs were measured, so that it proves nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// The transaction that was kept; `None` if everything was rolled back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<u64>,
    /// What may hide the effect of the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
    /// The gain that the finding promised, to be compared with the effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised: Option<Promise>,
}

/// How many times as good the metric was expected to become.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Promise {
    /// The factor that was expected.
    pub factor: f64,
    /// The least that was expected.
    pub low: f64,
    /// The most that was expected; `None` if the factor is only the least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

impl Promise {
    /// Tolerance between the measured factor and the promised one for the promise to be kept.
    pub const TOLERANCE: f64 = 0.3;

    /// Returns whether the effect is as promised: within the bounds, or within 30 % of the factor.
    pub fn is_kept_by(&self, factor: f64) -> bool {
        let is_below = self.high.is_none_or(|high| factor <= high);
        (factor >= self.low && is_below) || self.is_near(factor)
    }

    /// Returns whether the effect is within 30 % of the factor; if the factor is only a lower bound, the effect may
    /// exceed it by any amount.
    pub fn is_near(&self, factor: f64) -> bool {
        let ratio = factor / self.factor;
        ratio >= 1.0 - Self::TOLERANCE && (self.high.is_none() || ratio <= 1.0 + Self::TOLERANCE)
    }
}

impl Trial {
    /// Returns the factor by which the metric improved; `None` if nothing was measured.
    pub fn factor(&self) -> Option<f64> {
        self.effect.as_ref().map(|effect| 1.0 + effect.better)
    }

    /// Returns the medians of the pairs, without the change and with it.
    pub fn before_and_after(&self) -> Option<(f64, f64)> {
        let median = |value: fn(&TrialPair) -> f64| {
            let mut values: Vec<f64> = self.pairs.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
            Some(f64::midpoint(*low, *high))
        };
        Some((median(|pair| pair.without)?, median(|pair| pair.with)?))
    }

    /// Returns the unit of the metric, if known.
    pub fn unit(&self) -> &str {
        unit_of(&self.metric)
    }

    /// Returns whether a metric that should have moved did not, so that the change is not the cause.
    pub fn is_mechanism_unconfirmed(&self) -> bool {
        self.mechanism.as_ref().is_some_and(|watched| watched.verdict != TrialVerdict::Helped)
    }

    /// Returns whether the change is worth keeping: it helped, and through the expected metrics if any were given.
    pub fn is_proven(&self) -> bool {
        self.verdict == TrialVerdict::Helped && !self.is_mechanism_unconfirmed()
    }
}

/// Returns the unit at the end of a metric's name: `disk.wait@sda in s`; that of a command's time is `s, of: COMMAND`.
pub fn unit_of(metric: &str) -> &str {
    if metric.starts_with("s, of: ") {
        return "s";
    }
    if metric.starts_with("as the command says") {
        return "";
    }
    metric.rsplit_once(" in ").map_or("", |(_, unit)| unit)
}

/// A planned experiment: the document of `try --dry-run --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rehearsal {
    /// The changes to be made and rolled back repeatedly.
    #[serde(flatten)]
    pub plan: PlanDocument,
    /// The metric, with its unit.
    pub metric: String,
    /// Number of pairs with and without the change.
    pub pairs: usize,
    /// Number of pairs without any change, before.
    pub noise_pairs: usize,
    /// Seconds to wait after each switch.
    pub settle: f64,
    /// Total time in seconds; `None` if it depends on the command.
    pub seconds: Option<f64>,
    /// How often the command would run, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<usize>,
    /// Seconds without measurement, between runs and after switches.
    pub waiting: f64,
    /// What may hide the effect of the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
}

/// A metric measured in addition to the main one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Watched {
    /// The metric, with its unit.
    pub metric: String,
    /// Whether lower is better.
    pub lower_is_better: bool,
    /// Pairs with and without the change in which both values are known.
    pub pairs: Vec<TrialPair>,
    /// The effect; `None` without pairs.
    pub effect: Option<TrialEffect>,
    /// The outcome.
    pub verdict: TrialVerdict,
}

/// The improvement with the change: 0.1 is 10 % better, -0.1 worse.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialEffect {
    /// Hodges-Lehmann estimate of the ratios.
    pub better: f64,
    /// Lower end of its interval; the confidence level accounts for repeated looks and multiple metrics, and is 95 % for a
    /// single test.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Exact p-value: of the sign-flip test for pairs, of the rank-sum test for blocks.
    pub p: f64,
    /// The significance level.
    #[serde(default = "one_test")]
    pub alpha: f64,
    /// The smallest effect that matters: that of interest, or the noise.
    pub threshold: f64,
}

/// Returns the significance level of a single test.
fn one_test() -> f64 {
    0.05
}

/// Two consecutive measurements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialPair {
    /// Without the change.
    pub without: f64,
    /// With it.
    pub with: f64,
    /// Whether the one with the change came first.
    pub with_first: bool,
}

/// How both sides were compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrialEvidence {
    /// In interleaved pairs: drift affects both sides alike.
    #[default]
    Paired,
    /// A block before against a block after: anything else that changed in between counts as an effect.
    BeforeAfter,
}

/// The verdict of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrialVerdict {
    /// Better by more than the smallest effect and the noise, and no guard got worse.
    Helped,
    /// Worse by as much, or a guard got worse.
    Harmed,
    /// No relevant effect: the whole interval lies within the smallest effect that matters.
    Equivalent,
    /// Inconclusive.
    Inconclusive,
}

/// The document of `try --auto --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Walk {
    /// The finding whose actions were tried.
    pub id: String,
    /// Its subject.
    pub subject: Subject,
    /// The finding in one sentence.
    pub summary: String,
    /// The actions, in order, tried or not.
    pub steps: Vec<WalkStep>,
    /// All changes that helped together, against none of them, on fresh pairs; `None` if nothing helped.
    pub together: Option<Trial>,
    /// Whether it was ended early; everything was rolled back then.
    pub interrupted: bool,
    /// The transaction that was kept; `None` if everything was rolled back.
    pub kept: Option<u64>,
}

/// One action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WalkStep {
    /// The action in words.
    pub text: String,
    /// The settings.
    pub changes: Vec<String>,
    /// The trial, on top of the changes that helped before.
    pub trial: Option<Trial>,
    /// Why it was not tried.
    pub skipped: Option<String>,
}

impl Walk {
    /// Returns the medians without the changes and with all that helped.
    pub fn before_and_after(&self) -> Option<(f64, f64)> {
        self.together.as_ref()?.before_and_after()
    }
}

/// The first half of a trial whose change needs a restart or a reboot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PreparedChange {
    /// The change that was made after measuring without it.
    pub change: u64,
}
