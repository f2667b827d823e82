//! Measures the size of a store and the response times of `whyslow-fleet` against the number of hosts, and whether it
//! names the planted cause.

use crate::fleet_program::FleetProgram;
use crate::recorded::RecordedMinutes;
use crate::simulate::{Cause, simulate};
use crate::store::{Layout, StoreWriter, Written};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use whyslow_pairs::failure::{Failure, Result};
use whyslow_pairs::stop;

const HOUR_MS: i64 = 3_600_000;
/// Number of runs of the questions other than `sick`.
const OTHER_RUNS: usize = 3;
/// Query for the utilization of the fleet's disks by hour.
const SQL: &str = "SELECT day, hour, SUM(write_time) / NULLIF(SUM(writes), 0) AS write_ns FROM disk GROUP BY day, hour ORDER BY day, hour";

/// Returns the last `hours` whole hours, in milliseconds since 1970.
pub fn last_hours(hours: u32) -> (i64, i64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis());
    let end_ms = i64::try_from(now).unwrap_or(0).div_euclid(HOUR_MS) * HOUR_MS;
    (end_ms - i64::from(hours) * HOUR_MS, end_ms)
}

/// Parameters of the stores and of the questions about them.
pub struct Growth<'g> {
    /// The program `whyslow-fleet`.
    pub whyslow_fleet: &'g Path,
    /// Folder for the stores.
    pub folder: &'g Path,
    /// Activity of the hosts.
    pub recorded: &'g RecordedMinutes,
    /// Hours in the store.
    pub hours: u32,
    /// Number of runs of `sick`.
    pub runs: usize,
    /// Seed of the fleets.
    pub seed: u64,
    /// Cause planted in each fleet.
    pub cause: Cause,
}

/// Result for a store of one size.
#[derive(Serialize)]
pub struct Size {
    /// Hosts in the store.
    pub hosts: usize,
    /// Hours in the store.
    pub hours: u32,
    /// Layout of the files.
    pub layout: Layout,
    /// Number of files.
    pub files: usize,
    /// Total size of the files in bytes.
    pub bytes: u64,
    rows: usize,
    /// Time to write the store, in seconds.
    written_in: f64,
    /// Response times by question.
    pub times: BTreeMap<&'static str, Times>,
    planted: String,
    /// First feature that `why` named.
    first: String,
    /// Number of sick hosts, and of those that `sick` found.
    sick: usize,
    found: u64,
}

/// Response times, in seconds, of a question that was asked several times.
#[derive(Clone, Copy, Serialize)]
pub struct Times {
    runs: usize,
    /// Median.
    pub median: f64,
    /// 95th percentile.
    pub p95: f64,
}

impl Times {
    /// Computes the statistics of these times.
    pub fn new(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let rank = (share * times.len() as f64).ceil() as usize;
            times.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
        };
        Self { runs: times.len(), median: at(0.5), p95: at(0.95) }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hosts, hours, layout, files, bytes, rows, written_in, .. } = self;
        let layout = match layout {
            Layout::Compacted => "compacted",
            Layout::Shipped => "as shipped",
        };
        let megabytes = *bytes as f64 / 1e6;
        writeln!(
            f,
            "{hosts:>6} hosts x {hours} h, {layout}: {files} files, {megabytes:.1} MB, {rows} rows, written in {written_in:.0} s"
        )?;
        for (question, Times { median, p95, runs }) in &self.times {
            writeln!(f, "       {question:<8} {median:.2} s median, {p95:.2} s p95 of {runs}")?;
        }
        writeln!(f, "       {} of {} sick found; planted {}, named {}", self.found, self.sick, self.planted, self.first)
    }
}

impl Size {
    /// Returns whether the answers are correct.
    pub fn is_right(&self) -> bool {
        self.planted == self.first && self.sick as u64 == self.found
    }
}

impl Growth<'_> {
    /// Writes the store of a fleet and asks questions about it.
    ///
    /// # Errors
    /// Fails if a file cannot be written, the program fails, or a signal arrives.
    pub fn measure(&self, hosts: usize, layout: Layout) -> Result<Size> {
        let fleet = simulate(self.seed, hosts, Some(self.cause));
        let (from_ms, end_ms) = last_hours(self.hours);
        let name = if layout == Layout::Shipped { "shipped" } else { "compacted" };
        let folder = self.folder.join(format!("{hosts}-{name}"));
        if folder.exists() {
            return Err(Failure::new(format!("{} exists already", folder.display())));
        }
        let (recorded, hours) = (self.recorded, self.hours);
        let writer = StoreWriter { fleet: &fleet, recorded, folder: &folder, from_ms, hours, layout };
        let begun = Instant::now();
        let Written { files, bytes, rows } = writer.write()?;
        let written_in = begun.elapsed().as_secs_f64();
        let program =
            FleetProgram { path: self.whyslow_fleet, store: folder.as_os_str(), engine: None, environment: &[] };
        let span = (from_ms, end_ms);
        let asked = |words: &[&str], runs: usize| -> Result<(Times, Value)> {
            // The first run reads the files into the page cache.
            let mut answer = program.json(words, span)?;
            let mut times = Vec::new();
            for _ in 0..runs {
                stop::check()?;
                let begun = Instant::now();
                answer = program.json(words, span)?;
                times.push(begun.elapsed().as_secs_f64());
            }
            Ok((Times::new(times), answer))
        };
        let (sick_times, sick) = asked(&["sick"], self.runs)?;
        let (why_times, why) = asked(&["why", self.cause.finding()], OTHER_RUNS)?;
        let mut times = BTreeMap::from([("sick", sick_times), ("why", why_times)]);
        let host = fleet.hosts.iter().find(|host| host.is_sick).map_or("", |host| &host.name);
        for (question, words) in [("host", &["host", host][..]), ("sql", &["sql", SQL]), ("outliers", &["outliers"])] {
            times.insert(question, asked(words, OTHER_RUNS)?.0);
        }
        let first = &why["candidates"][0]["features"][0];
        let word = |name: &str| first[name].as_str().unwrap_or_default().to_owned();
        let planted = fleet.planted.as_ref();
        let planted = planted.map_or_else(String::new, |planted| {
            format!("{} {} {}", planted.kind, planted.name, planted.value.as_deref().unwrap_or_default())
        });
        Ok(Size {
            hosts,
            hours,
            layout,
            files,
            bytes,
            rows,
            written_in,
            times,
            planted,
            first: format!("{} {} {}", word("kind"), word("name"), word("value")),
            sick: fleet.hosts.iter().filter(|host| host.is_sick).count(),
            found: sick["sick"].as_u64().unwrap_or(0),
        })
    }
}
