//! Converts samples into series, within the limits of a [`Selection`].

use crate::names;
use crate::ranking::Ranking;
use crate::rows::{FactColumns, RowFacts};
use crate::selection::{Entities, RowSelection, SelectedFamily, Selection};
use crate::series::{Buckets, MetricFamily, Series, SeriesKind, SeriesLabel, SeriesValue};
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::catalogue::{CountedSince, EachFamily, Family, Metric, MetricKind, Unit};
use whyslow_model::histogram::{Histogram, span};
use whyslow_model::key::{Key, KeyPart, KeyPartKind};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Name, Value};
use whyslow_model::window::growth;

/// Validity of rows that are read once a minute, with a margin, nanoseconds.
const VALID_NS: u64 = 75 * 1_000_000_000;
/// Change of the wall clock, relative to the time since boot, above which it was set, nanoseconds.
const CLOCK_SET_NS: u64 = 1_000_000_000;
/// Name of the sum of the entities beyond the most active ones.
pub const OTHERS: &str = "other";
/// Unit of the start times of tasks, nanoseconds (USER_HZ is 100; proc_pid_stat(5), field 22).
const TICK_NS: u64 = 10_000_000;

/// Takes samples, and creates series from the newest one.
///
/// A counter of one entity has the kernel's value, without the wraps of 32-bit counters. A sum over entities grows by
/// the growth of each of them, so that it does not fall when one disappears.
pub struct Collector {
    most_series: usize,
    latest: Snapshot,
    /// Time of the last reading of each family's rows, nanoseconds since boot.
    read_at: BTreeMap<&'static str, u64>,
    families: Vec<FamilyState>,
    /// Time since boot of the newest sample in the states of the families.
    counted_at: Option<u64>,
    boot_wall_ns: u64,
}

impl Collector {
    /// Creates a collector without samples.
    pub fn new(selection: Selection) -> Self {
        Self {
            most_series: selection.most_series,
            latest: Snapshot::default(),
            read_at: BTreeMap::new(),
            families: selection.families.into_iter().map(FamilyState::new).collect(),
            counted_at: None,
            boot_wall_ns: 0,
        }
    }

    /// Takes a sample; ignores it unless it is later than the last.
    pub fn add(&mut self, mut sample: Snapshot) {
        if sample.boot_ns <= self.latest.boot_ns {
            return;
        }
        let boot_wall_ns = u64::try_from(sample.wall_ns).unwrap_or(0).saturating_sub(sample.boot_ns);
        if self.boot_wall_ns.abs_diff(boot_wall_ns) > CLOCK_SET_NS {
            self.boot_wall_ns = boot_wall_ns;
        }
        let at = sample.boot_ns;
        sample.each_family(&mut NoteTimes { read_at: &mut self.read_at, at });
        sample.carry_over(std::mem::take(&mut self.latest));
        self.latest = sample;
    }

    /// Returns the time of the newest sample, nanoseconds since 1970; 0 without one.
    pub fn wall_ns(&self) -> i64 {
        self.latest.wall_ns
    }

    /// Returns the time of boot, nanoseconds since 1970, the same at every call unless the clock was set.
    pub fn boot_wall_ns(&self) -> u64 {
        self.boot_wall_ns
    }

    /// Returns the series of the newest sample, at most the limit minus `reserved`, and the number of omitted series.
    pub fn collect(&mut self, reserved: usize) -> (Vec<MetricFamily>, usize) {
        self.count();
        let mut left = self.most_series.saturating_sub(reserved);
        let mut omitted = 0;
        let mut all = Vec::new();
        for family in &self.families {
            let (series, missing) = family.series(&mut left);
            all.extend(series);
            omitted += missing;
        }
        (all, omitted)
    }

    /// Counts the changes since the last time.
    fn count(&mut self) {
        let now = self.latest.boot_ns;
        if now == 0 || self.counted_at == Some(now) {
            return;
        }
        let step = Step { since: self.counted_at, now };
        self.counted_at = Some(now);
        self.latest.each_family(&mut Count { families: &mut self.families, read_at: &self.read_at, step });
    }
}

struct NoteTimes<'a> {
    read_at: &'a mut BTreeMap<&'static str, u64>,
    at: u64,
}

impl EachFamily for NoteTimes<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        if !rows.is_empty() {
            self.read_at.insert(F::INFO.name, self.at);
        }
    }
}

struct Count<'a> {
    families: &'a mut [FamilyState],
    read_at: &'a BTreeMap<&'static str, u64>,
    step: Step,
}

