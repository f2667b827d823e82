//! Control groups; each controller is used in whichever hierarchy the machine has it: version 2, or one of version 1.

use crate::error::{Context, Error, Result};
use crate::testbed::{PREFIX, Testbed, WORK, entries};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    Cpu,
    Memory,
    Io,
}

impl Controller {
    /// Returns the controller's names in version 1, where CPU usage is accounted by a separate controller.
    fn v1_names(self) -> &'static [&'static str] {
        match self {
            Self::Cpu => &["cpu", "cpuacct"],
            Self::Memory => &["memory"],
            Self::Io => &["blkio"],
        }
    }

    fn v2_name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Io => "io",
        }
    }
}

/// Limit on a group's reads from a device, per second.
#[derive(Clone, Copy, Debug)]
pub enum ReadLimit {
    Bytes(u64),
    Requests(u64),
}

/// A control group that is removed at the end of the trial.
#[derive(Clone, Debug)]
pub struct Cgroup {
    name: String,
    /// Directories: in the hierarchies of its controllers, and in version 2, which has the pressure files.
    dirs: Vec<PathBuf>,
}

impl Cgroup {
    /// Creates `/wslab-NAME` with the given controllers.
    ///
    /// # Errors
    /// Returns [`Error::Missing`] if no mounted hierarchy has one of the controllers.
    pub fn new(bed: &mut Testbed, name: &str, controllers: &[Controller]) -> Result<Self> {
        let mut group = Self { name: format!("{PREFIX}{name}"), dirs: Vec::new() };
        let hierarchies = hierarchies();
        let v2 = hierarchies.iter().find(|hierarchy| hierarchy.v1_controllers.is_none());
        for controller in controllers {
            let v1 = hierarchies.iter().filter(|hierarchy| hierarchy.has_v1(*controller));
            let mut v1 = v1.map(|hierarchy| hierarchy.root.as_path()).peekable();
            if v1.peek().is_none() {
                let missing = || Error::Missing(format!("cgroup controller {}", controller.v2_name()));
                enable(bed, &v2.ok_or_else(missing)?.root, controller.v2_name())?;
            }
            for root in v1 {
                group.create(bed, root)?;
            }
        }
        if let Some(v2) = v2 {
            group.create(bed, &v2.root)?;
        }
        Ok(group)
    }

    fn create(&mut self, bed: &mut Testbed, root: &Path) -> Result<()> {
        let dir = root.join(&self.name);
        if self.dirs.contains(&dir) {
            return Ok(());
        }
        fs::create_dir(&dir).context(dir.display())?;
        self.dirs.push(dir.clone());
        bed.defer(move || remove(&dir));
        Ok(())
    }

    /// Creates a child group of this name.
    pub fn child(&self, bed: &mut Testbed, name: &str) -> Result<Self> {
        let mut child = Self { name: format!("{}/{name}", self.name), dirs: Vec::new() };
        for dir in &self.dirs {
            let dir = dir.join(name);
            fs::create_dir(&dir).context(dir.display())?;
            child.dirs.push(dir.clone());
            bed.defer(move || remove(&dir));
        }
        Ok(child)
    }

    /// Returns the path as in /proc/PID/cgroup.
    pub fn path(&self) -> String {
        format!("/{}", self.name)
    }

    /// Limits the CPU time in each period, both in microseconds.
    pub fn set_cpu_quota(&self, quota: u64, period: u64) -> Result<()> {
        if let Some(file) = self.file("cpu.max") {
            return write(&file, format!("{quota} {period}"));
        }
        self.set("cpu.cfs_period_us", period)?;
        self.set("cpu.cfs_quota_us", quota)
    }

    /// Limits the memory; the excess is reclaimed or swapped out.
    pub fn set_memory_limit(&self, bytes: u64) -> Result<()> {
        match self.file("memory.max") {
            Some(file) => write(&file, bytes),
            None => self.set("memory.limit_in_bytes", bytes),
        }
    }

