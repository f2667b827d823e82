//! Control groups, version 1, with their twin in the unified hierarchy, as systemd lays them out on a hybrid machine.

use crate::error::{During, Error, Result};
use crate::stage::{PREFIX, Stage};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the hierarchies are mounted.
pub const ROOT: &str = "/sys/fs/cgroup";

/// A control group that is removed at the end of the trial.
#[derive(Clone, Debug)]
pub struct Cgroup {
    name: String,
    dirs: Vec<PathBuf>,
}

impl Cgroup {
    /// Makes `/wslab-NAME` in the given version 1 controllers and, for its pressure files, in the unified hierarchy.
    ///
    /// # Errors
    /// [`Error::Missing`] where a controller is not mounted as version 1.
    pub fn new(stage: &mut Stage, name: &str, controllers: &[&str]) -> Result<Self> {
        let mut group = Self { name: format!("{PREFIX}{name}"), dirs: Vec::new() };
        for controller in controllers {
            let root = Path::new(ROOT).join(controller);
            if !root.join("cgroup.procs").exists() {
                return Err(Error::Missing(format!("version 1 cgroup controller {controller}")));
            }
            group.make(stage, &root)?;
        }
        let unified = Path::new(ROOT).join("unified");
        if unified.join("cgroup.procs").exists() {
            group.make(stage, &unified)?;
        }
        Ok(group)
    }

    fn make(&mut self, stage: &mut Stage, root: &Path) -> Result<()> {
        let dir = root.join(&self.name);
        fs::create_dir(&dir).during(dir.display())?;
        self.dirs.push(dir.clone());
        stage.undo(move || remove(&dir));
        Ok(())
    }

    /// Its name as /proc/PID/cgroup spells it.
    pub fn path(&self) -> String {
        format!("/{}", self.name)
    }

    /// Sets a limit, such as `memory.limit_in_bytes`.
    ///
    /// # Errors
    /// Where the kernel refuses it.
    pub fn set(&self, file: &str, value: impl ToString) -> Result<()> {
        let path = self.dirs.iter().map(|d| d.join(file)).find(|p| p.exists());
        let path = path.ok_or_else(|| Error::Missing(format!("cgroup file {file}")))?;
        fs::write(&path, value.to_string()).during(path.display())
    }

    /// Has a child begin in it.
    ///
    /// # Errors
    /// Where it cannot be opened.
    pub fn take_in(&self, command: &mut Command) -> Result<()> {
        for dir in &self.dirs {
            let procs = OpenOptions::new().write(true).open(dir.join("cgroup.procs")).during(dir.display())?;
            // SAFETY: one write(2) on an open file between fork and exec is async-signal-safe.
            unsafe { command.pre_exec(move || nix::unistd::write(&procs, b"0").map(drop).map_err(io::Error::from)) };
        }
        Ok(())
    }
}

/// Removes an empty group. A killed process leaves its group a moment after it has been waited for.
pub fn remove(dir: &Path) {
    for _ in 0..100 {
        if fs::remove_dir(dir).is_ok() || !dir.exists() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    eprintln!("whyslow-lab: cleaning up: {} is still in use", dir.display());
}
