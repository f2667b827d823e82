//! Runs the system's own programs.

use crate::error::{Error, Result};
use std::io::ErrorKind;
use std::process::Command;

/// Runs a program to its end and returns its output.
///
/// # Errors
/// [`Error::Missing`] if it is not installed, else its own message.
pub fn run(program: &str, args: &[&str]) -> Result<String> {
    let output = Command::new(program).args(args).output().map_err(|e| match e.kind() {
        ErrorKind::NotFound => Error::Missing(format!("the program {program} (packages: see lab/README.md)")),
        _ => Error::failed(format!("{program}: {e}")),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_string());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(Error::failed(format!("{program} {}: {}", args.join(" "), message.trim())))
}

/// Runs a program during teardown, where a failure can only be reported.
pub fn run_cleanup(program: &str, args: &[&str]) {
    if let Err(e) = run(program, args) {
        eprintln!("whyslow-lab: cleaning up: {e}");
    }
}