    /// Limits the memory, without swap.
    pub fn set_memory_limit_without_swap(&self, bytes: u64) -> Result<()> {
        self.set_memory_limit(bytes)?;
        match self.file("memory.swap.max") {
            Some(file) => write(&file, 0),
            // A version 2 kernel without swap accounting has neither file.
            None => self.file("memory.swappiness").map_or(Ok(()), |file| write(&file, 0)),
        }
    }

    /// Limits reads from a block device of this name.
    pub fn set_read_limit(&self, device: &str, limit: ReadLimit) -> Result<()> {
        let number = fs::read_to_string(format!("/sys/block/{device}/dev"))?;
        let number = number.trim();
        let (v1_file, v2_key, value) = match limit {
            ReadLimit::Bytes(value) => ("blkio.throttle.read_bps_device", "rbps", value),
            ReadLimit::Requests(value) => ("blkio.throttle.read_iops_device", "riops", value),
        };
        match self.file("io.max") {
            Some(file) => write(&file, format!("{number} {v2_key}={value}")),
            None => self.set(v1_file, format!("{number} {value}")),
        }
    }

    fn set(&self, name: &str, value: impl ToString) -> Result<()> {
        write(&self.file(name).ok_or_else(|| Error::Missing(format!("cgroup file {name}")))?, value)
    }

    fn file(&self, name: &str) -> Option<PathBuf> {
        self.dirs.iter().map(|dir| dir.join(name)).find(|path| path.exists())
    }

    /// Makes a child process start in the group.
    pub fn add_on_spawn(&self, command: &mut Command) -> Result<()> {
        for dir in &self.dirs {
            let procs = OpenOptions::new().write(true).open(dir.join("cgroup.procs")).context(dir.display())?;
            // SAFETY: one write(2) on an open file between fork and exec is async-signal-safe.
            unsafe { command.pre_exec(move || nix::unistd::write(&procs, b"0").map(drop).map_err(io::Error::from)) };
        }
        Ok(())
    }
}

fn write(file: &Path, value: impl ToString) -> Result<()> {
    fs::write(file, value.to_string()).context(file.display())
}

/// A mounted hierarchy.
struct Hierarchy {
    root: PathBuf,
    /// Mount options, including its controllers; `None` in version 2.
    v1_controllers: Option<String>,
}

impl Hierarchy {
    fn has_v1(&self, controller: Controller) -> bool {
        let options = self.v1_controllers.as_deref().unwrap_or_default();
        options.split(',').any(|option| controller.v1_names().contains(&option))
    }

    /// Parses a line of /proc/self/mounts.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split(' ').skip(1);
        let (root, fs_type, options) = (fields.next()?, fields.next()?, fields.next()?);
        let v1_controllers = match fs_type {
            "cgroup2" => None,
            "cgroup" => Some(options.to_owned()),
            _ => return None,
        };
        Some(Self { root: root.into(), v1_controllers })
    }
}

fn hierarchies() -> Vec<Hierarchy> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().filter_map(Hierarchy::parse).collect()
}

/// Returns the mount points of the hierarchies of a version, 1 or 2.
pub fn roots(version: u8) -> Vec<PathBuf> {
    let of_version = |hierarchy: &Hierarchy| hierarchy.v1_controllers.is_none() == (version == 2);
    hierarchies().into_iter().filter(of_version).map(|hierarchy| hierarchy.root).collect()
}

/// File name prefix of the records, in the trial's directory, of controllers that the trial has enabled, with the
/// place.
const ENABLED: &str = "enabled-controller-";

/// Enables a controller for the children of the version 2 root until the end of the trial, unless it is already
/// enabled.
fn enable(bed: &mut Testbed, root: &Path, controller: &str) -> Result<()> {
    let has =
        |file: &str| fs::read_to_string(root.join(file)).map(|text| text.split_whitespace().any(|c| c == controller));
    if !has("cgroup.controllers")? {
        return Err(Error::Missing(format!("cgroup controller {controller}")));
    }
    let file = root.join("cgroup.subtree_control");
    if !has("cgroup.subtree_control")? {
        write(&bed.record_path(&format!("{ENABLED}{controller}")), file.display())?;
        write(&file, format!("+{controller}"))?;
        let disable = format!("-{controller}");
        bed.defer(move || drop(fs::write(file, disable)));
    }
    Ok(())
}

