//! Activity of simulated hosts: each host replays the minutes of a real recording, from a different starting point and
//! with a different load.

use crate::simulate::{Cause, Effect};
use crate::store::HostHour;
use rand::RngExt;
use std::collections::BTreeMap;
use std::path::Path;
use whyslow_pairs::failure::{Failure, Result};
use whyslow_rollup::{AT, Cell, Column, ColumnKind, HOST, Hour, Row, TableRows, TableSpec};
use whyslow_ship::roll_up;
use whyslow_store::Recording;

/// Minimum observed time for a minute to be complete; excludes the first and the last one of a recording.
const WHOLE_S: f64 = 55.0;
/// Range of a host's activity relative to the recording.
const LOADS: std::ops::Range<f64> = 0.5..2.0;
/// Range of further deviations, per number of a host and per minute.
const DEVIATIONS: std::ops::Range<f64> = 0.75..1.33;
/// Relative sizes of machines.
const SIZES: [f64; 4] = [0.5, 1.0, 2.0, 4.0];
/// Column that does not count as load.
const IDLE: &str = "idle";

/// Minutes of a recording, in the tables of its families.
pub struct RecordedMinutes {
    tables: Vec<RecordedTable>,
}

/// Table of a family.
pub struct RecordedTable {
    /// Table definition.
    pub table: &'static TableSpec,
    scaling: Vec<Scaling>,
    /// Rows of each minute.
    minutes: Vec<Vec<Row>>,
}

/// Variation of a column between hosts.
#[derive(Clone, Copy, PartialEq)]
enum Scaling {
    /// No variation: a name, or the key of a distribution.
    Same,
    /// Scales with the activity of the host.
    Load,
    /// Scales with the size of the machine.
    Size,
}

impl RecordedMinutes {
    /// Reads all complete minutes of a recording.
    ///
    /// # Errors
    /// Fails if the recording cannot be read or has none.
    pub fn read(folder: &Path) -> Result<Self> {
        let failed = |what: &dyn std::fmt::Display| Failure::new(format!("{}: {what}", folder.display()));
        let recording = Recording::open(folder).map_err(|error| failed(&error))?;
        let mut rows: BTreeMap<&str, (&'static TableSpec, BTreeMap<i64, Vec<Row>>)> = BTreeMap::new();
        for hour in hours(&recording) {
            let tables = roll_up(&recording, hour, "", env!("CARGO_PKG_VERSION")).map_err(|error| failed(&error))?;
            for TableRows { table, rows: all } in tables {
                let (_, minutes) = rows.entry(&table.name).or_insert_with(|| (table, BTreeMap::new()));
                for row in all {
                    if let Some(Cell::Timestamp(at)) = row.get(1) {
                        minutes.entry(*at).or_default().push(row);
                    }
                }
            }
        }
        rows.remove("episode");
        let observed = rows.remove("minute").map(|(_, minutes)| minutes).unwrap_or_default();
        let is_whole = |rows: &Vec<Row>| matches!(rows[0].get(2), Some(Cell::Double(seconds)) if *seconds >= WHOLE_S);
        let whole: Vec<i64> = observed.into_iter().filter(|(_, rows)| is_whole(rows)).map(|(at, _)| at).collect();
        if whole.is_empty() {
            return Err(failed(
                &"no whole minute was recorded: 'whyslow record --for 5m --dir DIR' makes such a recording",
            ));
        }
        let of = |(table, mut minutes): (&'static TableSpec, BTreeMap<i64, Vec<Row>>)| {
            RecordedTable::new(table, whole.iter().map(|at| minutes.remove(at).unwrap_or_default()).collect())
        };
        Ok(Self { tables: rows.into_values().map(of).collect() })
    }

    /// Returns the tables that have rows.
    pub fn tables(&self) -> &[RecordedTable] {
        &self.tables
    }
}

/// Returns the hours that a recording overlaps.
pub fn hours(recording: &Recording) -> impl Iterator<Item = Hour> {
    const MS: i64 = 1_000_000;
    let span = recording.span();
    let end = span.end().div_euclid(MS);
    let first = Hour::from_ms(span.start().div_euclid(MS));
    std::iter::successors(first, |hour| hour.next()).take_while(move |hour| hour.start() <= end)
}

fn scaling(column: &Column) -> Scaling {
    let is_same = [HOST, AT, "seconds", "at_least", IDLE].contains(&column.name.as_str()) || column.unit.is_empty();
    match column.kind {
        ColumnKind::Integer if !is_same => Scaling::Load,
        ColumnKind::Double if !is_same => Scaling::Size,
        _ => Scaling::Same,
    }
}

impl RecordedTable {
    fn new(table: &'static TableSpec, minutes: Vec<Vec<Row>>) -> Self {
        Self { table, scaling: table.columns.iter().map(scaling).collect(), minutes }
    }

