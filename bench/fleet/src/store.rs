//! Files of a simulated fleet, as shipped by hosts or merged by the compactor.

use crate::recorded::{RecordedMinutes, RecordedTable};
use crate::simulate::{Cause, Fleet, Host};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt};
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;
use whyslow_compare::fleet::Feature;
use whyslow_pairs::failure::{Failure, Result};
use whyslow_pairs::stop;
use whyslow_rollup::{Cell, Hour, Place, Row, TableSpec, TableWriter, parquet, table};

const ROW_GROUP: usize = 1 << 16;
const MINUTE_MS: i64 = 60_000;
/// Time from a change until the host becomes sick, as a share of the whole time.
const CHANGED_BEFORE: f64 = 0.02;

/// Layout of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// One file per table, hour and host.
    Shipped,
    /// One file per table and hour.
    Compacted,
}

/// Statistics of the written files.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Written {
    /// Number of files.
    pub files: usize,
    /// Total size in bytes.
    pub bytes: u64,
    /// Number of rows.
    pub rows: usize,
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} files, {:.1} MB, {} rows", self.files, self.bytes as f64 / 1e6, self.rows)
    }
}

/// An hour of a host.
pub struct HostHour<'f> {
    /// The host.
    pub host: &'f Host,
    /// Cause that makes hosts of its fleet sick.
    pub cause: Option<Cause>,
    hour: Hour,
    /// Index of the hour among all hours.
    pub number: u32,
    /// Start and end of the hour, as shares of the whole time, which may still be running.
    part: (f64, f64),
    /// End of the observation, in milliseconds since 1970.
    until_ms: i64,
}

impl<'f> HostHour<'f> {
    /// Creates hour number `number` of `hours`.
    pub fn new(host: &'f Host, cause: Option<Cause>, hour: Hour, number: u32, hours: u32) -> Self {
        let share = |number: u32| f64::from(number) / f64::from(hours);
        Self { host, cause, hour, number, part: (share(number), share(number + 1)), until_ms: hour.end() }
    }

    /// Limits the hour to the time elapsed so far.
    pub fn until(self, now_ms: i64) -> Self {
        Self { until_ms: now_ms.min(self.hour.end()), ..self }
    }

    /// Converts a share of the whole time to milliseconds since 1970.
    fn at(&self, share: f64) -> i64 {
        let (start, end) = self.part;
        self.hour.start() + ((share - start) / (end - start) * 3_600_000.0) as i64
    }

    /// Returns deterministic random numbers of this hour for a purpose.
    pub fn random(&self, what: &str) -> SmallRng {
        self.host.random(&format!("{what} {}", self.number))
    }

    /// Returns whether the host is sick in this hour.
    pub fn is_felt(&self) -> bool {
        self.host.is_sick && self.host.onset < self.part.1 && self.at(self.host.onset) < self.until_ms
    }

    /// Returns the start of each observed minute, and the seconds lost in it.
    pub fn minutes(&self) -> impl Iterator<Item = (i64, f64)> {
        let mut random = self.random("lost");
        let minutes = (0..60).map(move |minute| {
            let at = self.part.0 + (self.part.1 - self.part.0) * minute as f64 / 60.0;
            let lost = if self.host.is_sick && at >= self.host.onset {
                60.0 * random.random_range(0.2..0.8)
            } else if random.random_bool(0.02) {
                random.random_range(0.0..0.5)
            } else {
                0.0
            };
            (self.hour.start() + minute * MINUTE_MS, lost)
        });
        minutes.take_while(|(at, _)| at + MINUTE_MS <= self.until_ms)
    }

    fn row<const N: usize>(&self, at: i64, others: [Cell; N]) -> Row {
        [Cell::text(&self.host.name), Cell::Timestamp(at)].into_iter().chain(others).collect()
    }
}

