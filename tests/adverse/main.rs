//! Tests of the program on a machine in trouble: mounts that never answer, no threads left.

mod mounts;
mod silent_mount;
#[path = "../skip/mod.rs"]
mod skip;
mod threads;

use std::process::{Command, Stdio};
use whyslow_testing::ends_with_test;

/// Returns `whyslow` with these arguments.
fn whyslow(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whyslow"));
    ends_with_test(command.args(args).stdin(Stdio::null()));
    command
}