impl EachFamily for Count<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        let Some(state) = self.families.iter_mut().find(|state| state.selected.info.name == F::INFO.name) else {
            return;
        };
        let read_at = self.read_at.get(F::INFO.name).copied().unwrap_or(0);
        let is_valid = self.step.now.saturating_sub(read_at) <= VALID_NS;
        let rows = if is_valid { &rows[..] } else { &[] };
        state.rank_by_what_is_known(rows);
        state.count(readings(&state.selected, &state.ranked_by, rows), self.step);
    }
}

/// Time from one counting to the next, nanoseconds since boot.
#[derive(Clone, Copy)]
struct Step {
    /// `None` at the first counting.
    since: Option<u64>,
    now: u64,
}

impl Step {
    /// Returns its length; at the first counting, the time since boot, over which the counts have grown.
    fn seconds(self) -> f64 {
        (self.now - self.since.unwrap_or(0)) as f64 / 1e9
    }
}

/// A row, reduced to the exported columns.
struct Reading {
    key: Vec<KeyPart>,
    facts: RowFacts,
    values: Vec<Value>,
    rank: Vec<Value>,
}

fn readings<F: Family>(selected: &SelectedFamily, ranked_by: &[usize], rows: &[F]) -> Vec<Reading> {
    let columns = FactColumns::for_family(selected);
    let values = |row: &F, columns: &[usize]| columns.iter().filter_map(|column| row.value(*column)).collect();
    let reading = |row: &F| {
        let mut key = Vec::new();
        row.key().take_apart(&mut key);
        Reading {
            key,
            facts: columns.facts(|column| row.value(column)),
            values: values(row, &selected.columns),
            rank: values(row, ranked_by),
        }
    };
    let mut readings: Vec<Reading> = rows.iter().map(reading).collect();
    if selected.rows != RowSelection::All {
        let facts: Vec<_> = readings.iter().map(|reading| (&reading.key[..], &reading.facts)).collect();
        let mut exported = selected.rows.are_exported(&facts).into_iter();
        readings.retain(|_| exported.next().unwrap_or(true));
    }
    readings
}

/// Returns whether a number is known.
fn is_known<F: Family>(row: &F, column: usize) -> bool {
    match row.value(column) {
        Some(Value::Counter(counter)) => counter.get().is_some(),
        Some(Value::Gauge(gauge)) => gauge.get().is_some(),
        _ => false,
    }
}

/// Key of a row, or the name of several rows; empty for the sum of all.
type EntityKey = Vec<KeyPart>;

/// State of a family that is kept from sample to sample.
struct FamilyState {
    selected: SelectedFamily,
    /// Counters of each row at the last counting.
    before: BTreeMap<Vec<KeyPart>, Counts>,
    /// Entities that have series, or may get them: each is one row, or all rows of one name.
    entities: BTreeMap<EntityKey, Entity>,
    /// Sum of the other entities.
    others: Entity,
    ranking: Ranking<EntityKey>,
    /// Columns by which entities are ranked: the first choice with known values.
    ranked_by: Vec<usize>,
}

struct Counts {
    identity: Option<Name>,
    values: Vec<Option<u64>>,
    rank: Vec<Option<u64>>,
}

#[derive(Clone, Debug, Default)]
struct Entity {
    values: Vec<Option<EntityValue>>,
}

#[derive(Clone, Debug)]
enum EntityValue {
    Number(f64),
    Histogram(Histogram),
}

/// Sums over the rows of an entity.
struct Added {
    /// Sum of each metric.
    sums: Vec<Sum>,
    /// Activity per second.
    activity: f64,
}

/// Sum of one metric.
#[derive(Clone, Default)]
struct Sum {
    /// Sum of the counters as they are.
    raw: Option<f64>,
    /// Sum of their growth.
    grown: Option<f64>,
    level: Option<f64>,
    histogram: Option<Histogram>,
}

impl FamilyState {
    fn new(selected: SelectedFamily) -> Self {
        Self {
            selected,
            before: BTreeMap::new(),
            entities: BTreeMap::new(),
            others: Entity::default(),
            ranking: Ranking::default(),
            ranked_by: Vec::new(),
        }
    }

    /// Ranks entities by the first choice of columns with a known value in any of these rows. Different kinds of
    /// activity are not comparable, so a change of columns restarts the ranking.
    fn rank_by_what_is_known<F: Family>(&mut self, rows: &[F]) {
        let is_known = |columns: &&Vec<usize>| rows.iter().any(|row| columns.iter().any(|at| is_known(row, *at)));
        if let Some(columns) = self.selected.rank.iter().find(is_known)
            && *columns != self.ranked_by
        {
            self.ranked_by.clone_from(columns);
            self.ranking = Ranking::default();
            self.before.values_mut().for_each(|counts| counts.rank.clear());
        }
    }

