//! Judges measurements: an effect, and one of four verdicts.

use whyslow_compare::stats::paired::{estimate, sign_flip_p};
use whyslow_compare::stats::{Corrected, Estimate, holm, median, ranks};
use whyslow_documents::tune::{TrialEffect, TrialPair, TrialVerdict};

/// Upper limit for the ratio of two values: zero against a positive value would have an infinite logarithm.
const LARGEST_RATIO: f64 = 1000.0;

/// Smallest effect that is detected at 95 % in four of five trials, in standard errors: 1.96 + 0.84.
const POWER: f64 = 2.8;

/// Logarithms of the improvement in each pair, and the threshold that they must exceed.
pub(super) struct LogRatios {
    pub(super) of_pairs: Vec<f64>,
    pub(super) threshold: f64,
    /// The smallest effect of interest. Noise makes an effect harder to see, not smaller.
    delta: f64,
}

impl LogRatios {
    /// Compares pairs with and without the change. The threshold is the larger of the noise in pairs without any change and the
    /// smallest effect of interest.
    pub(super) fn from_pairs(pairs: &[TrialPair], noise: &[TrialPair], lower_is_better: bool, delta: f64) -> Self {
        let by_itself = log_ratios(noise, lower_is_better);
        let by_itself = estimate(&by_itself, 0.95).map_or(0.0, |noise| noise.shift.abs());
        let delta = delta.ln_1p();
        Self { of_pairs: log_ratios(pairs, lower_is_better), threshold: delta.max(by_itself), delta }
    }

    pub(super) fn p(&self) -> f64 {
        sign_flip_p(&self.of_pairs)
    }

    /// Returns the verdict at this alpha, and the effect that it rests on.
    pub(super) fn judged(&self, alpha: f64) -> Judgement {
        Judgement::new(estimate(&self.of_pairs, 1.0 - alpha), self.p(), alpha, self.threshold, self.delta)
    }

    /// Estimates how many pairs a decision would probably need: the interval narrows with the square root of their number, and
    /// must fit between the estimate and the nearer threshold.
    pub(super) fn needed(&self, alpha: f64) -> Option<u64> {
        let estimate = estimate(&self.of_pairs, 1.0 - alpha)?;
        let pairs = self.of_pairs.len() as f64;
        let room = (estimate.shift.abs() - self.threshold).abs().max(1e-3);
        let half = (estimate.high - estimate.low) / 2.0;
        Some(((half / room).powi(2) * pairs).ceil().clamp(pairs + 1.0, 1e6) as u64)
    }
}

/// A verdict and the effect that it rests on; no effect if nothing was measured.
pub(super) struct Judgement {
    pub(super) effect: Option<TrialEffect>,
    pub(super) verdict: TrialVerdict,
}

impl Judgement {
    fn new(estimate: Option<Estimate>, p: f64, alpha: f64, threshold: f64, delta: f64) -> Self {
        let verdict = match estimate {
            Some(e) if e.low > threshold && p <= alpha => TrialVerdict::Helped,
            Some(e) if e.high < -threshold && p <= alpha => TrialVerdict::Harmed,
            Some(e) if e.low > -delta && e.high < delta => TrialVerdict::Equivalent,
            _ => TrialVerdict::Inconclusive,
        };
        let effect = estimate.map(|e| TrialEffect {
            better: e.shift.exp_m1(),
            low: e.low.exp_m1(),
            high: e.high.exp_m1(),
            p,
            alpha,
            threshold: threshold.exp_m1(),
        });
        Self { effect, verdict }
    }
}

/// Judges several metrics that the change may harm: a verdict for each, with p corrected for their number.
pub(super) fn judge_guards(all: &[LogRatios], alpha: f64) -> Vec<Judgement> {
    let p: Vec<f64> = all.iter().map(LogRatios::p).collect();
    let judged = |(log_ratios, corrected): (&LogRatios, Corrected)| {
        let judged = log_ratios.judged(alpha / corrected.tests as f64);
        let tells = matches!(judged.verdict, TrialVerdict::Helped | TrialVerdict::Harmed);
        let verdict = if tells && corrected.p > alpha { TrialVerdict::Inconclusive } else { judged.verdict };
        Judgement { verdict, ..judged }
    };
    all.iter().zip(holm(&p)).map(judged).collect()
}

/// Judges a block of measurements before the change against a block after it.
pub(super) fn judge_blocks(before: &[f64], after: &[f64], lower_is_better: bool, alpha: f64, delta: f64) -> Judgement {
    let sign = if lower_is_better { -1.0 } else { 1.0 };
    let least = before.iter().chain(after).copied().filter(|value| *value > 0.0).fold(f64::MAX, f64::min);
    let log = |value: &f64| sign * value.max(least / LARGEST_RATIO).ln();
    let (before, after): (Vec<f64>, Vec<f64>) = (before.iter().map(log).collect(), after.iter().map(log).collect());
    Judgement::new(
        ranks::estimate(&before, &after, 1.0 - alpha),
        ranks::p(&before, &after),
        alpha,
        delta.ln_1p(),
        delta.ln_1p(),
    )
}

