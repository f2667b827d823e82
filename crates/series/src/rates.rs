//! Converts rows of counters to rows of rates.

use crate::step::{growth, is_same_entity};
use std::collections::HashMap;
use whyslow_model::catalogue::{FamilyInfo, Metric, MetricKind, Unit};
use whyslow_model::key::KeyPart;
use whyslow_model::row::AnyRow;
use whyslow_model::value::{Gauge, Value};
use whyslow_quantities::Declaration;
use whyslow_quantities::own;

/// Suffix of a counter's name.
const PER_SECOND: &str = "_per_s";
/// Entities that were not seen for this long are forgotten, in nanoseconds. Only values that are read rarely have longer steps.
const FORGET: u64 = 3600 * 1_000_000_000;
/// Number of entities that are remembered in any case.
const REMEMBER: usize = 4096;

/// Computes the rates of one family's rows, which must come in order of time, and the quantities that users declared of it.
pub struct RowRates {
    counted: FamilyInfo,
    quantities: Vec<&'static Declaration>,
    /// The family as it is written, with gauges instead of counters.
    pub family: FamilyInfo,
    last: HashMap<Vec<KeyPart>, (u64, Vec<Value>)>,
    /// Number of entities that triggers the next search for those that are gone.
    most: usize,
}

impl RowRates {
    /// Creates the rates of the rows of this family.
    pub fn from_counted(counted: &FamilyInfo) -> Self {
        let declared = own::declared().into_iter().map(|own| own.declaration);
        let quantities: Vec<_> = declared.filter(|own| own.family.name == counted.name).collect();
        let metrics: Vec<Metric> =
            counted.metrics.iter().map(rate).chain(quantities.iter().map(|own| gauge(own))).collect();
        // Leaks once: a process exports only one family.
        let family = FamilyInfo { metrics: metrics.leak(), ..counted.clone() };
        Self { counted: counted.clone(), quantities, family, last: HashMap::new(), most: REMEMBER }
    }

    /// Returns the row with rates in place of counters. They are absent in the first row of an entity, and in the first one after
    /// it was recreated.
    pub fn row(&mut self, row: AnyRow) -> AnyRow {
        let before = self.last.insert(row.key.clone(), (row.clock, row.values.clone()));
        self.forget(row.clock);
        let is_same = |values: &[Value]| is_same_entity(self.counted.metrics.iter(), values, &row.values);
        let before = before.filter(|(clock, values)| *clock < row.clock && is_same(values));
        let rates = row.values.iter().enumerate().map(|(column, now)| match (now, &before) {
            (Value::Counter(_), None) => Value::Gauge(Gauge::default()),
            (Value::Histogram(_), None) => Value::Histogram(Default::default()),
            (_, Some((clock, values))) => {
                let seconds = (row.clock - clock) as f64 / 1e9;
                self.counted
                    .metrics
                    .get(column)
                    .zip(values.get(column))
                    .map_or(now.clone(), |(metric, before)| step(metric, before, now, seconds))
            }
            (other, None) => other.clone(),
        });
        let quantities = self.quantities.iter().map(|quantity| {
            let value = before.as_ref().and_then(|(clock, values)| {
                let grown = |column: usize| {
                    let metric = self.counted.metrics.get(column)?;
                    Some(growth(metric, values.get(column)?, row.values.get(column)?)? / quantity.scale(column))
                };
                quantity.step((row.clock - clock) as f64 / 1e9, grown)?.value()
            });
            Value::Gauge(value.map_or_else(Gauge::default, Gauge::from))
        });
        AnyRow { values: rates.chain(quantities).collect(), ..row }
    }

    fn forget(&mut self, now: u64) {
        if self.last.len() > self.most {
            self.last.retain(|_, (clock, _)| now.saturating_sub(*clock) < FORGET);
            self.most = REMEMBER.max(2 * self.last.len());
        }
    }
}

/// Returns the column of a quantity.
fn gauge(quantity: &Declaration) -> Metric {
    let (name, unit) =
        (quantity.name.replace('.', "_").leak(), if quantity.unit == "ratio" { Unit::Ratio } else { Unit::Count });
    Metric {
        name,
        kind: MetricKind::Gauge,
        unit,
        names: None,
        otel: "",
        otel_attribute: "",
        help: quantity.meaning,
        only_captures: false,
        wraps_at: None,
        identifies: false,
    }
}

