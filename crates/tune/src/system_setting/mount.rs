//! Options of a mounted file system, changed by a remount that keeps all others (mount(2)).

use super::{Handle, sorted};
use crate::machine::Machine;
use crate::mounts::{self, Mount};
use libc::c_ulong;
use nix::mount::{MsFlags, mount};
use whyslow_documents::tune::Unavailable;

/// Flags of a mount, by their names in /proc (fs/proc_namespace.c, show_mnt_opts).
const OF_MOUNT: &[(&str, c_ulong)] = &[
    ("ro", libc::MS_RDONLY),
    ("nosuid", libc::MS_NOSUID),
    ("nodev", libc::MS_NODEV),
    ("noexec", libc::MS_NOEXEC),
    ("noatime", libc::MS_NOATIME),
    ("nodiratime", libc::MS_NODIRATIME),
    ("relatime", libc::MS_RELATIME),
];

/// Flags of a file system (show_sb_opts).
const OF_SUPER: &[(&str, c_ulong)] = &[
    ("ro", libc::MS_RDONLY),
    ("sync", libc::MS_SYNCHRONOUS),
    ("dirsync", libc::MS_DIRSYNC),
    ("mand", libc::MS_MANDLOCK),
    ("lazytime", libc::MS_LAZYTIME),
];

/// An option that the kernel shows only if it differs from the file system's default: the file systems that have it, and their
/// defaults.
struct FileSystemOption {
    name: &'static str,
    choices: &'static [(&'static str, &'static str)],
    /// True if it is a word, or that word with the prefix `no`, rather than `NAME=VALUE`.
    is_word: bool,
}

const FILE_SYSTEM_OPTIONS: &[FileSystemOption] = &[
    // JBD2_DEFAULT_MAX_COMMIT_AGE, BTRFS_DEFAULT_COMMIT_INTERVAL
    FileSystemOption { name: "commit", choices: &[("ext3", "5"), ("ext4", "5"), ("btrfs", "30")], is_word: false },
    // EXT4_DEF_MAX_BATCH_TIME, EXT4_DEF_MIN_BATCH_TIME
    FileSystemOption { name: "max_batch_time", choices: &[("ext3", "15000"), ("ext4", "15000")], is_word: false },
    FileSystemOption { name: "min_batch_time", choices: &[("ext3", "0"), ("ext4", "0")], is_word: false },
    FileSystemOption { name: "discard", choices: &[("ext3", "nodiscard"), ("ext4", "nodiscard")], is_word: true },
    FileSystemOption {
        name: "auto_da_alloc",
        choices: &[("ext3", "auto_da_alloc"), ("ext4", "auto_da_alloc")],
        is_word: true,
    },
];

impl FileSystemOption {
    /// Returns the option of a mount; `None` if its file system does not have it.
    fn value<'a>(&'a self, mount: &'a Mount) -> Option<&'a str> {
        let (_, own) = self.choices.iter().find(|(kind, _)| *kind == mount.kind)?;
        let is_it = |option: &&str| option.strip_prefix("no").unwrap_or(option) == self.name;
        let shown = match self.is_word {
            true => mount.super_options.iter().map(String::as_str).find(is_it),
            false => mount.value(self.name),
        };
        Some(shown.unwrap_or(own))
    }

    fn words(&self, value: &str) -> String {
        if self.is_word { value.to_owned() } else { format!("{}={value}", self.name) }
    }
}

/// An option of the mount at a point.
pub(super) struct MountSetting {
    machine: Machine,
    option: MountOption,
    point: String,
}

#[derive(Clone, Copy)]
enum MountOption {
    Atime,
    Diratime,
    Lazytime,
    Barrier,
    FileSystem(&'static FileSystemOption),
}

impl MountSetting {
    pub(super) fn for_mount(machine: &Machine, option: &str, point: &str) -> Result<Self, Unavailable> {
        let option = match option {
            "atime" => MountOption::Atime,
            "diratime" => MountOption::Diratime,
            "lazytime" => MountOption::Lazytime,
            "barrier" => MountOption::Barrier,
            other => {
                let own = FILE_SYSTEM_OPTIONS.iter().find(|own| own.name == other);
                let own = own.ok_or_else(|| format!("there is no mount option {other}"));
                MountOption::FileSystem(own.map_err(Unavailable::Failed)?)
            }
        };
        Ok(Self { machine: machine.clone(), option, point: point.to_owned() })
    }

