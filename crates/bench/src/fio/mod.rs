//! `bench disk --job`: fio job files (fio(1), version 3), as far as they are supported.
//!
//! Unsupported options are refused: a job that runs differently than it says is worse than none. Deliberate differences:
//! temporary files are unnamed and gone afterwards, existing files are never written, and devices only with `--destroy`.

mod job_file;
mod job_plan;
mod options;
mod values;

use crate::bench_session::BenchSession;
use crate::{Error, Progress, Result, Stop};
use job_plan::JobPlan;
use std::fs;
use std::path::PathBuf;
use whyslow_model::bench::{BenchKind, BenchReport};

/// A job file, and what it may do.
#[derive(Clone, Debug)]
pub struct JobFile {
    /// The file.
    pub path: PathBuf,
    /// Serial number of the device that may be overwritten.
    pub destroy: Option<String>,
    /// Whether a device that is in use may be read.
    pub in_use: bool,
}

/// Runs the jobs of a file.
///
/// # Errors
/// The file cannot be read, a line is invalid or unsupported, or a target must not, or cannot, be measured.
pub fn run(file: &JobFile, stop: &Stop, progress: &mut dyn FnMut(Progress)) -> Result<BenchReport> {
    let text = fs::read_to_string(&file.path).map_err(|e| Error::at(&file.path, "cannot read the job file", &e))?;
    let at_line = |(line, why): (usize, String)| Error::new(format!("{}:{line}: {why}", file.path.display()));
    let sections = job_file::parse(&text).map_err(at_line)?;
    let mut session = BenchSession::begin(stop, progress);
    let plan = JobPlan::new(&sections, file, &mut session)?;
    plan.run(&mut session)?;
    Ok(session.finish(BenchKind::Job))
}
