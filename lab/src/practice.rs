//! Keeps a fault running for a person to find.

use crate::error::{Error, Result};
use crate::interrupt;
use crate::leftovers;
use crate::plan::Selection;
use crate::testbed::Testbed;
use crate::trial::Trial;
use crate::vm::{Images, is_guest};
use std::time::Duration;

/// Injects the fault of a trial, keeps it until Ctrl-C, and only then reveals what it was.
///
/// # Errors
/// Fails if there is no such trial, if it cannot be set up here, or if one of its programs ended.
pub fn hold(name: &str, seed: u64) -> Result<()> {
    let trial = find(name)?;
    if trial.vm.is_some() && !is_guest() {
        return Err(Error::failed(format!("{name} needs a virtual machine: name its kernel, --vm bookworm")));
    }
    interrupt::install_handlers()?;
    let _lock = leftovers::lock()?;
    leftovers::remove_all();
    let mut bed = Testbed::new(trial.name, seed)?;
    let expect = trial.set_up(&mut bed)?;
    let enter = match (&bed.netns, bed.ipc_namespace_of) {
        (Some(netns), _) => format!("nsenter --net={} ", netns.display()),
        (None, Some(pid)) => format!("nsenter --ipc --target {pid} "),
        (None, None) => String::new(),
    };
    let (place, end) = if is_guest() { ("Ask", "exit") } else { ("In another terminal", "Ctrl-C") };
    println!("Something is wrong with this machine now. {place}: {enter}whyslow\n{end} ends it (seed {seed}).");
    let held = loop {
        match interrupt::sleep(Duration::from_secs(1)) {
            Ok(()) => {}
            Err(Error::Interrupted) => break Ok(()),
            Err(error) => break Err(error),
        }
        if let Some(ended) = bed.exited_load()? {
            break Err(Error::failed(ended));
        }
    };
    let finding = trial.finding.map_or_else(|| "nothing: it is a healthy control".to_owned(), |id| expect.describe(id));
    println!("\nIt was {finding}: {}.", trial.what);
    held
}

/// Injects the fault in a virtual machine with the kernel of a Debian suite, and opens a shell there on this terminal.
/// Needs no privileges.
///
/// # Errors
/// Fails if there is no such trial or the machine does not start.
pub fn hold_in_vm(name: &str, seed: u64, images: &Images, suite: &str) -> Result<()> {
    let trial = find(name)?;
    images.guest(suite, Vec::new())?.hold(trial, seed)
}

fn find(name: &str) -> Result<&'static Trial> {
    let only = [name.to_owned()];
    let selection = Selection { only: &only, quick: false, controls: false, faults: false, in_vm: false };
    let (trials, _) = selection.trials()?;
    trials.first().copied().ok_or_else(|| Error::failed(format!("{name} is a benchmark: there is nothing to find")))
}
