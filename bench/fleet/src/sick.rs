//! How long `whyslow-fleet` takes over the files of a fleet, and whether what it answers is what was planted.

use crate::simulate::{Cause, simulate};
use crate::store::{self, FINDING, Written};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use std::path::Path;
use std::process::Command;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use whyslow_pairs::failure::{Failure, Result};
use whyslow_pairs::stop;

const HOUR_MS: i64 = 3_600_000;

/// What the queries run on.
pub struct Question<'q> {
    /// The program `whyslow-fleet`.
    pub whyslow_fleet: &'q Path,
    /// Where stores are made.
    pub folder: &'q Path,
    /// How many hours there are.
    pub hours: u32,
    /// How often each question is asked.
    pub runs: usize,
    /// The seed of the fleets.
    pub seed: u64,
    /// Whether the files are merged, or as the hosts wrote them.
    pub is_compacted: bool,
}

/// A fleet of one size.
#[derive(Serialize)]
pub struct Size {
    hosts: usize,
    hours: u32,
    is_compacted: bool,
    files: usize,
    bytes: u64,
    rows: usize,
    /// Seconds of `sick`: the median and the 95th percentile.
    sick_median: f64,
    sick_p95: f64,
    /// Seconds of `why`, once.
    why: f64,
    planted: String,
    /// What `why` named first.
    first: String,
    /// Hosts that are sick, and those that `sick` found.
    sick: usize,
    found: u64,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_compacted { "compacted" } else { "as shipped" };
        writeln!(
            f,
            "{:>6} hosts x {} h, {kind}: {} files, {:.1} MB, {} rows; sick {:.2} s median, {:.2} s p95; why {:.2} s; {} of {} sick \
             found; planted {}, named {}",
            self.hosts,
            self.hours,
            self.files,
            self.bytes as f64 / 1e6,
            self.rows,
            self.sick_median,
            self.sick_p95,
            self.why,
            self.found,
            self.sick,
            self.planted,
            self.first
        )
    }
}

impl Size {
    /// Whether the answers are right.
    pub fn is_right(&self) -> bool {
        self.planted == self.first && self.sick as u64 == self.found
    }
}

/// Writes a fleet and asks about it.
///
/// # Errors
/// A file cannot be written, the program fails, or a signal came.
pub fn measure(hosts: usize, question: &Question<'_>) -> Result<Size> {
    let fleet = simulate(question.seed, hosts, Some(Cause::Kernel));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis());
    let now = i64::try_from(now).unwrap_or(0).div_euclid(HOUR_MS);
    let from_ms = (now - i64::from(question.hours)) * HOUR_MS;
    let to_ms = now * HOUR_MS;
    let store = question.folder.join(format!("fleet-{hosts}"));
    let Written { files, bytes, rows } = store::write(&fleet, &store, from_ms, question.hours, question.is_compacted)?;
    let ask = |words: &[&str]| ask(question.whyslow_fleet, &store, from_ms, to_ms, words);
    // The first question reads the files into the page cache.
    let (_, sick) = ask(&["sick"])?;
    let mut times = Vec::new();
    for _ in 0..question.runs {
        stop::check()?;
        times.push(ask(&["sick"])?.0);
    }
    times.sort_by(f64::total_cmp);
    let (why, answer) = ask(&["why", FINDING])?;
    let first = &answer["candidates"][0]["features"][0];
    let word = |name: &str| first[name].as_str().unwrap_or_default().to_owned();
    Ok(Size {
        hosts,
        hours: question.hours,
        is_compacted: question.is_compacted,
        files,
        bytes,
        rows,
        sick_median: at(&times, 0.5),
        sick_p95: at(&times, 0.95),
        why,
        planted: fleet.planted.as_ref().map_or_else(String::new, ToString::to_string),
        first: format!("{} {} {}", word("kind"), word("name"), word("value")),
        sick: fleet.hosts.iter().filter(|host| host.is_sick).count(),
        found: sick["sick"].as_u64().unwrap_or(0),
    })
}

fn at(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// Seconds, and the document.
fn ask(program: &Path, store: &Path, from_ms: i64, to_ms: i64, words: &[&str]) -> Result<(f64, Value)> {
    let time = |ms: i64| Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |time| time.to_string());
    let begin = Instant::now();
    let output = Command::new(program)
        .args(words)
        .args(["--json", "--from", &time(from_ms), "--to", &time(to_ms), "--store"])
        .arg(store)
        .output()?;
    let seconds = begin.elapsed().as_secs_f64();
    if !output.status.success() {
        return Err(Failure::new(format!("{}: {}", program.display(), String::from_utf8_lossy(&output.stderr).trim())));
    }
    Ok((seconds, serde_json::from_slice(&output.stdout)?))
}