    fn mount(&self) -> Result<Mount, Unavailable> {
        let mount = mounts::find(&self.machine, &self.point);
        let mount = mount.ok_or_else(|| Unavailable::Absent(format!("nothing is mounted at {}", self.point)))?;
        let has_it = match self.option {
            MountOption::Barrier => matches!(mount.kind.as_str(), "ext3" | "ext4"),
            MountOption::FileSystem(own) => own.value(&mount).is_some(),
            MountOption::Atime | MountOption::Diratime | MountOption::Lazytime => true,
        };
        if has_it {
            return Ok(mount);
        }
        Err(Unavailable::Unsupported(format!("{} is {}, which has no such option", self.point, mount.kind)))
    }

    fn remount(&self, flags: c_ulong, data: Option<&str>) -> Result<(), Unavailable> {
        // A remount ignores source and type.
        let (none, flags) = (None::<&str>, MsFlags::from_bits_retain(libc::MS_REMOUNT | flags));
        mount(none, self.point.as_str(), none, flags, data)
            .map_err(|e| sorted(&format!("remount of {}", self.point), &e.into()))
    }

    /// Changes flags of this mount only; other mounts of the file system keep theirs.
    fn remount_here(&self, mount: &Mount, set: c_ulong, cleared: c_ulong) -> Result<(), Unavailable> {
        self.remount(libc::MS_BIND | of_mount(mount) & !cleared | set, None)
    }

    /// Changes the file system, for all its mounts.
    fn remount_super(
        &self,
        mount: &Mount,
        set: c_ulong,
        cleared: c_ulong,
        data: Option<&str>,
    ) -> Result<(), Unavailable> {
        let of_super = flags(OF_SUPER, &mount.super_options) & !cleared | set;
        self.remount(of_mount(mount) | of_super, data)
    }
}

impl Handle for MountSetting {
    fn read(&self) -> Result<String, Unavailable> {
        let mount = self.mount()?;
        let word = match self.option {
            MountOption::Atime if mount.has("noatime") => "noatime",
            MountOption::Atime if mount.has("relatime") => "relatime",
            MountOption::Atime => "strictatime",
            MountOption::Diratime if mount.has("nodiratime") => "nodiratime",
            MountOption::Diratime => "diratime",
            MountOption::Lazytime if mount.has_super("lazytime") => "lazytime",
            MountOption::Lazytime => "nolazytime",
            MountOption::FileSystem(own) => own.value(&mount).unwrap_or_default(),
            MountOption::Barrier if mount.has_super("nobarrier") || mount.value("barrier") == Some("0") => "0",
            MountOption::Barrier => "1",
        };
        Ok(word.to_owned())
    }

    fn write(&self, value: &str) -> Result<(), Unavailable> {
        let mount = self.mount()?;
        let atime = libc::MS_NOATIME | libc::MS_RELATIME | libc::MS_STRICTATIME;
        match (self.option, value) {
            (MountOption::Atime, "noatime") => self.remount_here(&mount, libc::MS_NOATIME, atime),
            (MountOption::Atime, "relatime") => self.remount_here(&mount, libc::MS_RELATIME, atime),
            (MountOption::Atime, _) => self.remount_here(&mount, libc::MS_STRICTATIME, atime),
            (MountOption::Diratime, "nodiratime") => self.remount_here(&mount, libc::MS_NODIRATIME, 0),
            (MountOption::Diratime, _) => self.remount_here(&mount, 0, libc::MS_NODIRATIME),
            (MountOption::Lazytime, "lazytime") => self.remount_super(&mount, libc::MS_LAZYTIME, 0, None),
            (MountOption::Lazytime, _) => self.remount_super(&mount, 0, libc::MS_LAZYTIME, None),
            (MountOption::FileSystem(own), value) => self.remount_super(&mount, 0, 0, Some(&own.words(value))),
            (MountOption::Barrier, flag) => self.remount_super(&mount, 0, 0, Some(&format!("barrier={flag}"))),
        }
    }
}

/// Returns the flags of a mount. If none is for access times, the kernel would choose relatime or keep the current one.
fn of_mount(mount: &Mount) -> c_ulong {
    let flags = flags(OF_MOUNT, &mount.options);
    if flags & (libc::MS_NOATIME | libc::MS_RELATIME) == 0 { flags | libc::MS_STRICTATIME } else { flags }
}

fn flags(known: &[(&str, c_ulong)], options: &[String]) -> c_ulong {
    let of = |(name, flag): &(&str, c_ulong)| options.iter().any(|option| option == name).then_some(*flag);
    known.iter().filter_map(of).fold(0, |all, flag| all | flag)
}
