//! Opens files that decide what a privileged program does: its journal, rules, profiles. Refuses a file that another user could
//! have written, replaced or redirected.
//!
//! Each component of a path is opened in turn without following symbolic links (openat(2)), so that the file that was checked is
//! the file that is opened. It must belong to root, to this user, or to the owner of `/`, who controls the machine or container
//! anyway, and no one else may write to it. In a folder such as /tmp, where the sticky bit keeps users from replacing each
//! other's files, only the entry counts. A symbolic link is followed if it belongs to one of these users.
//!
//! A crate of its own, although it is small: both `tune` and the program need it, and a review of what root believes has to
//! read only this.

use std::collections::VecDeque;
use std::ffi::{CString, OsStr, OsString};
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf, absolute};

/// Maximum number of symbolic links, the same as in the kernel (include/linux/namei.h).
const MOST_LINKS: u32 = 40;

/// Reason why a file is refused; the inner error of the [`io::Error`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Untrusted {
    /// It belongs to another user.
    Owner {
        /// The file or folder.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// Others may write to it.
    Writable {
        /// The file or folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = uid();
        match self {
            Self::Owner { path, uid } => {
                let path = path.display();
                write!(
                    f,
                    "{path} belongs to another user (uid {uid}), who could have forged it; if it is yours: chown -h {own} {path}"
                )
            }
            Self::Writable { path, mode } => {
                let path = path.display();
                write!(
                    f,
                    "others may write to {path} (mode {mode:03o}), and could have forged it; if it is yours: chmod go-w {path}"
                )
            }
        }
    }
}

impl std::error::Error for Untrusted {}

/// Returns true if the error says that a file is not trusted.
pub fn is_untrusted(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Untrusted>())
}

/// Opens an existing regular file for reading.
///
/// # Errors
/// Fails if the file is not trusted, is not a regular file, or cannot be opened.
pub fn open(path: &Path) -> io::Result<File> {
    regular(Walk::new(path)?.entry(None)?, libc::O_RDONLY)
}

/// Opens a regular file for reading and writing. Creates it with this mode if it does not exist.
///
/// # Errors
/// Fails if the file is not trusted, is not a regular file, or cannot be opened.
pub fn open_or_create(path: &Path, mode: u32) -> io::Result<File> {
    regular(Walk::new(path)?.entry(Some(mode))?, libc::O_RDWR)
}

/// Reads a file.
///
/// # Errors
/// Fails like [`open`], or if the file cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Checks a file or folder.
///
/// # Errors
/// Fails if it is not trusted or does not exist.
pub fn check(path: &Path) -> io::Result<()> {
    Walk::new(path)?.entry(None).map(drop)
}

/// Checks a folder. Creates missing folders: those above it with mode `above`, the folder with mode `own`.
///
/// # Errors
/// Fails if it is not trusted, is not a folder, or cannot be created.
pub fn create_folder(path: &Path, above: u32, own: u32) -> io::Result<()> {
    let folder = Walk { folders: Some((above, own)), ..Walk::new(path)? }.entry(None)?;
    if folder.metadata()?.is_dir() { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ENOTDIR)) }
}

/// Opens the checked entry itself, through its descriptor.
fn regular(entry: File, flags: libc::c_int) -> io::Result<File> {
    if !entry.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let path = CString::new(format!("/proc/self/fd/{}", entry.as_raw_fd()))?;
    // Files of the kernel, such as /proc/kmsg, claim to be regular and block until there is something to read.
    // SAFETY: `path` is a C string and outlives the call.
    owned(unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC | libc::O_NONBLOCK) })
}

/// A walk along a path, from the root.
struct Walk {
    left: VecDeque<OsString>,
    /// The folders from the root to the current one.
    at: Vec<(File, PathBuf)>,
    links: u32,
    root_owner: u32,
    /// Modes of folders to create: of those above, and of the last.
    folders: Option<(u32, u32)>,
}

impl Walk {
    fn new(path: &Path) -> io::Result<Self> {
        let root = at(None, OsStr::new("/"), libc::O_PATH | libc::O_DIRECTORY, 0)?;
        let root_owner = root.metadata()?.uid();
        let left = components(&absolute(path)?);
        Ok(Self { left, at: vec![(root, "/".into())], links: 0, root_owner, folders: None })
    }