/// Returns the smallest effect, as a ratio, that this many pairs probably detect, given the spread of pairs without any change;
/// `None` if there are too few of these.
pub(super) fn detectable(noise: &[TrialPair], lower_is_better: bool, pairs: usize) -> Option<f64> {
    if noise.len() < 3 {
        return None;
    }
    let mut sizes: Vec<f64> = log_ratios(noise, lower_is_better).into_iter().map(f64::abs).collect();
    sizes.sort_by(f64::total_cmp);
    // The median deviation of a normal distribution is its standard deviation divided by 1.4826; one burst does not affect it.
    let deviation = 1.4826 * median(&sizes);
    Some((POWER * deviation / (pairs as f64).sqrt()).exp_m1())
}

fn log_ratios(pairs: &[TrialPair], lower_is_better: bool) -> Vec<f64> {
    let gain = |pair: &TrialPair| {
        let ratio = log_ratio(pair.with, pair.without);
        if lower_is_better { -ratio } else { ratio }
    };
    pairs.iter().map(gain).collect()
}

/// Returns the logarithm of the ratio of two non-negative numbers; two zeros are equal.
fn log_ratio(a: f64, b: f64) -> f64 {
    if a == b {
        return 0.0;
    }
    let most = LARGEST_RATIO.ln();
    (a / b).ln().clamp(-most, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(values: &[(f64, f64)]) -> Vec<TrialPair> {
        values.iter().map(|(without, with)| TrialPair { without: *without, with: *with, with_first: false }).collect()
    }

    #[test]
    fn nothing_has_a_ratio_too() {
        let log_ratios = log_ratios(&pairs(&[(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 2.0)]), true);
        assert_eq!(log_ratios[0], 0.0);
        assert!((log_ratios[1] - 1000.0_f64.ln()).abs() < 1e-12 && (log_ratios[2] + log_ratios[1]).abs() < 1e-12);
        assert!((log_ratios[3] + 2.0_f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn one_of_several_metrics_must_stand_out_further() {
        // All of six pairs agree: p is 0.031.
        let worse = || LogRatios::from_pairs(&pairs(&[(1.0, 1.5); 6]), &[], true, 0.01);
        let same = || LogRatios::from_pairs(&pairs(&[(1.0, 1.0); 6]), &[], true, 0.01);
        assert_eq!(judge_guards(&[worse()], 0.05)[0].verdict, TrialVerdict::Harmed);
        let two = judge_guards(&[worse(), same()], 0.05);
        assert_eq!((two[0].verdict, two[1].verdict), (TrialVerdict::Inconclusive, TrialVerdict::Equivalent));
    }

    #[test]
    fn noise_does_not_make_an_effect_nothing() {
        let noise = pairs(&[(1.0, 1.5), (1.0, 1.5)]);
        let log_ratios = LogRatios::from_pairs(&pairs(&[(1.0, 1.2); 8]), &noise, true, 0.01);
        assert_eq!(log_ratios.judged(0.05).verdict, TrialVerdict::Inconclusive);
    }

    #[test]
    fn a_block_is_told_from_another() {
        let before: Vec<f64> = (0..8).map(|i| 10.0 + f64::from(i) / 10.0).collect();
        let after: Vec<f64> = before.iter().map(|value| value / 2.0).collect();
        assert_eq!(judge_blocks(&before, &after, true, 0.05, 0.01).verdict, TrialVerdict::Helped);
        assert_eq!(judge_blocks(&before, &after, false, 0.05, 0.01).verdict, TrialVerdict::Harmed);
        assert_eq!(judge_blocks(&before, &before, true, 0.05, 0.1).verdict, TrialVerdict::Equivalent);
        assert_eq!(judge_blocks(&[4096.0; 6], &[8192.0; 6], false, 0.05, 0.01).verdict, TrialVerdict::Helped);
        assert_eq!(judge_blocks(&[0.0; 6], &[0.5; 6], true, 0.05, 0.01).verdict, TrialVerdict::Harmed);
    }

    #[test]
    fn what_would_show_grows_with_the_spread() {
        let noise = |spread: f64| pairs(&[(1.0, 1.0 + spread), (1.0 + spread, 1.0), (1.0, 1.0 + spread)]);
        let (small, large) = (detectable(&noise(0.01), true, 10).unwrap(), detectable(&noise(1.0), true, 10).unwrap());
        assert!(small < 0.02 && large > 0.5, "{small} {large}");
        assert_eq!(detectable(&pairs(&[(1.0, 1.0)]), true, 10), None);
    }
}
