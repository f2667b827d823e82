//! A tail turned on its side: by entity instead of by time.
//!
//! Files are sorted by entity and time, and a tail by time. What changed is kept as the tail spells it, so that ten
//! minutes take no more memory than the tail does when it is expanded.

use crate::bytes::{Cursor, Damaged, put_number};
use crate::frame::{Change, Edit, Frame, Row, TableEdits, Texts};
use crate::schema::Table;
use crate::tail::TailReader;
use std::ops::Range;
use whyslow_model::key::Part;
use whyslow_model::value::Value;

/// All of a tail.
pub(super) struct Gathered {
    /// When each sample was begun.
    pub(super) times: Vec<i64>,
    /// Time since boot at the first.
    pub(super) clock: u64,
    /// One for each table of the tail's header.
    pub(super) tables: Vec<TableLog>,
    pub(super) texts: Texts,
    /// Samples that were damaged beyond repair.
    pub(super) lost: usize,
}

/// What became of a table's entities.
#[derive(Default)]
pub(super) struct TableLog {
    /// Which samples have rows of the table.
    read_at: Vec<usize>,
    entities: Vec<Entity>,
    /// The entities there were last, in the tail's order.
    now: Vec<usize>,
}

/// What became of one entity.
struct Entity {
    key: Vec<Part>,
    /// For each event: readings of the table since the event before, what happened, and what changed; the first tells the whole row.
    log: Vec<u8>,
    /// The reading of the last event.
    last: usize,
}

/// What happened to an entity: it is gone for good, or there is a change.
const GONE: u8 = 0;
const CHANGED: u8 = 1;

impl Gathered {
    /// Everything in a tail, as far as it is whole.
    pub(super) fn of(mut tail: TailReader) -> Self {
        let header = tail.header().clone();
        let tables = header.tables.iter().map(|_| TableLog::default()).collect();
        let mut all = Self { times: Vec::new(), clock: 0, tables, texts: Texts::default(), lost: 0 };
        let mut before = (0, 0);
        while let Some(bytes) = tail.next_frame() {
            let Ok(frame) = Frame::parse(&bytes, before, &header.tables, &mut all.texts) else {
                tail.give_up();
                break;
            };
            before = (frame.wall_ns, frame.boot_ns);
            if all.add(&frame).is_err() {
                tail.give_up();
                break;
            }
            if all.times.is_empty() {
                all.clock = frame.boot_ns;
            }
            all.times.push(frame.wall_ns);
        }
        all.lost = tail.lost();
        let samples = all.times.len();
        for table in &mut all.tables {
            table.read_at.retain(|sample| *sample < samples);
            // Room to grow is a third of what they hold.
            table.entities.iter_mut().for_each(|entity| entity.log.shrink_to_fit());
        }
        all
    }

    fn add(&mut self, frame: &Frame) -> Result<(), Damaged> {
        let sample = self.times.len();
        frame.tables.iter().try_for_each(|edits| self.tables[edits.table].add(sample, edits))
    }
}

impl TableLog {
    fn add(&mut self, sample: usize, edits: &TableEdits) -> Result<(), Damaged> {
        let reading = self.read_at.len();
        self.read_at.push(sample);
        let mut old = std::mem::take(&mut self.now).into_iter();
        for edit in &edits.edits {
            match edit {
                Edit::Keep(count) if *count <= old.len() => self.now.extend(old.by_ref().take(*count)),
                Edit::Drop(count) if *count <= old.len() => {
                    old.by_ref().take(*count).for_each(|entity| self.entities[entity].note(reading, GONE));
                }
                Edit::Change(change) => {
                    let entity = old.next().ok_or(Damaged)?;
                    self.entities[entity].note(reading, CHANGED);
                    change.put(&mut self.entities[entity].log);
                    self.now.push(entity);
                }
                Edit::Insert(key, change) => {
                    let mut entity = Entity { key: key.clone(), log: Vec::new(), last: 0 };
                    entity.note(reading, CHANGED);
                    change.put(&mut entity.log);
                    self.now.push(self.entities.len());
                    self.entities.push(entity);
                }
                Edit::Keep(_) | Edit::Drop(_) => return Err(Damaged),
            }
        }
        if old.len() == 0 { Ok(()) } else { Err(Damaged) }
    }

    /// Whether the table was ever read.
    pub(super) fn is_empty(&self) -> bool {
        self.read_at.is_empty()
    }

    /// Shows every row, sorted by entity and time: when, of what, and its values; as many in a row as are the same.
    pub(super) fn each_row<E>(
        &self,
        table: &Table,
        times: &[i64],
        texts: &Texts,
        mut each: impl FnMut(&[i64], &[Part], &[Value]) -> Result<(), E>,
    ) -> Result<(), E> {
        let at: Vec<i64> = self.read_at.iter().filter_map(|sample| times.get(*sample).copied()).collect();
        let mut entities: Vec<&Entity> = self.entities.iter().collect();
        entities.sort_by(|a, b| a.key.cmp(&b.key));
        for entity in entities {
            entity.each_stretch(at.len(), table, texts, |stretch, values| each(&at[stretch], &entity.key, values))?;
        }
        Ok(())
    }
}

impl Entity {
    fn note(&mut self, reading: usize, what: u8) {
        put_number(&mut self.log, (reading - self.last) as u64);
        self.log.push(what);
        self.last = reading;
    }

    /// Shows the readings over which nothing changed, and the values they had.
    fn each_stretch<E>(
        &self,
        readings: usize,
        table: &Table,
        texts: &Texts,
        mut each: impl FnMut(Range<usize>, &[Value]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut row = Row::absent(Vec::new(), table);
        let (mut since, mut there) = (0, false);
        let mut log = Cursor::new(&self.log);
        // It was taken apart once before it got here, so it ends where it should.
        while let Ok(step) = log.number() {
            let until = since + step as usize;
            if there && since < until.min(readings) {
                each(since..until.min(readings), &row.values)?;
            }
            since = until;
            there = log.byte() != Ok(GONE);
            if there {
                let Ok(change) = Change::of(&mut log, table) else { return Ok(()) };
                if change.apply(&mut row.values, texts).is_err() {
                    return Ok(());
                }
            }
        }
        if there && since < readings { each(since..readings, &row.values) } else { Ok(()) }
    }
}
