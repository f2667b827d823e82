//! Recorders, and their resource usage so far.

use crate::pcp::Pcp;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use whyslow_pairs::child::{Running, number};
use whyslow_pairs::failure::{Failure, Result};

/// Time limit for ending: whyslow closes its last segment.
const PATIENCE: Duration = Duration::from_secs(120);

/// A recorder that samples once a second into a separate folder.
pub struct Recorder {
    name: &'static str,
    /// Processes, in the order in which they are ended.
    running: Vec<Running>,
    folder: TempDir,
}

/// Resource usage since the start.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    pub cpu_ms: f64,
    pub bytes: u64,
    /// Voluntary context switches of its live threads.
    pub sleeps: u64,
    /// Peak resident memory in bytes.
    pub memory: u64,
}

impl Recorder {
    pub fn all(whyslow: &Path, pcp: &Pcp) -> Result<Vec<Self>> {
        let whyslow = whyslow.to_str().ok_or_else(|| Failure::new("the path of whyslow is not UTF-8"))?;
        Ok(vec![
            Self::start("whyslow", whyslow, |folder| vec!["record".into(), "--dir".into(), folder])?,
            Self::start("sadc -S ALL", "/usr/lib/sysstat/sadc", |folder| {
                vec!["-S".into(), "ALL".into(), "1".into(), format!("{folder}/sa")]
            })?,
            Self::start("atop -w", "atop", |folder| vec!["-w".into(), format!("{folder}/atop"), "1".into()])?,
            Self::start_pcp(pcp)?,
        ])
    }

    fn start_pcp(pcp: &Pcp) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("wsl-bench-").tempdir()?;
        Ok(Self { name: "pmlogger", running: pcp.start(&folder.path().display().to_string())?, folder })
    }

    fn start(name: &'static str, program: &str, args: impl Fn(String) -> Vec<String>) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("wsl-bench-").tempdir()?;
        let args = args(folder.path().display().to_string());
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        Ok(Self { name, running: vec![Running::start(program, &args)?], folder })
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn usage(&mut self) -> Result<Usage> {
        let mut all = Usage { cpu_ms: 0.0, bytes: bytes(self.folder.path())?, sleeps: 0, memory: 0 };
        for running in &mut self.running {
            let time = running.processor_time().map_err(|e| Failure::new(format!("{}: {e}", self.name)))?;
            all.cpu_ms += time.as_secs_f64() * 1e3;
            let own = format!("/proc/{}", running.pid());
            for task in fs::read_dir(format!("{own}/task"))?.flatten() {
                all.sleeps += number(task.path().join("status"), "voluntary_ctxt_switches:");
            }
            all.memory += number(format!("{own}/status"), "VmHWM:") * 1024;
        }
        Ok(all)
    }

    /// Ends the recorder. Returns the bytes it left on disk.
    pub fn finish(&mut self) -> Result<u64> {
        for running in &mut self.running {
            running.end(PATIENCE)?;
        }
        bytes(self.folder.path())
    }
}

/// Returns the total size of a folder. Ignores files that disappear meanwhile.
fn bytes(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)?.flatten() {
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => sum += bytes(&entry.path())?,
            Ok(metadata) => sum += metadata.len(),
            Err(_) => {}
        }
    }
    Ok(sum)
}