    /// Returns a descriptor of the entry that the path leads to, opened with O_PATH. With a mode, creates a missing file.
    fn entry(mut self, create: Option<u32>) -> io::Result<File> {
        while let Some(name) = self.left.pop_front() {
            if name == ".." {
                self.at.truncate(self.at.len().saturating_sub(1).max(1));
                continue;
            }
            let entry = self.step(&name, create)?;
            let meta = entry.metadata()?;
            let path = self.here().1.join(&name);
            self.check(&path, &meta)?;
            if meta.is_symlink() {
                self.follow(&entry)?;
            } else if self.left.is_empty() {
                return Ok(entry);
            } else if meta.is_dir() {
                self.at.push((entry, path));
            } else {
                return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
            }
        }
        self.here().0.try_clone()
    }

    fn here(&self) -> &(File, PathBuf) {
        // The root is never removed.
        &self.at[self.at.len() - 1]
    }

    fn step(&self, name: &OsStr, create: Option<u32>) -> io::Result<File> {
        let folder = &self.here().0;
        let open = || at(Some(folder), name, libc::O_PATH | libc::O_NOFOLLOW, 0);
        let is_last = self.left.is_empty();
        match (open(), self.folders, create) {
            (Err(e), Some((above, own)), _) if e.kind() == ErrorKind::NotFound => {
                make_folder(folder, name, if is_last { own } else { above })?;
                open()
            }
            (Err(e), None, Some(mode)) if e.kind() == ErrorKind::NotFound && is_last => {
                let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
                match at(Some(folder), name, flags, mode) {
                    // Another process has just created it.
                    Err(e) if e.kind() == ErrorKind::AlreadyExists => open(),
                    made => made,
                }
            }
            (opened, ..) => opened,
        }
    }

    fn check(&self, path: &Path, meta: &Metadata) -> io::Result<()> {
        let refused = |why: Untrusted| Err(io::Error::other(why));
        if ![0, uid(), self.root_owner].contains(&meta.uid()) {
            return refused(Untrusted::Owner { path: path.to_owned(), uid: meta.uid() });
        }
        let mode = meta.mode() & 0o7777;
        let is_shared_folder = meta.is_dir() && mode & libc::S_ISVTX != 0 && !self.left.is_empty();
        // Group write permission is accepted for an ordinary user, whose group often has no other members, but not for what root
        // acts on.
        let group = mode & 0o020 != 0 && uid() == 0 && meta.gid() != 0;
        let holds_something = meta.is_dir() || meta.is_file();
        if holds_something && !is_shared_folder && (mode & 0o002 != 0 || group) {
            return refused(Untrusted::Writable { path: path.to_owned(), mode });
        }
        Ok(())
    }

    fn follow(&mut self, link: &File) -> io::Result<()> {
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        let target = PathBuf::from(OsString::from_vec(link_target(link)?));
        if target.is_absolute() {
            self.at.truncate(1);
        }
        for name in components(&target).into_iter().rev() {
            self.left.push_front(name);
        }
        Ok(())
    }
}

fn components(path: &Path) -> VecDeque<OsString> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    names.collect()
}

fn at(folder: Option<&File>, name: &OsStr, flags: libc::c_int, mode: u32) -> io::Result<File> {
    let name = CString::new(name.as_bytes())?;
    let folder = folder.map_or(libc::AT_FDCWD, AsRawFd::as_raw_fd);
    // SAFETY: `name` is a C string and outlives the call.
    owned(unsafe { libc::openat(folder, name.as_ptr(), flags | libc::O_CLOEXEC, mode) })
}

fn make_folder(folder: &File, name: &OsStr, mode: u32) -> io::Result<()> {
    let name = CString::new(name.as_bytes())?;
    // SAFETY: `name` is a C string and outlives the call.
    match unsafe { libc::mkdirat(folder.as_raw_fd(), name.as_ptr(), mode) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error())
            .or_else(|e| if e.kind() == ErrorKind::AlreadyExists { Ok(()) } else { Err(e) }),
    }
}

fn link_target(link: &File) -> io::Result<Vec<u8>> {
    let mut target = vec![0; libc::PATH_MAX as usize];
    // SAFETY: the empty path names the link itself (readlinkat(2)), and the kernel writes at most as much as `target` holds.
    let length = unsafe { libc::readlinkat(link.as_raw_fd(), c"".as_ptr(), target.as_mut_ptr().cast(), target.len()) };
    target.truncate(usize::try_from(length).map_err(|_| io::Error::last_os_error())?);
    Ok(target)
}

fn owned(fd: libc::c_int) -> io::Result<File> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

fn uid() -> u32 {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests;
