//! Runs an experiment: warms up, measures noise in pairs without the change, then pairs with it, and stops at the planned looks.

use super::looks::{Look, looks};
use super::{Design, MetricSpec, TestBed, judge};
use crate::Error;
use crate::machine;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::time::Duration;
use whyslow_documents::tune::{Trial, TrialEvidence, TrialPair, TrialVerdict, Watched};

/// If the noise would hide even an effect of this size (twice as good), the experiment is refused.
const HOPELESS: f64 = 1.0;

/// Pause before each measurement, whether or not the change was switched. Making a change costs other work than rolling it back,
/// and a process that has just run waits longer for a busy CPU: without the pause, a change without effect made a command of 10
/// ms a third slower.
pub const PAUSE: Duration = Duration::from_millis(100);

/// Measures and judges. The change is rolled back at the end, whatever the verdict. If interrupted, the trial reports the pairs
/// measured so far, which prove nothing.
///
/// # Errors
/// Fails if it ended before the first pair, or if it could not show anything.
pub fn run(design: &Design, bench: &mut dyn TestBed) -> Result<Trial, Error> {
    let looks = design.looks()?;
    let mut runner = Runner { design, bench, random: SmallRng::seed_from_u64(design.seed), is_on: false, step: 0 };
    let trial = tried(design, &looks, &mut runner);
    if runner.is_on {
        runner.bench.switch(false)?;
    }
    trial
}

fn tried(design: &Design, looks: &[Look], runner: &mut Runner) -> Result<Trial, Error> {
    // The first run warms caches and is discarded.
    let warm = runner.measure(false)?;
    let noise = (0..design.noise_pairs).map(|_| runner.pair(false)).collect::<Result<Vec<_>, _>>()?;
    let analysis = Analysis { design, noise };
    analysis.is_of_use(&warm)?;
    let mut pairs = Vec::new();
    let mut trial = None;
    for look in looks {
        while pairs.len() < look.pairs {
            match runner.pair(true) {
                Err(Error::Interrupted) if !pairs.is_empty() => return Ok(analysis.cut_short(looks, look, &pairs)),
                pair => pairs.push(pair?),
            }
        }
        let judged = analysis.judged(looks, look, &pairs);
        let is_decided = match judged.verdict {
            TrialVerdict::Inconclusive => false,
            // The mechanism may still be confirmed.
            TrialVerdict::Helped => judged.is_proven(),
            _ => true,
        };
        trial = Some(judged);
        if is_decided {
            break;
        }
    }
    trial.ok_or_else(|| Error::Usage("an experiment needs at least one look".into()))
}

/// Checks that the pairs of a design can be significant at its alpha.
///
/// # Errors
/// Returns the number of pairs needed.
pub fn can_tell(design: &Design) -> Result<(), Error> {
    design.looks().map(|_| ())
}

/// One measurement: a value for each metric of the design, in its order; `None` if the metric had none.
pub type MetricValues = Vec<Option<f64>>;

struct MeasuredPair {
    without: MetricValues,
    with: MetricValues,
    with_first: bool,
}

struct Runner<'a> {
    design: &'a Design,
    bench: &'a mut dyn TestBed,
    random: SmallRng,
    is_on: bool,
    step: usize,
}

impl Runner<'_> {
    /// Measures twice, in random order; if `real`, one of the two has the change.
    fn pair(&mut self, real: bool) -> Result<MeasuredPair, Error> {
        let with_first = self.random.random();
        let first = self.one(real && with_first)?;
        let second = self.one(real && !with_first)?;
        let (with, without) = if with_first { (first, second) } else { (second, first) };
        Ok(MeasuredPair { without, with, with_first })
    }

    fn measure(&mut self, with: bool) -> Result<MetricValues, Error> {
        self.turn(with)?;
        self.bench.wait(PAUSE)?;
        self.step += 1;
        self.bench.measure(self.step, self.design.steps())
    }

    /// Measures once and requires a value for the target.
    fn one(&mut self, with: bool) -> Result<MetricValues, Error> {
        let measurement = self.measure(with)?;
        let target = measurement.first().copied().flatten();
        match target {
            Some(value) if value.is_finite() && value >= 0.0 => Ok(measurement),
            Some(value) => Err(Error::Usage(format!(
                "{}: measured {value}, but only values above zero can be compared",
                self.design.target.name
            ))),
            None => Err(Error::Usage(format!(
                "{} had no value: does it exist, is it under load, and is its name unique?",
                self.design.target.name
            ))),
        }
    }

    fn turn(&mut self, with: bool) -> Result<(), Error> {
        if self.is_on != with {
            self.bench.switch(with)?;
            self.is_on = with;
            self.bench.wait(self.design.settle)?;
        }
        Ok(())
    }
}

/// State after the pairs without any change were measured.
struct Analysis<'a> {
    design: &'a Design,
    noise: Vec<MeasuredPair>,
}

