//! Which processes have a block device open: /proc/PID/fd (proc(5)).

use std::ffi::CString;
use std::fs;
use std::path::Path;

/// Each process but this one that has one of these devices open, in words. Without privilege only one's own are seen.
pub(super) fn of(numbers: &[(u32, u32)]) -> Vec<String> {
    let own = std::process::id();
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).filter(|&pid| pid != own);
    pids.filter(|&pid| has_open(pid, numbers)).map(|pid| format!("process {pid} ({}) has it open", name(pid))).collect()
}

fn has_open(pid: u32, numbers: &[(u32, u32)]) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| block_device(&file.path())).any(|number| numbers.contains(&number))
}

fn name(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// The number of the block device that a path leads to; none where it leads to anything else.
fn block_device(path: &Path) -> Option<(u32, u32)> {
    let path = CString::new(path.as_os_str().as_encoded_bytes()).ok()?;
    // SAFETY: all zeros is a valid statx, which is plain numbers.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    // Others may have files of a dead server open: what is known of those without asking it will do.
    let flags = libc::AT_STATX_DONT_SYNC;
    // SAFETY: `path` ends with a NUL, and `found` is a statx to be written to.
    let status = unsafe { libc::statx(libc::AT_FDCWD, path.as_ptr(), flags, libc::STATX_TYPE, &raw mut found) };
    let is_block = u32::from(found.stx_mode) & libc::S_IFMT == libc::S_IFBLK;
    (status == 0 && is_block).then_some((found.stx_rdev_major, found.stx_rdev_minor))
}
