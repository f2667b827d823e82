//! The files of a simulated fleet, as hosts ship them or as the compactor merges them.

use crate::simulate::{Fleet, Host};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::fs;
use std::path::Path;
use whyslow_pairs::failure::{Failure, Result};
use whyslow_pairs::stop;
use whyslow_rollup::{Cell, Hour, Place, Row, Table, TableWriter, parquet, table};

/// What sick hosts lose time to.
pub const FINDING: &str = "disk.saturated";
const ROW_GROUP: usize = 1 << 16;
const MINUTE_MS: i64 = 60_000;

/// What was written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    /// Files.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Their rows.
    pub rows: usize,
}

/// Writes so many hours of a fleet, from `from_ms` on: one file for each table and hour, or for each host too.
///
/// # Errors
/// A file cannot be written, or a signal came.
pub fn write(fleet: &Fleet, folder: &Path, from_ms: i64, hours: u32, is_compacted: bool) -> Result<Written> {
    let mut written = Written::default();
    let mut hour = Hour::of(from_ms).ok_or_else(|| Failure::new("no such hour"))?;
    for number in 0..hours {
        let part = (f64::from(number) / f64::from(hours), f64::from(number + 1) / f64::from(hours));
        for (name, rows_of) in TABLES {
            stop::check()?;
            let table = table(name).ok_or_else(|| Failure::new(format!("no table {name}")))?;
            let rows = |host: &Host| rows_of(host, hour, number, part);
            if is_compacted {
                compacted(fleet, folder, table, hour, rows, &mut written)?;
            } else {
                incoming(fleet, folder, table, hour, rows, &mut written)?;
            }
        }
        hour = hour.next().ok_or_else(|| Failure::new("no such hour"))?;
    }
    Ok(written)
}

type RowsOf = fn(&Host, Hour, u32, (f64, f64)) -> Vec<Row>;
const TABLES: [(&str, RowsOf); 4] =
    [("minute", minutes), ("episode", episodes), ("inventory", inventory), ("change", changes)];

fn compacted(
    fleet: &Fleet,
    folder: &Path,
    table: &Table,
    hour: Hour,
    rows_of: impl Fn(&Host) -> Vec<Row>,
    written: &mut Written,
) -> Result<()> {
    let path = folder.join(Place::compacted(&table.name, hour, 1).path());
    make_folder_of(&path)?;
    // What the compactor notes of each file that is in this one.
    let source = |host: &Host| serde_json::json!({"name": format!("{}.parquet", host.name), "size": 4096, "tag": "1970-01-01T00:00:00+00:00", "complete": true});
    let sources = serde_json::to_string(&fleet.hosts.iter().map(source).collect::<Vec<_>>())?;
    let file = fs::File::create(&path)?;
    let mut writer = TableWriter::new(file, table, &[("whyslow.sources", sources)]).map_err(failed)?;
    let mut rows: Vec<Row> = Vec::new();
    for host in &fleet.hosts {
        rows.extend(rows_of(host));
        if rows.len() >= ROW_GROUP {
            let group: Vec<Row> = rows.drain(..ROW_GROUP).collect();
            writer.write(&group).map_err(failed)?;
            written.rows += group.len();
        }
    }
    written.rows += rows.len();
    writer.write(&rows).map_err(failed)?;
    written.bytes += writer.finish().map_err(failed)?.metadata()?.len();
    written.files += 1;
    Ok(())
}

fn incoming(
    fleet: &Fleet,
    folder: &Path,
    table: &Table,
    hour: Hour,
    rows_of: impl Fn(&Host) -> Vec<Row>,
    written: &mut Written,
) -> Result<()> {
    for host in &fleet.hosts {
        let rows = rows_of(host);
        if rows.is_empty() {
            continue;
        }
        let place = Place::incoming(&table.name, hour, &host.name).map_err(|error| Failure::new(error.to_string()))?;
        let path = folder.join(place.path());
        make_folder_of(&path)?;
        let metadata = [("whyslow.complete", "true".to_owned()), ("whyslow.host", host.name.clone())];
        let bytes = parquet(table, &rows, &metadata).map_err(failed)?;
        fs::write(&path, &bytes)?;
        *written = Written {
            files: written.files + 1,
            bytes: written.bytes + bytes.len() as u64,
            rows: written.rows + rows.len(),
        };
    }
    Ok(())
}

