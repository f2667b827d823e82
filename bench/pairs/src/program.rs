//! The programs that are measured, and the one that measures.

use crate::failure::{Failure, Result};
use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;

/// A program of ours: where it was said to be, else beside this one.
///
/// # Errors
/// There is none.
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

/// The status to end with; what went wrong is said on standard error.
pub fn status(name: &str, done: std::result::Result<(), impl Display>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{name}: {failure}");
            ExitCode::FAILURE
        }
    }
}
