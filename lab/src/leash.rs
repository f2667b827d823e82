//! Children of the lab: where they begin, and that none outlives it.

use nix::sched::{CloneFlags, setns};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// A child that is killed and waited for when dropped.
pub struct Leash(pub Child);

impl Drop for Leash {
    fn drop(&mut self) {
        // Both fail only where it has ended and been waited for already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Makes a child die with the lab, however the lab dies, and not before: the terminal's Ctrl-C must reach the lab only,
/// or a disk would die under its file system.
pub fn die_with_us(command: &mut Command) {
    command.process_group(0);
    // SAFETY: prctl(2) is one system call, async-signal-safe.
    unsafe { command.pre_exec(|| prctl::set_pdeathsig(Signal::SIGKILL).map_err(io::Error::from)) };
}

/// Has a child begin in the namespace that `file` stands for.
pub fn enter(command: &mut Command, file: File, kind: CloneFlags) {
    // SAFETY: setns(2) is one system call, async-signal-safe.
    unsafe { command.pre_exec(move || setns(&file, kind).map_err(io::Error::from)) };
}
