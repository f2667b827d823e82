//! Which processes have a block device open: /proc/PID/fd (proc(5)).

use std::ffi::CString;
use std::fs;
use std::path::Path;

/// Each process but this one that has one of these devices open, in words. Without privilege only one's own are seen.
pub(super) fn of(numbers: &[(u32, u32)]) -> Vec<String> {
    let own = std::process::id();
    let pids = processes().filter(|&pid| pid != own);
    pids.filter(|&pid| has_open(pid, numbers)).map(|pid| format!("process {pid} ({}) has it open", name(pid))).collect()
}

/// Each process but this one that has a file open, by the number of its file system and its own, in words.
pub(super) fn of_file(device: u64, inode: u64) -> Vec<String> {
    let device = (libc::major(device), libc::minor(device));
    let is_it = |found: &libc::statx| (found.stx_dev_major, found.stx_dev_minor) == device && found.stx_ino == inode;
    let own = std::process::id();
    let open = |pid: &u32| *pid != own && open_files(*pid).any(|found| is_it(&found));
    let what = |pid: u32| format!("process {pid} ({}) has the file behind it open", name(pid));
    processes().filter(open).map(what).collect()
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
}

fn open_files(pid: u32) -> impl Iterator<Item = libc::statx> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| looked_at(&file.path()))
}

fn has_open(pid: u32, numbers: &[(u32, u32)]) -> bool {
    let is_block = |found: &libc::statx| u32::from(found.stx_mode) & libc::S_IFMT == libc::S_IFBLK;
    let number = |found: libc::statx| (found.stx_rdev_major, found.stx_rdev_minor);
    open_files(pid).filter(is_block).any(|found| numbers.contains(&number(found)))
}

fn name(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// What a path leads to; none where that cannot be told.
fn looked_at(path: &Path) -> Option<libc::statx> {
    let path = CString::new(path.as_os_str().as_encoded_bytes()).ok()?;
    // SAFETY: all zeros is a valid statx, which is plain numbers.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    // Others may have files of a dead server open: what is known of those without asking it will do.
    let flags = libc::AT_STATX_DONT_SYNC;
    let wanted = libc::STATX_TYPE | libc::STATX_INO;
    // SAFETY: `path` ends with a NUL, and `found` is a statx to be written to.
    let status = unsafe { libc::statx(libc::AT_FDCWD, path.as_ptr(), flags, wanted, &raw mut found) };
    (status == 0).then_some(found)
}
