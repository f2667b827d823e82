//! The executable mappings of a process (proc_pid_maps(5)), and the files behind them.
//!
//! The files are held open: a process may end, and its files be deleted, before their symbols are read.

use super::recorder::AddressSpaceId;
use crate::block::remote_mounts::answers_process;
use crate::os;
use crate::root::Root;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The executable mappings of an address space.
#[derive(Clone, Debug, Default)]
pub(super) struct AddressSpace {
    /// By address; no two overlap.
    mappings: Vec<Mapping>,
}

impl AddressSpace {
    /// Reads the current mappings and opens their files. Returns `None` if the process no longer exists or may not be read.
    pub(super) fn read(pid: u32, files: &mut MappedFiles, root: &Root) -> Option<Self> {
        let maps = root.maybe(&format!("proc/{pid}/maps")).filter(|text| !text.is_empty())?;
        let mut space = Self::parse(&maps);
        for mapping in &mut space.mappings {
            mapping.file = files.open(pid, mapping, root);
        }
        Some(space)
    }

    fn parse(maps: &str) -> Self {
        let mut mappings: Vec<Mapping> = maps.lines().filter_map(Mapping::parse).collect();
        mappings.sort_by_key(|mapping| mapping.addresses.start);
        Self { mappings }
    }

    /// Returns the mapping that contains an address.
    pub(super) fn find(&self, address: u64) -> Option<&Mapping> {
        let after = self.mappings.partition_point(|mapping| mapping.addresses.start <= address);
        self.mappings.get(after.checked_sub(1)?).filter(|mapping| mapping.addresses.contains(&address))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.mappings.is_empty()
    }

    /// Merges the current mappings with the older ones that they do not overlap.
    pub(super) fn updated(self, mut now: Self) -> Self {
        let overlap =
            |a: &Mapping, b: &Mapping| a.addresses.start < b.addresses.end && b.addresses.start < a.addresses.end;
        let is_free = |old: &Mapping| !now.mappings.iter().any(|new| overlap(old, new));
        let older: Vec<Mapping> = self.mappings.into_iter().filter(is_free).collect();
        now.mappings.extend(older);
        now.mappings.sort_by_key(|mapping| mapping.addresses.start);
        now
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    addresses: Range<u64>,
    /// File offset of the first byte.
    offset: u64,
    /// Device and inode.
    identity: (String, u64),
    /// Includes names such as `[vdso]`; empty for anonymous memory.
    pub(super) path: String,
    /// Index into [`MappedFiles`], if the file could be opened.
    pub(super) file: Option<usize>,
}

impl Mapping {
    /// Whether its code may come from a just-in-time compiler.
    pub(super) fn may_be_jit(&self) -> bool {
        let kinds = ["[anon", "[heap]", "//anon", "/memfd:", "/dev/zero", "/anon_hugepage", "/SYSV"];
        self.path.is_empty() || kinds.iter().any(|kind| self.path.starts_with(kind))
    }

    pub(super) fn file_offset(&self, address: u64) -> u64 {
        address.wrapping_sub(self.addresses.start).wrapping_add(self.offset)
    }

    /// Parses `55d0-55d4 r-xp 00002000 fd:00 1311 /usr/bin/cat`. Returns `None` if the mapping is not executable.
    fn parse(line: &str) -> Option<Self> {
        let (addresses, rest) = line.split_once(' ')?;
        let (start, end) = addresses.split_once('-')?;
        let (access, rest) = rest.split_once(' ')?;
        let (offset, rest) = rest.split_once(' ')?;
        let (device, rest) = rest.split_once(' ')?;
        let (inode, path) = rest.split_once(' ').unwrap_or((rest, ""));
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let mapping = Self {
            addresses: hex(start)?..hex(end)?,
            offset: hex(offset)?,
            identity: (device.to_owned(), inode.parse().ok()?),
            path: path.trim_start().to_owned(),
            file: None,
        };
        access.contains('x').then_some(mapping)
    }
}

/// The address spaces of all recorded processes, and the files mapped in them.
#[derive(Debug, Default)]
pub(super) struct AddressSpaces {
    pub(super) spaces: HashMap<AddressSpaceId, AddressSpace>,
    pub(super) files: MappedFiles,
}

impl AddressSpaces {
    /// Reads the address spaces that are new, so that they can be symbolized after their processes have ended.
    pub(super) fn add(&mut self, ids: Vec<AddressSpaceId>, root: &Root) {
        for id in ids {
            if !self.spaces.contains_key(&id) {
                let space = AddressSpace::read(id.pid(), &mut self.files, root);
                // An ended process is inserted too, without mappings, so that it is not read again.
                self.spaces.insert(id, space.unwrap_or_default());
            }
        }
    }

