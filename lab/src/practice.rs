//! Keeps a fault up for a person to find.

use crate::error::{Error, Result};
use crate::interrupt;
use crate::leftovers;
use crate::plan::Selection;
use crate::testbed::Testbed;
use std::time::Duration;

/// Injects the fault of a trial, keeps it until Ctrl-C, and says only then what it was.
///
/// # Errors
/// There is no such trial, it cannot be set up here, or what it runs ended.
pub fn hold(name: &str, seed: u64) -> Result<()> {
    let only = [name.to_owned()];
    let selection = Selection { only: &only, quick: false, controls: false, faults: false, in_vm: false };
    let (trials, _) = selection.trials()?;
    let trial =
        *trials.first().ok_or_else(|| Error::failed(format!("{name} is a benchmark: there is nothing to find")))?;
    if trial.vm.is_some() {
        return Err(Error::failed(format!("{name} needs a virtual machine: see lab/vm/README.md")));
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
    println!(
        "Something is wrong with this machine now. In another terminal: {enter}whyslow\nCtrl-C ends it (seed {seed})."
    );
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
    let finding = trial.finding.map_or_else(|| "nothing: it is a healthy control".to_owned(), |id| expect.of(id));
    println!("\nIt was {finding}: {}.", trial.what);
    held
}
