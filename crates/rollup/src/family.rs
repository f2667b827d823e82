//! Minutes of a family: the growth of its counters, and the mean and extremes of its levels.
//!
//! A step between two readings belongs to the minute in which it ends. Readings come segment by segment, and within it
//! entity by entity.

use crate::row::{Cell, Row};
use crate::tables::{Figure, figures};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use whyslow_exporters::{
    Entities, FactColumns, OTHERS, RowFacts, RowSelection, SelectedFamily, has_begun_since, most_active,
};
use whyslow_model::catalogue::{Metric, MetricKind};
use whyslow_model::histogram::{Histogram, span};
use whyslow_model::key::{KeyPart, KeyPartKind};
use whyslow_model::row::{ColumnReading, ColumnSelection};
use whyslow_model::value::{Name, Value};
use whyslow_series::{Samples, growth, is_same_entity};

/// Time for which a row is remembered, with a margin, nanoseconds: some rows are read only once a minute.
const REMEMBER_NS: u64 = 150 * 1_000_000_000;
/// Number of samples for which a row is remembered, regardless of the time between them.
const REMEMBER_SAMPLES: usize = 4;
/// Number of a recording's buckets that become one bucket of the store: 4 to an octave instead of 32.
const COARSER: u32 = 8;

/// Rows of a family by minute.
pub(crate) struct FamilyMinutes {
    selected: &'static SelectedFamily,
    facts: FactColumns,
    /// Columns to read, as positions in the family, ascending.
    columns: Vec<usize>,
    /// Positions in `columns` of the selected metrics, and of those by which entities are ranked.
    values: Vec<usize>,
    rank: Vec<Vec<usize>>,
    /// Column of the key with the start time of a task.
    start: Option<usize>,
    /// Last reading of each row.
    before: HashMap<Vec<KeyPart>, Before>,
    /// First sample of the segment that is being read.
    segment: usize,
    /// Position of each entity with rows in the table, by its key there.
    positions: BTreeMap<Vec<KeyPart>, usize>,
    entities: Vec<Entity>,
    /// For each sample whether it has rows of the family.
    seen: Vec<bool>,
    rows: u32,
}

struct Before {
    sample: usize,
    /// Unique number of the row.
    row: u32,
    /// Position of its entity.
    entity: usize,
    facts: RowFacts,
    values: Vec<Value>,
}

/// A single row, or all rows with one name.
struct Entity {
    key: Vec<KeyPart>,
    facts: RowFacts,
    /// Activity by each of the ways to rank; `None` if unknown.
    activity: Vec<Option<f64>>,
    /// True if any of its values was ever not zero.
    is_used: bool,
    minutes: BTreeMap<i64, Minute>,
}

#[derive(Clone)]
struct Minute {
    seconds: f64,
    /// The only row that was read; `None` if there were several.
    row: Option<u32>,
    /// Sum of each selected metric.
    sums: Vec<Sum>,
}

#[derive(Clone)]
enum Sum {
    Growth(Option<f64>),
    Level { sum: f64, readings: u32, least: f64, greatest: f64 },
    Words(Option<Name>),
    Histogram(Option<Histogram>),
}

impl FamilyMinutes {
    pub(crate) fn new(selected: &'static SelectedFamily, samples: usize) -> Self {
        let facts = FactColumns::for_family(selected);
        let ranked = selected.rank.iter().flatten().copied();
        let mut columns: Vec<usize> = selected.columns.iter().copied().chain(ranked).chain(facts.positions()).collect();
        columns.sort_unstable();
        columns.dedup();
        let find = |column: &usize| columns.binary_search(column).ok();
        let values = selected.columns.iter().filter_map(find).collect();
        let rank = selected.rank.iter().map(|ranked| ranked.iter().filter_map(find).collect()).collect();
        Self {
            selected,
            facts,
            values,
            rank,
            columns,
            start: selected.info.key_columns().position(|(name, _)| name == "start"),
            before: HashMap::new(),
            segment: 0,
            positions: BTreeMap::new(),
            entities: Vec::new(),
            seen: vec![false; samples],
            rows: 0,
        }
    }

    /// Returns the columns and samples to read: for histograms, which are long, only the last sample of each minute.
    pub(crate) fn selection(&self, wanted: &[bool], last_of_minutes: &[bool]) -> ColumnSelection {
        let is_histogram = |metric: &Metric| metric.kind == MetricKind::Histogram;
        let samples = if self.selected.metrics().any(is_histogram) { last_of_minutes } else { wanted };
        ColumnSelection {
            family: self.selected.info.name,
            metrics: self.columns.clone(),
            samples: Some(samples.to_vec()),
        }
    }

