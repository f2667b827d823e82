//! Processes that have files of a full file system open for writing (proc_pid_fd(5), proc_pid_fdinfo(5)), and the space that
//! these occupy. Deleted files count too: their space is freed only when the last process closes them.
//!
//! The source reads every descriptor of every process, so it runs only on demand, when a rule suspects that a file system is
//! full.

use super::proc_reader::{others, remedy};
use super::stat::Stat;
use crate::block::FullMount;
use crate::root::Root;
use crate::source::{Source, SourceInfo};
use crate::source_error::SourceError;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use whyslow_model::catalogue::Writer;
use whyslow_model::key::{MountTask, TaskKey};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Name;

/// The source of family `writer`.
#[derive(Default)]
pub(super) struct OpenFiles;

impl Source for OpenFiles {
    fn info(&self) -> SourceInfo {
        SourceInfo::new("proc/fd", "which processes have files of full file systems open for writing").on_demand()
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        let full = FullMount::read_all(root)?;
        if full.is_empty() {
            return Ok(());
        }
        let mut refused = 0_usize;
        for pid in root.list("proc").iter().filter_map(|name| name.parse().ok()) {
            match files(root, pid, &full) {
                Ok(files) => out.block.writer.extend(rows(root, pid, &full, &files)),
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => refused += 1,
                // The process has ended.
                Err(_) => {}
            }
        }
        if refused == 0 {
            return Ok(());
        }
        let why = format!("open files of {}", others(refused));
        Err(SourceError::NotPermitted { why, remedy: remedy().into() })
    }
}

/// An open file on a full file system.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OpenFile {
    device: u64,
    inode: u64,
    bytes: u64,
    is_deleted: bool,
    path: String,
}

/// Lists the regular files on full file systems that a process has open for writing, or that are deleted, each once.
fn files(root: &Root, pid: u32, full: &[FullMount]) -> io::Result<Vec<OpenFile>> {
    let mut found: Vec<OpenFile> = Vec::new();
    for descriptor in fs::read_dir(root.at(format!("proc/{pid}/fd")))?.flatten() {
        let path = descriptor.path();
        let Some(file) = open_file(&path).filter(|file| full.iter().any(|mount| mount.device == file.device)) else {
            continue;
        };
        let info = root.at(format!("proc/{pid}/fdinfo")).join(descriptor.file_name());
        let is_written = fs::read_to_string(info).is_ok_and(|info| is_for_writing(&info));
        let is_known = found.iter().any(|known| (known.device, known.inode) == (file.device, file.inode));
        if (is_written || file.is_deleted) && !is_known {
            found.push(file);
        }
    }
    Ok(found)
}

/// Inspects the file behind a descriptor. Returns `None` if it is not a regular file. The kernel answers from memory, so a dead
/// server does not block the call.
fn open_file(descriptor: &Path) -> Option<OpenFile> {
    let path = CString::new(descriptor.as_os_str().as_bytes()).ok()?;
    let mut answer = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: `path` is a C string and `answer` has room for one statx; both outlive the call.
    let status = unsafe {
        libc::statx(
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_STATX_DONT_SYNC,
            libc::STATX_BASIC_STATS,
            answer.as_mut_ptr(),
        )
    };
    if status != 0 {
        return None;
    }
    // SAFETY: all bytes were zero before the call, which is a value of this type.
    let stat = unsafe { answer.assume_init() };
    if u32::from(stat.stx_mode) & libc::S_IFMT != libc::S_IFREG {
        return None;
    }
    let target = fs::read_link(descriptor).ok()?.to_string_lossy().into_owned();
    Some(OpenFile {
        device: libc::makedev(stat.stx_dev_major, stat.stx_dev_minor),
        inode: stat.stx_ino,
        bytes: stat.stx_blocks.saturating_mul(512),
        is_deleted: stat.stx_nlink == 0,
        path: target.trim_end_matches(" (deleted)").to_owned(),
    })
}

/// Whether the flags in an fdinfo file, which are octal, permit writing.
fn is_for_writing(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY)
}

/// Builds one row for each full mount on which the process has files.
fn rows(root: &Root, pid: u32, full: &[FullMount], files: &[OpenFile]) -> Vec<Writer> {
    if files.is_empty() {
        return Vec::new();
    }
    let stat = fs::read(root.at(format!("proc/{pid}/stat"))).unwrap_or_default();
    let Some((stat, _)) = Stat::parse(&stat) else { return Vec::new() };
    let task = TaskKey { pid, tid: pid, start: stat.start };
    let mut rows: BTreeMap<&Name, Writer> = BTreeMap::new();
    for mount in full {
        let files: Vec<&OpenFile> = files.iter().filter(|file| file.device == mount.device).collect();
        let Some(largest) = files.iter().max_by_key(|file| file.bytes) else { continue };
        let bytes = |deleted_only: bool| -> u64 {
            files.iter().filter(|file| file.is_deleted || !deleted_only).map(|file| file.bytes).sum()
        };
        let row = Writer {
            files: (files.len() as u64).into(),
            bytes: bytes(false).into(),
            deleted_bytes: bytes(true).into(),
            largest: largest.path.as_str().into(),
            ..Writer::new(MountTask { mount: mount.point.clone(), task })
        };
        rows.insert(&mount.point, row);
    }
    rows.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, OpenOptions};
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn flags_say_who_writes() {
        assert!(is_for_writing("pos:\t0\nflags:\t0100001\nmnt_id:\t1\n") && is_for_writing("flags:\t02100002\n"));
        assert!(!is_for_writing("flags:\t0100000\n") && !is_for_writing("flags:\tx\n") && !is_for_writing(""));
    }

    #[test]
    fn own_files_are_found_on_their_file_system_and_no_other() {
        let folder = whyslow_testing::folder();
        let open = |name: &str, bytes: usize| {
            let mut file = File::create(folder.path().join(name)).unwrap();
            file.write_all(&vec![1; bytes]).unwrap();
            file.sync_all().unwrap();
            file
        };
        let (_small, _large) = (open("small", 4096), open("large", 1 << 20));
        let _deleted = open("deleted", 1 << 16);
        fs::remove_file(folder.path().join("deleted")).unwrap();
        fs::write(folder.path().join("read"), "x").unwrap();
        let _read_only = OpenOptions::new().read(true).open(folder.path().join("read")).unwrap();
        let device = fs::metadata(folder.path()).unwrap().dev();
        let mount = |device| [FullMount { point: "/x".into(), device }];
        let root = Root::live();
        let pid = std::process::id();
        let mut found = files(&root, pid, &mount(device)).unwrap();
        // The test program may have other files open on it.
        found.retain(|file| Path::new(&file.path).starts_with(folder.path()));
        let names = |found: &[OpenFile]| -> Vec<(String, bool)> {
            let name = |file: &OpenFile| Path::new(&file.path).file_name().unwrap().to_string_lossy().into_owned();
            found.iter().map(|file| (name(file), file.is_deleted)).collect()
        };
        let mut all = names(&found);
        all.sort();
        assert_eq!(all, [("deleted".into(), true), ("large".into(), false), ("small".into(), false)]);
        let row = rows(&root, pid, &mount(device), &found).remove(0);
        assert!(row.largest.get().is_some_and(|path| path.ends_with("/large")), "{row:?}");
        assert!(row.bytes.get() >= Some(f64::from(1 << 20)) && row.deleted_bytes.get() >= Some(65536.0), "{row:?}");
        assert_eq!(files(&root, pid, &mount(u64::MAX)).unwrap(), []);
    }
}
