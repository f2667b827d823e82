//! The rows of one family, whatever their type: for exports.

use super::windows::slices;
use super::{Recording, Span};
use crate::error::StoreError;
use whyslow_model::catalogue::{EachFamily, Family, FamilyInfo};
use whyslow_model::key::{Key, Part};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Value;

/// A row of any family.
#[derive(Clone, Debug, PartialEq)]
pub struct AnyRow {
    /// When its sample was begun, nanoseconds since 1970.
    pub at: i64,
    /// Time since boot at its sample, nanoseconds: rates use this.
    pub clock: u64,
    /// What tells it from the others, in the order of the family's key columns.
    pub key: Vec<Part>,
    /// Its metrics, in the family's order.
    pub values: Vec<Value>,
}

/// Every family that a recording can have, in the catalogue's order, and last how the sources fared.
pub fn families() -> Vec<FamilyInfo> {
    struct Infos(Vec<FamilyInfo>);
    impl EachFamily for Infos {
        fn family<F: Family>(&mut self, _: &mut Vec<F>) {
            self.0.push(F::INFO);
        }
    }
    let mut infos = Infos(Vec::new());
    Snapshot::default().each_family(&mut infos);
    infos.0
}

impl Recording {
    /// Shows the rows of a family over a span of any length, in the order of time. Ends where `each` does not want more.
    ///
    /// # Errors
    /// Where a file cannot be read.
    pub fn each_row(&self, span: &Span, family: &str, mut each: impl FnMut(AnyRow) -> bool) -> Result<(), StoreError> {
        let wanted = |name: &str| name == family;
        for stretch in &self.stretches {
            for slice in slices(&stretch.span, span) {
                for mut sample in self.read(stretch, &slice, &wanted)? {
                    let mut rows =
                        Rows { family, at: sample.wall_ns, clock: sample.boot_ns, each: &mut each, goes_on: true };
                    sample.each_family(&mut rows);
                    if !rows.goes_on {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }
}

struct Rows<'a, E> {
    family: &'a str,
    at: i64,
    clock: u64,
    each: &'a mut E,
    goes_on: bool,
}

impl<E: FnMut(AnyRow) -> bool> EachFamily for Rows<'_, E> {
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
