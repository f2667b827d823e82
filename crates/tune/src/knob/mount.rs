//! Options of a mounted file system, changed by a remount that keeps all others (mount(2)).

use super::{Handle, sorted};
use crate::machine::Machine;
use crate::mounts::{self, Mount};
use libc::c_ulong;
use std::ffi::CString;
use std::io;
use std::ptr;
use whyslow_model::tune::Unavailable;

/// Flags of a mount, by the words /proc shows them in (fs/proc_namespace.c, show_mnt_opts).
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

/// ext4's own choice where no `commit=` is shown (JBD2_DEFAULT_MAX_COMMIT_AGE).
const COMMIT: &str = "5";

/// An option of what is mounted at a point.
pub(super) struct Mounted {
    machine: Machine,
    option: Known,
    point: String,
}

/// The options that are known.
#[derive(Clone, Copy)]
enum Known {
    Atime,
    Diratime,
    Lazytime,
    Commit,
    Barrier,
}

impl Mounted {
    /// # Errors
    /// `Failed` where the catalogue names an option that is not known here.
    pub(super) fn of(machine: &Machine, option: &str, point: &str) -> Result<Self, Unavailable> {
        let option = match option {
            "atime" => Known::Atime,
            "diratime" => Known::Diratime,
            "lazytime" => Known::Lazytime,
            "commit" => Known::Commit,
            "barrier" => Known::Barrier,
            other => return Err(Unavailable::Failed(format!("no option of a mount is called {other}"))),
        };
        Ok(Self { machine: machine.clone(), option, point: point.to_owned() })
    }

    fn mount(&self) -> Result<Mount, Unavailable> {
        let mount = mounts::find(&self.machine, &self.point);
        let mount = mount.ok_or_else(|| Unavailable::Absent(format!("nothing is mounted at {}", self.point)))?;
        let is_ext4 = matches!(mount.kind.as_str(), "ext3" | "ext4");
        match self.option {
            Known::Commit | Known::Barrier if !is_ext4 => Err(Unavailable::Unsupported(format!(
                "{} is {}, and only ext4 has this option",
                self.point, mount.kind
            ))),
            _ => Ok(mount),
        }
    }

    fn remount(&self, flags: c_ulong, data: Option<&str>) -> Result<(), Unavailable> {
        remount(&self.point, flags, data).map_err(|e| sorted(&format!("remount of {}", self.point), &e))
    }

    /// Changes flags of this mount alone; other mounts of the file system keep theirs.
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

impl Handle for Mounted {
    fn read(&self) -> Result<String, Unavailable> {
        let mount = self.mount()?;
        let word = match self.option {
            Known::Atime if mount.has("noatime") => "noatime",
            Known::Atime if mount.has("relatime") => "relatime",
            Known::Atime => "strictatime",
            Known::Diratime if mount.has("nodiratime") => "nodiratime",
            Known::Diratime => "diratime",
            Known::Lazytime if mount.has_super("lazytime") => "lazytime",
            Known::Lazytime => "nolazytime",
            Known::Commit => mount.value("commit").unwrap_or(COMMIT),
            Known::Barrier if mount.has_super("nobarrier") || mount.value("barrier") == Some("0") => "0",
            Known::Barrier => "1",
        };
        Ok(word.to_owned())
    }

    fn write(&self, value: &str) -> Result<(), Unavailable> {
        let mount = self.mount()?;
        let atime = libc::MS_NOATIME | libc::MS_RELATIME | libc::MS_STRICTATIME;
        match (self.option, value) {
            (Known::Atime, "noatime") => self.remount_here(&mount, libc::MS_NOATIME, atime),
            (Known::Atime, "relatime") => self.remount_here(&mount, libc::MS_RELATIME, atime),
            (Known::Atime, _) => self.remount_here(&mount, libc::MS_STRICTATIME, atime),
            (Known::Diratime, "nodiratime") => self.remount_here(&mount, libc::MS_NODIRATIME, 0),
            (Known::Diratime, _) => self.remount_here(&mount, 0, libc::MS_NODIRATIME),
            (Known::Lazytime, "lazytime") => self.remount_super(&mount, libc::MS_LAZYTIME, 0, None),
            (Known::Lazytime, _) => self.remount_super(&mount, 0, libc::MS_LAZYTIME, None),
            (Known::Commit, seconds) => self.remount_super(&mount, 0, 0, Some(&format!("commit={seconds}"))),
            (Known::Barrier, flag) => self.remount_super(&mount, 0, 0, Some(&format!("barrier={flag}"))),
        }
    }
}

/// The flags of a mount. Without one for access times the kernel would take relatime, or keep what there is.
fn of_mount(mount: &Mount) -> c_ulong {
    let flags = flags(OF_MOUNT, &mount.options);
    if flags & (libc::MS_NOATIME | libc::MS_RELATIME) == 0 { flags | libc::MS_STRICTATIME } else { flags }
}

fn flags(known: &[(&str, c_ulong)], options: &[String]) -> c_ulong {
    let of = |(name, flag): &(&str, c_ulong)| options.iter().any(|option| option == name).then_some(*flag);
    known.iter().filter_map(of).fold(0, |all, flag| all | flag)
}

fn remount(point: &str, flags: c_ulong, data: Option<&str>) -> io::Result<()> {
    let point = CString::new(point)?;
    let data = data.map(CString::new).transpose()?;
    let data = data.as_ref().map_or(ptr::null(), |data| data.as_ptr().cast());
    // SAFETY: both strings end with a zero and outlive the call; a remount reads neither source nor type.
    let outcome = unsafe { libc::mount(ptr::null(), point.as_ptr(), ptr::null(), libc::MS_REMOUNT | flags, data) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
