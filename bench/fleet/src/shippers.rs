//! Checks that nothing is lost or duplicated if the S3 server is killed while many hosts ship and a compactor works.

use crate::fleet_program::FleetProgram;
use crate::gateway::{BUCKET, Gateway};
use crate::recorded::hours;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use whyslow_model::snapshot::Snapshot;
use whyslow_pairs::failure::{Failure, Result};
use whyslow_pairs::stop;
use whyslow_rollup::{INCOMING, VERSION};
use whyslow_ship::{Destination, ShipError, Shipper};
use whyslow_store::{Recorder, Recording, Retention};

const HOUR_NS: i64 = 3_600_000_000_000;
/// Age of the newest hour: it ended long enough ago to be complete and compacted.
const AGO: i64 = 2;
/// One out of this many samples is recorded: one every ten seconds.
const ONE_IN: usize = 10;
const INTERVAL: Duration = Duration::from_secs(10);
/// Delivery interval of hosts, and the real time for each hour of recording.
const EVERY: &str = "1m";
const HOUR_TAKES: Duration = Duration::from_secs(60);
/// Range of the server's downtime after it was killed, in milliseconds.
const DOWN_MS: std::ops::Range<u64> = 200..2000;
/// Maximum number of samples waiting to be recorded.
const MOST_WAITING: usize = 30;
/// Time limit for everything after the last kill, and for the first delivery of each host.
const PATIENCE: Duration = Duration::from_secs(240);

/// Trial with hosts that ship and a server that is killed.
pub struct Trial<'t> {
    /// The program `whyslow`.
    pub whyslow: &'t Path,
    /// The program `whyslow-fleet`.
    pub whyslow_fleet: &'t Path,
    /// The program `versitygw`.
    pub versitygw: &'t Path,
    /// Recording that hosts repeat in each of the hours.
    pub recording: &'t Path,
    /// Working folder.
    pub folder: &'t Path,
    /// Simulated hosts.
    pub hosts: usize,
    /// Number of hours that each records, one per minute.
    pub hours: u32,
    /// Number of times that the server is killed.
    pub kills: u32,
    /// Seed of the times of the kills.
    pub seed: u64,
}

/// Content of the store at the end.
#[derive(Serialize)]
pub struct Outcome {
    hosts: usize,
    hours: u32,
    kills: u32,
    /// Seconds from the first delivery until everything had arrived.
    seconds: f64,
    /// Number of hosts that reported a failed delivery, and of all such reports.
    failed_hosts: usize,
    failures: usize,
    tables: usize,
    /// Number of rows that the hosts have recorded.
    rows: usize,
    /// Number of rows missing in the store.
    lost: usize,
    /// Number of unexpected or duplicate rows.
    doubled: usize,
}

