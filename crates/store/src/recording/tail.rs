//! Reads samples from a tail.

use super::rows::{column_map, typed_row};
use super::tail_cache::ReadTail;
use super::{Families, TimeRange};
use crate::schema::Table;
use crate::segment::TailByEntity;
use std::convert::Infallible;
use whyslow_model::catalogue::{EachFamily, Family};
use whyslow_model::snapshot::Snapshot;

pub(super) fn snapshots(tail: &ReadTail, span: &TimeRange, families: &Families<'_>) -> Vec<Snapshot> {
    let ReadTail { tables, samples: tail, .. } = tail;
    let times = tail.times.iter().zip(&tail.clocks);
    let wanted = times.enumerate().filter(|(_, (at, _))| span.contains(at));
    let (mut snapshots, mut numbers) = (Vec::new(), vec![None; tail.times.len()]);
    for (sample, (&wall_ns, &boot_ns)) in wanted {
        numbers[sample] = Some(snapshots.len());
        snapshots.push(Snapshot { wall_ns, boot_ns, ..Snapshot::default() });
    }
    let mut filler = SnapshotFiller { tail, tables, numbers, families, snapshots };
    Snapshot::default().each_family(&mut filler);
    filler.snapshots
}

/// Adds each family's rows to the snapshots.
struct SnapshotFiller<'a> {
    tail: &'a TailByEntity,
    tables: &'a [Table],
    /// Index among the snapshots for each sample of the tail.
    numbers: Vec<Option<usize>>,
    families: &'a Families<'a>,
    snapshots: Vec<Snapshot>,
}

impl EachFamily for SnapshotFiller<'_> {
    fn family<F: Family>(&mut self, _: &mut Vec<F>) {
        let table = self.tables.iter().position(|table| F::INFO.is_named(&table.name));
        let Some(table) = table.filter(|_| (self.families)(F::INFO.name)) else { return };
        let (history, table) = (&self.tail.tables[table], &self.tables[table]);
        let columns = column_map(&F::INFO, table);
        let snapshots = &mut self.snapshots;
        let Ok(()) = history.each_row(table, &self.numbers, &self.tail.texts, |numbers, key, values| {
            let Some(mut row) = typed_row::<F>(key.iter().cloned()) else { return Ok::<(), Infallible>(()) };
            for (metric, column) in columns.iter().enumerate() {
                if let Some(value) = column.and_then(|column| values.get(column)) {
                    row.put(metric, value.clone());
                }
            }
            for number in numbers.iter().flatten() {
                F::rows_mut(&mut snapshots[*number]).push(row.clone());
            }
            Ok(())
        });
        for snapshot in snapshots.iter_mut().filter(|snapshot| !F::rows(snapshot).is_empty()) {
            F::rows_mut(snapshot).sort_by(|a, b| a.key().cmp(b.key()));
        }
    }
}
