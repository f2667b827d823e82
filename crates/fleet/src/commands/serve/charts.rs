//! Charts of a host, from its minutes.
//!
//! The tables contain the increase of a counter in each minute, but charts need counters. So the increases are added up
//! again, as an importer does with rates: a minute is the step between two samples, and a run of minutes without a gap
//! has one sample more than minutes.

use crate::cell::{double, integer, text, timestamp};
use crate::fleet::QueryRows;
use crate::{Failure, Fleet, sql};
use std::collections::HashMap;
use std::sync::Arc;
use whyslow_documents::chart::{Chart, ChartKind, ChartSeries};
use whyslow_model::catalogue::{self, FamilyInfo, Metric, MetricKind};
use whyslow_model::key::{KeyPart, KeyPartKind};
use whyslow_model::row::{ColumnReading, ColumnSelection, SampleTime};
use whyslow_model::value::{Counter, Gauge, State, Value};
use whyslow_rollup::{Cell, TableSpec, table};
use whyslow_series::{ChartAxes, ChartBuilder, ChartSpec};

const MINUTE_MS: i64 = 60_000;
const NS_PER_MS: i64 = 1_000_000;
/// Id of the chart of lost time.
pub const LOST: &str = "pressure.lost";

/// The minutes of a host, with the observed and lost time of each.
#[derive(Debug, Default)]
pub struct Minutes {
    /// Number of samples taken.
    pub samples: u64,
    /// Number of samples missed.
    pub missed: u64,
    /// Share of each minute that was lost, by start time in milliseconds.
    lost: Vec<(i64, Option<f64>)>,
    times: Vec<SampleTime>,
    /// Index of the sample at the end of each minute.
    ends: HashMap<i64, usize>,
}

impl Minutes {
    /// Reads the minutes of a host.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn read(fleet: &Fleet, host: &str) -> Result<Self, Failure> {
        let mut minutes = Self::default();
        for row in fleet.query(&sql::host_minutes(fleet.span(), host))?.rows {
            let Some(at) = timestamp(&row[0]) else { continue };
            let number = |column: usize| double(&row[column]).unwrap_or(0.0);
            minutes.samples += number(2) as u64;
            minutes.missed += number(3) as u64;
            let share = double(&row[4]).filter(|judged| *judged > 0.0).map(|judged| number(5) / judged);
            minutes.add(at, number(1), share);
        }
        Ok(minutes)
    }

    /// Appends a minute in which the host was observed for this number of seconds.
    fn add(&mut self, at: i64, seconds: f64, lost: Option<f64>) {
        let last = self.lost.last().map(|(last, _)| *last);
        if last.is_some_and(|last| at <= last) {
            return;
        }
        let (clock, boot) = self.times.last().map_or((0, 0), |last| (last.clock, last.boot));
        let follows = last.is_some_and(|last| at - last == MINUTE_MS);
        let boot = boot + usize::from(!follows);
        if !follows {
            self.times.push(SampleTime { at: at * NS_PER_MS, clock, boot });
        }
        // Rates refer to the observed time.
        let observed = (seconds.clamp(0.001, 3600.0) * 1e9) as u64;
        self.ends.insert(at, self.times.len());
        self.times.push(SampleTime { at: (at + MINUTE_MS) * NS_PER_MS, clock: clock + observed, boot });
        self.lost.push((at, lost));
    }

    /// Returns the chart of lost time per minute.
    pub fn lost_chart(&self) -> Chart {
        let end = |at: i64| (at + MINUTE_MS) as f64 / 1e3;
        let mut chart = outline_of_lost();
        let mut series = ChartSeries { name: "time lost".into(), ..ChartSeries::default() };
        let mut last = None;
        for (at, share) in &self.lost {
            if last.is_some_and(|last| at - last > MINUTE_MS) {
                // Leave a hole in the line at a gap.
                chart.times.push(end(at - MINUTE_MS));
                series.mean.push(None);
            }
            chart.times.push(end(*at));
            series.mean.push(*share);
            last = Some(*at);
        }
        chart.series.push(series);
        chart
    }
}

/// Returns the chart of lost time without data.
pub fn outline_of_lost() -> Chart {
    Chart {
        id: LOST.into(),
        title: "Time lost".into(),
        family: "pressure".into(),
        unit: "1".into(),
        help: "Share of the time in which the host was judged that it lost to causes.".into(),
        kind: ChartKind::Lines,
        ..Chart::default()
    }
}

/// Returns whether the shipped data suffice for a chart.
pub fn can_be_drawn(spec: &ChartSpec) -> bool {
    let is_there = |family| source(family).is_some_and(|source| !source.is_sum || spec.is_of_all(family));
    spec.kind != ChartKind::Heat && spec.read_from().any(is_there)
}