    /// Adds a reading from the segment with this first sample. `minute` is the start of its sample's minute; `None`
    /// outside of the hour.
    pub(crate) fn add(&mut self, samples: &Samples, segment: usize, minute: Option<i64>, reading: ColumnReading<'_>) {
        if segment != self.segment {
            self.segment = segment;
            self.forget(samples);
        }
        if let Some(seen) = self.seen.get_mut(reading.sample) {
            *seen = true;
        }
        let value = |column: usize| Some(reading.values.get(self.columns.binary_search(&column).ok()?)?.clone());
        let facts = self.facts.facts(value);
        let before = self.before.remove(reading.key);
        let metrics = self.columns.iter().filter_map(|column| self.selected.info.metrics.get(*column));
        let is_same = |before: &&Before| is_same_entity(metrics.clone(), &before.values, reading.values);
        let step = before.as_ref().filter(is_same).and_then(|before| {
            let step = samples.step(before.sample, reading.sample)?;
            Some((step as f64 / 1e9, &before.values))
        });
        let is_new = before.is_none() && self.has_begun(samples, &reading);
        let grown: Vec<Option<f64>> = metrics
            .clone()
            .zip(reading.values)
            .enumerate()
            .map(|(column, (metric, now))| match (step, now) {
                (Some((_, before)), _) => growth(metric, before.get(column)?, now),
                (None, Value::Counter(now)) if is_new => now.get().map(|now| now as f64),
                (None, _) => None,
            })
            .collect();
        let entity = match &before {
            Some(before) if before.facts == facts => before.entity,
            _ => self.entity(&facts, reading.key),
        };
        let row = before.as_ref().map_or(self.rows, |before| before.row);
        self.rows += u32::from(before.is_none());
        if let (Some(minute), Some(entity)) = (minute, self.entities.get_mut(entity)) {
            let values = Values { all: reading.values, grown: &grown, before: step.map(|(_, before)| &before[..]) };
            let sums = || self.selected.metrics().map(Sum::new).collect();
            let minute = match entity.minutes.entry(minute) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(Minute { seconds: 0.0, row: Some(row), sums: sums() }),
            };
            minute.seconds += step.map_or(0.0, |(seconds, _)| seconds);
            minute.row = minute.row.filter(|known| *known == row);
            for (sum, column) in minute.sums.iter_mut().zip(&self.values) {
                sum.add(&values, *column);
            }
            entity.is_used |= self.values.iter().any(|column| reading.values.get(*column).is_some_and(is_not_zero));
            for (activity, columns) in entity.activity.iter_mut().zip(&self.rank) {
                for active in columns.iter().filter_map(|column| values.activity(*column)) {
                    *activity = Some(activity.unwrap_or(0.0) + active);
                }
            }
            entity.facts.clone_from(&facts);
        }
        let values = reading.values.to_vec();
        self.before.insert(reading.key.to_vec(), Before { sample: reading.sample, row, entity, facts, values });
    }

    /// Returns whether this is a task that has started since the previous sample.
    fn has_begun(&self, samples: &Samples, reading: &ColumnReading<'_>) -> bool {
        let start = self.start.and_then(|column| reading.key.get(column));
        let last = reading.sample.checked_sub(1).filter(|last| samples.step(*last, reading.sample).is_some());
        let since = last.and_then(|last| samples.times().get(last));
        start.zip(since).is_some_and(|(start, since)| has_begun_since(start, since.clock))
    }

    /// Forgets rows whose last reading is too long before the segment.
    fn forget(&mut self, samples: &Samples) {
        let clock = |sample: usize| samples.times().get(sample).map_or(0, |time| time.clock);
        let now = clock(self.segment);
        let is_recent = |sample: usize| {
            now.abs_diff(clock(sample)) <= REMEMBER_NS || sample.saturating_add(REMEMBER_SAMPLES) >= self.segment
        };
        self.before.retain(|_, before| is_recent(before.sample));
    }

    /// Returns the position of the entity to which a row is added.
    fn entity(&mut self, facts: &RowFacts, key: &[KeyPart]) -> usize {
        let key = match (&facts.name, self.selected.entities) {
            (_, Entities::Sum) => Vec::new(),
            (Some(name), _) => vec![KeyPart::Text(name.clone())],
            (None, _) => key.to_vec(),
        };
        let entities = &mut self.entities;
        *self.positions.entry(key).or_insert_with_key(|key| {
            let activity = vec![None; self.rank.len()];
            let facts = facts.clone();
            entities.push(Entity { key: key.clone(), facts, activity, is_used: false, minutes: BTreeMap::new() });
            entities.len() - 1
        })
    }

    /// Returns the rows of its table, and those of each histogram's table, without the host.
    pub(crate) fn finish(
        mut self,
        samples: &Samples,
        minute_of: &[Option<i64>],
    ) -> (Vec<MinuteRow>, Vec<Vec<MinuteRow>>) {
        let selected = self.selected;
        self.leave_out_repeated();
        let observed = observed(samples, minute_of, &self.seen);
        let chosen = self.chosen();
        let figures = figures(selected);
        let histograms = selected.metrics().enumerate().filter(|(_, metric)| metric.kind == MetricKind::Histogram);
        let histograms: Vec<usize> = histograms.map(|(at, _)| at).collect();
        let (mut rows, mut buckets) = (Vec::new(), vec![Vec::new(); histograms.len()]);
        for chosen in &chosen {
            let key: Vec<Cell> = chosen.key.iter().map(cell).collect();
            for (at, minute) in &chosen.minutes {
                let of_family = observed.get(at).copied().unwrap_or_default();
                let is_whole = minute.row.is_some() && !chosen.is_sum;
                if !figures.is_empty() {
                    let seconds = if chosen.is_sum { of_family.seconds } else { minute.seconds };
                    let mut cells = vec![Cell::number(Some(seconds))];
                    cells.extend(key.iter().cloned());
                    let value = |(metric, figure, _): &(usize, Figure, _)| {
                        let samples = if chosen.is_sum { Some(of_family.samples) } else { None };
                        minute.sums.get(*metric).map_or(Cell::Null, |sum| sum.cell(*figure, samples, is_whole, minute))
                    };
                    let values: Vec<Cell> = figures.iter().map(value).collect();
                    if values.iter().any(|value| *value != Cell::Null) {
                        cells.extend(values);
                        rows.push(MinuteRow { at: *at, cells });
                    }
                }
                for (rows, metric) in buckets.iter_mut().zip(&histograms) {
                    rows.extend(minute.buckets(*metric).into_iter().map(|(at_least, count)| {
                        let bucket = [Cell::count(Some(at_least)), Cell::count(Some(count))];
                        MinuteRow { at: *at, cells: key.iter().cloned().chain(bucket).collect() }
                    }));
                }
            }
        }
        for rows in std::iter::once(&mut rows).chain(&mut buckets) {
            rows.sort_by_key(|row| row.at);
        }
        (rows, buckets)
    }

    /// Leaves out rows whose values are included in other rows of the same minute.
    fn leave_out_repeated(&mut self) {
        if self.selected.rows == RowSelection::All {
            return;
        }
        let minutes: BTreeSet<i64> = self.entities.iter().flat_map(|entity| entity.minutes.keys().copied()).collect();
        for minute in minutes {
            let there = self.entities.iter().enumerate().filter(|(_, entity)| entity.minutes.contains_key(&minute));
            let (positions, rows): (Vec<usize>, Vec<(&[KeyPart], &RowFacts)>) =
                there.map(|(at, entity)| (at, (&entity.key[..], &entity.facts))).unzip();
            let exported = self.selected.rows.are_exported(&rows);
            for (at, _) in positions.into_iter().zip(exported).filter(|(_, exported)| !exported) {
                self.entities[at].minutes.remove(&minute);
            }
        }
        self.entities.retain(|entity| !entity.minutes.is_empty());
    }

    /// Returns the entities that have rows in the table: the most active of the hour, and the sum of the others.
    fn chosen(self) -> Vec<ChosenEntity> {
        let namespace = self.selected.info.key_columns().position(|(name, _)| name == "ns");
        let is_ours = |key: &[KeyPart]| {
            namespace.is_none_or(|column| matches!(key.get(column), Some(KeyPart::Text(ns)) if ns.is_empty()))
        };
        let is_one = self.selected.info.key_columns.is_empty();
        let is_named = self.selected.named_by.is_some();
        let known = |way: &usize| self.entities.iter().any(|entity| entity.activity[*way].is_some());
        let way = (0..self.rank.len()).find(known);
        let activity = |entity: &Entity| way.and_then(|way| entity.activity[way]).unwrap_or(0.0);
        let used = self.entities.iter().enumerate().filter(|(_, entity)| is_one || entity.is_used);
        // If several are equal, the first by name wins.
        let ranked = used.map(|(at, entity)| ((entity.key.clone(), at), is_ours(&entity.key), activity(entity)));
        let (most, with_others) = match self.selected.entities {
            Entities::Most(most) => (most, false),
            Entities::MostAndOthers(most) => (most, true),
            Entities::Sum => (1, false),
        };
        let members: Vec<usize> = most_active(ranked, most).into_iter().map(|(_, at)| at).collect();
        let is_sum = is_named || self.selected.entities == Entities::Sum;
        let mut chosen: Vec<ChosenEntity> = Vec::new();
        let mut others: BTreeMap<i64, Minute> = BTreeMap::new();
        for (at, entity) in self.entities.into_iter().enumerate() {
            if members.contains(&at) {
                chosen.push(ChosenEntity { key: entity.key, minutes: entity.minutes, is_sum });
            } else if with_others {
                for (at, minute) in entity.minutes {
                    match others.entry(at) {
                        Entry::Occupied(mut known) => known.get_mut().merge(minute),
                        Entry::Vacant(new) => {
                            new.insert(Minute { row: None, ..minute });
                        }
                    }
                }
            }
        }
        chosen.sort_by(|a, b| a.key.cmp(&b.key));
        if !others.is_empty() {
            let kinds: Vec<KeyPartKind> = self.selected.info.key_columns().map(|(_, kind)| kind).collect();
            let kinds = if is_named { vec![KeyPartKind::Text] } else { kinds };
            let key = kinds.into_iter().map(|kind| match kind {
                KeyPartKind::Text => KeyPart::Text(OTHERS.into()),
                KeyPartKind::Number => KeyPart::Number(0),
            });
            chosen.push(ChosenEntity { key: key.collect(), minutes: others, is_sum: true });
        }
        chosen
    }
}