    fn metric(&self, column: usize) -> &'static Metric {
        &self.selected.info.metrics[self.selected.columns[column]]
    }

    fn is_sum(&self) -> bool {
        self.selected.named_by.is_some() || self.selected.entities == Entities::Sum
    }

    fn count(&mut self, readings: Vec<Reading>, step: Step) {
        let added = self.add_up(readings, step);
        let is_sum = self.is_sum();
        let mut before = std::mem::take(&mut self.entities);
        for (key, added) in &added {
            let known = before.remove(key);
            let values = added.sums.iter().enumerate().map(|(column, sum)| {
                let known = known.as_ref().and_then(|entity| entity.number(column));
                match self.metric(column).kind {
                    MetricKind::Counter if is_sum => {
                        // A sum over all starts with the earlier counts; a sum over entities that come and go starts
                        // now.
                        let start = if self.selected.entities == Entities::Sum { sum.raw } else { Some(0.0) };
                        let total = known.or(start).map(|total| total + sum.grown.unwrap_or(0.0));
                        total.filter(|_| sum.raw.is_some()).map(EntityValue::Number)
                    }
                    MetricKind::Counter => {
                        let total = known.zip(sum.grown).map(|(total, grown)| total + grown);
                        total.or(sum.raw).map(EntityValue::Number)
                    }
                    MetricKind::Histogram => sum.histogram.clone().map(EntityValue::Histogram),
                    MetricKind::Gauge | MetricKind::State => sum.level.map(EntityValue::Number),
                }
            });
            let values = values.collect();
            self.entities.insert(key.clone(), Entity { values });
        }
        self.rank(&added, step);
    }

    /// Adds up the rows of each entity, and its activity.
    fn add_up(&mut self, readings: Vec<Reading>, step: Step) -> BTreeMap<EntityKey, Added> {
        let before = std::mem::take(&mut self.before);
        let start = self.selected.info.key_columns().position(|(name, _)| name == "start");
        let mut all: BTreeMap<EntityKey, Added> = BTreeMap::new();
        for reading in readings {
            let known = before.get(&reading.key);
            let known = known.filter(|known| !are_different(&known.identity, &reading.facts.identity));
            let is_new =
                start.zip(step.since).is_some_and(|(column, since)| has_begun_since(&reading.key[column], since));
            let entity = match (&reading.facts.name, self.selected.entities) {
                (_, Entities::Sum) => Vec::new(),
                (Some(name), _) => vec![KeyPart::Text(name.clone())],
                (None, _) => reading.key.clone(),
            };
            let none = || Added { sums: vec![Sum::default(); self.selected.columns.len()], activity: 0.0 };
            let added = all.entry(entity).or_insert_with(none);
            let metrics = self.selected.columns.iter().map(|column| &self.selected.info.metrics[*column]);
            for (column, (metric, value)) in metrics.zip(&reading.values).enumerate() {
                let known = known.and_then(|known| known.values[column]);
                added.sums[column].add(value, |now| grown(known, now, metric.wraps_at, is_new));
            }
            let metrics = self.ranked_by.iter().map(|column| &self.selected.info.metrics[*column]);
            for (column, (metric, value)) in metrics.zip(&reading.rank).enumerate() {
                let known = known.and_then(|known| *known.rank.get(column)?);
                added.activity += match value {
                    Value::Counter(now) => {
                        now.get().map_or(0.0, |now| match step.since {
                            Some(_) => grown(known, now, metric.wraps_at, is_new).unwrap_or(0.0),
                            None => now as f64,
                        }) / step.seconds()
                    }
                    Value::Gauge(level) => level.get().unwrap_or(0.0),
                    Value::State(_) | Value::Histogram(_) => 0.0,
                };
            }
            let Reading { key, facts: RowFacts { identity, .. }, values, rank } = reading;
            self.before.insert(key, Counts { identity, values: counters(&values), rank: counters(&rank) });
        }
        all
    }

    /// Selects the entities that get series, and adds up the others.
    fn rank(&mut self, added: &BTreeMap<EntityKey, Added>, step: Step) {
        let namespace = self.selected.info.key_columns().position(|(name, _)| name == "ns");
        let is_ours = |key: &EntityKey| {
            namespace.is_none_or(|column| matches!(key.get(column), Some(KeyPart::Text(ns)) if ns.is_empty()))
        };
        let is_one = self.selected.info.key_columns.is_empty();
        let used = self.entities.iter().filter(|(_, entity)| is_one || entity.is_used());
        let activity = |key| added.get(key).map_or(0.0, |added| added.activity);
        let ranked: Vec<_> = used.map(|(key, _)| (key.clone(), is_ours(key), activity(key))).collect();
        let most = match self.selected.entities {
            Entities::Most(most) | Entities::MostAndOthers(most) => most,
            Entities::Sum => 1,
        };
        self.ranking.update(ranked, step.seconds(), most);
        if !matches!(self.selected.entities, Entities::MostAndOthers(_)) {
            return;
        }
        let members: BTreeSet<EntityKey> = self.ranking.members().into_iter().collect();
        let others: Vec<&Added> =
            added.iter().filter(|(key, _)| !members.contains(*key)).map(|(_, added)| added).collect();
        let values = (0..self.selected.columns.len()).map(|column| {
            let of_others = |value: fn(&Sum) -> Option<f64>| -> f64 {
                others.iter().filter_map(|added| value(&added.sums[column])).sum()
            };
            // A value that could not be read of any of them is absent, not zero.
            let is_known = added.values().any(|added| added.sums[column].is_known());
            let sum = match self.metric(column).kind {
                MetricKind::Counter => Some(self.others.number(column).unwrap_or(0.0) + of_others(|sum| sum.grown)),
                MetricKind::Gauge => Some(of_others(|sum| sum.level)),
                MetricKind::Histogram | MetricKind::State => None,
            };
            sum.filter(|_| is_known).map(EntityValue::Number)
        });
        self.others = Entity { values: values.collect() };
    }

    /// Returns its series, at most `left`, which is reduced by their number; and the number of omitted series.
    fn series(&self, left: &mut usize) -> (Vec<MetricFamily>, usize) {
        let mut families: Vec<MetricFamily> = (0..self.selected.columns.len()).map(|c| self.metric_family(c)).collect();
        let members = self.ranking.members();
        let mut omitted = 0;
        let with_others = matches!(self.selected.entities, Entities::MostAndOthers(_)) && !self.entities.is_empty();
        let others = with_others.then(|| (self.labels_of_others(), &self.others));
        let chosen = members.iter().filter_map(|key| Some((self.labels(key), self.entities.get(key)?)));
        for (labels, entity) in chosen.chain(others) {
            let series: Vec<_> = (0..families.len()).map(|column| self.series_of(column, &labels, entity)).collect();
            let count: usize = series.iter().flatten().map(|series| series.value.series_count()).sum();
            if count > *left {
                omitted += count;
                continue;
            }
            *left -= count;
            for (family, series) in families.iter_mut().zip(series) {
                // A truncated name can equal that of another entity.
                family.series.extend(series.filter(|new| family.series.iter().all(|known| known.labels != new.labels)));
            }
        }
        let beyond = self.entities.iter().filter(|(key, entity)| !members.contains(key) && entity.is_used());
        omitted += beyond.map(|(_, entity)| entity.values.iter().flatten().count()).sum::<usize>();
        families.retain(|family| !family.series.is_empty());
        (families, omitted)
    }

    fn metric_family(&self, column: usize) -> MetricFamily {
        let (info, metric) = (&self.selected.info, self.metric(column));
        let by_name = if self.selected.named_by.is_some() { ", by name of the processes" } else { "" };
        MetricFamily {
            name: names::prometheus(info, metric),
            otel: names::otel(info, metric),
            help: format!("{}{by_name}", metric.help),
            kind: names::kind(metric).unwrap_or(SeriesKind::Gauge),
            since_boot: info.counted_since == Some(CountedSince::Boot),
            series: Vec::new(),
        }
    }

    fn series_of(&self, column: usize, labels: &[SeriesLabel], entity: &Entity) -> Option<Series> {
        let per_unit = names::per_base_unit(self.metric(column).unit);
        let value = match entity.values.get(column)?.as_ref()? {
            EntityValue::Number(number) => SeriesValue::Number(number / per_unit),
            EntityValue::Histogram(histogram) => SeriesValue::Histogram(buckets(histogram, self.metric(column).unit)?),
        };
        Some(Series { labels: labels.to_vec(), value })
    }

    /// Returns the labels of a key. Leaves out empty parts: to Prometheus an empty label is the same as none.
    fn labels(&self, key: &[KeyPart]) -> Vec<SeriesLabel> {
        let names = match (self.selected.named_by, self.selected.entities) {
            (_, Entities::Sum) => Vec::new(),
            (Some(column), _) => vec![self.selected.info.metrics[column].name],
            (None, _) => self.selected.key_labels(),
        };
        let family = self.selected.info.name;
        let label = |(name, part): (&'static str, &KeyPart)| {
            let value = match part {
                KeyPart::Number(number) if *number == u64::from(u32::MAX) => "all".into(),
                KeyPart::Number(number) => number.to_string(),
                KeyPart::Text(text) => text.to_string(),
            };
            SeriesLabel::new(name, names::attribute(family, name), &value)
        };
        names.into_iter().zip(key).map(label).filter(|label| !label.value.is_empty()).collect()
    }

    fn labels_of_others(&self) -> Vec<SeriesLabel> {
        let kinds = self.selected.info.key_columns().map(|(_, kind)| kind);
        let is_named = self.selected.named_by.is_some();
        let key: Vec<KeyPart> = if is_named {
            vec![KeyPart::Text(OTHERS.into())]
        } else {
            kinds
                .map(|kind| if kind == KeyPartKind::Text { KeyPart::Text(OTHERS.into()) } else { KeyPart::Number(0) })
                .collect()
        };
        self.labels(&key)
    }
}

