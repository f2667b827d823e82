//! Child processes of the lab, none of which outlives it.

use nix::sched::{CloneFlags, setns};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// A child that is killed and reaped when dropped.
pub struct ChildGuard(pub Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // Both fail only if the child has been reaped already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Makes a child die with the lab, however the lab dies, and not before: Ctrl-C must reach only the lab, or a simulated disk
/// would die under its file system.
pub fn kill_with_parent(command: &mut Command) {
    command.process_group(0);
    // SAFETY: prctl(2) is one system call, async-signal-safe.
    unsafe { command.pre_exec(|| prctl::set_pdeathsig(Signal::SIGKILL).map_err(io::Error::from)) };
}

/// Makes a child start in the namespace of `file`.
pub fn join_namespace(command: &mut Command, file: File, kind: CloneFlags) {
    // SAFETY: setns(2) is one system call, async-signal-safe.
    unsafe { command.pre_exec(move || setns(&file, kind).map_err(io::Error::from)) };
}
