//! The horizontal axis of a chart: time, or labels.

use super::svg::LETTER;
use super::time_axis::TimeAxis;
use whyslow_documents::chart::{Chart, ChartAxis};

/// Space at both ends, as a share of the distance from the first label to the last.
const ROOM: f64 = 0.04;

/// The axis from left to right.
pub(super) enum XAxis<'c> {
    Time(TimeAxis),
    Labels(LabelAxis<'c>),
}

impl<'c> XAxis<'c> {
    pub(super) fn for_chart(chart: &'c Chart, is_elapsed: bool) -> Self {
        match &chart.x {
            Some(axis) => Self::Labels(LabelAxis::new(&chart.times, axis)),
            None => Self::Time(TimeAxis::new(&chart.times, is_elapsed)),
        }
    }

    /// Returns a position: 0 at the left, 1 at the right.
    pub(super) fn share(&self, at: f64) -> f64 {
        match self {
            Self::Time(times) => times.share(at),
            Self::Labels(labels) => labels.share(at),
        }
    }

    /// Returns the ticks, with their labels, of an axis of this width.
    pub(super) fn ticks(&self, width: f64) -> Vec<(f64, String)> {
        match self {
            Self::Time(times) => times.ticks(),
            Self::Labels(labels) => labels.ticks(width),
        }
    }

    /// Returns the period, or the meaning of the labels, in words.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Time(times) => times.period(),
            Self::Labels(labels) if labels.axis.title.is_empty() => String::new(),
            Self::Labels(labels) => format!("by {}", labels.axis.title),
        }
    }

    /// Whether each value belongs to a label, and is marked.
    pub(super) fn is_labelled(&self) -> bool {
        matches!(self, Self::Labels(_))
    }
}

/// Places with labels.
pub(super) struct LabelAxis<'c> {
    places: &'c [f64],
    axis: &'c ChartAxis,
    from: f64,
    to: f64,
}

impl<'c> LabelAxis<'c> {
    fn new(places: &'c [f64], axis: &'c ChartAxis) -> Self {
        let from = places.first().copied().unwrap_or(0.0);
        let to = places.last().copied().unwrap_or(from);
        let room = if to > from { (to - from) * ROOM } else { 0.5 };
        Self { places, axis, from: from - room, to: to + room }
    }

    fn share(&self, place: f64) -> f64 {
        (place - self.from) / (self.to - self.from)
    }

    /// Returns the labels that do not overlap the previous one.
    fn ticks(&self, width: f64) -> Vec<(f64, String)> {
        let mut end = f64::NEG_INFINITY;
        let mut ticks = Vec::new();
        for (place, label) in self.places.iter().zip(&self.axis.labels) {
            let (middle, half) = (self.share(*place) * width, label.chars().count() as f64 * LETTER / 2.0);
            if middle - half >= end {
                ticks.push((*place, label.clone()));
                end = middle + half;
            }
        }
        ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_at_their_places_and_do_not_overlap() {
        let axis = ChartAxis { title: "queue depth".into(), labels: ["1", "2", "3", "4"].map(String::from).to_vec() };
        let chart = Chart { times: vec![0.0, 1.0, 1.1, 2.0], x: Some(axis), ..Chart::default() };
        let axis = XAxis::for_chart(&chart, false);
        assert_eq!(axis.words(), "by queue depth");
        // From -0.08 to 2.08.
        assert!((axis.share(1.0) - 0.5).abs() < 1e-12);
        let labels = |width| axis.ticks(width).into_iter().map(|(_, label)| label).collect::<Vec<_>>();
        assert_eq!(labels(1000.0), ["1", "2", "3", "4"]);
        // A letter takes 7 of 100, and 3 is only 4.6 from 2.
        assert_eq!(labels(100.0), ["1", "2", "4"]);
    }

    #[test]
    fn one_label_is_in_the_middle() {
        let axis = ChartAxis { title: "pair".into(), labels: vec!["1".into()] };
        let chart = Chart { times: vec![3.0], x: Some(axis), ..Chart::default() };
        assert_eq!(XAxis::for_chart(&chart, false).share(3.0), 0.5);
    }
}
