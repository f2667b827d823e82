//! /dev/mapper/control: the tables and states of the device mapper (include/uapi/linux/dm-ioctl.h).

use super::device::SECTOR;
use crate::net::netlink::{text, u32_at};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Size of struct dm_ioctl.
const HEAD: usize = 312;
/// Offsets of its fields.
const DATA_SIZE: usize = 12;
const DATA_START: usize = 16;
const TARGET_COUNT: usize = 20;
const FLAGS: usize = 28;
const DEVICE: usize = 40;
/// Size of struct dm_target_spec and offsets of its fields.
const TARGET: usize = 40;
const START: usize = 0;
const LENGTH: usize = 8;
const NEXT: usize = 20;
const KIND: usize = 24;
/// `_IOWR(0xfd, 12, struct dm_ioctl)`.
const TABLE_STATUS: u32 = 0xc138_fd0c;
/// DM_STATUS_TABLE_FLAG: request the table instead of the status.
const TABLE: u32 = 1 << 4;
/// DM_BUFFER_FULL_FLAG.
const BUFFER_FULL: u32 = 1 << 8;
/// DM_NOFLUSH_FLAG: a thin pool answers without committing its metadata.
const NO_FLUSH: u32 = 1 << 11;
/// Sizes to try for the answer, bytes; a volume with many targets needs the larger one.
const BUFFERS: [usize; 2] = [16 << 10, 1 << 20];

/// DM_SUSPEND_FLAG: all I/O is held back.
const SUSPENDED: u32 = 1 << 1;

/// Current state of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DmState {
    pub(super) suspended: bool,
    pub(super) targets: Vec<Target>,
}

/// One target of a device: its kind, range and status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) kind: String,
    /// The target's own status line.
    pub(super) status: String,
    pub(super) stripes: Option<u64>,
    /// Bytes.
    pub(super) chunk: Option<u64>,
    /// Offset on the device, bytes.
    pub(super) start: u64,
    /// Length in bytes.
    pub(super) bytes: u64,
}

pub(super) struct DmControl(File);

impl DmControl {
    /// Opens the control file. Call it only if device-mapper devices exist: opening the file would load the module.
    pub(super) fn open() -> io::Result<Self> {
        File::options().read(true).write(true).open("/dev/mapper/control").map(Self)
    }

    /// Reads the state of the device with this number. The table of an encrypted device contains its key, so tables are requested
    /// only for devices that have stripes.
    pub(super) fn state(&self, major: u32, minor: u32) -> Option<DmState> {
        let answer = self.ask(major, minor, 0)?;
        let mut targets = parse(&answer);
        let has_stripes = targets.iter().any(|part| STRIPED.contains(&part.kind.as_str()));
        let is_plain = targets.iter().all(|part| !part.kind.contains("crypt"));
        if has_stripes && is_plain {
            for (target, tabled) in targets.iter_mut().zip(parse(&self.ask(major, minor, TABLE)?)) {
                (target.stripes, target.chunk) = striping(&tabled.kind, &tabled.status);
            }
        }
        Some(DmState { suspended: u32_at(&answer, FLAGS)? & SUSPENDED != 0, targets })
    }

    /// Reads the table of a device, in the order of its targets. The table of an encrypted device contains its key and is not
    /// requested.
    pub(super) fn table(&self, major: u32, minor: u32) -> Option<Vec<Target>> {
        let parts = parse(&self.ask(major, minor, 0)?);
        if parts.iter().any(|part| part.kind.contains("crypt")) {
            return Some(parts.into_iter().map(|part| Target { status: String::new(), ..part }).collect());
        }
        Some(parse(&self.ask(major, minor, TABLE)?))
    }

    fn ask(&self, major: u32, minor: u32, flags: u32) -> Option<Vec<u8>> {
        BUFFERS.iter().find_map(|size| self.ask_within(*size, libc::makedev(major, minor), flags))
    }