    /// Adds the mappings of running processes, because programs load libraries and generate code as they run. Skips address
    /// spaces that were never read.
    pub(super) fn update(&mut self, ids: Vec<AddressSpaceId>, root: &Root) {
        for id in ids {
            if let Some(now) = AddressSpace::read(id.pid(), &mut self.files, root) {
                let before = self.spaces.remove(&id).unwrap_or_default();
                self.spaces.insert(id, before.updated(now));
            }
        }
        self.spaces.retain(|_, space| !space.is_empty());
    }
}

/// The files of all mappings, each opened once.
#[derive(Debug, Default)]
pub(super) struct MappedFiles {
    files: Vec<File>,
    by_identity: HashMap<(String, u64), Option<usize>>,
}

impl MappedFiles {
    /// Opens the file of a mapping and returns its index.
    fn open(&mut self, pid: u32, mapping: &Mapping, root: &Root) -> Option<usize> {
        if mapping.identity.1 == 0 || !mapping.path.starts_with('/') {
            return None;
        }
        if let Some(&index) = self.by_identity.get(&mapping.identity) {
            return index;
        }
        let has_room = os::open_files_limit() / 2 > self.files.len() as u64;
        let index = has_room.then(|| open(pid, mapping, root)).flatten().map(|file| {
            self.files.push(file);
            self.files.len() - 1
        });
        self.by_identity.insert(mapping.identity.clone(), index);
        index
    }

    pub(super) fn get(&self, index: usize) -> Option<&File> {
        self.files.get(index)
    }
}

/// Opens the file of a mapping: through map_files if permitted (CAP_SYS_ADMIN), which leads to the mapped file even if it was
/// renamed or deleted; otherwise by its name under the process's root, which in a container is not ours (proc(5)).
fn open(pid: u32, mapping: &Mapping, root: &Root) -> Option<File> {
    // A thread that waits for a server or a FUSE program may never end.
    if root.is_live() && !answers_process(root, pid, &mapping.path) {
        return None;
    }
    let addresses = &mapping.addresses;
    let link = format!("proc/{pid}/map_files/{:x}-{:x}", addresses.start, addresses.end);
    open_regular(&root.at(link)).or_else(|| open_regular(&root.at(format!("proc/{pid}/root{}", mapping.path))))
}

/// Opens a file if it is regular: opening others may hang (a FIFO) or have effects (a device).
fn open_regular(path: &Path) -> Option<File> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::never_panics;

    const MAPS: &str = "\
55d0a000-55d0c000 r--p 00000000 fd:00 1311                       /opt/my app/toy
55d0c000-55d10000 r-xp 00002000 fd:00 1311                       /opt/my app/toy
7f00a000-7f00b000 rwxp 00000000 00:00 0 
7f01a000-7f01b000 r-xp 00028000 fd:00 99                         /usr/lib/libc.so.6 (deleted)
7fff1000-7fff2000 r-xp 00000000 00:00 0                          [vdso]
";

    #[test]
    fn an_address_is_found_in_its_mapping() {
        let space = AddressSpace::parse(MAPS);
        let at = |address| space.find(address).map(|mapping| (&*mapping.path, mapping.offset));
        assert_eq!(at(0x55d0_c000), Some(("/opt/my app/toy", 0x2000)));
        assert_eq!(at(0x55d0_ffff), Some(("/opt/my app/toy", 0x2000)));
        assert_eq!(at(0x55d1_0000), None);
        assert_eq!(at(0x55d0_a000), None, "not executable");
        assert_eq!(at(0x7f00_a010), Some(("", 0)));
        assert_eq!(at(0x7f01_a000), Some(("/usr/lib/libc.so.6 (deleted)", 0x28000)));
        assert_eq!(at(0x7fff_1001), Some(("[vdso]", 0)));
        assert_eq!((at(0), at(u64::MAX)), (None, None));
    }

    #[test]
    fn an_unmapped_range_is_remembered_unless_it_is_overlapped() {
        let old = AddressSpace::parse(MAPS);
        let now = AddressSpace::parse("55d0f000-55d11000 r-xp 0 fd:00 7 /bin/other\n");
        let both = old.updated(now);
        let path = |address| both.find(address).map(|mapping| &*mapping.path);
        assert_eq!(path(0x55d0_f800), Some("/bin/other"));
        assert_eq!(path(0x55d0_c000), None);
        assert_eq!(path(0x7fff_1000), Some("[vdso]"));
    }

    #[test]
    fn no_text_makes_it_panic() {
        never_panics(MAPS, |text| {
            AddressSpace::parse(text).find(0x55d0_c000);
        });
    }
}
