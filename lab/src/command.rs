//! Runs programs: the system's own to completion, and children that never outlive the lab.

use crate::error::{Error, Result};
use nix::sched::{CloneFlags, setns};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, setgid, setgroups, setuid};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// User `nobody` and group `nogroup` of Debian, who own nothing.
pub const NOBODY: u32 = 65534;

/// Runs a program to completion and returns its output.
///
/// # Errors
/// Returns [`Error::Missing`] if it is not installed; otherwise the program's own message.
pub fn run(program: &str, args: &[&str]) -> Result<String> {
    let output = Command::new(program).args(args).output().map_err(|e| match e.kind() {
        ErrorKind::NotFound => Error::Missing(format!("the program {program} (packages: see lab/README.md)")),
        _ => Error::failed(format!("{program}: {e}")),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_string());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(Error::failed(format!("{program} {}: {}", args.join(" "), message.trim())))
}

/// Runs a program during teardown, where a failure can only be reported.
pub fn run_cleanup(program: &str, args: &[&str]) {
    if let Err(e) = run(program, args) {
        eprintln!("whyslow-lab: cleaning up: {e}");
    }
}

/// A child that is killed and reaped when dropped.
pub struct ChildGuard(pub Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // Both fail only if the child has already been reaped.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Makes a child die with the lab, however the lab dies, but not before: Ctrl-C must reach only the lab, or a simulated
/// disk would die under its file system.
pub fn kill_with_parent(command: &mut Command) {
    command.process_group(0);
    // SAFETY: prctl(2) is one system call, async-signal-safe.
    unsafe { command.pre_exec(|| prctl::set_pdeathsig(Signal::SIGKILL).map_err(io::Error::from)) };
}

/// Makes a child run as `nobody`. No later step in its setup may need privileges.
pub fn run_as_nobody(command: &mut Command) {
    let drop_privileges = || -> nix::Result<()> {
        setgroups(&[])?;
        setgid(Gid::from_raw(NOBODY))?;
        setuid(Uid::from_raw(NOBODY))?;
        // The kernel clears this setting when the user changes (prctl(2)).
        prctl::set_pdeathsig(Signal::SIGKILL)
    };
    // SAFETY: four system calls, async-signal-safe.
    unsafe { command.pre_exec(move || drop_privileges().map_err(io::Error::from)) };
}

/// Makes a child start in the namespace of `file`.
pub fn join_namespace(command: &mut Command, file: File, kind: CloneFlags) {
    // SAFETY: setns(2) is one system call, async-signal-safe.
    unsafe { command.pre_exec(move || setns(&file, kind).map_err(io::Error::from)) };
}