/// Returns the charts of a host that have data, with roughly `most` intervals at most.
///
/// # Errors
/// Fails if the store cannot be read.
pub fn charts(
    fleet: &Fleet,
    host: &str,
    minutes: &Minutes,
    specs: Vec<&'static ChartSpec>,
    most: usize,
) -> Result<Vec<Chart>, Failure> {
    let specs = specs.into_iter().filter(|spec| can_be_drawn(spec)).collect();
    let mut builder = ChartBuilder::new(specs, Arc::new(ChartAxes::new(minutes.times.clone(), most, false)));
    for (number, selection) in builder.selections().iter().enumerate() {
        let Some(source) = source(selection.family) else { continue };
        let columns = source.columns(selection);
        let rows = fleet.query(&sql::host_table(fleet.span(), &source.table.name, &columns, host))?;
        source.read(&rows, selection, minutes, |reading| builder.add(number, reading));
    }
    Ok(builder.finish())
}

/// A metric family and its table.
struct Source {
    family: &'static FamilyInfo,
    table: &'static TableSpec,
    /// True if each row is the sum over all entities.
    is_sum: bool,
}

/// Returns a family that is shipped by entity or as the sum over all entities. Excludes processes: they are shipped by
/// command name, which charts do not have.
fn source(family: &str) -> Option<Source> {
    static FAMILIES: std::sync::LazyLock<Vec<FamilyInfo>> = std::sync::LazyLock::new(catalogue::families);
    let family = FAMILIES.iter().find(|known| known.name == family)?;
    let table = table(family.name)?;
    let has = |(name, _): (&str, KeyPartKind)| table.position(name).is_some();
    let is_by_entity = family.key_columns().all(has);
    let is_sum = !is_by_entity && !family.key_columns().any(has) && table.position("command").is_none();
    (is_by_entity || is_sum).then_some(Source { family, table, is_sum })
}

impl Source {
    /// Returns the columns to read: those of the key, then the metrics; `None` for a column that the table does not
    /// have.
    fn columns(&self, selection: &ColumnSelection) -> Vec<Option<&'static str>> {
        let is_there = |name: &'static str| self.table.position(name).map(|_| name);
        let keys = self.family.key_columns().map(|(name, _)| is_there(name));
        keys.chain(self.metrics(selection).map(|metric| is_there(metric.name))).collect()
    }

    fn metrics(&self, selection: &ColumnSelection) -> impl Iterator<Item = &'static Metric> {
        let metrics = self.family.metrics;
        selection.metrics.iter().filter_map(move |column| metrics.get(*column)).collect::<Vec<_>>().into_iter()
    }

    /// Passes the readings of the table's rows to `add`: time, key columns and metrics.
    fn read(
        &self,
        rows: &QueryRows,
        selection: &ColumnSelection,
        minutes: &Minutes,
        mut add: impl FnMut(ColumnReading<'_>),
    ) {
        let kinds: Vec<KeyPartKind> = self.family.key_columns().map(|(_, kind)| kind).collect();
        let metrics: Vec<&Metric> = self.metrics(selection).collect();
        let mut entities: HashMap<Vec<KeyPart>, EntityTotals> = HashMap::new();
        for row in &rows.rows {
            let Some(sample) = timestamp(&row[0]).and_then(|at| minutes.ends.get(&at)).copied() else { continue };
            let (key, cells) = row[1..].split_at(kinds.len());
            let key: Vec<KeyPart> = key.iter().zip(&kinds).map(|(cell, kind)| part(cell, *kind)).collect();
            let totals = entities.entry(key.clone()).or_insert_with(|| EntityTotals::new(&metrics));
            let mut pass_on =
                |sample, values: &[Value]| add(ColumnReading { sample, until: sample, key: &key, values });
            if totals.last != Some(sample - 1) {
                pass_on(sample - 1, &totals.before());
            }
            pass_on(sample, &totals.grown(cells));
            totals.last = Some(sample);
        }
    }
}

/// Running totals of an entity's counters.
struct EntityTotals {
    kinds: Vec<MetricKind>,
    totals: Vec<u64>,
    last: Option<usize>,
}

impl EntityTotals {
    fn new(metrics: &[&Metric]) -> Self {
        let kinds: Vec<MetricKind> = metrics.iter().map(|metric| metric.kind).collect();
        Self { totals: vec![0; kinds.len()], kinds, last: None }
    }

    /// Returns the counters at the start of a run of minutes, where levels are unknown.
    fn before(&self) -> Vec<Value> {
        let value = |(kind, total): (&MetricKind, &u64)| match kind {
            MetricKind::Counter => Counter::from(*total).into(),
            _ => absent(*kind),
        };
        self.kinds.iter().zip(&self.totals).map(value).collect()
    }

    /// Adds the increases of a minute and returns the values at its end.
    fn grown(&mut self, cells: &[Cell]) -> Vec<Value> {
        let value = |((kind, total), cell): ((&MetricKind, &mut u64), &Cell)| match kind {
            MetricKind::Counter => match integer(cell).and_then(|grown| u64::try_from(grown).ok()) {
                Some(grown) => {
                    *total = total.saturating_add(grown);
                    Counter::from(*total).into()
                }
                None => Counter::ABSENT.into(),
            },
            MetricKind::Gauge => Gauge::from(double(cell)).into(),
            MetricKind::State => text(cell).map_or_else(State::default, State::from).into(),
            MetricKind::Histogram => absent(*kind),
        };
        self.kinds.iter().zip(&mut self.totals).zip(cells).map(value).collect()
    }
}

