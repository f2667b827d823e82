//! Reads rows of any family, and converts untyped rows into typed ones.

use super::{Families, Recording, TimeRange};
use crate::error::StoreError;
use crate::schema::Table;
use whyslow_model::catalogue::{EachFamily, Family, FamilyInfo, Metric};
use whyslow_model::key::{Key, KeyPart};
use whyslow_model::row::AnyRow;
use whyslow_model::snapshot::Snapshot;

impl Recording {
    /// Passes on the samples of a span of any length, in order, until `each` returns false.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub fn each_sample(
        &self,
        span: &TimeRange,
        families: &Families<'_>,
        mut each: impl FnMut(Snapshot) -> bool,
    ) -> Result<(), StoreError> {
        for segment in &self.segments {
            for slice in self.slices(segment, span)? {
                for sample in self.read(segment, &slice, families)? {
                    if !each(sample) {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Passes on the rows of a family over a span of any length, in order of time, until `each` returns false.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub fn each_row(
        &self,
        span: &TimeRange,
        family: &str,
        mut each: impl FnMut(AnyRow) -> bool,
    ) -> Result<(), StoreError> {
        self.each_sample(span, &|name: &str| name == family, |mut sample| {
            let (at, clock) = (sample.wall_ns, sample.boot_ns);
            let mut rows = RowVisitor { family, at, clock, each: &mut each, goes_on: true };
            sample.each_family(&mut rows);
            rows.goes_on
        })
    }
}

struct RowVisitor<'a, E> {
    family: &'a str,
    at: i64,
    clock: u64,
    each: &'a mut E,
    goes_on: bool,
}

impl<E: FnMut(AnyRow) -> bool> EachFamily for RowVisitor<'_, E> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        if F::INFO.name != self.family {
            return;
        }
        for row in rows {
            let mut key = Vec::new();
            row.key().take_apart(&mut key);
            let values = (0..F::INFO.metrics.len()).filter_map(|column| row.value(column)).collect();
            self.goes_on = self.goes_on && (self.each)(AnyRow { at: self.at, clock: self.clock, key, values });
        }
    }
}

/// Returns the table's column for each metric of a family; `None` if the table lacks it, or has another kind of that
/// name.
pub(super) fn column_map(family: &FamilyInfo, table: &Table) -> Vec<Option<usize>> {
    let column =
        |metric: &Metric| table.metrics.iter().position(|field| field.name == metric.name && field.kind == metric.kind);
    family.metrics.iter().map(column).collect()
}

/// Creates a row with this key; `None` if it is not a key of the family.
pub(super) fn typed_row<F: Family>(key: impl IntoIterator<Item = KeyPart>) -> Option<F> {
    let mut parts = key.into_iter();
    let key = F::Key::put_together(&mut parts)?;
    parts.next().is_none().then(|| F::keyed(key))
}

/// Sorts the rows of every family by key: another version may have sorted them differently.
pub(super) struct SortByKey;

impl EachFamily for SortByKey {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        rows.sort_by(|a, b| a.key().cmp(b.key()));
    }
}