impl Entity {
    fn number(&self, column: usize) -> Option<f64> {
        match self.values.get(column)?.as_ref()? {
            EntityValue::Number(number) => Some(*number),
            EntityValue::Histogram(_) => None,
        }
    }

    /// Returns whether any of its values is not zero. Entities that were never used have no series.
    fn is_used(&self) -> bool {
        self.values.iter().flatten().any(|value| match value {
            EntityValue::Number(number) => *number != 0.0,
            EntityValue::Histogram(histogram) => histogram.count().is_some_and(|count| count > 0),
        })
    }
}

impl Sum {
    fn is_known(&self) -> bool {
        self.raw.is_some() || self.level.is_some()
    }

    fn add(&mut self, value: &Value, grown: impl FnOnce(u64) -> Option<f64>) {
        let plus = |sum: &mut Option<f64>, part: f64| *sum = Some(sum.unwrap_or(0.0) + part);
        match value {
            Value::Counter(now) => {
                let Some(now) = now.get() else { return };
                plus(&mut self.raw, now as f64);
                if let Some(grown) = grown(now) {
                    plus(&mut self.grown, grown);
                }
            }
            Value::Gauge(level) => {
                if let Some(level) = level.get() {
                    plus(&mut self.level, level);
                }
            }
            Value::Histogram(histogram) => {
                if histogram.buckets().is_some() {
                    self.histogram = Some(histogram.merged(&self.histogram.take().unwrap_or_default()));
                }
            }
            Value::State(_) => {}
        }
    }
}

