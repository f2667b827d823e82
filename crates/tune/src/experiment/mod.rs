//! Did it help? A change is made and rolled back in interleaved pairs, in random order, and judged by the pairs' ratios: drift
//! and bursts of load then hit both sides alike, where a block before against a block after takes them for an effect.

mod judge;
mod load;
mod log;
mod looks;
mod prepared;
#[cfg(test)]
mod recorded;
mod run;
mod test_bed;

pub use load::{Load, Meter};
pub use log::{remember, remembered};
pub use looks::AlphaBudget;
pub use prepared::Prepared;
pub use run::{Measurement, PAUSE, can_tell, run};
pub use test_bed::{LiveTestBed, TrialSetup};

use crate::Error;
use std::time::Duration;
use whyslow_compare::stats::paired::MOST_PAIRS;

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricSpec {
    /// Its name and unit, for the record.
    pub name: String,
    /// Whether less of it is better.
    pub lower_is_better: bool,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricSource {
    /// How long the command took.
    Time,
    /// The last number it wrote to standard output.
    Number,
    /// The meter: its next value.
    Live,
}

/// How an experiment is laid out; all of it is fixed before the first measurement.
#[derive(Clone, Debug)]
pub struct Design {
    /// What is changed, for the record.
    pub changes: Vec<String>,
    /// What the change is for.
    pub target: MetricSpec,
    /// What must not get worse.
    pub guards: Vec<MetricSpec>,
    /// What the change works through: it must get better, in the sense given.
    pub mechanism: Option<MetricSpec>,
    /// Pairs with and without the change, at most.
    pub pairs: usize,
    /// Pairs without any change, before.
    pub noise_pairs: usize,
    /// How often it is looked at, the last time after all pairs; it ends at the first look that tells.
    pub looks: usize,
    /// How long is waited after each switch before anything is measured.
    pub settle: Duration,
    /// The smallest effect of interest, as a ratio.
    pub delta: f64,
    /// How often an effect of nothing may be taken for one.
    pub alpha: f64,
    /// Where the order of pairs comes from.
    pub seed: u64,
}

impl Design {
    /// The fewest pairs of which all agreeing is no accident (2 / 2^6 = 0.031), and the most that are flipped one by one.
    pub const PAIRS: std::ops::RangeInclusive<usize> = 6..=MOST_PAIRS;

    /// The default rate of false positives.
    pub const ALPHA: f64 = 0.05;
}

/// What an experiment is made with.
pub trait TestBed {
    /// Makes the change, or rolls it back.
    fn switch(&mut self, with: bool) -> Result<(), Error>;

    /// Waits; an interrupt ends it.
    fn wait(&mut self, time: Duration) -> Result<(), Error>;

    /// Measures once: a number that is not negative for each metric of the design, what the change is for first.
    fn measure(&mut self, step: usize, steps: usize) -> Result<Measurement, Error>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};
    use whyslow_model::tune::{Trial, TrialVerdict};

    /// A bench whose measure drifts, with noise that remembers itself, and an effect of the change.
    struct Drifting {
        effect: f64,
        on_guard: f64,
        is_on: bool,
        level: f64,
        random: SmallRng,
    }

    impl Drifting {
        fn uniform(&mut self) -> f64 {
            self.random.random_range(-0.5..0.5)
        }
    }

    impl TestBed for Drifting {
        fn switch(&mut self, with: bool) -> Result<(), Error> {
            self.is_on = with;
            Ok(())
        }

        fn wait(&mut self, _: Duration) -> Result<(), Error> {
            Ok(())
        }

        fn measure(&mut self, _: usize, _: usize) -> Result<Measurement, Error> {
            self.level = 0.9 * self.level + 0.03 * self.uniform();
            let effect = |size: f64| if self.is_on { size } else { 0.0 };
            let (target, guard) = (effect(self.effect), effect(self.on_guard));
            let mut value = |effect: f64| Some(10.0 * (self.level + 0.02 * self.uniform() + effect).exp());
            Ok(vec![value(target), value(guard), value(target / 2.0)])
        }
    }

    fn metric(name: &str) -> MetricSpec {
        MetricSpec { name: name.into(), lower_is_better: true }
    }

    fn design(seed: u64) -> Design {
        Design {
            changes: Vec::new(),
            target: metric("s"),
            guards: Vec::new(),
            mechanism: None,
            pairs: 10,
            noise_pairs: 4,
            looks: 1,
            settle: Duration::ZERO,
            delta: 0.01,
            alpha: Design::ALPHA,
            seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
    }

    fn tried(design: &Design, effect: f64, on_guard: f64, seed: u64) -> Trial {
        let mut bench = Drifting { effect, on_guard, is_on: false, level: 0.0, random: SmallRng::seed_from_u64(seed) };
        let trial = run(design, &mut bench).unwrap();
        assert!(!bench.is_on, "the change is taken back");
        trial
    }

    fn trials(effect: f64) -> Vec<TrialVerdict> {
        (0..400).map(|seed| tried(&design(seed), effect, 0.0, seed).verdict).collect()
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
    fn a_real_effect_is_found_earlier_and_nothing_is_found_no_oftener_where_one_looks_thrice() {
        let looking = |seed| Design { pairs: 20, looks: 3, ..design(seed) };
        let analysis: Vec<Trial> = (0..200).map(|seed| tried(&looking(seed), -0.10, 0.0, seed)).collect();
        assert!(analysis.iter().all(|trial| trial.verdict == TrialVerdict::Helped));
        assert!(analysis.iter().filter(|trial| trial.pairs.len() < 20).count() > 150);
        let nothing: Vec<_> = (0..200).map(|seed| tried(&looking(seed), 0.0, 0.0, seed).verdict).collect();
        let false_alarms = share(&nothing, TrialVerdict::Helped) + share(&nothing, TrialVerdict::Harmed);
        assert!(false_alarms <= 0.05, "{false_alarms}");
    }

    #[test]
    fn what_helps_and_harms_a_guard_has_not_helped() {
        let guarded = |seed| Design { guards: vec![metric("guard")], mechanism: Some(metric("moves")), ..design(seed) };
        let harmed = tried(&guarded(1), -0.10, 0.20, 1);
        assert_eq!((harmed.verdict, harmed.guards[0].verdict), (TrialVerdict::Harmed, TrialVerdict::Harmed));
        let spared = tried(&guarded(2), -0.20, 0.0, 2);
        assert!(spared.is_proven(), "{spared:?}");
    }

    #[test]
    fn what_does_not_move_is_no_cause() {
        // The third figure follows the first; here it is to rise while that falls.
        let against = MetricSpec { name: "moves".into(), lower_is_better: false };
        let wrong = Design { guards: vec![metric("guard")], mechanism: Some(against), ..design(3) };
        let trial = tried(&wrong, -0.20, 0.0, 3);
        assert_eq!(trial.verdict, TrialVerdict::Helped);
        assert!(trial.is_mechanism_unconfirmed() && !trial.is_proven());
    }

    struct Always(Vec<Option<f64>>);

    impl TestBed for Always {
        fn switch(&mut self, _: bool) -> Result<(), Error> {
            Ok(())
        }
        fn wait(&mut self, _: Duration) -> Result<(), Error> {
            Ok(())
        }
        fn measure(&mut self, step: usize, _: usize) -> Result<Measurement, Error> {
            Ok(vec![self.0[step % self.0.len()]])
        }
    }

    #[test]
    fn what_would_tell_nothing_is_refused() {
        let refused = |design: &Design, values: &[Option<f64>]| {
            run(design, &mut Always(values.to_vec())).unwrap_err().to_string()
        };
        assert!(refused(&design(1), &[Some(0.0)]).contains("above zero"));
        assert!(refused(&design(1), &[Some(-1.0)]).contains("above zero"));
        assert!(refused(&design(1), &[None]).contains("had no value"));
        assert!(refused(&design(1), &[Some(1.0), Some(9.0)]).contains("varies so much"));
        let guards = vec![metric("a"), metric("b")];
        assert!(refused(&Design { pairs: 6, guards, ..design(1) }, &[Some(1.0)]).contains("at least 7 are needed"));
    }
}
