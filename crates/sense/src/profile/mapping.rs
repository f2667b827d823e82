//! A mapping of a process: a line of proc_pid_maps(5).

use std::ops::Range;

/// A piece of a file, or of no file, that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) addresses: Range<u64>,
    /// Where in the file the first byte is.
    pub(super) offset: u64,
    /// Device and inode as the kernel writes them; which file it is, however it is called.
    pub(super) identity: (String, u64),
    /// What it is called, `[vdso]` and the like among it; empty where no file backs it.
    pub(super) path: String,
    /// The file in [`Binaries`](super::binaries::Binaries), where it could be opened.
    pub(super) binary: Option<usize>,
}

impl Mapping {
    /// Whether its code may have been made at run time, by a compiler that tells its names.
    pub(super) fn may_be_made(&self) -> bool {
        let kinds = ["[anon", "[heap]", "//anon", "/memfd:", "/dev/zero", "/anon_hugepage", "/SYSV"];
        self.path.is_empty() || kinds.iter().any(|kind| self.path.starts_with(kind))
    }

    /// Where in the file an address of the mapping is.
    pub(super) fn in_file(&self, address: u64) -> u64 {
        address.wrapping_sub(self.addresses.start).wrapping_add(self.offset)
    }

    /// `55d0-55d4 r-xp 00002000 fd:00 1311 /usr/bin/cat`; none where it is not executable or makes no sense.
    pub(super) fn parse(line: &str) -> Option<Self> {
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
            binary: None,
        };
        access.contains('x').then_some(mapping)
    }
}
