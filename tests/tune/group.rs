//! Control groups on which tests set limits.

use crate::cage::{Cage, soon, tool};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Mount point of the kernel's hierarchies; it is empty in the cage's own /sys.
const TREES: &str = "/sys/fs/cgroup";

/// A control group of version 1; removed when dropped.
pub struct Group {
    folder: PathBuf,
}

/// Returns true if a hierarchy of version 1 has this controller (/proc/cgroups; version 2 has the number 0).
fn is_in_version_1(controller: &str) -> bool {
    let is_it = |line: &str| {
        let mut fields = line.split_whitespace();
        fields.next() == Some(controller) && fields.next().is_some_and(|hierarchy| hierarchy != "0")
    };
    fs::read_to_string("/proc/cgroups").is_ok_and(|text| text.lines().any(is_it))
}

impl Group {
    /// Creates a group of a controller; returns `None` if the kernel does not support version 1 of it, or version 2
    /// uses it.
    pub fn new(cage: &Cage, controller: &str) -> Option<Self> {
        let is_first = !cage.path("trees").exists();
        if is_first {
            fs::create_dir(cage.path("trees")).unwrap();
            tool("mount", &["-t", "tmpfs", "wsl-tune-trees", TREES]);
        }
        let tree = Path::new(TREES).join(controller);
        fs::create_dir_all(&tree).unwrap();
        // The kernel would refuse a second mount at this place.
        let is_mounted = || {
            if tree.join("cgroup.procs").exists() {
                return true;
            }
            let mut mount = Command::new("mount");
            mount.args(["-t", "cgroup", "-o", controller, "wsl-tune-tree"]).arg(&tree);
            mount.output().unwrap().status.success()
        };
        if is_in_version_1(controller) {
            // The kernel briefly refuses while another mount of the hierarchy disappears with its namespace.
            soon(&format!("the hierarchy of {controller} is mounted"), is_mounted);
        } else if !is_mounted() {
            crate::skip::skip(&format!("no cgroup controller {controller} of version 1"));
            return None;
        }
        if is_first {
            // The hierarchy may only be mounted in cages, so only a cage sees the groups of a killed test.
            whyslow_testing::sweep();
        }
        let folder = tree.join(whyslow_testing::name("tune"));
        fs::create_dir(&folder).unwrap();
        Some(Self { folder })
    }

    /// Returns the name that whyslow uses.
    pub fn name(&self) -> String {
        format!("/{}", self.folder.file_name().unwrap().to_str().unwrap())
    }

    /// Writes a file of the group.
    pub fn write(&self, file: &str, text: &str) {
        fs::write(self.folder.join(file), text).unwrap();
    }

    /// Reads a file of the group.
    pub fn read(&self, file: &str) -> String {
        fs::read_to_string(self.folder.join(file)).unwrap().trim().to_owned()
    }

    /// Returns a shell script that first joins the group.
    pub fn joined(&self, script: &str) -> String {
        format!("echo $$ > {}/cgroup.procs && {script}", self.folder.display())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has just ended may still be in the group.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
