//! A few columns over a long time, as numbers.

use super::windows::slices;
use super::{Recording, SegmentLocation, SegmentRef, Span};
use crate::error::StoreError;
use crate::segment::{hour_files, scan_columns};
use std::collections::BTreeMap;
use whyslow_model::catalogue::{EachFamily, Family};
use whyslow_model::key::{Key, KeyPart};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::time_series::{ColumnSelector, TimeSeries};
use whyslow_model::value::Value;

/// A family, and columns of it.
pub type FamilyColumns<'l> = (&'l str, &'l [ColumnSelector]);

impl Recording {
    /// Passes on columns of a segment, as far as it lies in the span: the number of the selection, and some of its rows. There
    /// may be several calls for a selection, and rows outside of the span.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn scan(
        &self,
        segment: &SegmentRef,
        span: &Span,
        selections: &[FamilyColumns<'_>],
        each: &mut dyn FnMut(usize, &TimeSeries),
    ) -> Result<(), StoreError> {
        let SegmentLocation::Closed(hour, closed) = &segment.location else {
            return self.scan_samples(segment, span, selections, each);
        };
        for (first, of_family) in by_family(selections) {
            let (family, _) = of_family[0];
            let selectors: Vec<&[ColumnSelector]> = of_family.iter().map(|(_, selectors)| *selectors).collect();
            for file in hour_files(&self.folder, family, hour) {
                let Some(file) = self.damage.skip(file)? else { continue };
                if let Some(closed) = file.segments.iter().find(|s| s.start == closed.start) {
                    let scanned = scan_columns(&file, closed, span, &selectors, &mut |number, series| {
                        each(first + number, series)
                    });
                    self.damage.skip(scanned)?;
                }
            }
        }
        Ok(())
    }

    /// The same for a tail, which is sorted by time.
    fn scan_samples(
        &self,
        segment: &SegmentRef,
        span: &Span,
        selections: &[FamilyColumns<'_>],
        each: &mut dyn FnMut(usize, &TimeSeries),
    ) -> Result<(), StoreError> {
        let wanted = |name: &str| selections.iter().any(|(family, _)| *family == name);
        for slice in slices(&segment.span, span) {
            let samples = self.read(segment, &slice, &wanted)?;
            for (number, selection) in selections.iter().enumerate() {
                each(number, &time_series(&samples, *selection));
            }
        }
        Ok(())
    }
}

/// Groups consecutive selections of the same family, with the number of the first.
fn by_family<'l, 'f>(selections: &'l [FamilyColumns<'f>]) -> impl Iterator<Item = (usize, &'l [FamilyColumns<'f>])> {
    let mut first = 0;
    selections.chunk_by(|a, b| a.0 == b.0).map(move |of_family| {
        first += of_family.len();
        (first - of_family.len(), of_family)
    })
}

fn time_series(samples: &[Snapshot], (family, selectors): FamilyColumns<'_>) -> TimeSeries {
    let mut by_entity = ByEntity { at: 0, family, selectors, rows: BTreeMap::new() };
    for sample in samples {
        by_entity.at = sample.wall_ns;
        sample.clone().each_family(&mut by_entity);
    }
    let mut series = TimeSeries { at: Vec::new(), columns: vec![Vec::new(); selectors.len()] };
    for (at, values) in by_entity.rows.into_values().flatten() {
        series.at.push(at);
        series.columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
    }
    series
}

/// Collects times and selected values by key.
struct ByEntity<'t> {
    at: i64,
    family: &'t str,
    selectors: &'t [ColumnSelector],
    rows: BTreeMap<Vec<KeyPart>, Vec<(i64, Vec<f64>)>>,
}

impl EachFamily for ByEntity<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        if F::INFO.name != self.family {
            return;
        }
        for row in rows {
            let mut key = Vec::new();
            row.key().take_apart(&mut key);
            let values = self.selectors.iter().map(|selector| number(row, *selector)).collect();
            self.rows.entry(key).or_default().push((self.at, values));
        }
    }
}

fn number<F: Family>(row: &F, selector: ColumnSelector) -> f64 {
    let column = F::INFO.metrics.iter().position(|metric| metric.name == selector.name());
    let number = match (column.and_then(|column| row.value(column)), selector) {
        (Some(Value::Counter(counter)), ColumnSelector::Number(_)) => counter.get().map(|count| count as f64),
        (Some(Value::Gauge(gauge)), ColumnSelector::Number(_)) => gauge.get(),
        (Some(Value::State(state)), ColumnSelector::Is(_, word)) => {
            state.get().map(|is| f64::from(u8::from(is == word)))
        }
        _ => None,
    };
    number.unwrap_or(f64::NAN)
}