/// A row for one minute, without the host.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MinuteRow {
    /// Milliseconds since 1970.
    pub(crate) at: i64,
    pub(crate) cells: Row,
}

struct ChosenEntity {
    key: Vec<KeyPart>,
    minutes: BTreeMap<i64, Minute>,
    /// True if it adds up several rows, which may come and go.
    is_sum: bool,
}

/// Observed part of a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Observed {
    pub(crate) seconds: f64,
    pub(crate) samples: u32,
}

/// Returns the observed part of each minute that has any of these samples.
pub(crate) fn observed(samples: &Samples, minute_of: &[Option<i64>], seen: &[bool]) -> BTreeMap<i64, Observed> {
    let mut all: BTreeMap<i64, Observed> = BTreeMap::new();
    let mut last = None;
    for sample in (0..minute_of.len()).filter(|sample| seen.get(*sample) == Some(&true)) {
        let step = last.replace(sample).and_then(|last| samples.step(last, sample));
        if let Some(minute) = minute_of[sample] {
            let observed = all.entry(minute).or_default();
            observed.samples += 1;
            observed.seconds += step.map_or(0.0, |step| step as f64 / 1e9);
        }
    }
    all
}

/// Values of a reading, and their growth since the previous one.
struct Values<'a> {
    all: &'a [Value],
    grown: &'a [Option<f64>],
    before: Option<&'a [Value]>,
}