impl Analysis<'_> {
    /// Checks that pairs with the change can show an effect.
    fn is_of_use(&self, warm: &MetricValues) -> Result<(), Error> {
        let name = &self.design.target.name;
        let mut all = self.noise.iter().flat_map(|pair| [&pair.without, &pair.with]).chain([warm]);
        if all.all(|measurement| measurement.first() == Some(&Some(0.0))) {
            return Err(Error::Usage(format!("{name} was 0 each time: only values above zero can be compared")));
        }
        match self.detectable() {
            Some(effect) if effect > HOPELESS => Err(Error::Usage(format!(
                "{name} varies so much that {} pairs can detect only an effect of {:.0} %: measure for longer or choose a \
                 steadier metric; --noise-pairs 0 skips this check",
                self.design.pairs,
                effect * 100.0
            ))),
            _ => Ok(()),
        }
    }

    fn detectable(&self) -> Option<f64> {
        judge::detectable(&known(&self.noise, 0), self.design.target.lower_is_better, self.design.pairs)
    }

    fn log_ratios(&self, pairs: &[MeasuredPair], at: usize, metric: &MetricSpec) -> judge::LogRatios {
        judge::LogRatios::from_pairs(
            &known(pairs, at),
            &known(&self.noise, at),
            metric.lower_is_better,
            self.design.delta,
        )
    }

    fn judged(&self, looks: &[Look], look: &Look, pairs: &[MeasuredPair]) -> Trial {
        let design = self.design;
        let target = self.log_ratios(pairs, 0, &design.target);
        let judged = target.judged(look.alpha);
        let guards = self.guards(look, pairs);
        let mechanism = design.mechanism.as_ref().map(|metric| {
            let at = 1 + design.guards.len();
            watched(metric, known(pairs, at), self.log_ratios(pairs, at, metric).judged(look.alpha))
        });
        let is_harmed = guards.iter().any(|guard| guard.verdict == TrialVerdict::Harmed);
        let verdict = if is_harmed { TrialVerdict::Harmed } else { judged.verdict };
        Trial {
            at: machine::now(),
            changes: design.changes.clone(),
            metric: design.target.name.clone(),
            lower_is_better: design.target.lower_is_better,
            evidence: TrialEvidence::Paired,
            looks: looks.iter().map(|look| look.pairs).collect(),
            noise: known(&self.noise, 0),
            detectable: self.detectable(),
            pairs: known(pairs, 0),
            effect: judged.effect,
            guards,
            mechanism,
            verdict,
            pairs_needed: target.needed(look.alpha).filter(|_| verdict == TrialVerdict::Inconclusive),
            interrupted: false,
            kept: None,
            caveat: None,
            promised: None,
        }
    }

    /// Returns the result if no look was reached: the number of pairs was fixed beforehand, so fewer prove nothing.
    fn cut_short(&self, looks: &[Look], look: &Look, pairs: &[MeasuredPair]) -> Trial {
        let verdict = TrialVerdict::Inconclusive;
        Trial { verdict, pairs_needed: None, interrupted: true, ..self.judged(looks, look, pairs) }
    }

    fn guards(&self, look: &Look, pairs: &[MeasuredPair]) -> Vec<Watched> {
        let guards = || self.design.guards.iter().zip(1..);
        let log_ratios: Vec<judge::LogRatios> =
            guards().map(|(metric, at)| self.log_ratios(pairs, at, metric)).collect();
        let judged = judge::judge_guards(&log_ratios, look.alpha);
        guards().zip(judged).map(|((metric, at), judged)| watched(metric, known(pairs, at), judged)).collect()
    }
}

fn watched(metric: &MetricSpec, pairs: Vec<TrialPair>, judged: judge::Judgement) -> Watched {
    Watched {
        metric: metric.name.clone(),
        lower_is_better: metric.lower_is_better,
        pairs,
        effect: judged.effect,
        verdict: judged.verdict,
    }
}

/// Returns the pairs in which both values of a metric are known.
fn known(pairs: &[MeasuredPair], at: usize) -> Vec<TrialPair> {
    let value = |measurement: &MetricValues| {
        measurement.get(at).copied().flatten().filter(|value| value.is_finite() && *value >= 0.0)
    };
    let pair = |pair: &MeasuredPair| {
        Some(TrialPair { without: value(&pair.without)?, with: value(&pair.with)?, with_first: pair.with_first })
    };
    pairs.iter().filter_map(pair).collect()
}

impl Design {
    fn looks(&self) -> Result<Vec<Look>, Error> {
        let tests = self.guards.len();
        looks(self.pairs, self.looks, self.alpha, tests).map_err(|needed| {
            Error::Usage(format!(
                "{} pairs cannot reach p {:.4}{}: at least {needed} are needed",
                self.pairs,
                self.alpha,
                if tests > 1 { format!(" with {tests} guards") } else { String::new() }
            ))
        })
    }

    /// Returns the number of measurements if no interim look ends the experiment early.
    fn steps(&self) -> usize {
        2 * (self.pairs + self.noise_pairs) + 1
    }
}
