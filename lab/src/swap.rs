//! Swap on a device of the lab's own.

use crate::command;
use crate::error::Result;
use crate::testbed::Testbed;
use std::fs;

/// Swaps to a block device until the end of the trial.
///
/// # Errors
/// Those of mkswap(8) and swapon(8).
pub fn on(bed: &mut Testbed, node: &str) -> Result<()> {
    command::run("mkswap", &[node])?;
    command::run("swapon", &[node])?;
    let node = node.to_string();
    bed.defer(move || off(&node));
    Ok(())
}

/// Stops swapping to a device, if it is used as swap.
pub fn off(node: &str) {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    if swaps.lines().any(|line| line.split_whitespace().next() == Some(node)) {
        command::run_cleanup("swapoff", &[node]);
    }
}
