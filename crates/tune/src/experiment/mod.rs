//! Did it help? A change is made and taken back in interleaved pairs, in random order, and judged by the pairs' ratios: drift
//! and bursts of load then hit both sides alike, where a block before against a block after takes them for an effect.

mod log;
mod workbench;

pub use log::{remember, remembered};
pub use workbench::{Around, Measured, Workbench};

use crate::clock;
use crate::error::Error;
use std::time::Duration;
use whyslow_compare::stats::paired::{MOST_PAIRS, estimate, sign_flip_p};
use whyslow_model::tune::{Pair, Trial, TrialEffect, TrialVerdict};

/// The confidence of intervals, and what p must not exceed.
const CONFIDENCE: f64 = 0.95;

/// How an experiment is laid out; all of it is fixed before the first measurement.
#[derive(Clone, Debug)]
pub struct Design {
    /// What is changed, for the record.
    pub changes: Vec<String>,
    /// What is measured, for the record.
    pub metric: String,
    /// Whether less is better.
    pub lower_is_better: bool,
    /// Pairs with and without the change.
    pub pairs: usize,
    /// Pairs without any change, before.
    pub noise_pairs: usize,
    /// How long is waited after each switch before anything is measured.
    pub settle: Duration,
    /// The smallest effect of interest, as a ratio.
    pub delta: f64,
    /// Where the order of pairs comes from.
    pub seed: u64,
}

impl Design {
    /// The fewest pairs of which all agreeing is no accident (2 / 2^6 = 0.031), and the most that are flipped one by one.
    pub const PAIRS: std::ops::RangeInclusive<usize> = 6..=MOST_PAIRS;
}

/// What an experiment is made with.
pub trait Bench {
    /// Makes the change, or takes it back.
    ///
    /// # Errors
    /// It could not be.
    fn switch(&mut self, with: bool) -> Result<(), Error>;

    /// Waits; an interrupt ends it.
    ///
    /// # Errors
    /// Interrupted.
    fn wait(&mut self, time: Duration) -> Result<(), Error>;

    /// Measures once: a number above zero.
    ///
    /// # Errors
    /// It could not be measured, or was interrupted.
    fn measure(&mut self, step: usize, steps: usize) -> Result<f64, Error>;
}

/// Measures, and judges. The change is taken back at the end.
///
/// # Errors
/// What ended it early.
pub fn run(design: &Design, bench: &mut dyn Bench) -> Result<Trial, Error> {
    let mut runner = Runner { design, bench, coin: design.seed | 1, is_on: false, step: 0 };
    // The first run warms caches, and counts for nothing.
    runner.one(false)?;
    let noise = (0..design.noise_pairs).map(|_| runner.pair(false)).collect::<Result<Vec<_>, _>>()?;
    let pairs = (0..design.pairs).map(|_| runner.pair(true)).collect::<Result<Vec<_>, _>>()?;
    runner.turn(false)?;
    Ok(judged(design, noise, pairs))
}

struct Runner<'a> {
    design: &'a Design,
    bench: &'a mut dyn Bench,
    coin: u64,
    is_on: bool,
    step: usize,
}

impl Runner<'_> {
    /// Two measurements in random order; with `real` one of them has the change.
    fn pair(&mut self, real: bool) -> Result<Pair, Error> {
        let with_first = self.toss();
        let first = self.one(real && with_first)?;
        let second = self.one(real && !with_first)?;
        let (with, without) = if with_first { (first, second) } else { (second, first) };
        Ok(Pair { without, with, with_first })
    }

    fn one(&mut self, with: bool) -> Result<f64, Error> {
        self.turn(with)?;
        let steps = 2 * (self.design.pairs + self.design.noise_pairs) + 1;
        self.step += 1;
        let value = self.bench.measure(self.step, steps)?;
        if value.is_finite() && value > 0.0 {
            return Ok(value);
        }
        Err(Error::Usage(format!("measured {value}: a ratio needs numbers above zero")))
    }

    fn turn(&mut self, with: bool) -> Result<(), Error> {
        if self.is_on != with {
            self.bench.switch(with)?;
            self.is_on = with;
            self.bench.wait(self.design.settle)?;
        }
        Ok(())
    }

    /// Xorshift (Marsaglia 2003), of which a high bit is taken.
    fn toss(&mut self) -> bool {
        self.coin ^= self.coin << 13;
        self.coin ^= self.coin >> 7;
        self.coin ^= self.coin << 17;
        self.coin >> 40 & 1 == 1
    }
}

