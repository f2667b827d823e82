//! Samples from a tail.

use super::rows::{SortByKey, column_map, typed_row};
use super::{Families, Span};
use crate::error::StoreError;
use crate::frame::{DecodedFrame, Row, Texts};
use crate::schema::Table;
use crate::tail::TailReader;
use std::path::Path;
use whyslow_model::catalogue::{EachFamily, Family};
use whyslow_model::snapshot::Snapshot;

/// The rows of each table after the last frame.
struct TailState {
    tables: Vec<Table>,
    rows: Vec<Vec<Row>>,
    /// The tables that the last frame had.
    read: Vec<bool>,
    texts: Texts,
    /// Wall clock and time since boot at the last frame.
    time: (i64, u64),
}

impl TailState {
    fn new(reader: &TailReader) -> Self {
        let tables = reader.header().tables.clone();
        let (rows, read) = (vec![Vec::new(); tables.len()], vec![false; tables.len()]);
        Self { tables, rows, read, texts: Texts::default(), time: (0, 0) }
    }

    /// Applies the next frame; false at the end, or at damage.
    fn advance(&mut self, reader: &mut TailReader) -> bool {
        let Some(bytes) = reader.next_frame() else { return false };
        let Ok(frame) = DecodedFrame::parse(&bytes, self.time, &self.tables, &mut self.texts) else {
            reader.give_up();
            return false;
        };
        self.time = (frame.wall_ns, frame.boot_ns);
        self.read.fill(false);
        let valid = frame.tables.iter().all(|edits| {
            self.read[edits.table] = true;
            edits.apply(&mut self.rows[edits.table], &self.tables[edits.table], &self.texts).is_ok()
        });
        if !valid {
            reader.give_up();
        }
        valid
    }
}

/// The times of the first and last samples of a tail, and the time since boot at the first; `None` if there are none.
pub(super) fn extent(reader: &mut TailReader) -> Option<(Span, u64)> {
    let mut state = TailState::new(reader);
    let mut extent: Option<(Span, u64)> = None;
    while state.advance(reader) {
        let (at, clock) = state.time;
        extent = Some(extent.map_or((at..=at, clock), |(span, clock)| (*span.start()..=at, clock)));
    }
    extent
}

/// The samples of a span.
pub(super) fn read(path: &Path, span: &Span, families: &dyn Families) -> Result<Vec<Snapshot>, StoreError> {
    let Some(mut reader) = TailReader::open(path)? else { return Ok(Vec::new()) };
    let mut state = TailState::new(&reader);
    let mut sources = Vec::new();
    let mut snapshots = Vec::new();
    while state.advance(&mut reader) {
        if span.contains(&state.time.0) {
            let (wall_ns, boot_ns) = state.time;
            let mut snapshot = Snapshot { wall_ns, boot_ns, ..Snapshot::default() };
            snapshot.each_family(&mut SnapshotFiller { state: &state, sources: &mut sources, next: 0, families });
            snapshot.each_family(&mut SortByKey);
            snapshots.push(snapshot);
        }
    }
    Ok(snapshots)
}

/// Where a family's rows come from: its table, and the column of each metric.
type FamilySource = Option<(usize, Vec<Option<usize>>)>;

struct SnapshotFiller<'a> {
    state: &'a TailState,
    /// For each family, in order; determined in the first snapshot.
    sources: &'a mut Vec<FamilySource>,
    next: usize,
    families: &'a dyn Families,
}

impl EachFamily for SnapshotFiller<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        if self.next == self.sources.len() {
            let tables = &self.state.tables;
            let table = tables.iter().position(|table| table.name == F::INFO.name);
            self.sources.push(table.map(|table| (table, column_map::<F>(&tables[table]))));
        }
        self.next += 1;
        let Some((table, columns)) = &self.sources[self.next - 1] else { return };
        if !self.state.read[*table] || !self.families.wants(F::INFO.name) {
            return;
        }
        for row in &self.state.rows[*table] {
            let Some(mut typed) = typed_row::<F>(row.key.iter().cloned()) else { continue };
            for (metric, column) in columns.iter().enumerate() {
                if let Some(value) = column.and_then(|column| row.values.get(column)) {
                    typed.put(metric, value.clone());
                }
            }
            rows.push(typed);
        }
    }
}
