//! Paths of the measured programs, and the exit status of the measuring one.

use crate::failure::{Failure, Result};
use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;

/// Returns the path of one of our programs: the given one, or else the one beside this program.
///
/// # Errors
/// Fails if there is none.
pub fn beside(given: Option<&PathBuf>, name: &str) -> Result<PathBuf> {
    let path = match given {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name(name),
    };
    if path.exists() {
        Ok(path)
    } else {
        Err(Failure::new(format!("{} does not exist: cargo build --release -p {name}", path.display())))
    }
}

/// Returns the exit status; prints an error on standard error.
pub fn status(name: &str, done: std::result::Result<(), impl Display>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{name}: {failure}");
            ExitCode::FAILURE
        }
    }
}