fn judged(design: &Design, noise: Vec<Pair>, pairs: Vec<Pair>) -> Trial {
    let better = |pairs: &[Pair]| pairs.iter().map(|pair| gain(pair, design.lower_is_better)).collect::<Vec<f64>>();
    let by_itself = estimate(&better(&noise), CONFIDENCE).map_or(0.0, |noise| noise.shift.abs());
    let threshold = (1.0 + design.delta).ln().max(by_itself);
    let gains = better(&pairs);
    let estimate = estimate(&gains, CONFIDENCE);
    let p = sign_flip_p(&gains);
    let verdict = match estimate {
        Some(e) if e.low > threshold && p <= 1.0 - CONFIDENCE => TrialVerdict::Helped,
        Some(e) if e.high < -threshold && p <= 1.0 - CONFIDENCE => TrialVerdict::Harmed,
        Some(e) if e.low > -threshold && e.high < threshold => TrialVerdict::Equivalent,
        _ => TrialVerdict::Inconclusive,
    };
    let pairs_needed = estimate.filter(|_| verdict == TrialVerdict::Inconclusive).map(|e| {
        // The interval narrows with the root of the pairs; it must fit between the estimate and the nearer threshold.
        let room = (e.shift.abs() - threshold).abs().max(1e-3);
        let half = (e.high - e.low) / 2.0;
        ((half / room).powi(2) * pairs.len() as f64).ceil().clamp(pairs.len() as f64 + 1.0, 1e6) as u64
    });
    let effect = estimate.map(|e| TrialEffect {
        better: e.shift.exp_m1(),
        low: e.low.exp_m1(),
        high: e.high.exp_m1(),
        p,
        threshold: threshold.exp_m1(),
    });
    Trial {
        at: clock::now(),
        changes: design.changes.clone(),
        metric: design.metric.clone(),
        lower_is_better: design.lower_is_better,
        noise,
        pairs,
        effect,
        verdict,
        pairs_needed,
        kept: None,
    }
}

/// The logarithm of how much better it was with the change.
fn gain(pair: &Pair, lower_is_better: bool) -> f64 {
    let ratio = (pair.with / pair.without).ln();
    if lower_is_better { -ratio } else { ratio }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bench whose measure drifts, with noise that remembers itself, and an effect of the change.
    struct Drifting {
        effect: f64,
        is_on: bool,
        level: f64,
        random: u64,
    }

    impl Drifting {
        fn uniform(&mut self) -> f64 {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.random >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
        }
    }

    impl Bench for Drifting {
        fn switch(&mut self, with: bool) -> Result<(), Error> {
            self.is_on = with;
            Ok(())
        }

        fn wait(&mut self, _: Duration) -> Result<(), Error> {
            Ok(())
        }

        fn measure(&mut self, _: usize, _: usize) -> Result<f64, Error> {
            self.level = 0.9 * self.level + 0.03 * self.uniform();
            let effect = if self.is_on { self.effect } else { 0.0 };
            Ok(10.0 * (self.level + 0.02 * self.uniform() + effect).exp())
        }
    }

    fn trials(effect: f64) -> Vec<TrialVerdict> {
        let trial = |seed: u64| {
            let design = Design {
                changes: Vec::new(),
                metric: "s".into(),
                lower_is_better: true,
                pairs: 10,
                noise_pairs: 4,
                settle: Duration::ZERO,
                delta: 0.01,
                seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            };
            let mut bench = Drifting { effect, is_on: false, level: 0.0, random: seed + 1 };
            let trial = run(&design, &mut bench).unwrap();
            assert!(!bench.is_on, "the change is taken back");
            trial.verdict
        };
        (0..400).map(trial).collect()
    }

    fn share(verdicts: &[TrialVerdict], of: TrialVerdict) -> f64 {
        verdicts.iter().filter(|verdict| **verdict == of).count() as f64 / verdicts.len() as f64
    }

    #[test]
    fn no_effect_is_not_taken_for_one() {
        let verdicts = trials(0.0);
        let false_alarms = share(&verdicts, TrialVerdict::Helped) + share(&verdicts, TrialVerdict::Harmed);
        assert!(false_alarms <= 0.05, "{false_alarms}");
    }

    #[test]
    fn a_real_effect_is_found_and_its_sign_told() {
        assert!(share(&trials(-0.10), TrialVerdict::Helped) > 0.95);
        assert!(share(&trials(0.10), TrialVerdict::Harmed) > 0.95);
    }

    #[test]
    fn what_cannot_be_a_ratio_is_refused() {
        struct Zero;
        impl Bench for Zero {
            fn switch(&mut self, _: bool) -> Result<(), Error> {
                Ok(())
            }
            fn wait(&mut self, _: Duration) -> Result<(), Error> {
                Ok(())
            }
            fn measure(&mut self, _: usize, _: usize) -> Result<f64, Error> {
                Ok(0.0)
            }
        }
        let design = Design {
            changes: Vec::new(),
            metric: String::new(),
            lower_is_better: true,
            pairs: 6,
            noise_pairs: 0,
            settle: Duration::ZERO,
            delta: 0.01,
            seed: 1,
        };
        assert!(run(&design, &mut Zero).unwrap_err().to_string().contains("above zero"));
    }
}
