//! /proc/self/mountinfo (Documentation/filesystems/proc.rst, 3.5).

use super::device;
use crate::text::{octal, unescape};
use crate::{Root, SourceError, fd_cache};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use whyslow_model::value::Name;

const PATH: &str = "proc/self/mountinfo";
/// The mounts are read again after this even if no change was signalled: a file system that turns read-only on an error does
/// so silently.
const WATCH_TTL: Duration = Duration::from_secs(5);

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountInfo {
    /// `major:minor` of the file system (st_dev of its files); major 0 without a block device.
    pub number: String,
    /// The directory of the file system that is mounted; `/` except for bind mounts and subvolumes.
    pub root: String,
    /// The mount point.
    pub point: String,
    /// Options of the mount.
    pub options: String,
    /// Type of the file system.
    pub kind: String,
    /// The mounted device, `server:/export`, or any name.
    pub source: String,
    /// Options of the file system.
    pub super_options: String,
}

impl MountInfo {
    /// Returns the kernel's name of the block device, if any; otherwise the source (`server:/export`, the name of a FUSE
    /// program), or the type of the file system if the source is empty or `none`.
    pub(crate) fn device(&self, root: &Root) -> Name {
        device::by_number(root, &self.number)
            .or_else(|| device::by_path(root, &self.source))
            .unwrap_or_else(|| match self.source.as_str() {
                "" | "none" => self.kind.clone(),
                source => source.to_owned(),
            })
            .into()
    }

    /// Whether this option is set, for the mount or for the file system.
    pub fn has(&self, option: &str) -> bool {
        self.options.split(',').chain(self.super_options.split(',')).any(|o| o == option)
    }

    /// Lists the directories of an overlay, the topmost first, as named in the mount call
    /// (Documentation/filesystems/overlayfs.rst; escapes: ovl_show_options in fs/overlayfs/params.c). Empty for other file
    /// systems.
    pub fn layers(&self) -> Vec<String> {
        let (mut upper, mut lower) = (Vec::new(), Vec::new());
        let options = self.super_options.split(',').filter(|_| self.kind == "overlay");
        for (key, value) in options.filter_map(|option| option.split_once('=')) {
            match key {
                "upperdir" => upper.push(path(value)),
                "lowerdir" => lower.extend(folders(&path(value))),
                "lowerdir+" | "datadir+" => lower.push(path(value)),
                _ => {}
            }
        }
        upper.extend(lower);
        upper
    }
}

/// Splits a list of directories at colons; a backslash escapes a colon in a name.
fn folders(text: &str) -> Vec<String> {
    let mut folders = vec![String::new()];
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (c, folders.last_mut()) {
            (':', _) => folders.push(String::new()),
            ('\\', Some(folder)) => folder.extend(rest.next()),
            (c, Some(folder)) => folder.push(c),
            (_, None) => {}
        }
    }
    // Two colons precede data-only layers.
    folders.retain(|folder| !folder.is_empty());
    folders
}

/// Reads all mounts of this mount namespace.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn read(root: &Root) -> Result<Vec<MountInfo>, SourceError> {
    root.text(PATH).map(|text| parse(&text))
}

/// Finds the mount that holds the file at `path`: the one with the longest matching mount point.
pub fn holder<'m>(mounts: &'m [MountInfo], path: &str) -> Option<&'m MountInfo> {
    mounts.iter().filter(|m| m.point == path || leads_to(&m.point, path)).max_by_key(|m| m.point.len())
}

fn leads_to(point: &str, path: &str) -> bool {
    path.strip_prefix(point.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
}

/// Parses all lines; skips malformed ones.
pub(crate) fn parse(text: &str) -> Vec<MountInfo> {
    text.lines().filter_map(parse_line).collect()
}

/// Parses a line `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`. The number of optional fields
/// before the `-` varies. A source can be empty, which leaves two spaces in a row.
fn parse_line(line: &str) -> Option<MountInfo> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(2);
    let (number, root, point, options) = (mount.next()?, mount.next()?, mount.next()?, mount.next()?);
    let mut file_system = file_system.splitn(3, ' ');
    let (kind, source) = (file_system.next()?, file_system.next()?);
    Some(MountInfo {
        number: number.to_owned(),
        root: path(root),
        point: path(point),
        options: options.to_owned(),
        kind: path(kind),
        source: path(source),
        super_options: file_system.next().unwrap_or_default().to_owned(),
    })
}

fn path(word: &str) -> String {
    unescape(word, octal)
}

