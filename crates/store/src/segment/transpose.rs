//! Transposes a tail: from samples, each with all entities, to entities, each over time, as in Parquet files.
//!
//! Changes are kept as encoded in the tail, so that this takes no more memory than the decompressed tail.

use crate::bytes::{Cursor, Damaged, put_number};
use crate::frame::{DecodedFrame, Edit, EncodedChange, TableEdits, Texts, absent_row};
use crate::schema::Table;
use crate::tail::{TailPart, TailReader};
use std::ops::Range;
use whyslow_model::key::KeyPart;
use whyslow_model::value::Value;

pub(crate) struct TailByEntity {
    /// Time of each sample.
    pub(crate) times: Vec<i64>,
    /// Time since boot at each sample.
    pub(crate) clocks: Vec<u64>,
    /// History of each table in the tail's header.
    pub(crate) tables: Vec<TableHistory>,
    pub(crate) texts: Texts,
    /// Samples damaged beyond repair.
    pub(crate) lost: usize,
    /// True if the last sample is incomplete, and left out.
    pub(crate) is_cut: bool,
}

#[derive(Default)]
pub(crate) struct TableHistory {
    /// Samples in which the table was read. A reading is numbered by its position here.
    read_at: Vec<usize>,
    entities: Vec<EntityHistory>,
    /// The entities in the newest reading, in the tail's order.
    current: Vec<usize>,
}

struct EntityHistory {
    key: Vec<KeyPart>,
    /// Events, each with the number of readings since the last event, its kind, and its changes. The first event has
    /// the whole row.
    log: Vec<u8>,
    /// Reading of the last event.
    last: usize,
}

/// Kinds of an entity's events: it disappeared for good, or changed.
const GONE: u8 = 0;
const CHANGED: u8 = 1;

impl TailByEntity {
    /// Reads a tail. Leaves out damaged frames, and those after them up to the next state.
    pub(crate) fn read(mut tail: TailReader) -> Self {
        let tables = tail.header().tables.clone();
        let mut all = Self::new(&tables);
        let mut before = (0, 0);
        while let Some(part) = tail.next_part() {
            match part {
                TailPart::Frame(frame) => match all.add(&frame, before, &tables) {
                    Ok(at) => before = at,
                    Err(Damaged) => tail.reject(),
                },
                TailPart::State(state) => match all.restore(&state, &tables) {
                    Ok(at) => before = at,
                    Err(Damaged) => tail.reject_state(),
                },
            }
        }
        all.shrink();
        Self { lost: tail.lost(), is_cut: tail.is_cut(), ..all }
    }

    /// Reads the samples of consecutive frames, the first of which is complete, up to the first invalid one.
    pub(crate) fn of_frames<B: AsRef<[u8]>>(tables: &[Table], frames: impl Iterator<Item = B>) -> Self {
        let mut all = Self::new(tables);
        let mut before = (0, 0);
        for frame in frames {
            let Ok(at) = all.add(frame.as_ref(), before, tables) else { break };
            before = at;
        }
        all.shrink();
        all
    }

    fn new(tables: &[Table]) -> Self {
        Self {
            times: Vec::new(),
            clocks: Vec::new(),
            tables: tables.iter().map(|_| TableHistory::default()).collect(),
            texts: Texts::default(),
            lost: 0,
            is_cut: false,
        }
    }

    /// Adds the next frame, entirely or not at all, and returns its times. `before` has those of the previous one.
    fn add(&mut self, frame: &[u8], before: (i64, u64), tables: &[Table]) -> Result<(i64, u64), Damaged> {
        let frame = DecodedFrame::parse(frame, before, tables, &mut self.texts)?;
        let is_once = frame.tables.is_sorted_by(|a, b| a.table < b.table);
        if !is_once || !frame.tables.iter().all(|edits| self.tables[edits.table].fits(edits)) {
            return Err(Damaged);
        }
        let sample = self.times.len();
        frame.tables.iter().try_for_each(|edits| self.tables[edits.table].add(sample, edits))?;
        self.times.push(frame.wall_ns);
        self.clocks.push(frame.boot_ns);
        Ok((frame.wall_ns, frame.boot_ns))
    }

    /// Replaces the state that the next frame is relative to, and returns the times of the sample before it.
    fn restore(&mut self, state: &[u8], tables: &[Table]) -> Result<(i64, u64), Damaged> {
        let mut texts = Texts::default();
        let state = DecodedFrame::parse(state, (0, 0), tables, &mut texts)?;
        let is_insert = |edit: &Edit| matches!(edit, Edit::Insert(..));
        if !state.tables.iter().all(|edits| edits.edits.iter().all(is_insert)) {
            return Err(Damaged);
        }
        // The texts of rows that were read already come first in it.
        self.texts = texts;
        self.tables.iter_mut().for_each(TableHistory::forget);
        state.tables.iter().try_for_each(|edits| self.tables[edits.table].apply(edits))?;
        Ok((state.wall_ns, state.boot_ns))
    }

    /// Frees spare capacity, which would be a third of the memory.
    fn shrink(&mut self) {
        self.tables.iter_mut().flat_map(|table| &mut table.entities).for_each(|entity| entity.log.shrink_to_fit());
    }

    /// Returns the approximate memory use in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let entity = |entity: &EntityHistory| size_of::<EntityHistory>() + entity.log.len();
        self.tables.iter().flat_map(|table| &table.entities).map(entity).sum()
    }
}

impl TableHistory {
    fn add(&mut self, sample: usize, edits: &TableEdits) -> Result<(), Damaged> {
        self.apply(edits)?;
        self.read_at.push(sample);
        Ok(())
    }

    /// Returns whether edits cover the newest rows.
    fn fits(&self, edits: &TableEdits) -> bool {
        let rows = |edit: &Edit| match edit {
            Edit::Keep(count) | Edit::Drop(count) => *count,
            Edit::Change(_) => 1,
            Edit::Insert(..) => 0,
        };
        edits.edits.iter().try_fold(0_usize, |sum, edit| sum.checked_add(rows(edit))) == Some(self.current.len())
    }

    /// Ends all rows with the newest reading.
    fn forget(&mut self) {
        let reading = self.read_at.len();
        for entity in std::mem::take(&mut self.current) {
            self.entities[entity].note(reading, GONE);
        }
    }

    /// Records the differences in the next reading.
    fn apply(&mut self, edits: &TableEdits) -> Result<(), Damaged> {
        let reading = self.read_at.len();
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

    /// Returns whether the table was never read.
    pub(super) fn is_empty(&self) -> bool {
        self.read_at.is_empty()
    }

    /// Returns whether any reading of the table had a row.
    pub(crate) fn has_rows(&self) -> bool {
        !self.entities.is_empty()
    }

    /// Passes on all rows, sorted by entity and time: the times of consecutive equal rows, their key and their values.
    /// `times` has one entry for each sample.
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
        // The log was validated when it was written, so it ends cleanly.
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
