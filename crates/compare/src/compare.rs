//! Comparison of two summaries, series by series.

use crate::conclusion::conclusions;
use crate::inventory::OF_THE_RECORDER;
use crate::stats::pieces::{FEWEST, pieces, repeats};
use crate::stats::{CONFIDENCE, Estimate, holm, median, ranks};
use std::collections::BTreeSet;
use whyslow_documents::baseline::{Baseline, BaselineKind, BaselineSeries, Better, Inventory};
use whyslow_documents::comparison::{Changed, Comparison, Difference, SCHEMA, Side, Spread};

/// Default for the smallest effect of interest, as a fraction of the usual value.
pub const LEAST: f64 = 0.05;
/// Family-wise error rate: the probability of reporting any difference when there is none.
const IN_ERROR: f64 = 0.05;

/// Compares two summaries. A shift must exceed `least`, as a fraction of the usual value, to matter.
///
/// Each series is tested for a shift beyond what matters, not beyond zero: with enough samples everything differs.
/// Holm's procedure holds all tests together to the error rate. Series whose total range, over both sides, is too small
/// to matter are not tested; that choice does not depend on how the values are arranged.
pub fn compare(a: &Baseline, b: &Baseline, least: f64) -> Comparison {
    let pairs: Vec<(&BaselineSeries, &BaselineSeries)> =
        a.series.iter().filter_map(|one| Some((one, b.series(&one.metric, &one.subject)?))).collect();
    let mut candidates: Vec<Difference> =
        pairs.iter().filter_map(|(a, b)| Tested::new(a, b)).filter_map(|tested| tested.difference(least)).collect();
    let adjusted = holm(&candidates.iter().map(|candidate| candidate.p).collect::<Vec<f64>>());
    candidates.iter_mut().zip(adjusted).for_each(|(candidate, adjusted)| candidate.p = adjusted.p);
    candidates.sort_by(|a, b| effect(b).total_cmp(&effect(a)));
    let (differences, rest): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|d| d.p <= IN_ERROR);
    Comparison {
        schema: SCHEMA.to_owned(),
        a: side(a),
        b: side(b),
        inventory: changed(&a.inventory, &b.inventory).into_iter().filter(|one| is_known(one, a, b)).collect(),
        differences,
        compared: pairs.len(),
        undecided: rest.into_iter().filter(|d| d.shift.abs() > d.least).collect(),
        conclusions: conclusions(a, b),
        caveats: caveats(a, b, &pairs),
    }
}

/// The values with which a series is tested.
struct Tested<'s> {
    a: &'s BaselineSeries,
    b: &'s BaselineSeries,
    of_a: Vec<f64>,
    of_b: Vec<f64>,
}

impl<'s> Tested<'s> {
    /// Creates a test; `None` if a side has no usable values.
    fn new(a: &'s BaselineSeries, b: &'s BaselineSeries) -> Option<Self> {
        let [of_a, of_b] = independent(a, b);
        (a.unit == b.unit && !of_a.is_empty() && !of_b.is_empty()).then_some(Self { a, b, of_a, of_b })
    }

    /// Returns the difference of the two; `None` if the values never varied enough to matter. Its p is that of this
    /// series alone.
    fn difference(&self, least: f64) -> Option<Difference> {
        let all = sorted(self.of_a.iter().chain(&self.of_b));
        let floor = matters(&self.a.unit);
        let least = (least * median(&all).abs()).max(floor);
        if all[all.len() - 1] - all[0] <= least {
            return None;
        }
        let shift = ranks::shift(&self.of_a, &self.of_b)?;
        let usual = median(&sorted(self.of_a.iter()));
        // A shift that does not even seem to matter need not be tested.
        let enough = shift.abs() > least && self.of_a.len().min(self.of_b.len()) >= FEWEST;
        let Estimate { low, high, .. } = ranks::estimate(&self.of_a, &self.of_b, CONFIDENCE)?;
        Some(Difference {
            metric: self.a.metric.clone(),
            subject: self.a.subject.clone(),
            unit: self.a.unit.clone(),
            better: self.b.better.map(|better| (better == Better::Higher) == (shift > 0.0)),
            a: spread(self.a, &self.of_a),
            b: spread(self.b, &self.of_b),
            shift,
            low,
            high,
            ratio: (usual != 0.0).then(|| shift / usual.abs()),
            least,
            p: if enough { self.beyond(shift, least) } else { 1.0 },
        })
    }

    /// Returns the two-sided p of a shift beyond `least`: moves the higher side down by `least` first.
    fn beyond(&self, shift: f64, least: f64) -> f64 {
        let moved = |values: &[f64]| values.iter().map(|value| value - least).collect::<Vec<f64>>();
        let upper = if shift > 0.0 {
            ranks::upper_p(&self.of_a, &moved(&self.of_b))
        } else {
            ranks::upper_p(&self.of_b, &moved(&self.of_a))
        };
        (2.0 * upper).min(1.0)
    }
}

