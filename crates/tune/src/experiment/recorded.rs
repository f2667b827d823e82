//! What the statistics make of nothing, on noise that was recorded: microseconds that the same command took again and again on a
//! machine of two processors, which five builds were running on at the same time (`noise.processor.txt`: dd of 100 MiB from
//! /dev/zero; `noise.disk.txt`: four writes of 64 KiB, each followed by fdatasync).

use super::*;
use whyslow_model::tune::TrialVerdict;

const RECORDED: [&str; 2] = [include_str!("noise.processor.txt"), include_str!("noise.disk.txt")];

/// Plays a stretch of the recording; the change makes it take so many times as long.
struct Recording<'a> {
    left: &'a [f64],
    factor: f64,
    is_on: bool,
}

impl TestBed for Recording<'_> {
    fn switch(&mut self, with: bool) -> Result<(), Error> {
        self.is_on = with;
        Ok(())
    }

    fn wait(&mut self, _: Duration) -> Result<(), Error> {
        Ok(())
    }

    fn measure(&mut self, _: usize, _: usize) -> Result<Measurement, Error> {
        let (time, left) = self.left.split_first().ok_or_else(|| Error::Usage("the recording is over".into()))?;
        self.left = left;
        Ok(vec![Some(if self.is_on { self.factor * time } else { *time })])
    }
}

/// The verdicts of trials over stretches of each recording, in random orders.
fn verdicts(factor: f64, looks: usize) -> Vec<TrialVerdict> {
    let mut verdicts = Vec::new();
    for recorded in RECORDED {
        let times: Vec<f64> = recorded.lines().map(|line| line.parse().unwrap()).collect();
        for (seed, start) in (0..times.len() - 50).step_by(7).enumerate() {
            let design = Design {
                changes: Vec::new(),
                target: MetricSpec { name: "s".into(), lower_is_better: true },
                guards: Vec::new(),
                mechanism: None,
                pairs: if looks > 1 { 20 } else { 10 },
                noise_pairs: 4,
                looks,
                settle: Duration::ZERO,
                delta: 0.01,
                alpha: Design::ALPHA,
                seed: (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            };
            let mut bench = Recording { left: &times[start..start + 50], factor, is_on: false };
            // What differs too much by itself is refused, and so called nothing either.
            verdicts.extend(run(&design, &mut bench).map(|trial| trial.verdict));
        }
    }
    verdicts
}

fn share(verdicts: &[TrialVerdict], of: &[TrialVerdict]) -> f64 {
    verdicts.iter().filter(|verdict| of.contains(verdict)).count() as f64 / verdicts.len() as f64
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
