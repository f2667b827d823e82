//! Shell scripts that change the guest. They undo nothing: the guest is discarded after the trial.

use crate::command;
use crate::error::{Error, Result};
use crate::program::{ProgramCommand, home};
use crate::testbed::Testbed;
use crate::vm::is_guest;

/// Runs a script to completion and returns its output.
///
/// # Errors
/// Returns [`Error::Missing`] outside of a guest; otherwise the message of the command that failed.
pub fn shell(script: &str) -> Result<String> {
    if !is_guest() {
        return Err(Error::Missing("a virtual machine (run it with --vm SUITE)".into()));
    }
    command::run("sh", &["-euc", script])
}

/// Runs a script until the end of the trial, and returns its PID.
pub fn background(bed: &mut Testbed, script: &str) -> Result<u32> {
    let home = home(bed)?;
    ProgramCommand::new(&home, "sh", "dash")?.with_privileges().args(["-c", script]).start(bed)
}

/// Loads kernel modules, each with its parameters.
///
/// # Errors
/// Returns [`Error::Missing`] if the kernel lacks one of them.
pub fn modules(modules: &[&str]) -> Result<()> {
    for module in modules {
        shell(&format!("modprobe {module}")).map_err(|e| match e {
            Error::Failed(why) if why.contains("not found") => Error::Missing(format!("the kernel module {module}")),
            other => other,
        })?;
    }
    Ok(())
}
