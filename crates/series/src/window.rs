//! Charts of a Window: live, or of captures.

use crate::builder::{ChartAxes, ChartBuilder};
use crate::table::ChartSpec;
use whyslow_model::catalogue::{EachFamily, Family};
use whyslow_model::chart::Chart;
use whyslow_model::key::Key;
use whyslow_model::row::{ColumnReading, ColumnSelection, SampleTime};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;

/// What the times of a chart are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChartTimes {
    /// When samples were taken; gaps show where some are missing.
    Live,
    /// When captures were made, which have readings at any time.
    Captured,
    /// Times since the first reading, because captures do not say when they were made.
    Elapsed,
}

/// Whether it is known when the samples of a Window were taken: captures do not always say it.
pub fn has_times(window: &Window) -> bool {
    window.snapshots().iter().all(|sample| sample.wall_ns != 0)
}

pub(crate) fn samples_of(window: &Window, times: ChartTimes) -> Vec<SampleTime> {
    let first = window.snapshots().first().map_or(0, |first| first.boot_ns);
    let time = |sample: &Snapshot| SampleTime {
        at: match times {
            ChartTimes::Elapsed => i64::try_from(sample.boot_ns.saturating_sub(first)).unwrap_or(i64::MAX),
            _ => sample.wall_ns,
        },
        clock: sample.boot_ns,
        boot: 0,
    };
    window.snapshots().iter().map(time).collect()
}

/// The charts of a Window that have data, with at most about so many intervals.
pub fn charts_of_window(window: &Window, specs: Vec<&'static ChartSpec>, most: usize, times: ChartTimes) -> Vec<Chart> {
    let axes = ChartAxes::new(samples_of(window, times), most, times != ChartTimes::Live);
    of_window(ChartBuilder::new(specs, axes.into()), window)
}

/// What a builder makes of the samples of a Window, which it was made for.
pub(crate) fn of_window(mut builder: ChartBuilder, window: &Window) -> Vec<Chart> {
    let selections = builder.selections();
    for (number, sample) in window.snapshots().iter().enumerate() {
        let mut rows = SampleRows { sample, number, selections: &selections, builder: &mut builder };
        // Only the types are needed: the rows are those of the sample.
        Snapshot::default().each_family(&mut rows);
    }
    builder.finish()
}

struct SampleRows<'a> {
    sample: &'a Snapshot,
    number: usize,
    selections: &'a [ColumnSelection],
    builder: &'a mut ChartBuilder,
}

impl EachFamily for SampleRows<'_> {
    fn family<F: Family>(&mut self, _: &mut Vec<F>) {
        let selections = self.selections.iter().enumerate();
        let wanted = selections.filter(|(_, of)| of.family == F::INFO.name && of.wants(self.number));
        let (mut key, mut values) = (Vec::new(), Vec::new());
        for (number, selection) in wanted {
            for row in F::rows(self.sample) {
                key.clear();
                row.key().take_apart(&mut key);
                values.clear();
                values.extend(selection.metrics.iter().filter_map(|column| row.value(*column)));
                self.builder
                    .add(number, ColumnReading { sample: self.number, until: self.number, key: &key, values: &values });
            }
        }
    }
}
