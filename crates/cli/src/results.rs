//! Results that this program printed as JSON: of a benchmark or of an experiment.

use crate::output::Failure;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use whyslow_documents::bench::{self, BenchKind, BenchReport};
use whyslow_documents::chart::{Chart, PageData, ResultText, SCHEMA};
use whyslow_documents::tune::{Trial, Walk};
use whyslow_series::{charts_of_bench, charts_of_trial, charts_of_walk};
use whyslow_show::clock::ZonedClock;
use whyslow_show::text::{self, TextStyle};

/// Maximum file size of a result, in bytes.
const LARGEST: u64 = 256 << 20;
/// Width of the text in a report.
const WIDTH: usize = 100;

/// Result of a deliberate measurement.
pub enum MeasuredResult {
    Bench(Box<BenchReport>),
    Trial(Box<Trial>),
    Walk(Box<Walk>),
}

/// Fields that distinguish our documents from others.
#[derive(Deserialize)]
struct Outline {
    schema: Option<String>,
    changes: Option<Vec<String>>,
    metric: Option<String>,
    pairs: Option<IgnoredAny>,
    subject: Option<IgnoredAny>,
    steps: Option<Vec<IgnoredAny>>,
}

impl MeasuredResult {
    /// Reads a file; `None` if it is something else.
    ///
    /// # Errors
    /// Fails if it is a result but cannot be parsed.
    pub fn read(path: &Path) -> Result<Option<Self>, Failure> {
        // Any other file is read as a capture, which reports what is wrong with it.
        let Some(json) = object(path) else { return Ok(None) };
        let Ok(outline) = serde_json::from_slice::<Outline>(&json) else { return Ok(None) };
        if outline.schema.as_deref() == Some(bench::SCHEMA) {
            return parsed(path, &json, "benchmark").map(|report| Some(Self::Bench(Box::new(report))));
        }
        let is_trial = outline.changes.is_some() && outline.metric.is_some() && outline.pairs.is_some();
        if is_trial {
            return parsed(path, &json, "trial").map(|trial| Some(Self::Trial(Box::new(trial))));
        }
        if outline.subject.is_some() && outline.steps.is_some() {
            return parsed(path, &json, "trial").map(|walk| Some(Self::Walk(Box::new(walk))));
        }
        Ok(None)
    }

    /// Returns the page for a report.
    pub fn page(&self, utc: bool) -> PageData {
        let style = TextStyle { width: WIDTH, colour: false, all: false, utc };
        match self {
            Self::Bench(report) => {
                let headline = what_was_measured(report);
                let text = text::bench(report, &style);
                let host = report.environment.host.name.clone().unwrap_or_default();
                let start = report.started_ms.map_or(0.0, |ms| ms as f64 / 1e3);
                let end = if start > 0.0 { start + report.seconds } else { start };
                PageData { host, from: start, to: end, ..page_of(headline, text, charts_of_bench(report)) }
            }
            Self::Trial(trial) => {
                let changes = trial.changes.join(" ");
                let headline = format!("{}: {changes}", text::tune::verdict_in_words(trial));
                let page = page_of(headline, text::tune::trial(trial, &style), charts_of_trial(trial));
                let at = ZonedClock::new(utc).moment(&trial.at);
                PageData { title: format!("whyslow try {changes}, {at}"), ..page }
            }
            Self::Walk(walk) => {
                let page = page_of(walk.summary.clone(), text::tune::walk(walk, &style), charts_of_walk(walk));
                PageData { title: format!("whyslow try --auto: {}", walk.id), ..page }
            }
        }
    }
}

fn page_of(headline: String, text: String, charts: Vec<Chart>) -> PageData {
    PageData {
        schema: SCHEMA.to_owned(),
        title: format!("whyslow: {headline}"),
        charts,
        result: Some(ResultText { headline, text }),
        ..PageData::default()
    }
}

fn what_was_measured(report: &BenchReport) -> String {
    let mut paths: Vec<&str> = report.targets.iter().map(|target| target.path.as_str()).collect();
    paths.dedup();
    let what = match report.kind {
        BenchKind::Disk => "disk",
        BenchKind::Job => "job file",
        BenchKind::Layers => "layers",
        BenchKind::Contend => "contention",
        BenchKind::Fs => "file system",
        BenchKind::Memory => "memory",
        BenchKind::Cpu => "CPU",
        BenchKind::Net => "network",
    };
    let of = match (&report.network, paths.as_slice()) {
        (Some(network), _) => format!(" to {}", network.peer.name),
        (None, []) => String::new(),
        (None, paths) => format!(" of {}", paths.join(", ")),
    };
    format!("Benchmark: {what}{of}")
}

/// Returns the content of a file that may be a JSON object.
fn object(path: &Path) -> Option<Vec<u8>> {
    let file = File::open(path).ok()?;
    let metadata = file.metadata().ok()?;
    // A pipe can be read only once.
    if !metadata.is_file() || metadata.len() > LARGEST {
        return None;
    }
    let mut reader = BufReader::new(file);
    let begins = reader.fill_buf().ok()?.trim_ascii_start().first() == Some(&b'{');
    let mut json = Vec::new();
    begins.then(|| reader.take(LARGEST).read_to_end(&mut json)).and_then(Result::ok).map(|_| json)
}

fn parsed<T: DeserializeOwned>(path: &Path, json: &[u8], what: &str) -> Result<T, Failure> {
    serde_json::from_slice(json)
        .map_err(|e| Failure::usage(format!("{}: not the result of a {what}: {e}", path.display())))
}