impl Values<'_> {
    /// Returns the activity of a row by a column; `None` if unknown.
    fn activity(&self, column: usize) -> Option<f64> {
        match self.all.get(column)? {
            Value::Counter(now) => {
                now.get()?;
                Some(self.grown.get(column).copied().flatten().unwrap_or(0.0))
            }
            Value::Gauge(level) => level.get(),
            Value::Histogram(now) => {
                now.count()?;
                Some(self.added(column).and_then(|added| added.count()).unwrap_or(0) as f64)
            }
            Value::State(_) => None,
        }
    }

    /// Returns the values added to a histogram.
    fn added(&self, column: usize) -> Option<Histogram> {
        match (self.before?.get(column)?, self.all.get(column)?) {
            (Value::Histogram(before), Value::Histogram(now)) => now.since(before),
            _ => None,
        }
    }
}

impl Sum {
    fn new(metric: &Metric) -> Self {
        match metric.kind {
            MetricKind::Counter => Self::Growth(None),
            MetricKind::Gauge => {
                Self::Level { sum: 0.0, readings: 0, least: f64::INFINITY, greatest: f64::NEG_INFINITY }
            }
            MetricKind::State => Self::Words(None),
            MetricKind::Histogram => Self::Histogram(None),
        }
    }

    fn add(&mut self, values: &Values<'_>, column: usize) {
        match self {
            Self::Growth(sum) => {
                if let Some(grown) = values.grown.get(column).copied().flatten() {
                    *sum = Some(sum.unwrap_or(0.0) + grown);
                }
            }
            Self::Level { sum, readings, least, greatest } => {
                let Some(Value::Gauge(level)) = values.all.get(column) else { return };
                if let Some(level) = level.get() {
                    *sum += level;
                    *readings += 1;
                    *least = least.min(level);
                    *greatest = greatest.max(level);
                }
            }
            Self::Words(words) => {
                let Some(Value::State(now)) = values.all.get(column) else { return };
                if let Some(now) = now.name() {
                    *words = Some(now.clone());
                }
            }
            Self::Histogram(sum) => {
                if let Some(added) = values.added(column) {
                    *sum = Some(added.merged(&sum.take().unwrap_or_default()));
                }
            }
        }
    }

