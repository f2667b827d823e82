//! Swap in compressed memory, on a zram device of its own.

use crate::error::{During, Error, Result};
use crate::stage::{Stage, WORK};
use crate::swap;
use std::fs;
use std::path::Path;

const CONTROL: &str = "/sys/class/zram-control";

/// Swaps to a new zram device of `bytes` bytes until the end of the trial.
///
/// # Errors
/// [`Error::Missing`] without zram.
pub fn swap(stage: &mut Stage, bytes: u64) -> Result<()> {
    let number = fs::read_to_string(format!("{CONTROL}/hot_add")).map_err(|_| Error::Missing("zram".into()))?;
    let number = number.trim().to_string();
    // Written down first: a zram device bears no name of ours.
    fs::write(record(&number), "").during("noting the zram device")?;
    let gone = number.clone();
    stage.undo(move || remove(&gone));
    let size = format!("/sys/block/zram{number}/disksize");
    fs::write(&size, bytes.to_string()).during(&size)?;
    swap::on(stage, &format!("/dev/zram{number}"))
}

/// Removes the devices that an earlier run has written down.
pub fn sweep() {
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
    swap::off(&node);
    if Path::new(&node).exists()
        && let Err(e) = fs::write(format!("{CONTROL}/hot_remove"), number)
    {
        eprintln!("whyslow-lab: cleaning up: {node}: {e}");
    }
    drop(fs::remove_file(record(number)));
}
