//! Parameters of a network card through SIOCETHTOOL (include/uapi/linux/ethtool.h): reads a structure of 32-bit words, changes
//! one word, and writes the structure back.

use super::{Handle, sorted};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use whyslow_documents::tune::Unavailable;

/// Access to a parameter: the commands that get and set its structure, the length of the structure, and the word and bits that
/// contain the parameter.
struct ParameterLayout {
    name: &'static str,
    get: u32,
    set: u32,
    words: usize,
    at: usize,
    mask: u32,
    /// The word that contains the device's maximum.
    most: Option<usize>,
}

const fn word(name: &'static str, get: u32, set: u32, words: usize, at: usize) -> ParameterLayout {
    ParameterLayout { name, get, set, words, at, mask: u32::MAX, most: None }
}

const fn bounded(name: &'static str, get: u32, set: u32, words: usize, at: usize, most: usize) -> ParameterLayout {
    ParameterLayout { name, get, set, words, at, mask: u32::MAX, most: Some(most) }
}

/// Returns the layout of one of the flags that share a word (ETH_FLAG_ of enum ethtool_flags).
const fn flag(name: &'static str, bit: u32) -> ParameterLayout {
    ParameterLayout { name, get: 0x25, set: 0x26, words: 2, at: 1, mask: 1 << bit, most: None }
}

const PARAMETERS: &[ParameterLayout] = &[
    // struct ethtool_ringparam
    bounded("ring.rx", 0x10, 0x11, 9, 5, 1),
    bounded("ring.tx", 0x10, 0x11, 9, 8, 4),
    // struct ethtool_coalesce
    word("coalesce.rx_usecs", 0x0e, 0x0f, 23, 1),
    word("coalesce.rx_frames", 0x0e, 0x0f, 23, 2),
    word("coalesce.rx_usecs_irq", 0x0e, 0x0f, 23, 3),
    word("coalesce.rx_frames_irq", 0x0e, 0x0f, 23, 4),
    word("coalesce.tx_usecs", 0x0e, 0x0f, 23, 5),
    word("coalesce.tx_frames", 0x0e, 0x0f, 23, 6),
    word("coalesce.tx_usecs_irq", 0x0e, 0x0f, 23, 7),
    word("coalesce.tx_frames_irq", 0x0e, 0x0f, 23, 8),
    word("coalesce.adaptive_rx", 0x0e, 0x0f, 23, 10),
    word("coalesce.adaptive_tx", 0x0e, 0x0f, 23, 11),
    // struct ethtool_channels
    bounded("channels.rx", 0x3c, 0x3d, 9, 5, 1),
    bounded("channels.tx", 0x3c, 0x3d, 9, 6, 2),
    bounded("channels.combined", 0x3c, 0x3d, 9, 8, 4),
    // struct ethtool_pauseparam
    word("pause.autoneg", 0x12, 0x13, 4, 1),
    word("pause.rx", 0x12, 0x13, 4, 2),
    word("pause.tx", 0x12, 0x13, 4, 3),
    // struct ethtool_value
    word("offload.rx_checksum", 0x14, 0x15, 2, 1),
    word("offload.tx_checksum", 0x16, 0x17, 2, 1),
    word("offload.scatter_gather", 0x18, 0x19, 2, 1),
    word("offload.tso", 0x1e, 0x1f, 2, 1),
    word("offload.gso", 0x23, 0x24, 2, 1),
    word("offload.gro", 0x2b, 0x2c, 2, 1),
    flag("offload.tx_vlan", 7),
    flag("offload.rx_vlan", 8),
    flag("offload.lro", 15),
    flag("offload.ntuple", 27),
    flag("offload.rx_hash", 28),
];

/// Length of the longest structure.
const MOST_WORDS: usize = 23;

pub(super) struct Parameter {
    place: &'static ParameterLayout,
    interface: String,
}

impl Parameter {
    pub(super) fn for_interface(name: &str, interface: &str) -> Result<Self, Unavailable> {
        let place = PARAMETERS.iter().find(|place| place.name == name);
        let place = place.ok_or_else(|| Unavailable::Failed(format!("ethtool has no parameter {name}")))?;
        Ok(Self { place, interface: interface.to_owned() })
    }

    fn fetch(&self) -> Result<[u32; MOST_WORDS], Unavailable> {
        let mut words = [0; MOST_WORDS];
        words[0] = self.place.get;
        self.ask(&mut words)?;
        Ok(words)
    }

    /// Makes one request; the answer overwrites it.
    fn ask(&self, words: &mut [u32; MOST_WORDS]) -> Result<(), Unavailable> {
        debug_assert!(self.place.words <= MOST_WORDS);
        ioctl(&self.interface, words).map_err(|e| match e.raw_os_error() {
            Some(libc::EINVAL) if words[0] == self.place.get => {
                Unavailable::Unsupported(format!("the driver of {} has no {}", self.interface, self.place.name))
            }
            Some(libc::EOPNOTSUPP) => {
                Unavailable::Unsupported(format!("the driver of {} has no {}", self.interface, self.place.name))
            }
            _ => sorted(&format!("{} of {}", self.place.name, self.interface), &e),
        })
    }
}

impl Handle for Parameter {
    fn read(&self) -> Result<String, Unavailable> {
        let part = self.fetch()?[self.place.at] & self.place.mask;
        Ok((part >> self.place.mask.trailing_zeros()).to_string())
    }

    fn most(&self) -> Option<i128> {
        self.fetch().ok().and_then(|words| Some(words[self.place.most?].into()))
    }

    fn write(&self, value: &str) -> Result<(), Unavailable> {
        let number: u32 =
            value.parse().map_err(|_| Unavailable::Failed(format!("{value:?} does not fit in 32 bits")))?;
        let mut words = self.fetch()?;
        let ParameterLayout { at, mask, .. } = *self.place;
        words[0] = self.place.set;
        words[at] = words[at] & !mask | number << mask.trailing_zeros() & mask;
        self.ask(&mut words)
    }
}

fn ioctl(interface: &str, words: &mut [u32; MOST_WORDS]) -> io::Result<()> {
    // SAFETY: socket has no preconditions.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just created and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: all bytes zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // One byte is reserved for the terminating zero.
    let room = request.ifr_name.len() - 1;
    if interface.len() > room {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name[..room].iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: `request` is an ifreq whose data points to words that are as many as the longest structure asked for has.
    let outcome = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
