//! One run of `whyslow explain`, and what it took.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use whyslow_model::explanation::Explanation;
use whyslow_pairs::failure::{Failure, Result};

/// An answer, and what it cost.
pub struct Explained {
    pub explanation: Explanation,
    /// Wall time, seconds.
    pub seconds: f64,
    /// Processor time, seconds.
    pub cpu_seconds: f64,
    /// Largest resident memory, bytes.
    pub memory: u64,
}

/// Explains a recording. It must be the first child whose memory is as large, as the kernel keeps the largest of all.
pub fn explain(whyslow: &Path, recording: &Path) -> Result<Explained> {
    let before = usage()?.0;
    let start = Instant::now();
    let mut command = Command::new(whyslow);
    command.args(["explain", "--json", "--dir"]).arg(recording).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output()?;
    let seconds = start.elapsed().as_secs_f64();
    if !output.status.success() {
        return Err(Failure::new(format!("whyslow explain: {}", output.status)));
    }
    let (after, memory) = usage()?;
    let explanation = serde_json::from_slice(&output.stdout)?;
    Ok(Explained { explanation, seconds, cpu_seconds: after - before, memory })
}

/// Processor time of the children that were waited for, and the largest memory of one.
fn usage() -> Result<(f64, u64)> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(std::io::Error::from)?;
    let cpu = (usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 / 1e6;
    Ok((cpu, u64::try_from(usage.max_rss()).unwrap_or(0) * 1024))
}
