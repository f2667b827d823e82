//! Runs each program once and reads its results.

use crate::cases::Flow;
use crate::rig::Folder;
use serde_json::Value;
use std::time::Duration;
use whyslow_documents::bench::{BenchReport, DiskRun};
use whyslow_pairs::child;
use whyslow_pairs::comparison::Figures;
use whyslow_pairs::failure::{Failure, Result};

const PATIENCE: Duration = Duration::from_secs(300);

/// Runs whyslow or fio: both print fio's JSON.
pub fn requests(program: &str, args: &[&str], flow: Flow) -> Result<Figures> {
    let text = child::output(program, args, PATIENCE)?;
    let json: Value = serde_json::from_str(&text[text.find('{').unwrap_or(0)..])?;
    let job = &json["jobs"][0];
    let number = |value: &Value| value.as_f64().ok_or_else(|| Failure::new(format!("{program} told no number: {job}")));
    let busy = (number(&job["usr_cpu"])? + number(&job["sys_cpu"])?) / 100.0;
    let rate = number(&job[if flow == Flow::Read { "read" } else { "write" }]["iops"])?;
    Ok(Figures { cost: Some(busy / rate), ..Figures::from_rate(program, rate)? })
}

pub fn stream(whyslow: &str, job: &str, flow: Flow) -> Result<Figures> {
    let report = report(whyslow, &["disk", "--job", job])?;
    let run = report.rounds.iter().flat_map(|round| &round.runs).next_back();
    Figures::from_rate(whyslow, bandwidth(run, flow))
}

/// Phases that bonnie++ and `whyslow bench fs` share: block output with a final fsync, rewrite, and block input from
/// the page cache.
pub const PHASES: [&str; 3] = ["write 128k, fsync", "rewrite 128k, fsync", "read 128k, cached"];
/// File size; large, because bonnie++ reports nothing that takes less than half a second.
pub const PHASES_BYTES: usize = 6 << 30;
/// The same phases in `whyslow bench fs`.
const STREAMS: [(&str, Flow); 3] =
    [("write", Flow::Write), ("rewrite, each block read first", Flow::Write), ("read again, cache warm", Flow::Read)];
/// Fields of bonnie++ 2's output (bonnie++.cpp, `print_stat`), in KiB/s.
const FIELDS: [usize; 3] = [11, 13, 17];

pub fn file_system(whyslow: &str, folder: &Folder) -> Result<Vec<Figures>> {
    let (folder, size) = (folder.path(), PHASES_BYTES.to_string());
    let report = report(whyslow, &["fs", &folder, "--size", &size, "--only", "streams"])?;
    let phase = |(name, flow): (&str, Flow)| {
        let round = report.rounds.iter().find(|round| round.name == name);
        Figures::from_rate(whyslow, bandwidth(round.and_then(|round| round.runs.first()), flow))
    };
    STREAMS.into_iter().map(phase).collect()
}

fn report(whyslow: &str, args: &[&str]) -> Result<BenchReport> {
    Ok(serde_json::from_str(&child::output(whyslow, &[&["bench", "--json"], args].concat(), PATIENCE)?)?)
}

/// Returns the bandwidth; 0 if there was no such run.
fn bandwidth(run: Option<&DiskRun>, flow: Flow) -> f64 {
    let flow = run.and_then(|run| if flow == Flow::Read { run.read.as_ref() } else { run.write.as_ref() });
    flow.map_or(0.0, |flow| flow.bandwidth)
}

/// Runs dd, which reports on standard error, so a shell redirects it.
pub fn dd(args: &[String]) -> Result<Figures> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let said = child::output("sh", &[&["-c", "LC_ALL=C exec dd \"$@\" 2>&1", "dd"], &args[..]].concat(), PATIENCE)?;
    let rate = dd_rate(&said).ok_or_else(|| Failure::new(format!("dd told no number: {said}")))?;
    Figures::from_rate("dd", rate)
}

/// Parses `536870912 bytes (537 MB, 512 MiB) copied, 0.42 s, 1.3 GB/s`.
fn dd_rate(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.contains(" copied, "))?;
    let bytes: f64 = line.split_whitespace().next()?.parse().ok()?;
    let seconds: f64 = line.split(" copied, ").nth(1)?.split_whitespace().next()?.parse().ok()?;
    Some(bytes / seconds)
}

/// Runs bonnie++. Phases of less than half a second have no figures.
pub fn bonnie(folder: &Folder) -> Result<Vec<Option<Figures>>> {
    let (folder, size) = (folder.path(), format!("{}:131072", PHASES_BYTES >> 20));
    let args = ["-d", &folder, "-s", &size, "-r", "512", "-n", "0", "-f", "-q", "-u", "root", "-m", "bench"];
    let said = child::output("bonnie++", &args, PATIENCE)?;
    let figures = |field| bonnie_rate(&said, field).map(|rate| Figures::from_rate("bonnie++", rate)).transpose();
    FIELDS.into_iter().map(figures).collect()
}

fn bonnie_rate(said: &str, field: usize) -> Option<f64> {
    let line = said.lines().find(|line| line.split(',').count() > field)?;
    line.split(',').nth(field)?.parse::<f64>().ok().map(|kib| kib * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_dd_tells_is_read() {
        let said = "512+0 records in\n512+0 records out\n536870912 bytes (537 MB, 512 MiB) copied, 0.5 s, 1.1 GB/s\n";
        assert_eq!(dd_rate(said), Some(1_073_741_824.0));
        assert_eq!(dd_rate("dd: failed to open"), None);
    }

    #[test]
    fn what_bonnie_tells_is_read() {
        let said = "1.98,2.00a,x,1,1795307297,4G,,131072,5,,,512000,40,143700,4,,,2048000,99,10663,256,,,,,\n";
        let rates = FIELDS.map(|field| bonnie_rate(said, field));
        assert_eq!(rates, [512_000.0, 143_700.0, 2_048_000.0].map(|kib| Some(kib * 1024.0)));
        // Less than half a second.
        assert_eq!(bonnie_rate(&said.replace("512000", "+++++"), FIELDS[0]), None);
    }
}
