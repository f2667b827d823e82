//! A page cache that is small: a memory control group around this program.
//!
//! cgroup version 2 (Documentation/admin-guide/cgroup-v2.rst) or version 1 (cgroup-v1/memory.rst), whichever has the memory
//! controller. What the cache holds of a file is charged to the group whose program first touched it, so it has to be
//! dropped before.

use crate::error::{Error, Result};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const PREFIX: &str = "whyslow-bench-";
/// What this program needs for itself, beside what it asks for.
const LEAST: u64 = 32 << 20;

/// This program is held to so much memory until this is dropped.
#[derive(Debug)]
pub(crate) struct Small {
    group: PathBuf,
    /// Where the program was, and is put back.
    home: PathBuf,
}

impl Small {
    /// Holds this program, its page cache included, to `bytes`.
    ///
    /// # Errors
    /// Without the privilege or the controller, or where it is too little for the program itself.
    pub(crate) fn hold(bytes: u64) -> Result<Self> {
        if bytes < LEAST {
            let least = whyslow_model::human::quantity(LEAST as f64, "bytes");
            return Err(Error::new(format!(
                "--cache small takes at least {least}: the program itself needs some of it"
            )));
        }
        let (hierarchy, home) = memory_hierarchy()
            .ok_or_else(|| Error::new("--cache small: no memory control group is mounted under /sys/fs/cgroup"))?;
        remove_leftovers(&hierarchy.root);
        let group = hierarchy.root.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&group).map_err(|e| Error::at(&group, "no control group can be made", &e))?;
        let small = Self { group, home };
        small.limit(hierarchy.limit, bytes)?;
        enter(&small.group).map_err(|e| Error::at(&small.group, "cannot be entered", &e))?;
        Ok(small)
    }

    fn limit(&self, file: &str, bytes: u64) -> Result<()> {
        let path = self.group.join(file);
        fs::write(&path, bytes.to_string()).map_err(|e| Error::at(&path, "the limit cannot be set", &e))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Neither fails but where somebody else has taken the group away; what is left the next one removes.
        let _ = enter(&self.home);
        let _ = fs::remove_dir(&self.group);
    }
}

/// Where the memory controller is.
struct Hierarchy {
    root: PathBuf,
    /// The file of a group that holds its limit.
    limit: &'static str,
}

/// The hierarchy that limits memory here, and the group in it that this program is in.
fn memory_hierarchy() -> Option<(Hierarchy, PathBuf)> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let unified = |root: &str| {
        let root = PathBuf::from(root);
        let has = fs::read_to_string(root.join("cgroup.subtree_control")).ok()?;
        has.split_ascii_whitespace().any(|name| name == "memory").then_some(Hierarchy { root, limit: "memory.max" })
    };
    let first = || {
        let root = PathBuf::from("/sys/fs/cgroup/memory");
        root.join("memory.limit_in_bytes").exists().then_some(Hierarchy { root, limit: "memory.limit_in_bytes" })
    };
    let (hierarchy, own) = match first() {
        Some(first) => (first, own_group(&groups, "memory")?),
        None => (unified("/sys/fs/cgroup")?, own_group(&groups, "")?),
    };
    let home = hierarchy.root.join(own.trim_start_matches('/'));
    Some((hierarchy, home))
}

/// The path in a line of /proc/PID/cgroup: `4:memory:/user.slice`, or `0::/user.slice` in the unified hierarchy.
fn own_group<'t>(groups: &'t str, controller: &str) -> Option<&'t str> {
    groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        controllers.split(',').any(|name| name == controller).then_some(path)
    })
}

fn enter(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), std::process::id().to_string())
}

/// Removes groups of programs that were killed: those whose number no process has.
fn remove_leftovers(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // One that is not empty yet is left to the next.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_in_either_version() {
        let text = "9:blkio:/a\n4:cpu,memory:/user.slice/x\n0::/init.scope\n";
        assert_eq!(own_group(text, "memory"), Some("/user.slice/x"));
        assert_eq!(own_group(text, ""), Some("/init.scope"));
        assert_eq!(own_group("", "memory"), None);
    }

    #[test]
    fn too_little_is_refused() {
        assert!(Small::hold(1 << 20).unwrap_err().to_string().contains("at least 32 MiB"));
    }
}