impl Outcome {
    /// Returns whether every row exists exactly once.
    pub fn is_right(&self) -> bool {
        self.rows > 0 && self.lost == 0 && self.doubled == 0
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hosts, hours, kills, seconds, failed_hosts, failures, tables, rows, lost, doubled } = self;
        writeln!(
            f,
            "{hosts} hosts shipped {hours} h each in {seconds:.0} s, while the server was killed {kills} times, which \
             {failed_hosts} of them noticed ({failures} times): {rows} rows in {tables} tables, {lost} lost, {doubled} doubled"
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
    /// Fails if a program cannot be started, a file cannot be written, or a signal arrives.
    pub fn run(&self) -> Result<Outcome> {
        let expected = self.folder.join("expected");
        fs::create_dir_all(&expected)?;
        let samples = self.samples()?;
        let whole = self.folder.join("whole");
        let span = self.record_whole(&whole, &samples)?;
        let mut recordings = Vec::new();
        for number in 0..self.hosts {
            stop::check()?;
            let host = format!("host{number:03}");
            ship(&host, &whole, &expected)?;
            recordings.push(GrowingRecording::begin(host, self.folder)?);
        }
        self.record_hour(0, &samples, &recordings)?;
        let mut gateway = Gateway::start(self.versitygw, &self.folder.join("server"))?;
        let environment = gateway.environment();
        let bucket = OsString::from(format!("s3://{BUCKET}/fleet"));
        let in_bucket =
            FleetProgram { path: self.whyslow_fleet, store: &bucket, engine: None, environment: &environment };
        let expected =
            FleetProgram { path: self.whyslow_fleet, store: expected.as_os_str(), engine: None, environment: &[] };
        let mut compactor = in_bucket.command(&["compact", "--every", "1s", "--grace", "1s"]);
        let _compactor = Killed(compactor.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
        let begun = Instant::now();
        let mut shippers = Vec::new();
        for GrowingRecording { host, folder, .. } in &recordings {
            let mut command = Command::new(self.whyslow);
            command.arg("ship").arg(&bucket).args(["--every", EVERY, "--host", host, "--dir"]).arg(folder);
            command.envs(environment.iter().map(|(name, value)| (name, value)));
            let said = File::create(folder.with_extension("said"))?;
            shippers.push(Killed(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).spawn()?));
            // Staggered, so that some host is delivering whenever the server is killed.
            stop::pause(HOUR_TAKES.div_f64(self.hosts as f64))?;
        }
        let end = Instant::now() + PATIENCE;
        while !recordings.iter().all(GrowingRecording::has_delivered) {
            if Instant::now() > end {
                return Err(Failure::new("not every host has delivered anything"));
            }
            stop::pause(Duration::from_millis(200))?;
        }
        self.kill_while_recording(&mut gateway, &samples, &recordings)?;
        for recording in &recordings {
            recording.recorder.finish().map_err(Failure::new)?;
        }
        let tables = self.tables()?;
        let wanted: Vec<BTreeMap<String, usize>> =
            tables.iter().map(|table| rows(&expected, table, span)).collect::<Result<_>>()?;
        let end = Instant::now() + PATIENCE;
        // Until everything has arrived, check one table, which is quick.
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
        let failures: Vec<usize> = recordings.iter().map(GrowingRecording::failures).collect();
        Ok(Outcome {
            hosts: self.hosts,
            hours: self.hours,
            kills: self.kills,
            seconds,
            failed_hosts: failures.iter().filter(|failures| **failures > 0).count(),
            failures: failures.iter().sum(),
            tables: tables.len(),
            rows: wanted.iter().flat_map(BTreeMap::values).sum(),
            lost,
            doubled,
        })
    }

    /// Kills the server repeatedly, while an hour is recorded each minute.
    fn kill_while_recording(
        &self,
        gateway: &mut Gateway,
        samples: &[Snapshot],
        recordings: &[GrowingRecording],
    ) -> Result<()> {
        let random = &mut SmallRng::seed_from_u64(self.seed);
        let others = self.hours.saturating_sub(1).max(1);
        let apart = HOUR_TAKES * others / self.kills.max(1);
        let mut next = Instant::now();
        let mut hour = 0;
        for kill in 0..self.kills {
            while hour < self.hours - 1 && kill * others >= hour * self.kills {
                hour += 1;
                self.record_hour(hour, samples, recordings)?;
            }
            next += apart;
            let early = apart.mul_f64(random.random_range(0.0..0.5));
            stop::pause((next - early).saturating_duration_since(Instant::now()))?;
            gateway.wait_for_upload(INCOMING)?;
            gateway.kill();
            stop::pause(Duration::from_millis(random.random_range(DOWN_MS)))?;
            gateway.restart()?;
        }
        (hour + 1..self.hours).try_for_each(|hour| self.record_hour(hour, samples, recordings))
    }

    /// Returns the samples that hosts record in an hour.
    fn samples(&self) -> Result<Vec<Snapshot>> {
        let recording = Recording::open(self.recording).map_err(failed)?;
        let samples = recording.snapshots(&recording.span(), &|_: &str| true).map_err(failed)?;
        Ok(samples.into_iter().step_by(ONE_IN).collect())
    }

    /// Records the same samples in each of the last hours. Returns the start and end, in milliseconds since 1970.
    fn record_whole(&self, folder: &Path, samples: &[Snapshot]) -> Result<(i64, i64)> {
        let whole = [GrowingRecording::begin_in("whole".into(), folder.to_owned())?];
        (0..self.hours).try_for_each(|hour| self.record_hour(hour, samples, &whole))?;
        whole[0].recorder.finish().map_err(Failure::new)?;
        let recording = Recording::open(folder).map_err(failed)?;
        let all: Vec<(i64, i64)> = hours(&recording).map(|hour| (hour.start(), hour.end())).collect();
        let (first, last) = all.first().zip(all.last()).ok_or_else(|| Failure::new("nothing was recorded"))?;
        Ok((first.0, last.1))
    }

    /// Records an hour for all hosts.
    fn record_hour(&self, hour: u32, samples: &[Snapshot], recordings: &[GrowingRecording]) -> Result<()> {
        let (hour, hours) = (i64::from(hour), i64::from(self.hours));
        for recording in recordings {
            for sample in samples {
                let mut sample = sample.clone();
                sample.wall_ns -= (AGO + hours - 1 - hour) * HOUR_NS;
                sample.boot_ns = sample.boot_ns.saturating_add_signed(hour * HOUR_NS);
                while recording.recorder.waiting() > MOST_WAITING {
                    stop::pause(Duration::from_millis(1))?;
                }
                recording.recorder.add(sample, recording.begun);
            }
        }
        Ok(())
    }

    /// Returns the names of the shipped tables.
    fn tables(&self) -> Result<Vec<String>> {
        let entries = fs::read_dir(self.folder.join("expected").join(VERSION).join(INCOMING))?;
        let name = |entry: std::io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = entries.map(name).collect::<Result<_>>()?;
        names.sort_unstable();
        Ok(names)
    }
}

fn failed(error: impl fmt::Display) -> Failure {
    Failure::new(error.to_string())
}

/// The growing recording of a host.
struct GrowingRecording {
    host: String,
    folder: PathBuf,
    recorder: Recorder,
    /// Time before the recording began: samples are added without delay, so that the same samples are recorded
    /// identically.
    begun: Instant,
}

impl GrowingRecording {
    fn begin(host: String, parent: &Path) -> Result<Self> {
        let folder = parent.join(&host);
        Self::begin_in(host, folder)
    }

