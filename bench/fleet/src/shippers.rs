//! Whether anything is lost or doubled if the S3 server is killed while many hosts ship and a compactor works.

use crate::fleet_program::FleetProgram;
use crate::gateway::{BUCKET, Gateway};
use crate::recorded::hours;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use whyslow_pairs::failure::{Failure, Result};
use whyslow_pairs::stop;
use whyslow_rollup::{INCOMING, VERSION};
use whyslow_ship::{Destination, ShipError, Shipper};
use whyslow_store::{Recorder, Recording, Retention};

const HOUR_NS: i64 = 3_600_000_000_000;
/// The newest hour has ended so long ago that it is complete, and compacted.
const AGO: i64 = 2;
/// How long the server answers before it is killed, and how long it is gone, milliseconds.
const UP_MS: std::ops::Range<u64> = 0..1000;
const DOWN_MS: std::ops::Range<u64> = 200..2000;
/// Samples that may wait to be recorded.
const MOST_WAITING: usize = 30;
/// How long everything may take after the last kill.
const PATIENCE: Duration = Duration::from_secs(120);

/// Hosts that ship, and a server that is killed.
pub struct Trial<'t> {
    /// The program `whyslow`.
    pub whyslow: &'t Path,
    /// The program `whyslow-fleet`.
    pub whyslow_fleet: &'t Path,
    /// The program `versitygw`.
    pub versitygw: &'t Path,
    /// What hosts have recorded, in each of the hours.
    pub recording: &'t Path,
    /// Where everything is kept.
    pub folder: &'t Path,
    /// How many hosts.
    pub hosts: usize,
    /// How many hours each has recorded.
    pub hours: u32,
    /// How often the server is killed.
    pub kills: u32,
    /// The seed of the times at which it is.
    pub seed: u64,
}

/// What was in the store at the end.
#[derive(Serialize)]
pub struct Outcome {
    hosts: usize,
    hours: u32,
    kills: u32,
    /// From the first delivery until everything was there.
    seconds: f64,
    /// Hosts that have reported that a delivery failed.
    failed_hosts: usize,
    tables: usize,
    /// Rows that the hosts have recorded.
    rows: usize,
    /// Rows that are not in the store.
    lost: usize,
    /// Rows that are there and should not be, or once more than they should.
    doubled: usize,
}

impl Outcome {
    /// Whether every row is there once.
    pub fn is_right(&self) -> bool {
        self.rows > 0 && self.lost == 0 && self.doubled == 0
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hosts, hours, kills, seconds, failed_hosts, tables, rows, lost, doubled } = self;
        writeln!(
            f,
            "{hosts} hosts shipped {hours} h each in {seconds:.0} s, while the server was killed {kills} times, which \
             {failed_hosts} of them noticed: {rows} rows in {tables} tables, {lost} lost, {doubled} doubled"
        )
    }
}

