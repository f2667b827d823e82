//! Charts of an experiment: before and after with their spread, each pair as a point.

use super::labelled::{Label, LabelledChart, LabelledValue, SeriesName, capital};
use whyslow_documents::chart::Chart;
use whyslow_documents::tune::{Trial, TrialEffect, TrialEvidence, TrialPair, Walk, unit_of};

/// Returns the charts of an experiment.
pub fn charts_of_trial(trial: &Trial) -> Vec<Chart> {
    let sides = match trial.evidence {
        TrialEvidence::Paired => ["without the change", "with the change"],
        TrialEvidence::BeforeAfter => ["before", "after"],
    };
    let metric = Measured {
        id: "try.metric",
        metric: &trial.metric,
        lower_is_better: trial.lower_is_better,
        noise: &trial.noise,
        pairs: &trial.pairs,
        // An interrupted experiment has no interval: fewer pairs than planned prove nothing.
        effect: trial.effect.as_ref().filter(|_| !trial.interrupted),
    };
    let mut charts: Vec<Chart> = metric.values(sides).into_iter().chain(metric.effects()).collect();
    let watched = trial.mechanism.iter().chain(&trial.guards).enumerate();
    charts.extend(watched.filter_map(|(number, watched)| {
        let measured = Measured {
            id: &format!("try.metric@{}", number + 1),
            metric: &watched.metric,
            lower_is_better: watched.lower_is_better,
            noise: &[],
            pairs: &watched.pairs,
            effect: watched.effect.as_ref(),
        };
        measured.values(sides)
    }));
    charts
}

/// Returns the charts of changes that were tried one after another: the effect of each change, then the charts of each trial.
pub fn charts_of_walk(walk: &Walk) -> Vec<Chart> {
    let tried = walk.steps.iter().filter_map(|step| Some((step.changes.join(" "), step.trial.as_ref()?)));
    let together = walk.together.as_ref().map(|trial| ("all that helped".to_owned(), trial));
    let trials: Vec<(String, &Trial)> = tried.chain(together).collect();
    let help =
        "How much better the metric was with each change, on top of those that helped before, with the interval.";
    let mut effects = LabelledChart::new("try.changes", "Effect of each change", "1", "change", help);
    for (at, (changes, trial)) in trials.iter().enumerate() {
        if let Some(effect) = trial.effect.filter(|_| !trial.interrupted) {
            let value = LabelledValue { value: effect.better, range: Some([effect.low, effect.high]) };
            effects.add_point("effect", Label::at(at as f64, changes), value);
        }
    }
    let of_trial = |(number, (changes, trial)): (usize, &(String, &Trial))| {
        let named = |chart: Chart| Chart {
            id: format!("{}@{}", chart.id, number + 1),
            title: format!("{changes}: {}", chart.title),
            ..chart
        };
        charts_of_trial(trial).into_iter().map(named).collect::<Vec<_>>()
    };
    effects.finish().into_iter().chain(trials.iter().enumerate().flat_map(of_trial)).collect()
}

/// A metric measured in pairs.
struct Measured<'t> {
    id: &'t str,
    metric: &'t str,
    lower_is_better: bool,
    noise: &'t [TrialPair],
    pairs: &'t [TrialPair],
    effect: Option<&'t TrialEffect>,
}

impl Measured<'_> {
    /// Draws the value of each pair on both sides, and the median of each side with its quartiles.
    fn values(&self, sides: [&str; 2]) -> Option<Chart> {
        let name = self
            .metric
            .strip_prefix("s, of: ")
            .map_or_else(|| self.metric.to_owned(), |of| format!("run time of {of}"));
        let help = if self.lower_is_better { "Lower is better." } else { "Higher is better." };
        let help = format!("{help} A point for each measurement; a line at the median, with the quartiles around it.");
        let mut chart = LabelledChart::new(self.id, &capital(&name), unit_of(self.metric), "pair", &help);
        let of = |pair: &TrialPair| [pair.without, pair.with];
        for (side, name) in sides.into_iter().enumerate() {
            let values: Vec<f64> = self.pairs.iter().map(|pair| of(pair)[side]).collect();
            for (number, value) in values.iter().enumerate() {
                chart.add_point(name, pair_label(number), *value);
            }
            let Some([low, median, high]) = quartiles(values) else { continue };
            let summary = LabelledValue { value: median, range: Some([low, high]) };
            for number in 0..self.pairs.len() {
                let series = SeriesName { entity: name.to_owned(), name: format!("median {name}") };
                chart.add(series, pair_label(number), summary);
            }
        }
        chart.finish()
    }

    /// Draws how much better each pair is with the change, next to pairs without any change, and the estimate with its interval.
    fn effects(&self) -> Option<Chart> {
        let help = "How much better the metric is with the change. Pairs without any change show the noise.";
        let mut chart = LabelledChart::new("try.effect", "Effect of each pair", "1", "pair", help);
        let better = |pair: &TrialPair| {
            let ratio = if self.lower_is_better { pair.without / pair.with } else { pair.with / pair.without };
            ratio - 1.0
        };
        let before = self.noise.len() as f64;
        for (number, pair) in self.noise.iter().enumerate() {
            let label = Label::at(number as f64 - before, format!("no change {}", number + 1));
            chart.add_point("without any change", label, better(pair));
        }
        for (number, pair) in self.pairs.iter().enumerate() {
            chart.add_point("with the change", pair_label(number), better(pair));
        }
        if let Some(effect) = self.effect {
            let value = LabelledValue { value: effect.better, range: Some([effect.low, effect.high]) };
            for number in 0..self.pairs.len() {
                chart.add("estimate and its interval", pair_label(number), value);
            }
        }
        chart.finish()
    }
}

