//! Statistical tests with simulated and recorded noise.

use super::*;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use whyslow_documents::tune::{Trial, TrialVerdict};

/// A test bed whose metric drifts, with autocorrelated noise and an effect of the change.
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

    fn measure(&mut self, _: usize, _: usize) -> Result<MetricValues, Error> {
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

fn share(verdicts: &[TrialVerdict], of: &[TrialVerdict]) -> f64 {
    verdicts.iter().filter(|verdict| of.contains(verdict)).count() as f64 / verdicts.len() as f64
}

#[test]
fn no_effect_is_not_taken_for_one() {
    let verdicts = trials(0.0);
    let false_alarms = share(&verdicts, &[TrialVerdict::Helped, TrialVerdict::Harmed]);
    assert!(false_alarms <= 0.05, "{false_alarms}");
}

#[test]
fn a_real_effect_is_found_and_its_sign_told() {
    assert!(share(&trials(-0.10), &[TrialVerdict::Helped]) > 0.95);
    assert!(share(&trials(0.10), &[TrialVerdict::Harmed]) > 0.95);
}

#[test]
fn a_real_effect_is_found_earlier_and_nothing_is_found_no_oftener_where_one_looks_thrice() {
    let looking = |seed| Design { pairs: 20, looks: 3, ..design(seed) };
    let analysis: Vec<Trial> = (0..200).map(|seed| tried(&looking(seed), -0.10, 0.0, seed)).collect();
    assert!(analysis.iter().all(|trial| trial.verdict == TrialVerdict::Helped));
    assert!(analysis.iter().filter(|trial| trial.pairs.len() < 20).count() > 150);
    let nothing: Vec<_> = (0..200).map(|seed| tried(&looking(seed), 0.0, 0.0, seed).verdict).collect();
    let false_alarms = share(&nothing, &[TrialVerdict::Helped, TrialVerdict::Harmed]);
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
    // The third metric follows the first; the design requires it to rise while the first falls.
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
    fn measure(&mut self, step: usize, _: usize) -> Result<MetricValues, Error> {
        Ok(vec![self.0[step % self.0.len()]])
    }
}

#[test]
fn what_would_tell_nothing_is_refused() {
    let refused =
        |design: &Design, values: &[Option<f64>]| run(design, &mut Always(values.to_vec())).unwrap_err().to_string();
    assert!(refused(&design(1), &[Some(0.0)]).contains("above zero"));
    assert!(refused(&design(1), &[Some(-1.0)]).contains("above zero"));
    assert!(refused(&design(1), &[None]).contains("had no value"));
    assert!(refused(&design(1), &[Some(1.0), Some(9.0)]).contains("varies so much"));
    let guards = vec![metric("a"), metric("b")];
    assert!(refused(&Design { pairs: 6, guards, ..design(1) }, &[Some(1.0)]).contains("at least 7 are needed"));
}

/// Recorded noise: run times in microseconds of the same command, repeated on a machine of two CPUs while five builds ran on it
/// (`noise.processor.txt`: dd of 100 MiB from /dev/zero; `noise.disk.txt`: four writes of 64 KiB, each followed by fdatasync).
const RECORDED: [&str; 2] = [include_str!("noise.processor.txt"), include_str!("noise.disk.txt")];

/// Replays a section of the recording; the change multiplies the times by `factor`.
struct RecordedNoise<'a> {
    left: &'a [f64],
    factor: f64,
    is_on: bool,
}

impl TestBed for RecordedNoise<'_> {
    fn switch(&mut self, with: bool) -> Result<(), Error> {
        self.is_on = with;
        Ok(())
    }

    fn wait(&mut self, _: Duration) -> Result<(), Error> {
        Ok(())
    }

    fn measure(&mut self, _: usize, _: usize) -> Result<MetricValues, Error> {
        let (time, left) = self.left.split_first().ok_or_else(|| Error::Usage("the recording is over".into()))?;
        self.left = left;
        Ok(vec![Some(if self.is_on { self.factor * time } else { *time })])
    }
}

/// Returns the verdicts of trials over sections of each recording, in random orders.
fn verdicts(factor: f64, looks: usize) -> Vec<TrialVerdict> {
    let mut verdicts = Vec::new();
    for recorded in RECORDED {
        let times: Vec<f64> = recorded.lines().map(|line| line.parse().unwrap()).collect();
        for (seed, start) in (0..times.len() - 50).step_by(7).enumerate() {
            let seed = seed as u64 + 1;
            let design = Design { pairs: if looks > 1 { 20 } else { 10 }, looks, ..design(seed) };
            let mut bench = RecordedNoise { left: &times[start..start + 50], factor, is_on: false };
            // A section that varies too much is refused, and yields no verdict.
            verdicts.extend(run(&design, &mut bench).map(|trial| trial.verdict));
        }
    }
    verdicts
}

#[test]
fn of_a_hundred_changes_of_no_effect_at_least_95_are_called_so() {
    for looks in [1, 3] {
        let verdicts = verdicts(1.0, looks);
        assert!(verdicts.len() > 300, "{}", verdicts.len());
        let helped = share(&verdicts, &[TrialVerdict::Helped]);
        let called_so = share(&verdicts, &[TrialVerdict::Equivalent, TrialVerdict::Inconclusive]);
        println!("{} trials, {looks} looks: helped {helped:.4}, no effect {called_so:.4}", verdicts.len());
        assert!(helped <= 0.05 && called_so >= 0.95, "{looks} looks: helped {helped}, no effect {called_so}");
    }
}

#[test]
fn a_quarter_of_the_time_is_found_in_the_same_noise() {
    let verdicts = verdicts(0.25, 1);
    assert!(share(&verdicts, &[TrialVerdict::Helped]) > 0.8, "{}", share(&verdicts, &[TrialVerdict::Helped]));
    assert_eq!(share(&verdicts, &[TrialVerdict::Harmed]), 0.0);
}
