//! No shared memory segments left, in an IPC namespace of its own with limits of its own.

use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "limit.shm",
    what: "all shared memory segments that an IPC namespace may have are made",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let limit = stage.dice.between(16, 200);
    let shm = Launch::new("shm").with("limit", limit).with("size", 4096).in_own_ipc().start(stage)?;
    stage.ipc_of = Some(shm.pid);
    let subjects = [Who::Host, Who::Named("limit", "shmmni".into()), Who::Named("limit", "kernel.shmmni".into())];
    Ok(Expect::first("limit.shm", subjects).never(&["limit.semaphores", "limit.open_files"]))
}