/// Function that creates the rows of an hour of a host.
type RowsOf = fn(&HostHour<'_>) -> Vec<Row>;

/// Source of the rows of a table.
pub enum Rows<'r> {
    /// Simulated rows, from the planted cause.
    Simulated(&'static TableSpec, RowsOf),
    /// Rows from a recording.
    Recorded(&'r RecordedTable),
}

/// A file as shipped by a host.
pub struct HostFile {
    /// Path in the store.
    pub path: String,
    /// Content of the file.
    pub bytes: Vec<u8>,
    rows: usize,
}

impl<'r> Rows<'r> {
    /// Returns the sources of all tables that hosts have; without a recording, only of the planted and judged ones.
    ///
    /// # Errors
    /// Fails if a table is unknown.
    pub fn of_tables(recorded: Option<&'r RecordedMinutes>) -> Result<Vec<Self>> {
        let simulated = SIMULATED.into_iter().map(|(name, rows)| {
            let table = table(name).ok_or_else(|| Failure::new(format!("no table {name}")))?;
            Ok(Self::Simulated(table, rows))
        });
        let recorded = recorded.into_iter().flat_map(RecordedMinutes::tables).map(|table| Ok(Self::Recorded(table)));
        simulated.chain(recorded).collect()
    }

    /// Returns the file that a host ships for an hour; `None` without rows.
    ///
    /// # Errors
    /// Fails if it cannot be created.
    pub fn file(&self, of: &HostHour<'_>) -> Result<Option<HostFile>> {
        let (table, name, rows) = (self.table(), &of.host.name, self.rows_of(of));
        if rows.is_empty() {
            return Ok(None);
        }
        let place = Place::incoming(&table.name, of.hour, name).map_err(|error| Failure::new(error.to_string()))?;
        let is_complete = of.until_ms >= of.hour.end();
        let metadata = [("whyslow.complete", is_complete.to_string()), ("whyslow.host", name.clone())];
        let bytes = parquet(table, &rows, &metadata).map_err(failed)?;
        Ok(Some(HostFile { path: place.path(), bytes, rows: rows.len() }))
    }

    fn table(&self) -> &'static TableSpec {
        match self {
            Self::Simulated(table, _) => table,
            Self::Recorded(recorded) => recorded.table,
        }
    }

    fn rows_of(&self, hour: &HostHour<'_>) -> Vec<Row> {
        match self {
            Self::Simulated(_, rows) => rows(hour),
            Self::Recorded(recorded) => recorded.rows(hour),
        }
    }
}

/// Writes the store of a fleet.
pub struct StoreWriter<'w> {
    /// Fleet to write.
    pub fleet: &'w Fleet,
    /// Activity of its hosts.
    pub recorded: &'w RecordedMinutes,
    /// Folder of the store.
    pub folder: &'w Path,
    /// Start of the first hour, in milliseconds since 1970.
    pub from_ms: i64,
    /// Hours to write.
    pub hours: u32,
    /// Layout of the files.
    pub layout: Layout,
}

impl StoreWriter<'_> {
    /// Writes everything.
    ///
    /// # Errors
    /// Fails if a file cannot be written or a signal arrives.
    pub fn write(&self) -> Result<Written> {
        let tables = Rows::of_tables(Some(self.recorded))?;
        let hours = self.hours();
        let (next, written) = (AtomicUsize::new(0), Mutex::new(Ok(Written::default())));
        let work = || {
            loop {
                let job = next.fetch_add(1, Ordering::Relaxed);
                let Some(hour) = hours.get(job / tables.len()) else { return };
                let done = self.write_hour(&tables[job % tables.len()], *hour, (job / tables.len()) as u32);
                let mut all = written.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                match (&mut *all, done) {
                    (Ok(all), Ok(more)) => {
                        all.files += more.files;
                        all.bytes += more.bytes;
                        all.rows += more.rows;
                    }
                    (Ok(_), Err(failure)) => *all = Err(failure),
                    (Err(_), _) => return,
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..available_parallelism().map_or(1, usize::from) {
                scope.spawn(work);
            }
        });
        written.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Returns its hours.
    pub fn hours(&self) -> Vec<Hour> {
        std::iter::successors(Hour::from_ms(self.from_ms), |hour| hour.next()).take(self.hours as usize).collect()
    }

    fn write_hour(&self, rows: &Rows<'_>, hour: Hour, number: u32) -> Result<Written> {
        let cause = self.fleet.cause;
        let of_hosts = self.fleet.hosts.iter().map(|host| HostHour::new(host, cause, hour, number, self.hours));
        match self.layout {
            Layout::Compacted => self.compacted(rows, hour, of_hosts),
            Layout::Shipped => self.shipped(rows, of_hosts),
        }
    }

    fn compacted<'f>(&self, rows: &Rows<'_>, hour: Hour, hosts: impl Iterator<Item = HostHour<'f>>) -> Result<Written> {
        let table = rows.table();
        let path = self.folder.join(Place::compacted(&table.name, hour, 1).path());
        make_folder_of(&path)?;
        let sources = serde_json::to_string(&self.fleet.hosts.iter().map(source).collect::<Vec<_>>())?;
        let file = fs::File::create(&path)?;
        let mut writer = TableWriter::new(file, table, &[("whyslow.sources", sources)]).map_err(failed)?;
        let mut written = Written { files: 1, ..Written::default() };
        let mut pending: Vec<Row> = Vec::new();
        for host in hosts {
            stop::check()?;
            pending.extend(rows.rows_of(&host));
            while pending.len() >= ROW_GROUP {
                let group: Vec<Row> = pending.drain(..ROW_GROUP).collect();
                writer.write(&group).map_err(failed)?;
                written.rows += group.len();
            }
        }
        written.rows += pending.len();
        writer.write(&pending).map_err(failed)?;
        written.bytes = writer.finish().map_err(failed)?.metadata()?.len();
        Ok(written)
    }

    fn shipped<'f>(&self, rows: &Rows<'_>, hosts: impl Iterator<Item = HostHour<'f>>) -> Result<Written> {
        let mut written = Written::default();
        for of_host in hosts {
            stop::check()?;
            let Some(file) = rows.file(&of_host)? else { continue };
            let path = self.folder.join(&file.path);
            make_folder_of(&path)?;
            fs::write(&path, &file.bytes)?;
            written.files += 1;
            written.bytes += file.bytes.len() as u64;
            written.rows += file.rows;
        }
        Ok(written)
    }
}