/// Watches the mounts of the live machine by polling the file (proc_pid_mounts(5)), which costs a fiftieth of reading it.
#[derive(Default)]
pub(crate) struct MountWatch {
    watched: Option<(File, Instant)>,
    last: Vec<u8>,
}

impl MountWatch {
    /// Returns the mounts if they changed since the last call.
    pub(crate) fn changed(&mut self, root: &Root) -> Result<Option<Vec<MountInfo>>, SourceError> {
        if !root.is_live() {
            return read(root).map(Some);
        }
        let failed = |e| SourceError::from_io(PATH, &e);
        let file = match self.watched.take() {
            Some((file, at)) if !has_event(&file) && at.elapsed() < WATCH_TTL => {
                self.watched = Some((file, at));
                return Ok(None);
            }
            Some((file, _)) => file,
            None => File::open(root.at(PATH)).map_err(failed)?,
        };
        let bytes = fd_cache::read_all(&file).map_err(failed)?;
        self.watched = Some((file, Instant::now()));
        if bytes == self.last {
            return Ok(None);
        }
        let mounts = parse(&String::from_utf8_lossy(&bytes));
        self.last = bytes;
        Ok(Some(mounts))
    }
}

/// Whether a change was signalled since the last call, or since the file was opened.
fn has_event(mounts: &File) -> bool {
    let mut poll = libc::pollfd { fd: mounts.as_raw_fd(), events: libc::POLLPRI, revents: 0 };
    // SAFETY: the pointer is to one pollfd, as the count says, and the call does not wait.
    unsafe { libc::poll(&raw mut poll, 1, 0) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{is_root, wait_until};
    use std::path::Path;
    use std::process::Command;

    #[test]
    fn optional_fields_and_escapes_are_read() {
        let text = "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue\n\
                    37 35 0:44 / /m rw - tmpfs  rw,size=4k\nnonsense\n";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 2);
        assert_eq!((mounts[0].root.as_str(), mounts[0].point.as_str()), ("/mnt1", "/mnt 2"));
        assert!(mounts[0].has("noatime") && mounts[0].has("errors=continue") && !mounts[0].has("ro"));
        assert_eq!((mounts[1].source.as_str(), mounts[1].super_options.as_str()), ("", "rw,size=4k"));
    }

    #[test]
    fn a_file_is_held_by_the_longest_mount_point() {
        let line = |point: &str| parse(&format!("1 0 8:1 / {point} rw - ext4 /dev/sda1 rw")).remove(0);
        let mounts = [line("/"), line("/var"), line("/var/lib")];
        let holds = |path| holder(&mounts, path).map(|m| m.point.as_str());
        assert_eq!(holds("/var/library/x"), Some("/var"));
        assert_eq!(holds("/var/lib/x"), Some("/var/lib"));
        assert_eq!(holds("/etc"), Some("/"));
        assert_eq!(holds("not a path"), None);
    }

    #[test]
    fn the_layers_of_an_overlay_are_read() {
        let layers = |options: &str| parse(&format!("1 0 0:40 / /m rw - overlay o {options}")).remove(0).layers();
        assert_eq!(layers("rw,lowerdir=/a\\134:b:/c::/d,upperdir=/u\\054x,workdir=/w"), ["/u,x", "/a:b", "/c", "/d"]);
        assert_eq!(layers("ro,lowerdir+=/a:b,lowerdir+=/c,datadir+=/d"), ["/a:b", "/c", "/d"]);
        assert!(parse("1 0 8:1 / /m rw - ext4 /dev/sda1 rw,upperdir=/u").remove(0).layers().is_empty());
    }

    #[test]
    fn a_mount_is_signalled_once() {
        let root = Root::live();
        let mut watch = MountWatch::default();
        let all = watch.changed(&root).unwrap().expect("the first call returns them");
        assert!(all.iter().any(|m| m.point == "/"));
        // Other tests may mount something meanwhile.
        wait_until("the mounts are unchanged", || watch.changed(&root).unwrap().is_none());
        if !is_root() {
            return;
        }
        let point = whyslow_testing::folder();
        let run = |command: &str, arguments: &[&str]| {
            Command::new(command).arg("-n").args(arguments).arg(point.path()).status().unwrap().success()
        };
        assert!(run("mount", &["-t", "tmpfs", "none"]));
        let seen = watch.changed(&root);
        assert!(run("umount", &[]));
        assert!(seen.unwrap().unwrap().iter().any(|m| point.path() == Path::new(&m.point)));
    }
}
