//! The other end: `whyslow bench net serve` or `iperf3 -s`.

use super::iperf3::Iperf3;
use super::server_connection::{ServerConnection, Tick};
use crate::error::{Error, Result};
use whyslow_model::bench::{NetLoad, NetRound, Peer};

pub(super) enum RemoteEnd {
    Whyslow(ServerConnection),
    /// TCP streams only.
    Iperf3(Iperf3),
}

impl RemoteEnd {
    pub(super) fn peer(&self) -> &Peer {
        match self {
            Self::Whyslow(connection) => &connection.peer,
            Self::Iperf3(server) => &server.peer,
        }
    }

    /// Whether the last round did not run because its streams did not reach the server.
    pub(super) fn is_incomplete(&self) -> bool {
        matches!(self, Self::Whyslow(connection) if connection.incomplete)
    }

    /// Round-trip time, seconds.
    pub(super) fn rtt(&self) -> Option<f64> {
        match self {
            Self::Whyslow(connection) => connection.rtt(),
            Self::Iperf3(_) => None,
        }
    }

    /// Path MTU as the kernel knows it.
    pub(super) fn kernel_mtu(&self) -> Option<u32> {
        match self {
            Self::Whyslow(connection) => connection.kernel_mtu(),
            Self::Iperf3(_) => None,
        }
    }

    /// Runs a round of named loads.
    pub(super) fn run_round(
        &mut self,
        group: &str,
        name: &str,
        loads: &[(&str, NetLoad)],
        tick: Tick,
    ) -> Result<NetRound> {
        match (self, loads) {
            (Self::Whyslow(connection), _) => connection.run_round(group, name, loads, tick),
            (Self::Iperf3(server), [(name, load)]) => server.run_round(group, name, load, tick),
            (Self::Iperf3(_), _) => Err(Error::new("iperf3 runs one load at a time")),
        }
    }
}
