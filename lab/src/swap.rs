//! Swapping to a device of the lab's own.

use crate::error::Result;
use crate::stage::Stage;
use crate::tool;
use std::fs;

/// Swaps to a block device until the end of the trial.
///
/// # Errors
/// What mkswap(8) or swapon(8) says.
pub fn on(stage: &mut Stage, node: &str) -> Result<()> {
    tool::run("mkswap", &[node])?;
    tool::run("swapon", &[node])?;
    let gone = node.to_string();
    stage.undo(move || off(&gone));
    Ok(())
}

/// Ends swapping to a device, if it is used for that.
pub fn off(node: &str) {
    let used = fs::read_to_string("/proc/swaps").unwrap_or_default();
    if used.lines().any(|line| line.split_whitespace().next() == Some(node)) {
        tool::undo("swapoff", &[node]);
    }
}
