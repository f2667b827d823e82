//! Hides features from whyslow that a machine may lack: each in whyslow's own namespaces, so that nothing else is
//! affected.

use crate::cgroup;
use crate::command::run_as_nobody;
use crate::error::{Context, Error, Result};
use clap::ValueEnum;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What whyslow must do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Blind {
    /// Pressure stall information, of the machine and of cgroups
    Psi,
    /// BPF programs
    Bpf,
    /// The privileges of root
    Root,
    /// Version 1 hierarchies of cgroups
    CgroupV1,
    /// The version 2 hierarchy of cgroups
    CgroupV2,
}

/// Directory of the kernel's pressure stall information (Documentation/accounting/psi.rst).
const PRESSURE: &str = "/proc/pressure";

impl Blind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Psi => "PSI",
            Self::Bpf => "BPF",
            Self::Root => "root",
            Self::CgroupV1 => "cgroup v1",
            Self::CgroupV2 => "cgroup v2",
        }
    }

    /// Hides it from a command that is started later. Nothing may need privileges after this.
    ///
    /// # Errors
    /// Returns [`Error::Missing`] if the machine lacks it anyway.
    pub fn take_from(self, command: &mut Command) -> Result<()> {
        match self {
            Self::Psi => hide_pressure(command),
            Self::Bpf => {
                command.arg("--no-bpf");
                Ok(())
            }
            Self::Root => {
                run_as_nobody(command);
                Ok(())
            }
            Self::CgroupV1 => unmount_all(command, cgroup::roots(1), self),
            Self::CgroupV2 => unmount_all(command, cgroup::roots(2), self),
        }
    }
}

/// Mounts an empty directory over /proc/pressure, and an empty file over each pressure file of a cgroup.
fn hide_pressure(command: &mut Command) -> Result<()> {
    if !Path::new(PRESSURE).exists() {
        return Err(Error::Missing(PRESSURE.into()));
    }
    let mut files = Vec::new();
    for root in cgroup::roots(2) {
        pressure_files(&root, &mut files).context(root.display())?;
    }
    in_own_mounts(command, move || {
        mount(Some("none"), PRESSURE, Some("tmpfs"), MsFlags::MS_RDONLY, None::<&str>)?;
        for file in &files {
            // A group may have been removed in the meantime.
            let _ = mount(Some("/dev/null"), file, None::<&str>, MsFlags::MS_BIND, None::<&str>);
        }
        Ok(())
    });
    Ok(())
}

fn pressure_files(dir: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            pressure_files(&entry.path(), files)?;
        } else if entry.path().extension().is_some_and(|extension| extension == "pressure") {
            files.push(entry.path());
        }
    }
    Ok(())
}

fn unmount_all(command: &mut Command, roots: Vec<PathBuf>, what: Blind) -> Result<()> {
    if roots.is_empty() {
        return Err(Error::Missing(what.name().into()));
    }
    in_own_mounts(command, move || roots.iter().rev().try_for_each(|root| umount2(root, MntFlags::MNT_DETACH)));
    Ok(())
}

/// Runs `change` between fork and exec, in a mount namespace of the child's own.
fn in_own_mounts(command: &mut Command, change: impl Fn() -> nix::Result<()> + Send + Sync + 'static) {
    let change = move || -> nix::Result<()> {
        unshare(CloneFlags::CLONE_NEWNS)?;
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
        change()
    };
    // SAFETY: system calls only; paths as short as these are copied to the stack.
    unsafe { command.pre_exec(move || change().map_err(io::Error::from)) };
}
