//! Samples out of a tail.

use super::{Families, Span, rows};
use crate::error::StoreError;
use crate::frame::{Frame, Row, Texts};
use crate::schema::Table;
use crate::tail::TailReader;
use std::path::Path;
use whyslow_model::catalogue::{EachFamily, Family};
use whyslow_model::snapshot::Snapshot;

/// The rows of each table as the last frame left them.
struct Tables {
    tables: Vec<Table>,
    rows: Vec<Vec<Row>>,
    /// Which of them the last frame read.
    read: Vec<bool>,
    texts: Texts,
    /// Wall clock and time since boot at the last frame.
    time: (i64, u64),
}

impl Tables {
    fn new(reader: &TailReader) -> Self {
        let tables = reader.header().tables.clone();
        let (rows, read) = (vec![Vec::new(); tables.len()], vec![false; tables.len()]);
        Self { tables, rows, read, texts: Texts::default(), time: (0, 0) }
    }

    /// Goes on by a frame. False at the end.
    fn advance(&mut self, reader: &mut TailReader) -> bool {
        let Some(bytes) = reader.next_frame() else { return false };
        let Ok(frame) = Frame::parse(&bytes, self.time, &self.tables, &mut self.texts) else {
            reader.give_up();
            return false;
        };
        self.time = (frame.wall_ns, frame.boot_ns);
        self.read.fill(false);
        let sound = frame.tables.iter().all(|edits| {
            self.read[edits.table] = true;
            edits.apply(&mut self.rows[edits.table], &self.tables[edits.table], &self.texts).is_ok()
        });
        if !sound {
            reader.give_up();
        }
        sound
    }
}

/// When the first sample of a tail was begun and when the last, and the time since boot at the first; `None` where there
/// is none.
pub(super) fn extent(reader: &mut TailReader) -> Option<(Span, u64)> {
    let mut tables = Tables::new(reader);
    let mut extent: Option<(Span, u64)> = None;
    while tables.advance(reader) {
        let (at, clock) = tables.time;
        extent = Some(extent.map_or((at..=at, clock), |(span, clock)| (*span.start()..=at, clock)));
    }
    extent
}

/// The samples of a span.
pub(super) fn read(path: &Path, span: &Span, families: &dyn Families) -> Result<Vec<Snapshot>, StoreError> {
    let Some(mut reader) = TailReader::open(path)? else { return Ok(Vec::new()) };
    let mut tables = Tables::new(&reader);
    let mut plans = Plans::default();
    let mut snapshots = Vec::new();
    while tables.advance(&mut reader) {
        if span.contains(&tables.time.0) {
            let (wall_ns, boot_ns) = tables.time;
            let mut snapshot = Snapshot { wall_ns, boot_ns, ..Snapshot::default() };
            plans.next = 0;
            snapshot.each_family(&mut Fill { tables: &tables, plans: &mut plans, families });
            snapshot.each_family(&mut rows::Sort);
            snapshots.push(snapshot);
        }
    }
    Ok(snapshots)
}

/// For each family, in order: its table, and the columns of its metrics.
#[derive(Default)]
struct Plans {
    plans: Vec<Option<(usize, Vec<Option<usize>>)>>,
    next: usize,
}

impl Plans {
    fn next<F: Family>(&mut self, tables: &[Table]) -> Option<&(usize, Vec<Option<usize>>)> {
        if self.next == self.plans.len() {
            let table = tables.iter().position(|table| table.name == F::INFO.name);
            self.plans.push(table.map(|at| (at, rows::places::<F>(&tables[at]))));
        }
        self.next += 1;
        self.plans.get(self.next - 1)?.as_ref()
    }
}

struct Fill<'a> {
    tables: &'a Tables,
    plans: &'a mut Plans,
    families: &'a dyn Families,
}

impl EachFamily for Fill<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        let Some((table, places)) = self.plans.next::<F>(&self.tables.tables) else { return };
        if !self.tables.read[*table] || !self.families.wants(F::INFO.name) {
            return;
        }
        for row in &self.tables.rows[*table] {
            if let Some(mut typed) = rows::row::<F>(row.key.iter().cloned()) {
                rows::fill(&mut typed, places, &row.values);
                rows.push(typed);
            }
        }
    }
}
