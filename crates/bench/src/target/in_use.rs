//! Uses of a block device.

use super::device::folder;
use super::{StorageMap, exports};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::path::Path;
use whyslow_model::catalogue::Swap;

/// Returns all uses of a device, its partitions, and the devices stacked on them.
pub(super) fn uses(map: &StorageMap, device: &str) -> Vec<String> {
    let mut all: Vec<String> = vec![device.to_owned()];
    all.extend(map.topology.over(device).iter().map(|name| name.to_string()));
    let mut uses: Vec<String> = all.iter().flat_map(|part| mounts(map, part)).collect();
    uses.extend(all.iter().flat_map(|part| holders(map, part)));
    uses.extend(all.iter().filter(|part| is_swap(map, part)).map(|part| format!("{part} is swap")));
    uses.extend(all.iter().filter(|part| is_btrfs(map, part)).map(|part| format!("{part} belongs to a mounted btrfs")));
    uses.extend(openers_of(map, &numbers(map, device, &all)));
    uses
}

/// Returns the programs that use a device itself, whether or not something is stacked on it.
pub(super) fn uses_itself(map: &StorageMap, device: &str) -> Vec<String> {
    let openers = openers_of(map, &numbers(map, device, &[device.to_owned()]));
    openers.into_iter().map(|what| format!("{device}: {what}")).collect()
}

fn openers_of(map: &StorageMap, numbers: &[(u32, u32)]) -> Vec<String> {
    if !map.root.is_live() {
        return Vec::new();
    }
    let mut uses = openers(numbers);
    uses.extend(exports::of_devices(map, numbers));
    uses
}

pub(super) fn mounts(map: &StorageMap, part: &str) -> Vec<String> {
    map.topology.mounts(part).iter().map(|point| format!("{part} is mounted on {point}")).collect()
}

/// Returns the devices stacked on a device, except its partitions.
fn holders(map: &StorageMap, part: &str) -> Vec<String> {
    let mut holders: BTreeSet<String> = map.root.list(&format!("{}/holders", folder(part))).into_iter().collect();
    let above = map.topology.above(part).filter(|upper| map.relation(upper, part) != Some("partition"));
    holders.extend(above.map(|name| name.to_string()));
    holders.into_iter().map(|holder| format!("{holder} is stacked on {part}")).collect()
}

/// Returns whether a device is swap; /proc/swaps lists device nodes.
fn is_swap(map: &StorageMap, part: &str) -> bool {
    map.window.newest::<Swap>().keys().any(|path| path.strip_prefix("/dev/") == Some(part))
}

/// Returns whether a device belongs to a mounted btrfs, which is mounted by the name of one of its devices; sysfs lists
/// all.
fn is_btrfs(map: &StorageMap, part: &str) -> bool {
    let entry = part.replace('/', "!");
    let has = |id: &String| map.root.at(format!("sys/fs/btrfs/{id}/devices/{entry}")).exists();
    map.root.list("sys/fs/btrfs").iter().any(has)
}

/// Returns `major:minor` of all these devices, and of a partition's disk, through which the partition can be written
/// too.
fn numbers(map: &StorageMap, device: &str, all: &[String]) -> Vec<(u32, u32)> {
    let disk = map.topology.below(device).filter(|lower| map.relation(device, lower) == Some("partition"));
    let names = all.iter().cloned().chain(disk.map(|name| name.to_string()));
    names.filter_map(|name| number(&map.root.word(&format!("{}/dev", folder(&name)))?)).collect()
}

fn number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Returns other processes that have one of these devices open. Without root, only those of the same user are visible.
fn openers(numbers: &[(u32, u32)]) -> Vec<String> {
    let own = std::process::id();
    let pids = processes().filter(|&pid| pid != own);
    pids.filter(|&pid| has_open(pid, numbers)).map(|pid| format!("process {pid} ({}) has it open", name(pid))).collect()
}

/// Returns other processes that have a file open or mapped.
pub(super) fn openers_of_file((device, inode): (u64, u64)) -> Vec<String> {
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

/// Returns the open files of a process, and the mapped ones, which it need not have open.
fn open_files(pid: u32) -> impl Iterator<Item = libc::statx> {
    let entries = move |folder| fs::read_dir(format!("/proc/{pid}/{folder}")).into_iter().flatten().flatten();
    ["fd", "map_files"].into_iter().flat_map(entries).filter_map(|file| looked_at(&file.path()))
}

fn has_open(pid: u32, numbers: &[(u32, u32)]) -> bool {
    let is_block = |found: &libc::statx| u32::from(found.stx_mode) & libc::S_IFMT == libc::S_IFBLK;
    let number = |found: libc::statx| (found.stx_rdev_major, found.stx_rdev_minor);
    open_files(pid).filter(is_block).any(|found| numbers.contains(&number(found)))
}

fn name(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

fn looked_at(path: &Path) -> Option<libc::statx> {
    let path = CString::new(path.as_os_str().as_encoded_bytes()).ok()?;
    // SAFETY: statx consists of plain numbers, for which zeros are valid.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    // Avoids hanging on files of a dead server.
    let flags = libc::AT_STATX_DONT_SYNC;
    let wanted = libc::STATX_TYPE | libc::STATX_INO;
    // SAFETY: `path` ends with a NUL, and `found` is a valid statx.
    let status = unsafe { libc::statx(libc::AT_FDCWD, path.as_ptr(), flags, wanted, &raw mut found) };
    (status == 0).then_some(found)
}

#[cfg(test)]
#[path = "in_use_tests.rs"]
mod tests;
