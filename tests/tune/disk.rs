//! Disks to change the settings of.

use crate::cage::{Cage, tool};
use std::fs;

/// A loop device with a file system; both go with it.
pub struct Loop {
    pub device: String,
    mounted: Option<String>,
    /// Settings that outlive the device's file, and what they were.
    before: Vec<(String, String)>,
}

impl Loop {
    /// One that is backed by a file of the cage.
    pub fn new(cage: &Cage) -> Self {
        let image = cage.path("image");
        fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
        Self::on(image.to_str().unwrap(), "off")
    }

    /// One that passes each request on to another, past the page cache.
    pub fn over(other: &Self) -> Self {
        Self::on(&other.device, "on")
    }

    fn on(file: &str, direct: &str) -> Self {
        let device = tool("losetup", &["--find", "--show", &format!("--direct-io={direct}"), file]);
        let name = device.trim_start_matches("/dev/");
        let files = ["read_ahead_kb", "nr_requests"].map(|file| format!("/sys/block/{name}/queue/{file}"));
        let before = files.map(|file| (file.clone(), fs::read_to_string(file).unwrap())).to_vec();
        Self { device, mounted: None, before }
    }

    /// The kernel's name.
    pub fn name(&self) -> &str {
        self.device.trim_start_matches("/dev/")
    }

    /// Makes a file system and mounts it; where.
    pub fn mount(&mut self, cage: &Cage) -> String {
        tool("mkfs.ext4", &["-q", &self.device]);
        let point = cage.path("mounted").to_str().unwrap().to_owned();
        fs::create_dir(&point).unwrap();
        tool("mount", &["-o", "nosuid,commit=7", &self.device, &point]);
        self.mounted = Some(point.clone());
        point
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if let Some(point) = &self.mounted {
            tool("umount", &[point]);
        }
        for (file, value) in &self.before {
            // A cage whose sysfs is gone has nothing to restore with; the test has failed by then. A change of the scheduler has
            // nr_requests told anew, but not the queue made so long (block/elevator.c): the number told would be no change.
            let _ = fs::write(file, "64");
            let _ = fs::write(file, value);
        }
        tool("losetup", &["--detach", &self.device]);
    }
}
