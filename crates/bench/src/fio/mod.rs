//! fio's job files (fio(1), version 3), as far as they say what whyslow can do.
//!
//! An option that is not known is refused by its name: a job that is run otherwise than it says is worse than none. What
//! differs on purpose: files are made without a name and are gone afterwards, a file that is there is never written to, and a
//! device only with `--destroy`.

mod options;
mod plan;
mod section;
mod units;
mod values;

use crate::error::{Error, Result};
use crate::round::Progress;
use crate::session::Session;
use crate::stop::Stop;
use plan::Plan;
use std::fs;
use std::path::PathBuf;
use whyslow_model::bench::{Kind, Report};

/// A job file, and what is not in it.
#[derive(Clone, Debug)]
pub struct JobFile {
    /// The file.
    pub path: PathBuf,
    /// The serial number of the device that it may destroy.
    pub destroy: Option<String>,
    /// Whether a device that is in use may be read.
    pub in_use: bool,
}

/// Runs the jobs of a file.
///
/// # Errors
/// Where the file cannot be read, says what is not known (with its line), or names what may not be touched.
pub fn run(file: &JobFile, stop: &Stop, watch: &mut dyn FnMut(Progress)) -> Result<Report> {
    let text = fs::read_to_string(&file.path).map_err(|e| Error::at(&file.path, "cannot be read", &e))?;
    let at_line = |(line, why): (usize, String)| Error::new(format!("{}:{line}: {why}", file.path.display()));
    let sections = section::parse(&text).map_err(at_line)?;
    let mut session = Session::begin(stop, watch);
    let plan = Plan::make(&sections, file, &mut session)?;
    plan.play(&mut session)?;
    Ok(session.finish(Kind::Job, Vec::new()))
}
