//! Runs `whyslow explain` once and measures its cost.

use std::io::BufReader;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use whyslow_documents::explanation::Explanation;
use whyslow_pairs::child::{ended_children, number};
use whyslow_pairs::failure::{Failure, Result};

/// An explanation and its cost.
pub struct Explained {
    pub explanation: Explanation,
    /// Wall time in seconds.
    pub seconds: f64,
    /// CPU time in seconds.
    pub cpu_seconds: f64,
    /// Peak resident memory in bytes.
    pub memory: u64,
}

/// Explains a recording.
pub fn explain(whyslow: &Path, recording: &Path) -> Result<Explained> {
    let before = ended_children()?;
    let start = Instant::now();
    let mut command = Command::new(whyslow);
    command.args(["explain", "--json", "--dir"]).arg(recording).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let said = child.stdout.take().ok_or_else(|| Failure::new("no pipe"))?;
    let answer = std::thread::spawn(move || serde_json::from_reader(BufReader::new(said)));
    let mut memory = 0;
    let status = loop {
        // Read while it runs: after its end, the kernel's value includes our own memory, from before the exec of
        // whyslow.
        memory = memory.max(number(format!("/proc/{}/status", child.id()), "VmHWM:") * 1024);
        match child.try_wait()? {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    if !status.success() {
        return Err(Failure::new(format!("whyslow explain: {status}")));
    }
    let explanation = answer.join().map_err(|_| Failure::new("the reader of a pipe panicked"))??;
    Ok(Explained { explanation, seconds, cpu_seconds: ended_children()? - before, memory })
}
