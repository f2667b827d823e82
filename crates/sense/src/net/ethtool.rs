//! The ethtool ioctl (include/uapi/linux/ethtool.h): link speed, rings, interrupt coalescing, a driver's own counters.

use super::netlink::{socket_error, text, u32_at, u64_at};
use crate::source_error::SourceError;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const GET_DRIVER: u32 = 0x03;
const GET_COALESCE: u32 = 0x0e;
const GET_RINGS: u32 = 0x10;
const GET_FLAGS: u32 = 0x25;
const GET_CHANNELS: u32 = 0x3c;
const GET_STRINGS: u32 = 0x1b;
const GET_STATISTICS: u32 = 0x1d;
const GET_SET_SIZE: u32 = 0x37;
const GET_LINK_SETTINGS: u32 = 0x4c;
/// Offloads that have a command of their own, and their names in ethtool(8).
const OFFLOADS: [(u32, &str); 6] = [
    (0x14, "rx-checksumming"),
    (0x16, "tx-checksumming"),
    (0x18, "scatter-gather"),
    (0x1e, "tcp-segmentation-offload"),
    (0x23, "generic-segmentation-offload"),
    (0x2b, "generic-receive-offload"),
];
/// Offloads that have a bit in ETHTOOL_GFLAGS.
const OFFLOAD_FLAGS: [(u32, &str); 5] = [
    (1 << 15, "large-receive-offload"),
    (1 << 8, "rx-vlan-offload"),
    (1 << 7, "tx-vlan-offload"),
    (1 << 27, "ntuple-filters"),
    (1 << 28, "receive-hashing"),
];
/// ETH_SS_STATS.
const COUNTERS: u32 = 1;
/// ETH_GSTRING_LEN.
const NAME: usize = 32;
/// Maximum number of counters; the largest drivers have about five thousand.
const MAX_COUNTERS: usize = 8192;
/// Returns the buffer size in bytes for names or counters. The kernel writes as many as the driver has at that moment, whatever
/// the size of the buffer, and their number grows as queues are added. The size is therefore four times the maximum.
const fn buffer_size(of_each: usize) -> usize {
    4 * MAX_COUNTERS * of_each
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LinkMode {
    /// Megabits per second.
    pub(super) speed: Option<u32>,
    /// `full` or `half`.
    pub(super) duplex: Option<&'static str>,
}

/// Current and maximum number of ring entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rings {
    pub(super) rx: u32,
    pub(super) rx_max: u32,
    pub(super) tx: u32,
    pub(super) tx_max: u32,
}

/// The driver, the firmware of the device, and the address on its bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Driver {
    pub(super) name: Option<String>,
    pub(super) firmware: Option<String>,
    pub(super) bus: Option<String>,
}

/// Queues that packets are spread over. A queue serves one direction, or is combined and counts for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Channels {
    pub(super) rx: u32,
    pub(super) rx_max: u32,
    pub(super) tx: u32,
}

/// Delay of an interface's interrupts, in time or in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Coalescing {
    pub(super) rx_usecs: u32,
    pub(super) rx_frames: u32,
    pub(super) tx_usecs: u32,
    pub(super) adaptive_rx: bool,
}

/// A socket in the network namespace of the thread that opened it.
pub(super) struct Ethtool(OwnedFd);