fn absent(kind: MetricKind) -> Value {
    match kind {
        MetricKind::Counter => Counter::ABSENT.into(),
        MetricKind::Gauge => Gauge::ABSENT.into(),
        MetricKind::State => State::default().into(),
        MetricKind::Histogram => Value::Histogram(Default::default()),
    }
}

/// Converts a key cell; the sum over all entities has no key and becomes 0 or empty text.
fn part(cell: &Cell, kind: KeyPartKind) -> KeyPart {
    match kind {
        KeyPartKind::Number => {
            KeyPart::Number(integer(cell).and_then(|number| u64::try_from(number).ok()).unwrap_or(0))
        }
        KeyPartKind::Text => KeyPart::Text(text(cell).unwrap_or_default().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_series::charts_named;

    fn minutes(numbers: &[i64]) -> Minutes {
        let mut minutes = Minutes::default();
        for number in numbers {
            minutes.add(number * MINUTE_MS, 60.0, Some(0.5));
        }
        minutes
    }

    fn chart(id: &str, minutes: &Minutes, rows: Vec<Vec<Cell>>) -> Chart {
        let axes = Arc::new(ChartAxes::new(minutes.times.clone(), 500, false));
        let mut builder = ChartBuilder::new(charts_named(id).unwrap(), axes);
        let selections = builder.selections();
        let source = source(selections[0].family).unwrap();
        let rows = QueryRows { rows, ..QueryRows::default() };
        source.read(&rows, &selections[0], minutes, |reading| builder.add(0, reading));
        builder.finish().remove(0)
    }

    #[test]
    fn the_growth_of_a_minute_is_a_rate_and_a_gap_stays_one() {
        let minutes = minutes(&[0, 1, 4]);
        let disk = charts_named("disk.throughput").unwrap();
        let selection = ChartBuilder::new(disk, Arc::new(ChartAxes::new(minutes.times.clone(), 500, false)));
        let columns = source("disk").unwrap().columns(&selection.selections()[0]);
        // The number that distinguishes disks of the same name is not shipped.
        assert_eq!(columns, [Some("device"), Some("read_bytes"), Some("write_bytes"), None]);
        let row = |minute: i64, read: i64, written: i64| {
            let at = Cell::Timestamp(minute * MINUTE_MS);
            vec![at, Cell::text("sda"), Cell::Integer(read), Cell::Integer(written), Cell::Null]
        };
        let chart = chart("disk.throughput", &minutes, vec![row(0, 600, 60), row(1, 0, 120), row(4, 6000, 0)]);
        let reads = chart.series.iter().find(|series| series.name == "sda reads").unwrap();
        let known: Vec<(f64, f64)> =
            chart.times.iter().zip(&reads.mean).filter_map(|(at, mean)| Some((*at, (*mean)?))).collect();
        assert_eq!(known, [(60.0, 10.0), (120.0, 0.0), (300.0, 100.0)]);
        assert!(chart.times.len() > known.len(), "there is a gap: {:?}", chart.times);
    }

    #[test]
    fn levels_are_those_of_their_minute() {
        let minutes = minutes(&[7, 8]);
        let row = |minute: i64, level: Cell| vec![Cell::Timestamp(minute * MINUTE_MS), level, Cell::Double(2.0)];
        let chart = chart("cpu.tasks", &minutes, vec![row(7, Cell::Double(3.0)), row(8, Cell::Null)]);
        let first = chart.series.iter().find(|series| series.name == "runnable").unwrap();
        assert_eq!(first.mean.iter().flatten().collect::<Vec<_>>(), [&3.0]);
    }

    #[test]
    fn the_main_families_are_drawn_and_processes_are_not() {
        for id in ["cpu.modes", "cpu.load", "disk.latency", "network.throughput", "pressure.some", "memory.use"] {
            let specs = charts_named(id).unwrap_or_else(|_| panic!("no chart {id}"));
            assert!(can_be_drawn(specs[0]), "{id}");
        }
        assert!(!can_be_drawn(charts_named("cpu.busy").unwrap()[0]), "a sum is no CPU");
        assert!(whyslow_series::charts().filter(|spec| spec.family() == "process").all(|spec| !can_be_drawn(spec)));
    }

    #[test]
    fn the_time_lost_has_a_hole_where_nothing_was_shipped() {
        let chart = minutes(&[0, 1, 4]).lost_chart();
        assert_eq!(chart.times, [60.0, 120.0, 240.0, 300.0]);
        assert_eq!(chart.series[0].mean, [Some(0.5), Some(0.5), None, Some(0.5)]);
    }
}
