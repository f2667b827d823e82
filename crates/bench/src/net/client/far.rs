//! The other end, whichever it is.

use super::iperf3::Iperf3;
use super::link::{Link, Tick};
use crate::error::{Error, Result};
use whyslow_model::bench::{NetLoad, NetRound, Peer};

/// The other end.
pub(super) enum Far {
    Whyslow(Link),
    /// It knows TCP streams only.
    Iperf3(Iperf3),
}

impl Far {
    pub(super) fn peer(&self) -> &Peer {
        match self {
            Self::Whyslow(link) => &link.peer,
            Self::Iperf3(server) => &server.peer,
        }
    }

    /// Whether the last round was not played because its lines did not reach the server.
    pub(super) fn is_incomplete(&self) -> bool {
        matches!(self, Self::Whyslow(link) if link.incomplete)
    }

    /// The round-trip time, seconds; none where it is not known.
    pub(super) fn rtt(&self) -> Option<f64> {
        match self {
            Self::Whyslow(link) => link.rtt(),
            Self::Iperf3(_) => None,
        }
    }

    /// The path MTU the kernel goes by.
    pub(super) fn kernel_mtu(&self) -> Option<u32> {
        match self {
            Self::Whyslow(link) => link.kernel_mtu(),
            Self::Iperf3(_) => None,
        }
    }

    /// Plays a round of named loads.
    ///
    /// # Errors
    /// Where the server refuses it or is gone.
    pub(super) fn round(&mut self, group: &str, name: &str, loads: &[(&str, NetLoad)], tick: Tick) -> Result<NetRound> {
        match (self, loads) {
            (Self::Whyslow(link), _) => link.round(group, name, loads, tick),
            (Self::Iperf3(server), [(name, load)]) => server.round(group, name, load, tick),
            (Self::Iperf3(_), _) => Err(Error::new("iperf3 runs one load at a time")),
        }
    }
}
