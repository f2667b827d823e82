//! The system's own programs that set faults up.

use crate::error::{Error, Result};
use std::io::ErrorKind;
use std::process::Command;

/// Runs a program to its end and returns what it printed.
///
/// # Errors
/// [`Error::Missing`] where it is not installed, else its own words.
pub fn run(program: &str, args: &[&str]) -> Result<String> {
    let output = Command::new(program).args(args).output().map_err(|e| match e.kind() {
        ErrorKind::NotFound => Error::Missing(format!("the program {program} (packages: see lab/README.md)")),
        _ => Error::failed(format!("{program}: {e}")),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_string());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::failed(format!("{program} {}: {}", args.join(" "), said.trim())))
}

/// Runs a program for its effect while cleaning up, where nothing can be done about a failure but to say so.
pub fn undo(program: &str, args: &[&str]) {
    if let Err(e) = run(program, args) {
        eprintln!("whyslow-lab: cleaning up: {e}");
    }
}
