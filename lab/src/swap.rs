//! Swap on devices of the lab's own, and in compressed memory (zram).

use crate::command;
use crate::error::{Context, Error, Result};
use crate::testbed::{Testbed, WORK};
use std::fs;
use std::path::Path;

const CONTROL: &str = "/sys/class/zram-control";

/// Swaps to a block device until the end of the trial.
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

/// Swaps to a new zram device of `bytes` bytes until the end of the trial.
///
/// # Errors
/// Returns [`Error::Missing`] without zram.
pub fn on_zram(bed: &mut Testbed, bytes: u64) -> Result<()> {
    let number = fs::read_to_string(format!("{CONTROL}/hot_add")).map_err(|_| Error::Missing("zram".into()))?;
    let number = number.trim().to_string();
    // Recorded first, because the device's name does not show that it belongs to the lab.
    fs::write(record(&number), "").context("recording the zram device")?;
    let added = number.clone();
    bed.defer(move || remove(&added));
    let size = format!("/sys/block/zram{number}/disksize");
    fs::write(&size, bytes.to_string()).context(&size)?;
    on(bed, &format!("/dev/zram{number}"))
}

/// Removes the devices that an earlier run recorded.
pub fn remove_leftovers() {
    for entry in fs::read_dir(WORK).into_iter().flatten().flatten() {
        if let Some(number) = entry.file_name().to_string_lossy().strip_prefix("zram-") {
            remove(number);
        }
    }
}

fn record(number: &str) -> String {
    format!("{WORK}/zram-{number}")
}

fn remove(number: &str) {
    let node = format!("/dev/zram{number}");
    off(&node);
    if Path::new(&node).exists()
        && let Err(e) = fs::write(format!("{CONTROL}/hot_remove"), number)
    {
        eprintln!("whyslow-lab: cleaning up: {node}: {e}");
    }
    drop(fs::remove_file(record(number)));
}