fn make_folder_of(path: &Path) -> Result<()> {
    Ok(path.parent().map_or(Ok(()), fs::create_dir_all)?)
}

fn failed(error: whyslow_rollup::FileError) -> Failure {
    Failure::new(error.to_string())
}

/// Each host and hour has its own noise, whichever order they are written in.
fn random(host: &Host, number: u32) -> SmallRng {
    let seed =
        host.name.bytes().fold(u64::from(number), |seed, byte| seed.wrapping_mul(1_099_511_628_211) ^ u64::from(byte));
    SmallRng::seed_from_u64(seed)
}

fn cells<const N: usize>(host: &Host, at: i64, others: [Cell; N]) -> Row {
    [Cell::text(&host.name), Cell::Timestamp(at)].into_iter().chain(others).collect()
}

fn minutes(host: &Host, hour: Hour, number: u32, part: (f64, f64)) -> Vec<Row> {
    let mut random = random(host, number);
    let version = Cell::text("0.1.0");
    let minute = |minute: i64| {
        let at = part.0 + (part.1 - part.0) * minute as f64 / 60.0;
        let lost: f64 = if host.is_sick && at >= host.onset {
            60.0 * random.random_range(0.2..0.8)
        } else if random.random_bool(0.02) {
            random.random_range(0.0..0.5)
        } else {
            0.0
        };
        let number = Cell::Double;
        cells(
            host,
            hour.start() + minute * MINUTE_MS,
            [number(60.0), Cell::Integer(60), Cell::Integer(0), number(60.0), number(lost), version.clone()],
        )
    };
    (0..60).map(minute).collect()
}

fn episodes(host: &Host, hour: Hour, _: u32, part: (f64, f64)) -> Vec<Row> {
    if !host.is_sick || host.onset >= part.1 {
        return Vec::new();
    }
    let began_before = host.onset < part.0;
    let share = if began_before { 0.0 } else { (host.onset - part.0) / (part.1 - part.0) };
    let start = hour.start() + (share * 3_600_000.0) as i64;
    let seconds = (hour.end() - start) as f64 / 1000.0;
    let row = [
        Cell::Timestamp(hour.end() - 1),
        Cell::text(FINDING),
        Cell::text("device"),
        Cell::text("nvme0n1"),
        Cell::Null,
        Cell::text("high"),
        Cell::Double(0.5 * seconds),
        Cell::Double(0.8),
        Cell::Boolean(began_before),
        Cell::Boolean(true),
    ];
    vec![cells(host, start, row)]
}

/// Once a day, in its first hour and in the first of all.
fn inventory(host: &Host, hour: Hour, number: u32, _: (f64, f64)) -> Vec<Row> {
    if number != 0 && hour.hour != 0 {
        return Vec::new();
    }
    let row = |feature: &whyslow_compare::fleet::Feature| {
        let value = Cell::words(feature.value.as_deref());
        cells(host, hour.start() + 5000, [Cell::text(&feature.kind), Cell::text(&feature.name), value])
    };
    host.features.iter().map(row).collect()
}

fn changes(host: &Host, hour: Hour, _: u32, part: (f64, f64)) -> Vec<Row> {
    // Half an hour before a host becomes sick; of a healthy one at that time, too.
    if !(part.0..part.1).contains(&(host.onset - 0.02)) {
        return Vec::new();
    }
    let row = |feature: &whyslow_compare::fleet::Feature| {
        let value = feature.value.as_deref().unwrap_or_default();
        let (old, new) = value.split_once(" → ").unwrap_or(("", value));
        let at = hour.start() + ((host.onset - 0.02 - part.0) / (part.1 - part.0) * 3_600_000.0) as i64;
        cells(host, at, [Cell::text(&feature.kind), Cell::text(&feature.name), Cell::text(old), Cell::text(new)])
    };
    host.changes.iter().map(row).collect()
}