    fn begin_in(host: String, folder: PathBuf) -> Result<Self> {
        let begun = Instant::now();
        let retention = Retention { time: Duration::MAX, bytes: u64::MAX, ..Retention::default() };
        let recorder = Recorder::begin(&folder, INTERVAL, retention, Arc::new(|_: &str| {})).map_err(failed)?;
        Ok(Self { host, folder, recorder, begun })
    }

    /// Returns whether an hour was delivered, as far as it was recorded.
    fn has_delivered(&self) -> bool {
        let files = fs::read_dir(self.folder.join("ship")).into_iter().flatten().flatten();
        let states = files.filter_map(|file| serde_json::from_slice(&fs::read(file.path()).ok()?).ok());
        let mut hours = states.flat_map(|state: Value| state["hours"].as_object().cloned().unwrap_or_default());
        hours.any(|(_, hour)| hour["segments"].as_array().is_some_and(|segments| !segments.is_empty()))
    }

    /// Returns the log file of the shipper.
    fn said(&self) -> PathBuf {
        self.folder.with_extension("said")
    }

    /// Returns how often it has reported a failed delivery.
    fn failures(&self) -> usize {
        fs::read_to_string(self.said()).map_or(0, |said| said.matches("not delivered").count())
    }
}

/// Ships a recording to a folder, in this process.
fn ship(host: &str, recording: &Path, store: &Path) -> Result<()> {
    static NEVER: AtomicBool = AtomicBool::new(false);
    let destination = Destination::open(&store.to_string_lossy()).map_err(failed)?;
    let mut shipper =
        Shipper::new(destination, host, env!("CARGO_PKG_VERSION"), Vec::new(), recording).map_err(failed)?;
    let open = || Recording::open(recording).map_err(|error| ShipError::from(error.to_string()));
    let now = jiff::Timestamp::now().as_nanosecond();
    let pass = shipper.pass(&open, i64::try_from(now).unwrap_or(i64::MAX), &NEVER);
    pass.failure.map_or(Ok(()), |failure| Err(failed(failure)))
}

/// Returns all rows of a table, each with its number of occurrences.
fn rows(store: &FleetProgram<'_>, table: &str, span: (i64, i64)) -> Result<BTreeMap<String, usize>> {
    let question = format!("SELECT * FROM {table}");
    let output = store.output(&["sql", &question, "--format", "csv", "--limit", "0"], span)?;
    let mut rows = BTreeMap::new();
    for line in String::from_utf8_lossy(&output).lines().skip(1) {
        *rows.entry(line.to_owned()).or_default() += 1;
    }
    Ok(rows)
}

/// Returns the numbers of missing and of superfluous rows.
fn difference(wanted: &BTreeMap<String, usize>, found: &BTreeMap<String, usize>) -> (usize, usize) {
    let beyond = |rows: &BTreeMap<String, usize>, other: &BTreeMap<String, usize>| {
        rows.iter().map(|(row, count)| count.saturating_sub(other.get(row).copied().unwrap_or(0))).sum()
    };
    (beyond(wanted, found), beyond(found, wanted))
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