/// Returns the growth of a counter: its whole value if the task is new.
fn grown(before: Option<u64>, now: u64, wraps_at: Option<u64>, is_new: bool) -> Option<f64> {
    match before {
        Some(before) => growth(before, now, wraps_at),
        None => is_new.then_some(now as f64),
    }
}

/// Returns whether a task that started at this tick did so since a time, nanoseconds since boot.
pub fn has_begun_since(start: &KeyPart, since: u64) -> bool {
    matches!(start, KeyPart::Number(ticks) if ticks.saturating_mul(TICK_NS) >= since)
}

/// Returns whether both are known and differ.
fn are_different(a: &Option<Name>, b: &Option<Name>) -> bool {
    matches!((a, b), (Some(a), Some(b)) if a != b)
}

fn counters(values: &[Value]) -> Vec<Option<u64>> {
    values.iter().map(|value| if let Value::Counter(now) = value { now.get() } else { None }).collect()
}

/// Returns the powers of two that bound the buckets: for times 4 µs to 17 s (in nanoseconds), for sizes 512 bytes to 8
/// MiB.
fn powers(unit: Unit) -> impl Iterator<Item = u32> {
    let range = if unit == Unit::Nanoseconds { 12..=34 } else { 9..=23 };
    range.step_by(2)
}

/// Reduces a histogram to a few buckets. The bounds are those of its own buckets, so that each value is in the right
/// one: the largest whole value below a power of two, because a bound belongs to its bucket.
fn buckets(histogram: &Histogram, unit: Unit) -> Option<Buckets> {
    let per_unit = names::per_base_unit(unit);
    let largest: Vec<u64> = powers(unit).map(|power| (1 << power) - 1).collect();
    let mut counts = vec![0; largest.len() + 1];
    for (bucket, count) in histogram.buckets()? {
        let (first, _) = span(*bucket);
        let at = largest.partition_point(|largest| *largest < first);
        counts[at] += count;
    }
    let sum = histogram.mean().unwrap_or(0.0) * histogram.count()? as f64 / per_unit;
    Some(Buckets { bounds: largest.iter().map(|largest| *largest as f64 / per_unit).collect(), counts, sum })
}

#[cfg(test)]
mod tests;