/// Removes the groups that an earlier run left behind, and disables the controllers that it enabled.
pub fn remove_leftovers() {
    for hierarchy in hierarchies() {
        for name in entries(&hierarchy.root) {
            let dir = hierarchy.root.join(name);
            kill_members(&dir);
            remove(&dir);
        }
    }
    disable_left_enabled(Path::new(WORK));
}

/// Removes the groups of this name below the roots of all hierarchies.
pub fn remove_everywhere(name: &str) {
    let dirs = hierarchies().into_iter().map(|hierarchy| hierarchy.root.join(name));
    dirs.filter(|dir| dir.exists()).for_each(|dir| remove(&dir));
}

/// Kills the processes in a group and its subgroups: a container outlives the runtime that started it.
fn kill_members(dir: &Path) {
    subgroups(dir).iter().for_each(|dir| kill_members(dir));
    let members = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    for pid in members.lines().filter_map(|pid| pid.parse().ok()) {
        // It may already be gone.
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

fn subgroups(dir: &Path) -> Vec<PathBuf> {
    let inside = fs::read_dir(dir).into_iter().flatten().flatten();
    inside.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

/// Disables the controllers that killed trials have enabled, from the records in their directories below `work`.
fn disable_left_enabled(work: &Path) {
    let in_directory = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten();
    for record in in_directory(work.to_owned()).flat_map(|trial| in_directory(trial.path())) {
        let name = record.file_name();
        let controller = name.to_str().and_then(|name| name.strip_prefix(ENABLED));
        if let (Some(controller), Ok(file)) = (controller, fs::read_to_string(record.path())) {
            // The kernel refuses if other groups have it enabled for their children.
            drop(fs::write(file, format!("-{controller}")));
        }
    }
}

/// Removes a group and its subgroups. A killed process leaves its group only a moment after it has been reaped.
fn remove(dir: &Path) {
    subgroups(dir).iter().for_each(|dir| remove(dir));
    for _ in 0..100 {
        if fs::remove_dir(dir).is_ok() || !dir.exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    eprintln!("whyslow-lab: cleaning up: {} is still in use", dir.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_that_a_killed_lab_enabled_is_disabled() {
        let (root, work) = (whyslow_testing::folder(), whyslow_testing::folder());
        let control = root.path().join("cgroup.subtree_control");
        fs::write(root.path().join("cgroup.controllers"), "cpu io memory\n").unwrap();
        let written = || fs::read_to_string(&control).unwrap();
        let trial = work.path().join("trial");
        fs::create_dir(&trial).unwrap();
        for is_enabled in [false, true] {
            fs::write(&control, if is_enabled { "memory" } else { "" }).unwrap();
            let mut bed = Testbed::at(trial.clone(), "trial", 0);
            enable(&mut bed, root.path(), "memory").unwrap();
            // As after SIGKILL: nothing is torn down.
            std::mem::forget(bed);
            assert_eq!(written(), if is_enabled { "memory" } else { "+memory" });
            disable_left_enabled(work.path());
            assert_eq!(written(), if is_enabled { "memory" } else { "-memory" });
            fs::read_dir(&trial).unwrap().flatten().for_each(|record| fs::remove_file(record.path()).unwrap());
        }
    }

    #[test]
    fn each_controller_is_found_in_its_hierarchy() {
        let controllers = [Controller::Cpu, Controller::Memory, Controller::Io];
        let has = |line| {
            let hierarchy = Hierarchy::parse(line).unwrap();
            (hierarchy.v1_controllers.is_none(), controllers.map(|controller| hierarchy.has_v1(controller)))
        };
        assert_eq!(has("cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0"), (true, [false; 3]));
        assert_eq!(has("cgroup /c/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0"), (false, [true, false, false]));
        assert_eq!(has("cgroup /c/cpuset cgroup rw,cpuset 0 0"), (false, [false; 3]));
        assert_eq!(has("cgroup /c/blkio cgroup rw,blkio 0 0"), (false, [false, false, true]));
        assert!(Hierarchy::parse("tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0").is_none());
    }
}
