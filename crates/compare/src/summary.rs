//! Summarizes a period of observation, window by window.

use std::collections::BTreeMap;
use whyslow_documents::baseline::{BaselineSeries, Better, Distribution};
use whyslow_documents::diagnosis::{Evidence, Reading, Subject, SubjectFigures};
use whyslow_documents::listing::Signal;

/// Number of means at which pairs are merged: the summary of a day is no larger than that of ten minutes.
const MOST: usize = 128;

/// Summary of a period in progress. Memory use does not depend on its length.
#[derive(Debug)]
pub struct Summary {
    /// Signals that are summarized, and which direction is better.
    kept: BTreeMap<&'static str, Option<Better>>,
    tracks: BTreeMap<(Subject, &'static str), Track>,
    windows: usize,
    /// Number of windows that each mean covers, except the last.
    width: usize,
    seconds: f64,
}

/// Time series of one signal.
#[derive(Debug)]
struct Track {
    unit: String,
    better: Option<Better>,
    /// For each run of `width` windows, the number of windows with a value, and the sum of these values.
    means: Vec<(u32, f64)>,
    distribution: Distribution,
}

impl Summary {
    /// Creates a summary of those of the signals that baselines keep.
    pub fn from_signals<'s>(signals: impl IntoIterator<Item = &'s Signal>) -> Self {
        let kept = signals.into_iter().filter(|signal| signal.baseline);
        let kept = kept.map(|signal| (signal.name, signal.better)).collect();
        Self { kept, tracks: BTreeMap::new(), windows: 0, width: 1, seconds: 0.0 }
    }

    /// Adds the figures of the next window, which has this length.
    pub fn add(&mut self, seconds: f64, figures: &[SubjectFigures]) {
        if self.windows / self.width >= MOST {
            self.width *= 2;
            self.tracks.values_mut().for_each(Track::halve);
        }
        let at = self.windows / self.width;
        for of in figures {
            for value in &of.values {
                self.note(at, &of.subject, value);
            }
        }
        self.windows += 1;
        self.seconds += seconds;
    }

    fn note(&mut self, at: usize, subject: &Subject, evidence: &Evidence) {
        let Reading::Number(value) = evidence.value else { return };
        let Some((metric, better)) = self.kept.get_key_value(&*evidence.metric) else { return };
        let track = self.tracks.entry((subject.clone(), metric)).or_insert_with(|| Track {
            unit: evidence.unit.clone(),
            better: *better,
            means: Vec::new(),
            distribution: Distribution::new(&evidence.unit),
        });
        track.means.resize(track.means.len().max(at + 1), (0, 0.0));
        let (count, sum) = &mut track.means[at];
        *count += 1;
        *sum += value;
        track.distribution.add(value);
    }

    /// Returns the number of seconds summarized.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Returns the series of the summary.
    pub fn finish(self) -> Vec<BaselineSeries> {
        let interval = self.seconds / self.windows.max(1) as f64 * self.width as f64;
        let series = |((subject, metric), track): ((Subject, &str), Track)| BaselineSeries {
            metric: metric.to_owned(),
            subject,
            unit: track.unit,
            better: track.better,
            interval: Some(interval),
            samples: track.means.iter().filter(|(count, _)| *count > 0).map(|(n, sum)| sum / f64::from(*n)).collect(),
            distribution: track.distribution,
            experiment: None,
        };
        self.tracks.into_iter().map(series).collect()
    }
}

impl Track {
    /// Merges pairs of consecutive means.
    fn halve(&mut self) {
        let pair = |pair: &[(u32, f64)]| pair.iter().fold((0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
        self.means = self.means.chunks(2).map(pair).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::normal::Normal;

    fn summary() -> Summary {
        let signal = |name, baseline| Signal {
            name,
            unit: "bytes/s",
            help: "",
            how: "",
            source: "",
            normal: Normal::unknown("bytes/s"),
            better: None,
            baseline,
        };
        Summary::from_signals(&[signal("disk.read_rate", true), signal("disk.scheduler", false)])
    }

    fn figures(disk: &str, rate: f64) -> Vec<SubjectFigures> {
        let value = |metric: &str| Evidence {
            metric: metric.into(),
            value: Reading::Number(rate),
            unit: "bytes/s".into(),
            expected: String::new(),
            source: String::new(),
            how: String::new(),
        };
        vec![SubjectFigures {
            subject: Subject::new("device", disk),
            values: vec![value("disk.read_rate"), value("disk.scheduler"), value("no.signal")],
        }]
    }

    #[test]
    fn a_long_period_takes_no_more_room_than_a_short_one() {
        let mut summary = summary();
        for window in 0..1000 {
            summary.add(10.0, &figures("vda", f64::from(window)));
        }
        let series = summary.finish();
        let [reads] = &series[..] else { panic!("{series:?}") };
        // Each mean covers eight windows of ten seconds.
        assert_eq!((reads.interval, reads.samples.len()), (Some(80.0), 125));
        assert_eq!((reads.samples[0], reads.samples[124]), (3.5, 995.5));
        assert_eq!(reads.distribution.count(), 1000);
        assert!((reads.distribution.quantile(0.95).unwrap() / 949.0 - 1.0).abs() < 0.02);
    }

    #[test]
    fn what_was_not_there_is_no_zero() {
        let mut summary = summary();
        for window in 0..20 {
            summary.add(1.0, &figures(if window < 5 { "vda" } else { "vdb" }, 7.0));
        }
        let series = summary.finish();
        let counts: Vec<(&str, usize)> = series.iter().map(|s| (&*s.subject.name, s.samples.len())).collect();
        assert_eq!(counts, [("vda", 5), ("vdb", 15)]);
        assert!(series.iter().all(|series| series.samples.iter().all(|sample| *sample == 7.0)));
    }
}
