//! Control groups to set limits on.

use crate::cage::{Cage, tool};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Where the kernel expects the hierarchies; the cage's own /sys has nothing there.
const TREES: &str = "/sys/fs/cgroup";

/// A control group of version 1; it goes with this.
pub struct Group {
    folder: PathBuf,
}

impl Group {
    /// One of a controller; `None` where the kernel has no version 1 of it, or another version holds it.
    pub fn new(cage: &Cage, controller: &str) -> Option<Self> {
        if !cage.path("trees").exists() {
            fs::create_dir(cage.path("trees")).unwrap();
            tool("mount", &["-t", "tmpfs", "wsl-tune-trees", TREES]);
        }
        let tree = Path::new(TREES).join(controller);
        fs::create_dir_all(&tree).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "cgroup", "-o", controller, "wsl-tune-tree"])
            .arg(&tree)
            .output()
            .unwrap();
        if !mounted.status.success() {
            crate::skip::skip(&format!("no cgroup controller {controller} of version 1"));
            return None;
        }
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = tree.join(format!("wsl-tune-{}-{number}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        Some(Self { folder })
    }

    /// As whyslow names it.
    pub fn name(&self) -> String {
        format!("/{}", self.folder.file_name().unwrap().to_str().unwrap())
    }

    /// Writes one of its files.
    pub fn write(&self, file: &str, text: &str) {
        fs::write(self.folder.join(file), text).unwrap();
    }

    /// Reads one of its files.
    pub fn read(&self, file: &str) -> String {
        fs::read_to_string(self.folder.join(file)).unwrap().trim().to_owned()
    }

    /// The words of a shell that first joins it.
    pub fn joined(&self, script: &str) -> String {
        format!("echo $$ > {}/cgroup.procs && {script}", self.folder.display())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has just ended may still be in it.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
