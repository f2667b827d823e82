//! Rows of any family into rows of one.

use crate::schema::Table;
use whyslow_model::catalogue::{EachFamily, Family};
use whyslow_model::key::{Key, Part};
use whyslow_model::value::Value;

/// Which column of a table each metric of a family is in; `None` for those it lacks, or has as another kind.
pub(super) fn places<F: Family>(table: &Table) -> Vec<Option<usize>> {
    let place = |metric: &whyslow_model::catalogue::Metric| {
        table.metrics.iter().position(|field| field.name == metric.name && field.kind == metric.kind)
    };
    F::INFO.metrics.iter().map(place).collect()
}

/// A row of the family. `None` where its key makes no sense.
pub(super) fn row<F: Family>(key: impl IntoIterator<Item = Part>) -> Option<F> {
    let mut parts = key.into_iter();
    let key = F::Key::put_together(&mut parts)?;
    parts.next().is_none().then(|| F::keyed(key))
}

/// Sets the metrics of a row that its table has.
pub(super) fn fill<F: Family>(row: &mut F, places: &[Option<usize>], values: &[Value]) {
    for (column, place) in places.iter().enumerate() {
        if let Some(value) = place.and_then(|place| values.get(place)) {
            row.put(column, value.clone());
        }
    }
}

/// Sorts the rows of every family by key: a recording may have them in another order.
pub(super) struct Sort;

impl EachFamily for Sort {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        rows.sort_by(|a, b| a.key().cmp(b.key()));
    }
}