fn pair_label(number: usize) -> Label {
    Label::at(number as f64, (number + 1).to_string())
}

/// Returns the lower quartile, the median and the upper quartile. Interpolates between two values.
fn quartiles(mut values: Vec<f64>) -> Option<[f64; 3]> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some([0.25, 0.5, 0.75].map(|share| {
        let place = share * last as f64;
        let (low, part) = (place.floor(), place.fract());
        let [low, high] = [low as usize, (low as usize + 1).min(last)].map(|at| values[at]);
        low + (high - low) * part
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(without: f64, with: f64) -> TrialPair {
        TrialPair { without, with, with_first: false }
    }

    fn trial(pairs: Vec<TrialPair>) -> Trial {
        serde_json::from_value(serde_json::json!({
            "at": "2026-11-24T14:51:27+00:00", "changes": ["vm.swappiness=10"], "metric": "s, of: make",
            "lower_is_better": true, "noise": [pair(1.0, 1.25)], "pairs": pairs,
            "effect": { "better": 0.9, "low": 0.5, "high": 1.2, "p": 0.03, "threshold": 0.1 }, "verdict": "helped"
        }))
        .unwrap()
    }

    #[test]
    fn before_and_after_have_a_point_for_each_pair_and_their_spread() {
        let charts = charts_of_trial(&trial(vec![pair(2.0, 1.0), pair(4.0, 2.0), pair(3.0, 2.0)]));
        let metric = &charts[0];
        assert_eq!((metric.title.as_str(), metric.unit.as_str()), ("Run time of make", "s"));
        assert_eq!(metric.x.as_ref().unwrap().labels, ["1", "2", "3"]);
        let [without, median, with, _] = &metric.series[..] else { panic!("{metric:?}") };
        assert_eq!((&without.mean[..], without.points), (&[Some(2.0), Some(4.0), Some(3.0)][..], true));
        // Of 2, 3, 4: the median, and halfway to the others.
        assert_eq!(
            (median.mean[0], median.min.as_ref().unwrap()[0], median.max.as_ref().unwrap()[0]),
            (Some(3.0), Some(2.5), Some(3.5))
        );
        assert_eq!(with.mean, [Some(1.0), Some(2.0), Some(2.0)]);
    }

    #[test]
    fn the_effect_of_each_pair_is_beside_the_noise_and_the_interval() {
        let charts = charts_of_trial(&trial(vec![pair(2.0, 1.0), pair(3.0, 2.0)]));
        let effect = charts.iter().find(|chart| chart.id == "try.effect").unwrap();
        assert_eq!(effect.x.as_ref().unwrap().labels, ["no change 1", "1", "2"]);
        assert_eq!(effect.times, [-1.0, 0.0, 1.0]);
        // 1 / 1.25 - 1, 2 / 1 - 1, 3 / 2 - 1.
        assert_eq!(effect.series[0].mean, [Some(-0.2), None, None]);
        assert_eq!(effect.series[1].mean, [None, Some(1.0), Some(0.5)]);
        assert_eq!(effect.series[2].min, Some(vec![None, Some(0.5), Some(0.5)]));
    }

    #[test]
    fn an_interrupted_experiment_has_no_interval_and_one_without_pairs_no_chart() {
        let interrupted = Trial { interrupted: true, ..trial(vec![pair(2.0, 1.0), pair(3.0, 2.0)]) };
        let charts = charts_of_trial(&interrupted);
        assert_eq!(charts[1].series.len(), 2);
        assert_eq!(charts_of_trial(&Trial { noise: Vec::new(), ..trial(Vec::new()) }), []);
    }
}