    fn merge(&mut self, other: Self) {
        match (self, other) {
            (Self::Growth(a), Self::Growth(Some(b))) => *a = Some(a.unwrap_or(0.0) + b),
            (Self::Level { sum, readings, .. }, Self::Level { sum: other, readings: more, .. }) => {
                *sum += other;
                *readings += more;
            }
            (Self::Histogram(a), Self::Histogram(Some(b))) => *a = Some(b.merged(&a.take().unwrap_or_default())),
            _ => {}
        }
    }

    /// Returns the cell of a column. `samples` is the number of samples of the minute, for a sum of rows that come and
    /// go; `is_whole` is true if the extremes are those of the only row.
    fn cell(&self, figure: Figure, samples: Option<u32>, is_whole: bool, minute: &Minute) -> Cell {
        match (self, figure) {
            (Self::Growth(grown), Figure::Growth) => {
                grown.map_or(Cell::Null, |grown| Cell::Integer(grown.round() as i64))
            }
            (Self::Level { readings: 0, .. }, _) => Cell::Null,
            (Self::Level { sum, readings, .. }, Figure::Mean) => {
                Cell::number(Some(sum / f64::from(samples.unwrap_or(*readings).max(1))))
            }
            (Self::Level { least, readings, .. }, Figure::Least) => {
                let is_always_there = minute.row.is_some() && samples == Some(*readings);
                Cell::number(Some(*least).filter(|_| is_whole || is_always_there))
            }
            (Self::Level { greatest, .. }, Figure::Greatest) => {
                Cell::number(Some(*greatest).filter(|_| is_whole || minute.row.is_some()))
            }
            (Self::Words(words), Figure::Last) => Cell::words(words.as_deref()),
            _ => Cell::Null,
        }
    }
}

impl Minute {
    fn merge(&mut self, other: Self) {
        self.row = None;
        self.seconds += other.seconds;
        for (sum, other) in self.sums.iter_mut().zip(other.sums) {
            sum.merge(other);
        }
    }

    /// Returns the non-empty buckets of a histogram.
    fn buckets(&self, metric: usize) -> BTreeMap<u64, u64> {
        let mut coarse: BTreeMap<u64, u64> = BTreeMap::new();
        if let Some(Sum::Histogram(Some(histogram))) = self.sums.get(metric) {
            for (bucket, count) in histogram.buckets().unwrap_or_default() {
                let (at_least, _) = span(bucket - bucket % COARSER);
                let sum = coarse.entry(at_least).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
        coarse
    }
}

fn is_not_zero(value: &Value) -> bool {
    match value {
        Value::Counter(counter) => counter.get().is_some_and(|count| count > 0),
        Value::Gauge(level) => level.get().is_some_and(|level| level != 0.0),
        Value::Histogram(histogram) => histogram.count().is_some_and(|count| count > 0),
        Value::State(_) => false,
    }
}

fn cell(part: &KeyPart) -> Cell {
    match part {
        KeyPart::Number(number) => Cell::count(Some(*number)),
        KeyPart::Text(text) => Cell::Text(Arc::from(&**text)),
    }
}
