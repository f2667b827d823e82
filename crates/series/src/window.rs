//! Charts of a Window: live, or from captures.

use crate::builder::{ChartAxes, ChartBuilder};
use crate::table::ChartSpec;
use whyslow_documents::chart::Chart;
use whyslow_model::catalogue::{EachFamily, Family};
use whyslow_model::key::Key;
use whyslow_model::row::{ColumnReading, ColumnSelection, SampleTime};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;

/// Meaning of the times of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChartTimes {
    /// Times of samples. A gap shows where samples are missing.
    Live,
    /// Times of captures, which have readings at irregular times.
    Captured,
    /// Times since the first reading, for captures that do not record their times.
    Elapsed,
}

/// Returns true if the times of all samples of a Window are known. Captures do not always record them.
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

/// Returns the charts of a Window that have data, with about `most` intervals at most.
pub fn charts_of_window(window: &Window, specs: Vec<&'static ChartSpec>, most: usize, times: ChartTimes) -> Vec<Chart> {
    let axes = ChartAxes::new(samples_of(window, times), most, times != ChartTimes::Live);
    of_window(ChartBuilder::new(specs, axes.into()), window)
}

/// Feeds the samples of a Window to a builder, whose axes must come from the same Window.
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
