//! A limit on a disk in a control group: a file with a line for each disk that has one (Documentation/admin-guide/cgroup-v2.rst,
//! Documentation/admin-guide/cgroup-v1/blkio-controller.rst).

use super::Handle;
use super::file::SettingFile;
use crate::machine::Machine;
use std::path::PathBuf;
use whyslow_documents::tune::Unavailable;

/// One value of one disk's line.
pub(super) struct DiskLimit {
    file: SettingFile,
    disk: String,
    /// `rbps=` in version 2; empty if the line contains only the value.
    key: String,
    /// The value that a missing line means.
    unlimited: String,
}

impl DiskLimit {
    pub(super) fn new(
        machine: &Machine,
        disk: &str,
        path: PathBuf,
        name: String,
        key: &str,
        unlimited: String,
    ) -> Result<Self, Unavailable> {
        let number = machine.root().word(&format!("sys/block/{disk}/dev"));
        let number = number.ok_or_else(|| Unavailable::Absent(format!("no disk '{disk}'")))?;
        let key = if key.is_empty() { String::new() } else { format!("{key}=") };
        Ok(Self { file: SettingFile::new(path, name), disk: number, key, unlimited })
    }

    /// Returns the value in the text of the file.
    fn value(&self, text: &str) -> Option<String> {
        let line = text.lines().find_map(|line| line.strip_prefix(&self.disk)?.strip_prefix(' '))?;
        line.split_whitespace().find_map(|word| word.strip_prefix(&self.key)).map(str::to_owned)
    }
}

impl Handle for DiskLimit {
    fn read(&self) -> Result<String, Unavailable> {
        let text = self.file.read()?;
        Ok(self.value(&text).unwrap_or_else(|| self.unlimited.clone()))
    }

    fn may_write(&self) -> Result<(), Unavailable> {
        self.file.may_write()
    }

    fn write(&self, value: &str) -> Result<(), Unavailable> {
        self.file.write(&format!("{} {}{value}", self.disk, self.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::tree;
    use crate::system_setting::SystemSetting;
    use std::fs;

    /// A disk, and a group of each version.
    const DISK: (&str, &str) = ("sys/block/sda/dev", "8:0\n");
    const MOUNTS: (&str, &str) =
        ("proc/self/mountinfo", "1 0 0:1 / /cg rw - cgroup2 none rw\n2 0 0:2 / /blk rw - cgroup none rw,blkio\n");

    #[test]
    fn a_disk_has_a_line_of_its_own() {
        let text = "8:16 rbps=1 wbps=2\n8:0 rbps=max wbps=1048576 riops=max wiops=max\n";
        let (folder, machine) = tree(&[DISK, MOUNTS, ("cg/web/io.max", text)]);
        let read = |name: &str| SystemSetting::named(&machine, name).and_then(|setting| setting.read());
        assert_eq!(read("cgroup.io.max.wbps@sda/web").as_deref(), Ok("1048576"));
        assert_eq!(read("cgroup.io.max.rbps@sda/web").as_deref(), Ok("max"));
        assert!(matches!(read("cgroup.io.max.rbps@sdb/web"), Err(Unavailable::Absent(_))));
        assert!(matches!(read("cgroup.io.max.rbps@sda/../web"), Err(Unavailable::Absent(_))));
        SystemSetting::named(&machine, "cgroup.io.max.wbps@sda/web").unwrap().handle.write("max").unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("cg/web/io.max")).unwrap(), "8:0 wbps=max\n");
    }

    #[test]
    fn version_1_has_a_file_for_each_limit() {
        let (folder, machine) = tree(&[DISK, MOUNTS, ("blk/web/blkio.throttle.read_iops_device", "8:0 500\n")]);
        let setting = SystemSetting::named(&machine, "cgroup.blkio.throttle.read_iops_device@sda/web").unwrap();
        assert_eq!(setting.read().as_deref(), Ok("500"));
        fs::write(folder.path().join("blk/web/blkio.throttle.read_iops_device"), "").unwrap();
        assert_eq!(setting.read().as_deref(), Ok("0"));
    }
}
