//! CPU time of whole programs: whyslow, atop, pidstat and bpftrace.
//!
//! Each runs for few and for many samples, one second apart; the difference per sample excludes start-up. The cost of
//! bpftrace's probes in interrupted programs is not included.

use serde::Serialize;
use std::path::Path;
use std::time::Duration;
use whyslow_pairs::child::processor_time;
use whyslow_pairs::failure::{Failure, Result};

/// Number of samples of the shorter run.
const FEW: usize = 2;
/// Time limit beyond the samples: bpftrace compiles its script first.
const PATIENCE: Duration = Duration::from_secs(60);
/// bpftrace script for block latency and run-queue length: two of the many things that whyslow reports.
const SCRIPT: &str = "tracepoint:block:block_rq_issue { @start[args->dev, args->sector] = nsecs; } \
    tracepoint:block:block_rq_complete /@start[args->dev, args->sector]/ \
    { @ns = hist(nsecs - @start[args->dev, args->sector]); delete(@start[args->dev, args->sector]); }";

/// Script for bpftrace, which needs tracefs: runs it in a mount namespace with tracefs mounted.
const WITH_TRACEFS: &str =
    "mount -t tracefs none /sys/kernel/tracing; mount -t debugfs none /sys/kernel/debug; exec bpftrace -e \"$0\"";

#[derive(Serialize)]
pub struct Observer {
    /// Command line; `N` stands for the number of samples.
    pub command: String,
    /// CPU milliseconds per sample.
    pub sample: f64,
    /// CPU milliseconds for starting and ending.
    pub start: f64,
}

/// Measures all programs; the longer run has `many` more samples.
pub fn measure(whyslow: &Path, many: usize) -> Result<Vec<Observer>> {
    let whyslow = whyslow.to_str().ok_or_else(|| Failure::new("the path of whyslow is not UTF-8"))?;
    let script = |seconds: &str| {
        format!("{SCRIPT} interval:s:1 {{ print(@ns); clear(@ns); @n++; if (@n >= {seconds}) {{ exit(); }} }}")
    };
    Ok(vec![
        observer("whyslow --for Ns --json", many, |n| run(whyslow, &["--for", &format!("{n}s"), "--json"], n))?,
        observer("whyslow --for Ns --json --no-bpf", many, |n| {
            run(whyslow, &["--for", &format!("{n}s"), "--json", "--no-bpf"], n)
        })?,
        observer("atop 1 N", many, |n| run("atop", &["1", &n.to_string()], n))?,
        observer("pidstat -durwt -p ALL 1 N", many, |n| {
            run("pidstat", &["-durwt", "-p", "ALL", "1", &n.to_string()], n)
        })?,
        observer("bpftrace: block latency, printed N times", many, |n| {
            run("unshare", &["--mount", "sh", "-c", WITH_TRACEFS, &script(&n.to_string())], n)
        })?,
    ])
}

/// Returns the median of three runs, because start-up varies.
fn typical(time: impl Fn(usize) -> Result<f64>, samples: usize) -> Result<f64> {
    let mut times = [time(samples)?, time(samples)?, time(samples)?];
    times.sort_by(f64::total_cmp);
    Ok(times[1])
}

fn run(program: &str, args: &[&str], samples: usize) -> Result<f64> {
    processor_time(program, args, PATIENCE + Duration::from_secs(samples as u64))
}

fn observer(command: &str, many: usize, time: impl Fn(usize) -> Result<f64>) -> Result<Observer> {
    let (short, long) = (typical(&time, FEW)?, typical(&time, FEW + many)?);
    let sample = (long - short) / many as f64;
    Ok(Observer { command: command.to_owned(), sample: sample * 1e3, start: (short - sample * FEW as f64) * 1e3 })
}
