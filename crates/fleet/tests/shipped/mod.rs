//! Stores that hosts have shipped to, and the program over them.

// Each test program uses some of them.
#![allow(dead_code, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use whyslow_rollup::{Cell, Hour, Place, Row, parquet, table};
use whyslow_testing::documents::assert_valid;
use whyslow_testing::ends_with_test;

/// The first hour.
pub const FIRST: Hour = Hour { day: jiff::civil::date(2024, 11, 26), hour: 10 };
const MINUTE_MS: i64 = 60_000;

pub fn hour(number: i8) -> Hour {
    Hour { hour: FIRST.hour + number, ..FIRST }
}

pub fn fleet(store: &Path, arguments: &[&str]) -> Command {
    // At run time: a shell that wraps the compiler drops variables with a hyphen in their name.
    let program = std::env::var_os("CARGO_BIN_EXE_whyslow-fleet").expect("the program");
    let mut command = Command::new(program);
    command.args(arguments).arg("--utc").env("WHYSLOW_FLEET_STORE", store).stdin(Stdio::null());
    ends_with_test(&mut command);
    command
}

pub fn run(store: &Path, arguments: &[&str]) -> Output {
    fleet(store, arguments).output().unwrap()
}

/// What a command that succeeds prints; JSON is as its schema says.
pub fn printed(store: &Path, arguments: &[&str]) -> String {
    let output = run(store, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    if arguments.contains(&"--json") {
        assert_valid(&arguments.join(" "), &output.stdout);
    }
    String::from_utf8(output.stdout).unwrap()
}

pub fn ship(store: &Path, name: &str, hour: Hour, host: &str, rows: &[Row], complete: bool) -> PathBuf {
    let bytes = parquet(table(name).unwrap(), rows, &[("whyslow.complete", complete.to_string())]).unwrap();
    let path = store.join(Place::incoming(name, hour, host).unwrap().path());
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // As a store does: in one step.
    let draft = path.with_extension("draft");
    fs::write(&draft, bytes).unwrap();
    fs::rename(draft, &path).unwrap();
    path
}

pub fn minute(host: &str, hour: Hour, number: i64, lost: f64) -> Row {
    let at = Cell::Timestamp(hour.start() + number * MINUTE_MS);
    let numbers = [Cell::Double(60.0), Cell::Integer(60), Cell::Integer(0), Cell::Double(60.0), Cell::Double(lost)];
    [Cell::text(host), at].into_iter().chain(numbers).chain([Cell::text("1.0")]).collect()
}

pub fn minutes(host: &str, hour: Hour, lost: f64) -> Vec<Row> {
    (0..60).map(|number| minute(host, hour, number, lost)).collect()
}

/// From one minute of an hour until another.
pub fn episode(host: &str, hour: Hour, (from, to): (i64, i64), finding: &str, lost: f64, began_before: bool) -> Row {
    let time = |minute: i64| Cell::Timestamp(hour.start() + minute * MINUTE_MS);
    let words = [finding, "disk", "sda", "backup", "high"].map(Cell::text);
    let numbers = [Cell::Double(lost), Cell::Double(0.5), Cell::Boolean(began_before), Cell::Boolean(false)];
    [Cell::text(host), time(from), time(to)].into_iter().chain(words).chain(numbers).collect()
}

pub fn label(host: &str, role: &str) -> Row {
    let at = Cell::Timestamp(FIRST.start());
    [Cell::text(host), at].into_iter().chain(["label", "role", role].map(Cell::text)).collect()
}