    /// Returns the rows of a host and hour.
    pub fn rows(&self, of: &HostHour<'_>) -> Vec<Row> {
        let mut random = of.host.random(&self.table.name);
        let phase = of.host.random("phase").random_range(0..self.minutes.len());
        let load = of.host.random("load").random_range(LOADS);
        let size = SIZES[of.host.random("size").random_range(0..SIZES.len())];
        let factors: Vec<f64> = self
            .scaling
            .iter()
            .map(|scaling| match scaling {
                Scaling::Same => 1.0,
                Scaling::Load => load * random.random_range(DEVIATIONS),
                Scaling::Size => size,
            })
            .collect();
        let effects: Vec<(usize, f64)> = of.cause.map(|cause| self.effects(cause)).unwrap_or_default();
        let host = Cell::text(&of.host.name);
        let mut random = of.random(&self.table.name);
        let mut all = Vec::new();
        for (number, (at, lost)) in of.minutes().enumerate() {
            let minute = of.number as usize * 60 + number + phase;
            let minute_load = random.random_range(DEVIATIONS);
            for (place, row) in self.minutes[minute % self.minutes.len()].iter().enumerate() {
                let mut cells: Row = row
                    .iter()
                    .zip(self.scaling.iter().zip(&factors))
                    .map(|(cell, (scaling, factor))| match (scaling, cell) {
                        (Scaling::Load, Cell::Integer(count)) => {
                            Cell::Integer((*count as f64 * factor * minute_load).round() as i64)
                        }
                        (Scaling::Size, Cell::Double(level)) => Cell::Double(level * factor),
                        _ => cell.clone(),
                    })
                    .collect();
                cells[0] = host.clone();
                cells[1] = Cell::Timestamp(at);
                // The effect of a cause shows in the busiest entity, or the only one of its kind.
                if place == 0 && of.is_felt() {
                    for (column, per_second) in &effects {
                        if let Cell::Integer(count) = &mut cells[*column] {
                            *count += (per_second * lost) as i64;
                        }
                    }
                }
                all.push(cells);
            }
        }
        all
    }

    /// Returns the amounts that each second lost to a cause adds to columns.
    fn effects(&self, cause: Cause) -> Vec<(usize, f64)> {
        let of_table = cause.effects().iter().filter(|effect| effect.table == self.table.name);
        of_table
            .filter_map(|Effect { column, per_second, .. }| Some((self.table.position(column)?, *per_second)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::simulate;

    const HOUR: Hour = Hour { day: jiff::civil::date(2026, 11, 26), hour: 16 };

    /// Returns a minute of a disk that writes once, and of one that is idle.
    fn disks() -> RecordedTable {
        let table = whyslow_rollup::table("disk").unwrap();
        let row = |device: &str, writes: i64| {
            let cell = |column: &Column| match (column.name.as_str(), column.kind) {
                ("device", _) => Cell::text(device),
                ("writes", _) => Cell::Integer(writes),
                (AT, _) => Cell::Timestamp(0),
                (_, ColumnKind::Double) => Cell::Double(60.0),
                (_, ColumnKind::Text) => Cell::text(""),
                _ => Cell::Integer(0),
            };
            table.columns.iter().map(cell).collect::<Row>()
        };
        RecordedTable::new(table, vec![vec![row("sda", 1_000_000), row("sdb", 0)]])
    }

    #[test]
    fn what_is_lost_to_a_cause_shows_in_the_numbers_of_the_busiest() {
        let fleet = simulate(1, 100, Some(Cause::Firmware));
        let disks = disks();
        let column = |name: &str| disks.table.position(name).unwrap();
        for host in &fleet.hosts {
            let hour = HostHour::new(host, fleet.cause, HOUR, 23, 24);
            let rows = disks.rows(&hour);
            assert_eq!(rows.len(), 120);
            assert!(rows.iter().all(|row| row[0] == Cell::text(&host.name)));
            assert_eq!(rows[119][1], Cell::Timestamp(HOUR.start() + 59 * 60_000));
            let lost: f64 = hour.minutes().map(|(_, lost)| lost).sum();
            let times = |device: &str| -> i64 {
                let of_device = rows.iter().filter(|row| row[column("device")] == Cell::text(device));
                of_device.map(|row| if let Cell::Integer(ns) = row[column("write_time")] { ns } else { 0 }).sum()
            };
            let expected = if host.is_sick { lost * 1e9 } else { 0.0 };
            assert!((times("sda") as f64 - expected).abs() < 1000.0, "{}", host.name);
            assert_eq!(times("sdb"), 0);
        }
    }

    #[test]
    fn hosts_differ_in_load_and_size() {
        let fleet = simulate(1, 100, None);
        let disks = disks();
        let writes = disks.table.position("writes").unwrap();
        let of = |host| -> i64 {
            let rows = disks.rows(&HostHour::new(host, None, HOUR, 0, 24));
            rows.iter().map(|row| if let Cell::Integer(count) = row[writes] { count } else { 0 }).sum()
        };
        let mut all: Vec<i64> = fleet.hosts.iter().map(of).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 100);
        assert!(all[99] > 3 * all[0], "{} to {}", all[0], all[99]);
    }
}