fn rate(metric: &Metric) -> Metric {
    if metric.kind != MetricKind::Counter {
        return metric.clone();
    }
    let name = format!("{}{PER_SECOND}", metric.name).leak();
    let unit = if metric.unit == Unit::Nanoseconds { Unit::Ratio } else { metric.unit };
    Metric { name, kind: MetricKind::Gauge, unit, wraps_at: None, ..metric.clone() }
}

/// Computes one value of a row. A time becomes seconds per second: a share, if only one thing at a time is measured.
fn step(metric: &Metric, before: &Value, now: &Value, seconds: f64) -> Value {
    match (before, now) {
        (Value::Counter(_), Value::Counter(_)) => {
            let scale = if metric.unit == Unit::Nanoseconds { 1e9 } else { 1.0 };
            let grown = growth(metric, before, now);
            Value::Gauge(grown.map_or_else(Gauge::default, |grown| (grown / scale / seconds).into()))
        }
        (Value::Histogram(a), Value::Histogram(b)) => Value::Histogram(b.since(a).unwrap_or_default()),
        _ => now.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::catalogue::{Disk, Family};

    fn row(second: u64, disk: Disk) -> AnyRow {
        let values = (0..Disk::INFO.metrics.len()).filter_map(|column| disk.value(column)).collect();
        AnyRow { at: 0, clock: second * 1_000_000_000, key: vec![KeyPart::Text("sda".into())], values }
    }

    fn column(rates: &RowRates, name: &str) -> usize {
        rates.family.metrics.iter().position(|metric| metric.name == name).unwrap()
    }

    #[test]
    fn counters_become_rates_and_levels_stay() {
        let mut rates = RowRates::from_counted(&Disk::INFO);
        let (reads, busy) = (column(&rates, "reads_per_s"), column(&rates, "busy_time_per_s"));
        let level = column(&rates, "in_flight");
        let disk = |reads: u64, busy_ms: u64, identity: &str| Disk {
            reads: reads.into(),
            busy_time: (busy_ms * 1_000_000).into(),
            in_flight: 3.into(),
            identity: identity.into(),
            ..Disk::new("sda".into())
        };
        let mut of = |row| {
            let values = rates.row(row).values;
            [reads, busy, level].map(|column| match &values[column] {
                Value::Gauge(gauge) => gauge.get(),
                other => panic!("{other:?}"),
            })
        };
        assert_eq!(of(row(10, disk(100, 1000, "1"))), [None, None, Some(3.0)], "the first tells no rate");
        assert_eq!(of(row(12, disk(120, 2000, "1"))), [Some(10.0), Some(0.5), Some(3.0)]);
        assert_eq!(of(row(13, disk(9000, 9000, "2"))), [None, None, Some(3.0)], "another disk of that name");
        assert_eq!(of(row(14, disk(9001, 9000, "2"))), [Some(1.0), Some(0.0), Some(3.0)]);
        assert_eq!(of(row(2, disk(9002, 9000, "2")))[0], None, "another boot");
        assert_eq!(of(row(3, disk(1, 9000, "2")))[0], None, "reset");
    }

    #[test]
    fn a_users_quantity_is_a_column() {
        let quantity = own::OwnQuantity {
            name: "export.read_cost",
            family: "disk",
            unit: "s",
            meaning: "time of a read",
            of: "read_time",
            per: Some("reads"),
            ..own::OwnQuantity::default()
        };
        let own = own::parse(&quantity).unwrap();
        own::declare(&[own]);
        let mut rates = RowRates::from_counted(&Disk::INFO);
        own::withdraw(&[own]);
        let cost = column(&rates, "export_read_cost");
        let disk =
            |n: u64| Disk { reads: (10 * n).into(), read_time: (n * 50_000_000).into(), ..Disk::new("sda".into()) };
        let mut of = |second: u64| match &rates.row(row(second, disk(second))).values[cost] {
            Value::Gauge(gauge) => gauge.get(),
            other => panic!("{other:?}"),
        };
        assert_eq!((of(1), of(3)), (None, Some(0.005)));
    }
}