impl Ethtool {
    pub(super) fn open() -> Result<Self, SourceError> {
        // SAFETY: a system call that takes no pointer.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(socket_error(&io::Error::last_os_error()));
        }
        // SAFETY: `fd` was just opened, and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(super) fn link_mode(&self, interface: &str) -> Option<LinkMode> {
        let mut answer = [0; 48 + 3 * 127 * 4];
        self.ask(interface, GET_LINK_SETTINGS, &mut answer)?;
        // The first answer is the negated number of words in a mask; the second call must pass it back.
        answer[15] = (answer[15] as i8).checked_neg().filter(|words| *words > 0)? as u8;
        self.ask(interface, GET_LINK_SETTINGS, &mut answer)?;
        Some(link_mode(u32_at(&answer, 4)?, answer[8]))
    }

    pub(super) fn driver(&self, interface: &str) -> Option<Driver> {
        let mut answer = [0; 196];
        self.ask(interface, GET_DRIVER, &mut answer)?;
        let field = |at: usize| Some(text(&answer[at..at + 32])).filter(|text| !text.is_empty());
        Some(Driver { name: field(4), firmware: field(68), bus: field(100) })
    }

    pub(super) fn channels(&self, interface: &str) -> Option<Channels> {
        let mut answer = [0; 9 * 4];
        self.ask(interface, GET_CHANNELS, &mut answer)?;
        let sum = |a: usize, b: usize| Some(u32_at(&answer, 4 * a)?.saturating_add(u32_at(&answer, 4 * b)?));
        Some(Channels { rx_max: sum(1, 4)?, rx: sum(5, 8)?, tx: sum(6, 8)? })
    }

    /// Lists the enabled offloads by ethtool's names; `None` if none can be queried.
    pub(super) fn offloads(&self, interface: &str) -> Option<String> {
        let value = |command| {
            let mut answer = [0; 8];
            self.ask(interface, command, &mut answer).and_then(|()| u32_at(&answer, 4))
        };
        let known: Vec<(u32, &str)> =
            OFFLOADS.iter().filter_map(|(command, name)| Some((value(*command)?, *name))).collect();
        let flags = value(GET_FLAGS);
        if known.is_empty() && flags.is_none() {
            return None;
        }
        let flagged = OFFLOAD_FLAGS.iter().filter(|(flag, _)| flags.unwrap_or(0) & flag != 0).map(|(_, name)| *name);
        let on = known.into_iter().filter(|(value, _)| *value != 0).map(|(_, name)| name);
        Some(on.chain(flagged).collect::<Vec<_>>().join(" "))
    }

    pub(super) fn rings(&self, interface: &str) -> Option<Rings> {
        let mut answer = [0; 9 * 4];
        self.ask(interface, GET_RINGS, &mut answer)?;
        let word = |at: usize| u32_at(&answer, 4 * at);
        Some(Rings { rx_max: word(1)?, tx_max: word(4)?, rx: word(5)?, tx: word(8)? })
    }

    pub(super) fn coalescing(&self, interface: &str) -> Option<Coalescing> {
        let mut answer = [0; 23 * 4];
        self.ask(interface, GET_COALESCE, &mut answer)?;
        let word = |at: usize| u32_at(&answer, 4 * at);
        Some(Coalescing { rx_usecs: word(1)?, rx_frames: word(2)?, tx_usecs: word(5)?, adaptive_rx: word(10)? != 0 })
    }

    /// Lists the names of the driver's own counters.
    pub(super) fn counter_names(&self, interface: &str) -> Vec<String> {
        let Some(count) = self.counter_count(interface) else { return Vec::new() };
        let mut answer = vec![0; buffer_size(NAME)];
        answer[4..8].copy_from_slice(&COUNTERS.to_ne_bytes());
        if self.ask(interface, GET_STRINGS, &mut answer).is_none() {
            return Vec::new();
        }
        answer[12..].chunks_exact(NAME).take(count).map(|name| text(name).trim().to_owned()).collect()
    }

    /// Reads the driver's own counters, in the order of their names. Returns `None` if their number differs from `names`. The
    /// caller keeps the buffer: clearing so much memory each time costs more than the call.
    pub(super) fn counter_values(&self, interface: &str, names: usize, answer: &mut Vec<u8>) -> Option<Vec<u64>> {
        if self.counter_count(interface)? != names {
            return None;
        }
        answer.resize(buffer_size(size_of::<u64>()), 0);
        answer[4..8].copy_from_slice(&u32::try_from(names).ok()?.to_ne_bytes());
        self.ask(interface, GET_STATISTICS, answer)?;
        (0..names).map(|i| u64_at(answer, 8 + 8 * i)).collect()
    }

    fn counter_count(&self, interface: &str) -> Option<usize> {
        let mut answer = [0; 20];
        answer[8..16].copy_from_slice(&(1u64 << COUNTERS).to_ne_bytes());
        self.ask(interface, GET_SET_SIZE, &mut answer)?;
        // The kernel writes the size only if the mask says that the driver has the set.
        let has = u64_at(&answer, 8)? != 0;
        let count = u32_at(&answer, 16)? as usize;
        (has && (1..=MAX_COUNTERS).contains(&count)).then_some(count)
    }

    /// Runs a command. `answer` must be as large as the command's structure, which each caller above ensures.
    fn ask(&self, interface: &str, command: u32, answer: &mut [u8]) -> Option<()> {
        answer.get_mut(..4)?.copy_from_slice(&command.to_ne_bytes());
        // SAFETY: all bytes zero is a valid ifreq.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // The last byte stays zero.
        let end = request.ifr_name.len() - 1;
        for (to, from) in request.ifr_name[..end].iter_mut().zip(interface.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = answer.as_mut_ptr().cast();
        // SAFETY: `request` is an ifreq whose data points to `answer`, which is as large as the command's structure.
        let outcome = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
        (outcome >= 0).then_some(())
    }
}

fn link_mode(speed: u32, duplex: u8) -> LinkMode {
    LinkMode {
        // SPEED_UNKNOWN is all ones, truncated to 16 bits by old drivers; a link that is down reports 0.
        speed: Some(speed).filter(|s| !matches!(*s, 0 | 0xffff | u32::MAX)),
        duplex: match duplex {
            0 => Some("half"),
            1 => Some("full"),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_speed_is_absent() {
        assert_eq!(link_mode(u32::MAX, 0xff), LinkMode::default());
        assert_eq!(link_mode(0, 0), LinkMode { speed: None, duplex: Some("half") });
        assert_eq!(link_mode(25_000, 1), LinkMode { speed: Some(25_000), duplex: Some("full") });
    }

    #[test]
    fn a_missing_interface_has_no_link_mode_and_no_counters() {
        let ethtool = Ethtool::open().unwrap();
        let name = "no such interface, and a long name at that";
        assert_eq!(ethtool.link_mode(name), None);
        assert_eq!(ethtool.counter_names(name), Vec::<String>::new());
    }
}
