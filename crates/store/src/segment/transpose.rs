//! Transposes a tail: from samples, each with all entities, to entities, each over time, as Parquet files have them.
//!
//! Changes are kept as the tail encodes them, so that this takes no more memory than the tail, decompressed.

use crate::bytes::{Cursor, Damaged, put_number};
use crate::frame::{DecodedFrame, Edit, EncodedChange, TableEdits, Texts, absent_row};
use crate::schema::Table;
use crate::tail::TailReader;
use std::ops::Range;
use whyslow_model::key::KeyPart;
use whyslow_model::value::Value;

pub(crate) struct TailByEntity {
    /// When each sample was taken.
    pub(crate) times: Vec<i64>,
    /// Time since boot at each sample.
    pub(crate) clocks: Vec<u64>,
    /// One for each table in the tail's header.
    pub(crate) tables: Vec<TableHistory>,
    pub(crate) texts: Texts,
    /// Samples damaged beyond repair.
    pub(crate) lost: usize,
}

#[derive(Default)]
pub(crate) struct TableHistory {
    /// The samples in which the table was read. A reading is numbered by its position here.
    read_at: Vec<usize>,
    entities: Vec<EntityHistory>,
    /// The entities in the newest reading, in the tail's order.
    current: Vec<usize>,
}

struct EntityHistory {
    key: Vec<KeyPart>,
    /// For each event: readings since the last event, what happened, and what changed. The first event has the whole row.
    log: Vec<u8>,
    /// The reading of the last event.
    last: usize,
}

/// An entity's events: it disappeared for good, or changed.
const GONE: u8 = 0;
const CHANGED: u8 = 1;

impl TailByEntity {
    /// Reads a tail up to its end, or up to damage.
    pub(crate) fn read(mut tail: TailReader) -> Self {
        let tables = tail.header().tables.clone();
        let (all, is_whole) = Self::of_frames(&tables, std::iter::from_fn(|| tail.next_frame()));
        if !is_whole {
            tail.give_up();
        }
        Self { lost: tail.lost(), ..all }
    }

    /// The samples of consecutive frames, the first of which is complete, and whether all frames were valid: those from the first
    /// invalid one on are left out.
    pub(crate) fn of_frames<B: AsRef<[u8]>>(tables: &[Table], frames: impl Iterator<Item = B>) -> (Self, bool) {
        let histories = tables.iter().map(|_| TableHistory::default()).collect();
        let mut all =
            Self { times: Vec::new(), clocks: Vec::new(), tables: histories, texts: Texts::default(), lost: 0 };
        let mut is_whole = true;
        let mut before = (0, 0);
        for bytes in frames {
            let frame = DecodedFrame::parse(bytes.as_ref(), before, tables, &mut all.texts);
            let Some(frame) = frame.ok().filter(|frame| all.add(frame).is_ok()) else {
                is_whole = false;
                break;
            };
            before = (frame.wall_ns, frame.boot_ns);
            all.times.push(frame.wall_ns);
            all.clocks.push(frame.boot_ns);
        }
        let samples = all.times.len();
        for table in &mut all.tables {
            table.read_at.retain(|sample| *sample < samples);
            // A third of the memory would be spare capacity.
            table.entities.iter_mut().for_each(|entity| entity.log.shrink_to_fit());
        }
        (all, is_whole)
    }

    fn add(&mut self, frame: &DecodedFrame) -> Result<(), Damaged> {
        let sample = self.times.len();
        frame.tables.iter().try_for_each(|edits| self.tables[edits.table].add(sample, edits))
    }
}

impl TableHistory {
    fn add(&mut self, sample: usize, edits: &TableEdits) -> Result<(), Damaged> {
        let reading = self.read_at.len();
        self.read_at.push(sample);
        let mut old = std::mem::take(&mut self.current).into_iter();
        for edit in &edits.edits {
            match edit {
                Edit::Keep(count) if *count <= old.len() => self.current.extend(old.by_ref().take(*count)),
                Edit::Drop(count) if *count <= old.len() => {
                    old.by_ref().take(*count).for_each(|entity| self.entities[entity].note(reading, GONE));
                }
                Edit::Change(change) => {
                    let entity = old.next().ok_or(Damaged)?;
                    self.entities[entity].note(reading, CHANGED);
                    change.put(&mut self.entities[entity].log);
                    self.current.push(entity);
                }
                Edit::Insert(key, change) => {
                    let mut entity = EntityHistory { key: key.clone(), log: Vec::new(), last: 0 };
                    entity.note(reading, CHANGED);
                    change.put(&mut entity.log);
                    self.current.push(self.entities.len());
                    self.entities.push(entity);
                }
                Edit::Keep(_) | Edit::Drop(_) => return Err(Damaged),
            }
        }
        if old.len() == 0 { Ok(()) } else { Err(Damaged) }
    }

    /// Whether the table was never read.
    pub(super) fn is_empty(&self) -> bool {
        self.read_at.is_empty()
    }

    /// Whether it had a row when it was read.
    pub(crate) fn has_rows(&self) -> bool {
        !self.entities.is_empty()
    }

    /// Passes on all rows, sorted by entity and time: the times of consecutive equal rows, their key and their values. `times` has
    /// one entry for each sample.
    pub(crate) fn each_row<T: Copy, E>(
        &self,
        table: &Table,
        times: &[T],
        texts: &Texts,
        mut each: impl FnMut(&[T], &[KeyPart], &[Value]) -> Result<(), E>,
    ) -> Result<(), E> {
        let at: Vec<T> = self.read_at.iter().filter_map(|sample| times.get(*sample).copied()).collect();
        let mut entities: Vec<&EntityHistory> = self.entities.iter().collect();
        entities.sort_by(|a, b| a.key.cmp(&b.key));
        for entity in entities {
            entity.each_run(at.len(), table, texts, |readings, values| each(&at[readings], &entity.key, values))?;
        }
        Ok(())
    }
}

impl EntityHistory {
    fn note(&mut self, reading: usize, what: u8) {
        put_number(&mut self.log, (reading - self.last) as u64);
        self.log.push(what);
        self.last = reading;
    }

    /// Passes on consecutive readings with equal values.
    fn each_run<E>(
        &self,
        readings: usize,
        table: &Table,
        texts: &Texts,
        mut each: impl FnMut(Range<usize>, &[Value]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut row = absent_row(table);
        let (mut since, mut exists) = (0, false);
        let mut log = Cursor::new(&self.log);
        // The log was parsed when it was written, so it ends cleanly.
        while let Ok(step) = log.number() {
            let until = since + step as usize;
            if exists && since < until.min(readings) {
                each(since..until.min(readings), &row)?;
            }
            since = until;
            exists = log.byte() != Ok(GONE);
            if exists {
                let Ok(change) = EncodedChange::parse(&mut log, table) else { return Ok(()) };
                if change.apply(&mut row, texts).is_err() {
                    return Ok(());
                }
            }
        }
        if exists && since < readings { each(since..readings, &row) } else { Ok(()) }
    }
}