    /// Sends one request with an answer buffer of this size. Returns `None` if it fails or the answer is longer.
    fn ask_within(&self, size: usize, device: u64, flags: u32) -> Option<Vec<u8>> {
        let mut buffer = vec![0; size];
        let mut put = |at: usize, word: u32| buffer[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        // The first version of this interface that has every feature used here.
        put(0, 4);
        put(DATA_SIZE, u32::try_from(size).ok()?);
        put(DATA_START, HEAD as u32);
        put(FLAGS, flags | NO_FLUSH);
        buffer[DEVICE..DEVICE + 8].copy_from_slice(&device.to_ne_bytes());
        // SAFETY: `buffer` begins with a dm_ioctl that says how large it is, and the kernel writes no more.
        let outcome = unsafe { libc::ioctl(self.0.as_raw_fd(), TABLE_STATUS as _, buffer.as_mut_ptr()) };
        (outcome == 0 && u32_at(&buffer, FLAGS)? & BUFFER_FULL == 0).then_some(buffer)
    }
}

/// Kinds of target with chunks.
const STRIPED: [&str; 2] = ["striped", "raid"];

/// Parses the targets of an answer with their status or, for a table, their parameters. Stops at a target that exceeds the
/// answer.
fn parse(answer: &[u8]) -> Vec<Target> {
    let word = |at: usize| u32_at(answer, at).map(|word| word as usize);
    let (Some(start), Some(count)) = (word(DATA_START), word(TARGET_COUNT)) else { return Vec::new() };
    let mut targets = Vec::new();
    let mut at = start;
    while targets.len() < count {
        let Some(spec) = at.checked_add(TARGET).and_then(|end| answer.get(at..end)) else { break };
        let kind = text(&spec[KIND..]);
        let parameters = text(&answer[at + TARGET..]);
        let [start_at, bytes] = [START, LENGTH].map(|at| u64_at(spec, at).saturating_mul(SECTOR));
        targets.push(Target { kind, status: parameters, start: start_at, bytes, ..Target::default() });
        let Some(next) = u32_at(spec, NEXT).and_then(|next| start.checked_add(next as usize)) else { break };
        if next <= at {
            break;
        }
        at = next;
    }
    targets
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
    word.map_or(0, u64::from_ne_bytes)
}

/// Parses the number of stripes and the chunk size in bytes from a table line
/// (Documentation/admin-guide/device-mapper/striped.rst, dm-raid.rst).
fn striping(kind: &str, parameters: &str) -> (Option<u64>, Option<u64>) {
    let words: Vec<&str> = parameters.split_ascii_whitespace().collect();
    let number = |at: usize| words.get(at)?.parse::<u64>().ok();
    let bytes = |sectors: Option<u64>| sectors.filter(|sectors| *sectors > 0)?.checked_mul(SECTOR);
    match kind {
        "striped" => (number(0), bytes(number(1))),
        // raid5_ls 3 64 region_size ...: the number of parameters, then the chunk size in sectors; mirrors have no chunks.
        "raid" if words.first().is_some_and(|level| *level != "raid1") => (None, bytes(number(2))),
        _ => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::never_panics_on_bytes;

    /// Builds an answer in the kernel's format (drivers/md/dm-ioctl.c: retrieve_status): targets aligned to eight bytes, each
    /// followed by its parameters.
    fn answer(targets: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = vec![0; HEAD];
        bytes[DATA_START..DATA_START + 4].copy_from_slice(&(HEAD as u32).to_ne_bytes());
        bytes[TARGET_COUNT..TARGET_COUNT + 4].copy_from_slice(&(targets.len() as u32).to_ne_bytes());
        for (kind, parameters) in targets {
            let begin = bytes.len();
            bytes.resize(begin + TARGET, 0);
            bytes[begin + KIND..begin + KIND + kind.len()].copy_from_slice(kind.as_bytes());
            bytes.extend(parameters.as_bytes());
            bytes.push(0);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            let next = (bytes.len() - HEAD) as u32;
            bytes[begin + NEXT..begin + NEXT + 4].copy_from_slice(&next.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn each_part_of_a_device_is_read() {
        let parts = [
            ("linear", "8:1 2048", None, None),
            ("striped", "2 128 8:16 0 8:32 0", Some(2), Some(65_536)),
            ("raid", "raid5_ls 3 64 region_size 1024 3 - 8:1 - 8:2 - 8:3", None, Some(32_768)),
            ("raid", "raid1 3 0 region_size 1024 2 - 8:1 - 8:2", None, None),
        ];
        let bytes = answer(&parts.map(|(kind, parameters, ..)| (kind, parameters)));
        let read = parse(&bytes);
        let found: Vec<_> = read.iter().map(|part| (part.kind.as_str(), part.status.as_str())).collect();
        assert_eq!(found, parts.map(|(kind, parameters, ..)| (kind, parameters)));
        for (kind, parameters, stripes, chunk) in parts {
            assert_eq!(striping(kind, parameters), (stripes, chunk));
        }
    }

    #[test]
    fn an_answer_that_ends_early_or_runs_in_circles_is_read_as_far_as_it_goes() {
        let mut bytes = answer(&[("linear", "8:1 2048"), ("linear", "8:1 4096")]);
        assert_eq!(parse(&bytes[..HEAD + 60]).len(), 1);
        bytes[HEAD + NEXT..HEAD + NEXT + 4].copy_from_slice(&0u32.to_ne_bytes());
        assert_eq!(parse(&bytes).len(), 1);
        never_panics_on_bytes(&answer(&[("striped", "2 128 8:16 0 8:32 0")]), |bytes| drop(parse(bytes)));
    }
}