/// Thins both series to independent samples; treats NaN as missing.
fn independent(a: &BaselineSeries, b: &BaselineSeries) -> [Vec<f64>; 2] {
    let numbers =
        |of: &BaselineSeries| of.samples.iter().copied().filter(|sample| sample.is_finite()).collect::<Vec<f64>>();
    let (of_a, of_b) = (numbers(a), numbers(b));
    match (a.interval, b.interval) {
        (None, None) => [repeats(&of_a), repeats(&of_b)],
        _ => pieces(&of_a, &of_b),
    }
}

/// Returns the smallest difference in a unit that anybody would act on.
fn matters(unit: &str) -> f64 {
    match unit {
        // One hundredth of the time, or of any other whole.
        "ratio" => 0.01,
        "s" => 1e-6,
        "bytes/s" => 65_536.0,
        "bit/s" => 524_288.0,
        "bytes" => 512.0,
        "1/s" => 1.0,
        "count" => 0.1,
        _ => 0.0,
    }
}

/// Returns the size of a difference: the logarithm of the ratio of the medians, where differences that do not matter
/// count as none.
fn effect(difference: &Difference) -> f64 {
    let floor = matters(&difference.unit).max(f64::MIN_POSITIVE);
    ((difference.b.median.abs() + floor) / (difference.a.median.abs() + floor)).ln().abs()
}

fn spread(series: &BaselineSeries, pieces: &[f64]) -> Spread {
    Spread {
        median: median(&sorted(pieces.iter())),
        p5: series.distribution.quantile(0.05),
        p95: series.distribution.quantile(0.95),
        pieces: pieces.len(),
    }
}

fn sorted<'a>(values: impl Iterator<Item = &'a f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.copied().collect();
    values.sort_by(f64::total_cmp);
    values
}

fn side(baseline: &Baseline) -> Side {
    let Baseline { name, kind, start, end, seconds, .. } = baseline.clone();
    Side { name, kind, start, end, seconds }
}

/// Returns the differences between two inventories.
pub(crate) fn changed(a: &Inventory, b: &Inventory) -> Vec<Changed> {
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let differs = names.into_iter().filter(|name| a.get(*name) != b.get(*name));
    differs.map(|what| Changed { what: what.clone(), a: a.get(what).cloned(), b: b.get(what).cloned() }).collect()
}

/// Returns whether both sides cover the setting: captures of one machine have different parts of its settings.
fn is_known(changed: &Changed, a: &Baseline, b: &Baseline) -> bool {
    let are_captures = [a, b].iter().any(|side| side.kind == BaselineKind::Captures);
    let kind = OF_THE_RECORDER.iter().find(|kind| is_of(&changed.what, kind));
    let lists = |side: &Baseline| kind.is_none_or(|kind| side.inventory.keys().any(|what| is_of(what, kind)));
    (!are_captures || (changed.a.is_some() && changed.b.is_some())) && lists(a) && lists(b)
}

fn is_of(what: &str, kind: &str) -> bool {
    what.strip_prefix(kind).is_some_and(|rest| rest.starts_with(' '))
}

