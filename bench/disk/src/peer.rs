//! The programs that whyslow is held against, each run for one case; what they come to.

use crate::cases::Case;
use crate::rig::Rig;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use whyslow_pairs::child;
use whyslow_pairs::failure::{Failure, Result};

const PATIENCE: Duration = Duration::from_secs(300);

/// Who does the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// fio, by the same job file.
    Fio,
    /// dd, writing a new file and syncing it.
    DdWrite,
    /// dd, reading past the page cache.
    DdRead,
    /// bonnie++'s block output: 8 KiB a write(2), and an fsync(2).
    BonnieWrite,
    /// bonnie++'s block input: 8 KiB a read(2), of what it has just written: from the page cache.
    BonnieRead,
}

/// What one run came to.
pub struct Figures {
    /// Requests a second of those that are counted; bytes a second of streams.
    pub rate: f64,
    /// Processor time of the threads that made the load, for each request, seconds; none where it is not told alike.
    pub cost: Option<f64>,
}

impl Peer {
    /// Runs it.
    ///
    /// # Errors
    /// Where it is missing, fails or tells no number, or a signal came.
    pub fn run(self, case: &Case, rig: &Rig, job: &str) -> Result<Figures> {
        match self {
            Self::Fio => of_json("fio", &[job, "--output-format=json"], case),
            Self::DdWrite => {
                dd(&["if=/dev/zero", &format!("of={}", rig.new_file()), "bs=1M", "count=512", "conv=fsync"])
            }
            Self::DdRead => dd(&[&format!("if={}", rig.file()), "of=/dev/null", "bs=1M", "iflag=direct"]),
            Self::BonnieWrite => bonnie(rig, PUT_BLOCK),
            Self::BonnieRead => bonnie(rig, GET_BLOCK),
        }
    }
}

/// whyslow, by the job file.
///
/// # Errors
/// As a peer's.
pub fn whyslow(program: &Path, case: &Case, job: &str) -> Result<Figures> {
    let program = program.to_str().ok_or_else(|| Failure::new("the path of whyslow is not UTF-8"))?;
    of_json(program, &["bench", "disk", "--job", job, "--json-fio"], case)
}

/// What is told in the form of fio's JSON.
fn of_json(program: &str, args: &[&str], case: &Case) -> Result<Figures> {
    let text = child::output(program, args, PATIENCE)?;
    let json: Value = serde_json::from_str(&text[text.find('{').unwrap_or(0)..])?;
    let job = &json["jobs"][0];
    let flow = &job[if case.writes { "write" } else { "read" }];
    let number = |value: &Value| value.as_f64().ok_or_else(|| Failure::new(format!("{program} told no number: {job}")));
    if case.peer != Peer::Fio {
        return figures(program, number(&flow["bw_bytes"])?, None);
    }
    let busy = (number(&job["usr_cpu"])? + number(&job["sys_cpu"])?) / 100.0;
    let rate = number(&flow["iops"])?;
    figures(program, rate, Some(busy / rate))
}

/// dd(1) tells on standard error, which is given to this program by a shell.
fn dd(args: &[&str]) -> Result<Figures> {
    let script = "LC_ALL=C exec dd \"$@\" 2>&1";
    let said = child::output("sh", &[&["-c", script, "dd"], args].concat(), PATIENCE)?;
    let rate = dd_rate(&said).ok_or_else(|| Failure::new(format!("dd told no number: {said}")))?;
    figures("dd", rate, None)
}

/// `536870912 bytes (537 MB, 512 MiB) copied, 0.42 s, 1.3 GB/s`.
fn dd_rate(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.contains(" copied, "))?;
    let bytes: f64 = line.split_whitespace().next()?.parse().ok()?;
    let seconds: f64 = line.split(" copied, ").nth(1)?.split_whitespace().next()?.parse().ok()?;
    Some(bytes / seconds)
}

/// Fields of the lines that bonnie++ 2 prints (bonnie++.cpp, `print_stat`), KiB a second.
const PUT_BLOCK: usize = 11;
const GET_BLOCK: usize = 17;

fn bonnie(rig: &Rig, field: usize) -> Result<Figures> {
    let folder = rig.folder();
    let args = ["-d", &folder, "-s", "1024", "-r", "512", "-n", "0", "-f", "-q", "-u", "root", "-m", "bench"];
    let said = child::output("bonnie++", &args, PATIENCE)?;
    let rate = bonnie_rate(&said, field).ok_or_else(|| Failure::new(format!("bonnie++ told no number: {said}")))?;
    figures("bonnie++", rate, None)
}

fn bonnie_rate(said: &str, field: usize) -> Option<f64> {
    let line = said.lines().find(|line| line.split(',').count() > GET_BLOCK)?;
    line.split(',').nth(field)?.parse::<f64>().ok().map(|kib| kib * 1024.0)
}

fn figures(program: &str, rate: f64, cost: Option<f64>) -> Result<Figures> {
    if rate > 0.0 { Ok(Figures { rate, cost }) } else { Err(Failure::new(format!("{program} did nothing"))) }
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
        let said = "1.98,2.00a,x,1,1795307297,1G,,8192,5,,,512000,40,14370,4,,,2048000,99,10663,256,,,,,\n";
        assert_eq!(bonnie_rate(said, PUT_BLOCK), Some(512_000.0 * 1024.0));
        assert_eq!(bonnie_rate(said, GET_BLOCK), Some(2_048_000.0 * 1024.0));
        // What took less than half a second is not told.
        assert_eq!(bonnie_rate(&said.replace("512000", "+++++"), PUT_BLOCK), None);
    }
}
