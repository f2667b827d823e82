//! Hostile hosts: names with special meaning in a shell, in SQL or on a page, and impossible or extreme numbers.

use crate::simulate::Fleet;
use std::fs;
use std::path::Path;
use whyslow_pairs::failure::{Failure, Result};
use whyslow_rollup::{AT, Cell, Column, ColumnKind, HOST, Hour, Place, Row, parquet, tables};

/// Names of hosts.
const NAMES: [&str; 24] = [
    "Robert'); DROP TABLE minute;--",
    "a \"quoted\" name",
    "' OR '1'='1",
    "ünïcödé",
    "e\u{301}",
    "\u{e9}",
    "東京",
    "\u{202e}txet",
    "tab\tand\nline",
    "\u{1b}[2J",
    "🚀",
    "%2e%2e%2f",
    "../../etc/passwd",
    " before",
    "after ",
    "UPPER",
    "upper",
    "${jndi:ldap://x}",
    "null",
    "-1",
    "--json",
    "<script>alert(1)</script>",
    "back\\slash",
    ".hidden_%",
];

/// Extreme and impossible numbers.
const COUNTS: [i64; 5] = [1 << 53, -(1 << 53), i64::MAX, i64::MIN, 0];
const LEVELS: [f64; 7] = [1e19, -1e19, 1e300, f64::NAN, f64::INFINITY, 120.0, -0.0];

/// Gives such names to the hosts of a fleet.
pub fn rename(fleet: &mut Fleet) {
    for (number, host) in fleet.hosts.iter_mut().enumerate() {
        let round = if number < NAMES.len() { String::new() } else { format!(" {}", number / NAMES.len()) };
        host.name = format!("{}{round}", NAMES[number % NAMES.len()]);
    }
}

/// Writes the files of a host with made-up numbers in all tables of an hour, and of one whose files are not Parquet.
///
/// # Errors
/// Fails if a file cannot be written.
pub fn write(folder: &Path, hour: Hour) -> Result<()> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(error.to_string());
    for table in tables() {
        let rows: Vec<Row> =
            (0..60).map(|at| table.columns.iter().map(|column| cell(column, hour, at)).collect()).collect();
        let bytes = parquet(table, &rows, &[("whyslow.complete", "true".into())]).map_err(|error| failed(&error))?;
        for (host, bytes) in [("liar", &bytes[..]), ("broken", &b"PAR1PAR1"[..])] {
            let place = Place::incoming(&table.name, hour, host).map_err(|error| failed(&error))?;
            let path = folder.join(place.path());
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(path, bytes)?;
        }
    }
    Ok(())
}

/// Returns a value for a minute of an hour; every seventh row belongs to another host or time.
fn cell(column: &Column, hour: Hour, at: usize) -> Cell {
    let minute = hour.start() + at as i64 * 60_000;
    match column.kind {
        _ if column.name == HOST => Cell::text(if at % 14 == 13 { "another" } else { "liar" }),
        ColumnKind::Timestamp if column.name == AT && at % 7 == 5 => Cell::Timestamp(i64::MAX),
        ColumnKind::Timestamp => Cell::Timestamp(minute),
        // One in a few rows has an impossible number, and does not count.
        ColumnKind::Integer => Cell::Integer(COUNTS[if at.is_multiple_of(4) { at / 4 % COUNTS.len() } else { at % 2 }]),
        ColumnKind::Double if at.is_multiple_of(3) => Cell::Double(LEVELS[at / 3 % LEVELS.len()]),
        ColumnKind::Double => Cell::Double(1.0),
        ColumnKind::Boolean => Cell::Boolean(at.is_multiple_of(2)),
        ColumnKind::Text if at % 10 == 9 => Cell::text(&"x".repeat(5000)),
        ColumnKind::Text => Cell::text(NAMES[at % NAMES.len()]),
    }
}