/// Returns the compactor's entry for a merged file, with a tag as long as that of an S3 store.
fn source(host: &Host) -> serde_json::Value {
    let tag = format!("{:032x}", host.random("tag").next_u64());
    serde_json::json!({"name": format!("{}.parquet", host.name), "size": 4096, "tag": tag, "complete": true})
}

fn make_folder_of(path: &Path) -> Result<()> {
    Ok(path.parent().map_or(Ok(()), fs::create_dir_all)?)
}

fn failed(error: whyslow_rollup::FileError) -> Failure {
    Failure::new(error.to_string())
}

/// Tables that no recording has: planted and judged ones.
const SIMULATED: [(&str, RowsOf); 4] =
    [("minute", minutes), ("episode", episodes), ("inventory", inventory), ("change", changes)];

fn minutes(of: &HostHour<'_>) -> Vec<Row> {
    let version = Cell::text(env!("CARGO_PKG_VERSION"));
    let number = Cell::Double;
    let minute = |(at, lost)| {
        of.row(at, [number(60.0), Cell::Integer(60), Cell::Integer(0), number(60.0), number(lost), version.clone()])
    };
    of.minutes().map(minute).collect()
}

fn episodes(of: &HostHour<'_>) -> Vec<Row> {
    let (host, part) = (of.host, of.part);
    let Some(cause) = of.cause.filter(|_| of.is_felt()) else { return Vec::new() };
    let began_before = host.onset < part.0;
    let start = if began_before { of.hour.start() } else { of.at(host.onset) };
    let seconds = (of.until_ms - start) as f64 / 1000.0;
    let row = [
        Cell::Timestamp(of.until_ms - 1),
        Cell::text(cause.finding()),
        Cell::text("device"),
        Cell::text("nvme0n1"),
        Cell::Null,
        Cell::text("high"),
        Cell::Double(0.5 * seconds),
        Cell::Double(0.8),
        Cell::Boolean(began_before),
        Cell::Boolean(true),
    ];
    vec![of.row(start, row)]
}

/// Returns the inventory rows: once a day, in its first hour, and in the first hour of all.
fn inventory(of: &HostHour<'_>) -> Vec<Row> {
    if of.number != 0 && of.hour.hour != 0 {
        return Vec::new();
    }
    let row = |feature: &Feature| {
        let value = Cell::words(feature.value.as_deref());
        of.row(of.hour.start() + 5000, [Cell::text(&feature.kind), Cell::text(&feature.name), value])
    };
    of.host.features.iter().map(row).collect()
}

/// Returns the changes before a host becomes sick; for a healthy one, at the same time.
fn changes(of: &HostHour<'_>) -> Vec<Row> {
    let share = of.host.onset - CHANGED_BEFORE;
    let at = of.at(share);
    if !(of.part.0..of.part.1).contains(&share) || at >= of.until_ms {
        return Vec::new();
    }
    let row = |feature: &Feature| {
        let value = feature.value.as_deref().unwrap_or_default();
        let (old, new) = value.split_once(" → ").unwrap_or(("", value));
        of.row(at, [&*feature.kind, &*feature.name, old, new].map(Cell::text))
    };
    of.host.changes.iter().map(row).collect()
}