fn caveats(a: &Baseline, b: &Baseline, pairs: &[(&BaselineSeries, &BaselineSeries)]) -> Vec<String> {
    let mut caveats = Vec::new();
    if pairs.is_empty() {
        caveats.push("the two sides have no measured series in common".to_owned());
    } else if a.kind == BaselineKind::Period && b.kind == BaselineKind::Period {
        caveats
            .push("workload not controlled; interpret with caution: more work looks like a faster machine".to_owned());
    } else if a.kind == BaselineKind::Captures && b.kind == BaselineKind::Captures {
        caveats.push("each side was captured once: how much it varies from time to time is unknown".to_owned());
    } else if pairs.iter().any(|(a, b)| a.interval.is_some() || b.interval.is_some()) {
        let what = "the benchmark ran only once: how much it varies from run to run is unknown";
        caveats.push(what.to_owned());
    }
    caveats
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::noise::Noise;
    use whyslow_documents::baseline::Distribution;
    use whyslow_documents::diagnosis::Subject;

    const SERIES: u64 = 10;

    /// Creates a period of 120 samples in which each series is noise about 100, with this autocorrelation and an
    /// amplitude of a tenth of that.
    fn period(seed: u64, memory: f64, level: impl Fn(u64) -> f64) -> Baseline {
        let series = (0..SERIES).map(|n| {
            let mut noise = Noise::new(seed * SERIES + n + 1, memory);
            let samples: Vec<f64> = (0..120).map(|_| level(n) * (1.0 + 0.1 * noise.next())).collect();
            BaselineSeries {
                metric: format!("series {n}"),
                subject: Subject::host(),
                unit: "bytes/s".into(),
                better: Some(Better::Higher),
                interval: Some(1.0),
                distribution: Distribution::from_values("bytes/s", samples.iter().copied()),
                samples,
                experiment: None,
            }
        });
        Baseline::new(BaselineKind::Period, Inventory::new(), series.collect())
    }

    const USUAL: f64 = 100e6;

    #[test]
    fn a_period_does_not_differ_from_itself() {
        let one = period(1, 0.8, |_| USUAL);
        let same = compare(&one, &one, LEAST);
        assert_eq!((same.differences.len(), same.undecided.len(), same.compared), (0, 0, SERIES as usize));
    }

    /// Returns the share of comparisons of two steady periods that report any difference. Every effect may matter, so
    /// that only the noise stands in the way.
    fn in_error(memory: f64, least: f64) -> f64 {
        let trials = TRIALS;
        let compared = (0..trials).filter(|trial| {
            let (a, b) = (period(2 * trial, memory, |_| USUAL), period(2 * trial + 1, memory, |_| USUAL));
            !compare(&a, &b, least).differences.is_empty()
        });
        compared.count() as f64 / trials as f64
    }

    /// A release build runs more trials in the same time.
    const TRIALS: u64 = if cfg!(debug_assertions) { 15 } else { 2000 };

    #[test]
    fn of_two_steady_periods_nothing_differs() {
        for memory in [0.0, 0.5, 0.8, 0.95] {
            let (strict, usual) = (in_error(memory, 0.0), in_error(memory, LEAST));
            assert!(strict <= 0.08, "{strict} at {memory}");
            assert!(usual <= 0.02, "{usual} at {memory}");
        }
    }

    #[test]
    fn what_does_differ_is_told_largest_first() {
        let a = period(1, 0.5, |_| USUAL);
        let b = period(2, 0.5, |n| match n {
            3 => 0.7 * USUAL,
            5 => 2.0 * USUAL,
            _ => USUAL,
        });
        let compared = compare(&a, &b, LEAST);
        let names: Vec<&str> = compared.differences.iter().map(|d| &*d.metric).collect();
        assert_eq!(names, ["series 5", "series 3"]);
        let [up, down] = &compared.differences[..] else { unreachable!() };
        assert!((up.ratio.unwrap() - 1.0).abs() < 0.1 && up.better == Some(true), "{up:?}");
        assert!((down.ratio.unwrap() + 0.3).abs() < 0.1 && down.better == Some(false), "{down:?}");
        assert!(up.low < USUAL && USUAL < up.high && up.p < 0.01, "{up:?}");
    }

    #[test]
    fn too_little_to_tell_is_said_and_not_guessed() {
        let repeats = |samples: &[f64]| {
            let series = BaselineSeries::of_repeats("reads", Subject::host(), "1/s", Better::Higher, samples.to_vec());
            Baseline::new(BaselineKind::Bench, Inventory::new(), vec![series])
        };
        let few = compare(&repeats(&[100.0, 101.0, 102.0]), &repeats(&[200.0, 201.0, 202.0]), LEAST);
        assert_eq!((few.differences.len(), few.undecided.len()), (0, 1));
        let enough = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
        let up = enough.map(|n| 200.0 + n);
        let compared = compare(&repeats(&enough.map(|n| 100.0 + n)), &repeats(&up), LEAST);
        assert_eq!((compared.differences.len(), compared.caveats.len()), (1, 0));
        assert!((compared.differences[0].p - 2.0 / 924.0).abs() < 1e-9);
    }

    #[test]
    fn inventories_are_compared_by_name() {
        let inventory = |entries: &[(&str, &str)]| -> Inventory {
            entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let a = inventory(&[("kernel", "6.1"), ("cpus", "2"), ("mount /old", "vda1")]);
        let b = inventory(&[("kernel", "6.18"), ("cpus", "2"), ("mount /new", "vda1")]);
        let compared: Vec<_> = changed(&a, &b).into_iter().map(|c| (c.what, c.a.is_some(), c.b.is_some())).collect();
        let expected = [("kernel", true, true), ("mount /new", false, true), ("mount /old", true, false)];
        assert_eq!(compared, expected.map(|(what, a, b)| (what.to_owned(), a, b)));
    }

    #[test]
    fn packages_are_compared_if_both_sides_list_them() {
        let side = |entries: &[(&str, &str)]| {
            let inventory = entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            Baseline::new(BaselineKind::Period, inventory, Vec::new())
        };
        let a = side(&[("cpus", "2"), ("package bash", "5.1"), ("package nginx", "1.2")]);
        let b = side(&[("cpus", "2"), ("package bash", "5.2")]);
        let differ = |a: &Baseline, b: &Baseline| -> Vec<String> {
            compare(a, b, LEAST).inventory.into_iter().map(|changed| changed.what).collect()
        };
        assert_eq!(differ(&a, &b), ["package bash", "package nginx"]);
        assert_eq!(differ(&a, &side(&[("cpus", "4")])), ["cpus"], "an older recording has none");
    }
}
