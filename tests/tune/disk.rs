//! Disks whose settings tests change.

use crate::cage::{Cage, tool};
use std::fs;
use std::path::Path;
use whyslow_testing::LoopDevice;

/// A loop device with a file system; both are removed when dropped.
pub struct Loop {
    pub device: String,
    mounted: Option<String>,
    _device: LoopDevice,
}

impl Loop {
    /// Creates a device backed by a file of the cage.
    pub fn new(cage: &Cage) -> Self {
        let image = cage.path("image");
        fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
        Self::on(&image, false)
    }

    /// Creates a device that passes each request on to another one, bypassing the page cache.
    pub fn over(other: &Self) -> Self {
        Self::on(Path::new(&other.device), true)
    }

    fn on(file: &Path, direct: bool) -> Self {
        let device = LoopDevice::on(file, direct).unwrap();
        Self { device: device.node(), mounted: None, _device: device }
    }

    /// Returns the kernel's name.
    pub fn name(&self) -> &str {
        self.device.trim_start_matches("/dev/")
    }

    /// Makes a file system and mounts it; returns the mount point.
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
    }
}
