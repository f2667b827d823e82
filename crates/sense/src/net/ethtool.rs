//! The ethtool ioctl (include/uapi/linux/ethtool.h): link speed, rings, interrupt coalescing, a driver's own counters.

use super::netlink::{miss, text, u32_at, u64_at};
use crate::source::Miss;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const GET_DRIVER: u32 = 0x03;
const GET_COALESCE: u32 = 0x0e;
const GET_RINGS: u32 = 0x10;
const GET_STRINGS: u32 = 0x1b;
const GET_STATISTICS: u32 = 0x1d;
const GET_SET_SIZE: u32 = 0x37;
const GET_LINK_SETTINGS: u32 = 0x4c;
/// The set of strings that names a driver's counters (ETH_SS_STATS).
const COUNTERS: u32 = 1;
/// Length of a name (ETH_GSTRING_LEN).
const NAME: usize = 32;
/// Counters a driver may have; the largest known have some five thousand.
const MOST_COUNTERS: usize = 8192;
/// Room for names, or for counters. The kernel writes as many as the driver has at that moment, whatever the caller has room
/// for, and their number can grow as queues are added: so four times what is ever asked for.
const fn room(of_each: usize) -> usize {
    4 * MOST_COUNTERS * of_each
}

/// An interface's link, as negotiated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkMode {
    /// Megabits per second; `None` where unknown.
    pub speed: Option<u32>,
    /// `full` or `half`; `None` where unknown.
    pub duplex: Option<&'static str>,
}

/// Entries of an interface's rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rings {
    /// Receive, in force.
    pub rx: u32,
    /// Receive, possible.
    pub rx_max: u32,
    /// Transmit, in force.
    pub tx: u32,
    /// Transmit, possible.
    pub tx_max: u32,
}

/// How an interface puts off its interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Coalescing {
    /// Microseconds before a receive interrupt.
    pub rx_usecs: u32,
    /// Packets before a receive interrupt.
    pub rx_frames: u32,
    /// Microseconds before a transmit interrupt.
    pub tx_usecs: u32,
    /// Whether the driver adapts the receive delay.
    pub adaptive_rx: bool,
}

/// A socket to ask drivers by. It belongs to the network namespace of the thread that opened it.
pub(crate) struct Ethtool(OwnedFd);

impl Ethtool {
    /// Opens the socket.
    ///
    /// # Errors
    /// Where the kernel has no networking.
    pub fn open() -> Result<Self, Miss> {
        // SAFETY: a system call that takes no pointer.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(miss(&io::Error::last_os_error()));
        }
        // SAFETY: `fd` was just opened and belongs to nobody else.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Speed and duplex.
    pub fn link_mode(&self, interface: &str) -> Option<LinkMode> {
        let mut answer = [0; 48 + 3 * 127 * 4];
        self.ask(interface, GET_LINK_SETTINGS, &mut answer)?;
        // The first answer is the negated number of words in a mask, to be given back with the second question.
        answer[15] = (answer[15] as i8).checked_neg().filter(|words| *words > 0)? as u8;
        self.ask(interface, GET_LINK_SETTINGS, &mut answer)?;
        Some(link_mode(u32_at(&answer, 4)?, answer[8]))
    }

    /// The driver's name.
    pub fn driver(&self, interface: &str) -> Option<String> {
        let mut answer = [0; 196];
        self.ask(interface, GET_DRIVER, &mut answer)?;
        Some(text(&answer[4..36])).filter(|name| !name.is_empty())
    }

    /// Ring sizes.
    pub fn rings(&self, interface: &str) -> Option<Rings> {
        let mut answer = [0; 9 * 4];
        self.ask(interface, GET_RINGS, &mut answer)?;
        let word = |at: usize| u32_at(&answer, 4 * at);
        Some(Rings { rx_max: word(1)?, tx_max: word(4)?, rx: word(5)?, tx: word(8)? })
    }

    /// Interrupt coalescing.
    pub fn coalescing(&self, interface: &str) -> Option<Coalescing> {
        let mut answer = [0; 23 * 4];
        self.ask(interface, GET_COALESCE, &mut answer)?;
        let word = |at: usize| u32_at(&answer, 4 * at);
        Some(Coalescing { rx_usecs: word(1)?, rx_frames: word(2)?, tx_usecs: word(5)?, adaptive_rx: word(10)? != 0 })
    }

    /// Names of the driver's own counters; empty where it has none.
    pub fn counter_names(&self, interface: &str) -> Vec<String> {
        let Some(count) = self.counter_count(interface) else { return Vec::new() };
        let mut answer = vec![0; room(NAME)];
        answer[4..8].copy_from_slice(&COUNTERS.to_ne_bytes());
        if self.ask(interface, GET_STRINGS, &mut answer).is_none() {
            return Vec::new();
        }
        answer[12..].chunks_exact(NAME).take(count).map(|name| text(name).trim().to_owned()).collect()
    }

    /// The driver's own counters, in the order of their names. `None` where there are not as many as names. The answer is
    /// kept by the caller: to clear so much memory each time costs more than to ask.
    pub fn counter_values(&self, interface: &str, names: usize, answer: &mut Vec<u8>) -> Option<Vec<u64>> {
        if self.counter_count(interface)? != names {
            return None;
        }
        answer.resize(room(size_of::<u64>()), 0);
        answer[4..8].copy_from_slice(&u32::try_from(names).ok()?.to_ne_bytes());
        self.ask(interface, GET_STATISTICS, answer)?;
        (0..names).map(|i| u64_at(answer, 8 + 8 * i)).collect()
    }

    fn counter_count(&self, interface: &str) -> Option<usize> {
        let mut answer = [0; 20];
        answer[8..16].copy_from_slice(&(1u64 << COUNTERS).to_ne_bytes());
        self.ask(interface, GET_SET_SIZE, &mut answer)?;
        // The mask says whether the driver has the set at all; only then is a size written.
        let has = u64_at(&answer, 8)? != 0;
        let count = u32_at(&answer, 16)? as usize;
        (has && (1..=MOST_COUNTERS).contains(&count)).then_some(count)
    }

    /// Puts one question. `answer` must be as large as the command's structure: each caller above sees to it.
    fn ask(&self, interface: &str, command: u32, answer: &mut [u8]) -> Option<()> {
        answer.get_mut(..4)?.copy_from_slice(&command.to_ne_bytes());
        // SAFETY: all bytes zero is a valid ifreq.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // One byte is left for the zero at the end.
        let room = request.ifr_name.len() - 1;
        for (to, from) in request.ifr_name[..room].iter_mut().zip(interface.bytes()) {
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
        // SPEED_UNKNOWN is all ones, cut to 16 bits by old drivers; a link that is down says 0.
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
    fn an_unknown_speed_is_no_speed() {
        assert_eq!(link_mode(u32::MAX, 0xff), LinkMode::default());
        assert_eq!(link_mode(0, 0), LinkMode { speed: None, duplex: Some("half") });
        assert_eq!(link_mode(25_000, 1), LinkMode { speed: Some(25_000), duplex: Some("full") });
    }

    #[test]
    fn an_interface_that_is_not_there_has_nothing() {
        let ethtool = Ethtool::open().unwrap();
        let name = "no such interface, and a long name at that";
        assert_eq!(ethtool.link_mode(name), None);
        assert_eq!(ethtool.counter_names(name), Vec::<String>::new());
    }
}