/// A process, killed when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Trial<'_> {
    /// Ships, kills, waits, and compares the store with what was recorded.
    ///
    /// # Errors
    /// A program cannot be started, a file cannot be written, or a signal came.
    pub fn run(&self) -> Result<Outcome> {
        let expected = self.folder.join("expected");
        fs::create_dir_all(&expected)?;
        let mut span = (0, 0);
        let recordings: Vec<(String, PathBuf)> = (0..self.hosts)
            .map(|number| (format!("host{number:03}"), self.folder.join(format!("host{number:03}"))))
            .collect();
        for (number, (host, folder)) in recordings.iter().enumerate() {
            stop::check()?;
            match recordings.first().filter(|_| number > 0) {
                Some((_, first)) => copy(first, folder)?,
                None => span = self.record(folder)?,
            }
            ship(host, folder, &expected)?;
        }
        let mut gateway = Gateway::start(self.versitygw, &self.folder.join("server"))?;
        let environment = gateway.environment();
        let bucket = OsString::from(format!("s3://{BUCKET}/fleet"));
        let in_bucket = FleetProgram { path: self.whyslow_fleet, store: &bucket, environment: &environment };
        let expected = FleetProgram { path: self.whyslow_fleet, store: expected.as_os_str(), environment: &[] };
        let mut compactor = in_bucket.command(&["compact", "--every", "1s", "--grace", "1s"]);
        let _compactor = Killed(compactor.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
        let begun = Instant::now();
        let shippers = recordings.iter().map(|(host, folder)| {
            let mut command = Command::new(self.whyslow);
            command.arg("ship").arg(&bucket).args(["--host", host, "--dir"]).arg(folder);
            command.envs(environment.iter().map(|(name, value)| (name, value)));
            let said = File::create(folder.with_extension("said"))?;
            Ok(Killed(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).spawn()?))
        });
        let shippers: Vec<Killed> = shippers.collect::<Result<_>>()?;
        let random = &mut SmallRng::seed_from_u64(self.seed);
        for _ in 0..self.kills {
            gateway.wait_for_requests()?;
            stop::pause(Duration::from_millis(random.random_range(UP_MS)))?;
            gateway.kill();
            stop::pause(Duration::from_millis(random.random_range(DOWN_MS)))?;
            gateway.restart()?;
        }
        let tables = self.tables()?;
        let wanted: Vec<BTreeMap<String, usize>> =
            tables.iter().map(|table| rows(&expected, table, span)).collect::<Result<_>>()?;
        let end = Instant::now() + PATIENCE;
        // Until everything is there, one table is looked at, which is quick.
        let compare = |all: usize| -> Result<(usize, usize)> {
            let mut sum = (0, 0);
            for (table, wanted) in tables.iter().zip(&wanted).rev().take(all) {
                let (lost, doubled) = difference(wanted, &rows(&in_bucket, table, span)?);
                sum = (sum.0 + lost, sum.1 + doubled);
            }
            Ok(sum)
        };
        let (lost, doubled) = loop {
            let is_late = Instant::now() > end;
            if is_late || compare(1)? == (0, 0) {
                let found = compare(tables.len())?;
                if is_late || found == (0, 0) {
                    break found;
                }
            }
            stop::pause(Duration::from_secs(1))?;
        };
        let seconds = begun.elapsed().as_secs_f64();
        drop(shippers);
        let has_failed = |(_, folder): &&(String, PathBuf)| {
            fs::read_to_string(folder.with_extension("said")).is_ok_and(|said| said.contains("not delivered"))
        };
        Ok(Outcome {
            hosts: self.hosts,
            hours: self.hours,
            kills: self.kills,
            seconds,
            failed_hosts: recordings.iter().filter(has_failed).count(),
            tables: tables.len(),
            rows: wanted.iter().flat_map(BTreeMap::values).sum(),
            lost,
            doubled,
        })
    }

    /// Records the same again in each of the last hours; returns from when to when, milliseconds since 1970.
    fn record(&self, folder: &Path) -> Result<(i64, i64)> {
        let failed = |error: whyslow_store::StoreError| Failure::new(error.to_string());
        let recording = Recording::open(self.recording).map_err(failed)?;
        let samples = recording.snapshots(&recording.span(), &|_: &str| true).map_err(failed)?;
        let retention = Retention { time: Duration::MAX, bytes: u64::MAX };
        let recorder =
            Recorder::begin(folder, Duration::from_secs(1), retention, Arc::new(|_: &str| {})).map_err(failed)?;
        let now = Instant::now();
        for hour in 0..i64::from(self.hours) {
            for sample in &samples {
                let mut sample = sample.clone();
                sample.wall_ns -= (AGO + i64::from(self.hours) - 1 - hour) * HOUR_NS;
                sample.boot_ns = sample.boot_ns.saturating_add_signed(hour * HOUR_NS);
                while recorder.waiting() > MOST_WAITING {
                    stop::pause(Duration::from_millis(1))?;
                }
                recorder.add(sample, now);
            }
        }
        recorder.finish().map_err(Failure::new)?;
        let recording = Recording::open(folder).map_err(failed)?;
        let all: Vec<(i64, i64)> = hours(&recording).map(|hour| (hour.start(), hour.end())).collect();
        let (first, last) = all.first().zip(all.last()).ok_or_else(|| Failure::new("nothing was recorded"))?;
        Ok((first.0, last.1))
    }

    /// The tables that were shipped.
    fn tables(&self) -> Result<Vec<String>> {
        let entries = fs::read_dir(self.folder.join("expected").join(VERSION).join(INCOMING))?;
        let name = |entry: std::io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = entries.map(name).collect::<Result<_>>()?;
        names.sort_unstable();
        Ok(names)
    }
}

/// Ships a recording to a folder, in this process.
fn ship(host: &str, recording: &Path, store: &Path) -> Result<()> {
    static NEVER: AtomicBool = AtomicBool::new(false);
    let failed = |error: ShipError| Failure::new(error.to_string());
    let destination = Destination::open(&store.to_string_lossy()).map_err(failed)?;
    let mut shipper =
        Shipper::new(destination, host, env!("CARGO_PKG_VERSION"), Vec::new(), recording).map_err(failed)?;
    let open = || Recording::open(recording).map_err(|error| ShipError::from(error.to_string()));
    let now = jiff::Timestamp::now().as_nanosecond();
    let pass = shipper.pass(&open, i64::try_from(now).unwrap_or(i64::MAX), &NEVER);
    pass.failure.map_or(Ok(()), |failure| Err(failed(failure)))
}

/// All rows of a table, each with how often it is there.
fn rows(store: &FleetProgram<'_>, table: &str, span: (i64, i64)) -> Result<BTreeMap<String, usize>> {
    let question = format!("SELECT * FROM {table}");
    let output = store.output(&["sql", &question, "--format", "csv", "--limit", "0"], span)?;
    let mut rows = BTreeMap::new();
    for line in String::from_utf8_lossy(&output).lines().skip(1) {
        *rows.entry(line.to_owned()).or_default() += 1;
    }
    Ok(rows)
}

/// How many rows are missing, and how many are too many.
fn difference(wanted: &BTreeMap<String, usize>, found: &BTreeMap<String, usize>) -> (usize, usize) {
    let beyond = |rows: &BTreeMap<String, usize>, other: &BTreeMap<String, usize>| {
        rows.iter().map(|(row, count)| count.saturating_sub(other.get(row).copied().unwrap_or(0))).sum()
    };
    (beyond(wanted, found), beyond(found, wanted))
}

/// Copies a recording, without what was delivered of it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "ship" {
                copy(&source, &target)?;
            }
        } else {
            fs::copy(source, target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_and_doubled_rows_are_counted() {
        let rows = |all: &[(&str, usize)]| all.iter().map(|(row, count)| ((*row).to_owned(), *count)).collect();
        let wanted = rows(&[("a", 1), ("b", 2), ("c", 1)]);
        assert_eq!(difference(&wanted, &wanted), (0, 0));
        assert_eq!(difference(&wanted, &rows(&[("a", 2), ("b", 1), ("d", 1)])), (2, 2));
    }
}
