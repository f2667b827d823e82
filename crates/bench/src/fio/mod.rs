//! `bench disk --job`: supported subset of fio job files (fio(1), version 3).
//!
//! Unsupported options are refused: a job that does not run as written is worse than none. Deliberate differences:
//! temporary files are unnamed and gone afterwards, existing files are never written, and devices only with
//! `--destroy`.

mod job_file;
mod job_plan;
mod options;
mod values;

use crate::bench_session::BenchSession;
use crate::{Error, Progress, Result, Stop};
use job_plan::JobPlan;
use std::fs;
use std::path::PathBuf;
use whyslow_documents::bench::{BenchKind, BenchReport};

/// A job file with its permissions.
#[derive(Clone, Debug)]
pub struct JobFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Serial number of the device that may be overwritten.
    pub destroy: Option<String>,
    /// Whether a device in use may be read.
    pub in_use: bool,
}

/// Runs the jobs of a file.
///
/// # Errors
/// Fails if the file cannot be read, a line is invalid or unsupported, or a target must not or cannot be measured.
pub fn run(file: &JobFile, stop: &Stop, progress: &mut dyn FnMut(Progress)) -> Result<BenchReport> {
    let text = fs::read_to_string(&file.path).map_err(|e| Error::at(&file.path, "cannot read the job file", &e))?;
    let at_line = |(line, why): (usize, String)| Error::new(format!("{}:{line}: {why}", file.path.display()));
    let sections = job_file::parse(&text).map_err(at_line)?;
    let mut session = BenchSession::begin(stop, progress);
    let plan = JobPlan::new(&sections, file, &mut session)?;
    plan.run(&mut session)?;
    Ok(session.finish(BenchKind::Job))
}
