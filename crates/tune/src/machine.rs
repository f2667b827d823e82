//! The machine whose settings are read and written: the running one, or a captured tree in tests; its release and its clocks.

use crate::values::squeeze;
use jiff::{Timestamp, Zoned};
use nix::time::ClockId;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use whyslow_sense::Root;

/// Creates the configured file system (include/uapi/linux/mount.h).
const FSCONFIG_CMD_CREATE: i32 = 6;

/// The machine whose settings are read and written.
#[derive(Clone, Debug)]
pub struct Machine {
    root: Root,
    release: Option<Release>,
    sees_own_interfaces: Arc<OnceLock<bool>>,
}

impl Machine {
    /// Returns the running machine.
    pub fn live() -> Self {
        Self::at(Root::live())
    }

    /// Returns the machine whose `/` is that of `root`.
    pub fn at(root: Root) -> Self {
        let release = root.word("proc/sys/kernel/osrelease").and_then(|text| text.parse().ok());
        Self { root, release, sees_own_interfaces: Arc::default() }
    }

    /// Returns the root that its files are read from.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Returns the kernel's release; `None` if it is unknown.
    pub(crate) fn release(&self) -> Option<Release> {
        self.release
    }

    /// Returns the ID of the current boot; empty if it is unknown.
    pub(crate) fn boot(&self) -> String {
        self.root.word("proc/sys/kernel/random/boot_id").unwrap_or_default()
    }

    /// Returns the network namespace of this process, as /proc names it: `net:[4026531840]`.
    pub(crate) fn netns(&self) -> String {
        self.root.link("proc/self/ns/net").unwrap_or_default()
    }

    /// Whether /sys shows the interfaces of this process's network namespace: it shows those of the process that mounted it, and
    /// a write there would change an interface of the same name somewhere else.
    pub(crate) fn sees_own_interfaces(&self) -> bool {
        *self.sees_own_interfaces.get_or_init(|| !self.root.is_live() || sysfs_is_ours())
    }

    /// Returns the fields of each line of a table under the root; empty if it cannot be read.
    pub(crate) fn table(&self, path: &str) -> Vec<Vec<String>> {
        let text = self.root.maybe(path).unwrap_or_default();
        text.lines().map(|line| squeeze(line).split(' ').map(str::to_owned).collect()).collect()
    }
}

/// Returns a line of /proc/meminfo, in bytes.
pub(crate) fn meminfo(root: &Root, name: &str) -> Option<u64> {
    let text = root.maybe("proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// Whether /sys belongs to our network namespace. Each has a sysfs of its own (fs/sysfs/mount.c): a fresh one, which is mounted
/// nowhere, belongs to ours.
fn sysfs_is_ours() -> bool {
    let same_as_init = || fs::read_link("/proc/self/ns/net").ok() == fs::read_link("/proc/1/ns/net").ok();
    match own_sysfs().and_then(|own| fs::File::from(own).metadata()) {
        Ok(own) => fs::metadata("/sys").is_ok_and(|sys| sys.dev() == own.dev()),
        // Users other than root cannot write settings.
        Err(e) if e.raw_os_error() == Some(libc::EPERM) => true,
        // A kernel before 5.2 does not support this query.
        Err(_) => same_as_init(),
    }
}

fn own_sysfs() -> io::Result<OwnedFd> {
    // SAFETY: the name ends with a zero and outlives the call.
    let context = owned(unsafe { libc::syscall(libc::SYS_fsopen, c"sysfs".as_ptr(), libc::FSOPEN_CLOEXEC) })?;
    let no_text = std::ptr::null::<libc::c_char>();
    // SAFETY: the descriptor is open; this command takes neither key nor value.
    let made =
        unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), FSCONFIG_CMD_CREATE, no_text, no_text, 0) };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open.
    owned(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), libc::FSMOUNT_CLOEXEC, 0) })
}

/// Takes ownership of the descriptor that a system call returned.
fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just made the descriptor, for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(result as RawFd) })
}

/// Returns the current time, in RFC 3339 with the local zone's offset.
pub(crate) fn now() -> String {
    after(Duration::ZERO)
}

/// Returns the time after `delay`, in RFC 3339.
pub(crate) fn after(delay: Duration) -> String {
    let at = Timestamp::now().checked_add(delay).unwrap_or(Timestamp::MAX);
    Zoned::new(at, jiff::tz::TimeZone::system()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

/// Returns CLOCK_BOOTTIME: time since boot, including suspend; it cannot be set.
pub(crate) fn boottime() -> Duration {
    ClockId::CLOCK_BOOTTIME.now().map_or(Duration::ZERO, Duration::from)
}

/// A kernel release such as `6.18.44-fc`; only the first two numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Release {
    major: u32,
    minor: u32,
}

impl FromStr for Release {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut numbers = text.trim().split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Ok(Self { major, minor }),
            _ => Err(format!("'{text}' is not a kernel release")),
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Creates a captured tree with these files.
    pub(crate) fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
        let folder = whyslow_testing::folder();
        files.iter().for_each(|(path, text)| write(&folder, path, text));
        let machine = Machine::at(Root::captured(folder.path()));
        (folder, machine)
    }

    /// Writes a file of a captured tree.
    pub(crate) fn write(folder: &tempfile::TempDir, path: &str, text: &str) {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn releases_are_compared_by_number() {
        let of = |text: &str| text.parse::<Release>().unwrap();
        assert!(of("6.18.44-fc-v595") > of("6.9"));
        assert!(of("5.10.0-8-amd64") < of("5.13"));
        assert_eq!(of("4.19").to_string(), "4.19");
        assert!("linux".parse::<Release>().is_err());
    }
}
