//! Messages between client and server, and limits on client requests.

use serde::{Deserialize, Serialize};
use whyslow_documents::bench::{NetEnd, NetLoad, Transport, Work};

/// Maximum message sizes in bytes: before authentication, after it, and from the server (a hundred streams over an
/// hour).
pub(super) const MAX_UNAUTHENTICATED: usize = 1 << 10;
pub(super) const MAX_REQUEST: usize = 1 << 14;
pub(super) const MAX_REPLY: usize = 1 << 24;

/// Limits of a round. Each stream is a thread at both ends.
const MAX_LOADS: usize = 4;
const MAX_STREAMS: u32 = 128;
const MAX_SECONDS: f64 = 3600.0;
const MAX_BLOCK: u32 = 1 << 20;
/// Minimum datagram: its header.
const MIN_DATAGRAM: u32 = 20;
/// Maximum datagram: 65,535 bytes minus the headers of IP and UDP.
const MAX_DATAGRAM: u32 = 65_507;

/// First message, sent by the server.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Challenge {
    pub(super) program: String,
    pub(super) nonce: [u8; 32],
}

/// The client's response, with a challenge of its own.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Response {
    pub(super) nonce: [u8; 32],
    pub(super) proof: [u8; 32],
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Admission {
    Welcome(Box<ServerInfo>),
    Refused(String),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ServerInfo {
    pub(super) proof: [u8; 32],
    pub(super) session: [u8; 16],
    pub(super) host: Option<String>,
    pub(super) kernel: Option<String>,
    pub(super) cpus: Option<u32>,
    pub(super) receive_most: Option<u64>,
    pub(super) send_most: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ClientRequest {
    /// Get ready for a round, whose number is higher than any before. The streams follow.
    Prepare {
        round: u32,
        loads: Vec<NetLoad>,
    },
    Start,
    /// End the round now.
    Stop,
    /// End the server.
    Quit,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ServerReply {
    /// Reply to `Prepare`: open the streams.
    Expecting,
    /// All streams have arrived.
    Ready,
    /// Some streams did not arrive; the round does not run.
    Incomplete,
    /// Reply to `Start`.
    Started,
    /// The round is over; contains the results of each load at this end.
    Done {
        ends: Vec<NetEnd>,
        other_clients: u32,
    },
    Refused(String),
    /// Reply to `Quit`.
    Ending,
}

/// Checks a client's loads against the limits.
pub(super) fn check(loads: &[NetLoad]) -> Result<(), String> {
    if loads.is_empty() || loads.len() > MAX_LOADS {
        return Err(format!("a round has 1 to {MAX_LOADS} loads"));
    }
    loads.iter().try_for_each(check_load)?;
    let streams = loads.iter().map(|load| u64::from(load.streams)).sum::<u64>();
    if streams > MAX_STREAMS.into() {
        return Err(format!("a round has at most {MAX_STREAMS} streams, not {streams}"));
    }
    Ok(())
}

fn check_load(load: &NetLoad) -> Result<(), String> {
    let within = |what: &str, value: f64, least: f64, most: f64| {
        // NaN is outside any range.
        if value >= least && value <= most {
            Ok(())
        } else {
            Err(format!("{what}: {value} is not within {least} to {most}"))
        }
    };
    within("streams", load.streams.into(), 1.0, MAX_STREAMS.into())?;
    within("seconds", load.seconds, 0.0, MAX_SECONDS)?;
    within("seconds before", load.ramp_seconds, 0.0, 60.0)?;
    within("pause", load.pause, 0.0, 60.0)?;
    within("rate", load.rate.unwrap_or(1.0), 1.0, 1e13)?;
    within("buffer", load.buffer.unwrap_or(1).into(), 1.0, f64::from(1 << 30))?;
    within("segment", load.segment.unwrap_or(88).into(), 88.0, 32_767.0)?;
    let (least, most) = match load.transport {
        Transport::Tcp => (1, MAX_BLOCK),
        Transport::Udp => (MIN_DATAGRAM, MAX_DATAGRAM),
    };
    within("block", load.block.into(), least.into(), most.into())?;
    if load.work == Work::Exchange {
        within("answer", load.answer.into(), 1.0, most.into())?;
    }
    let name = load.congestion.as_deref().unwrap_or_default();
    // TCP_CA_NAME_MAX of include/net/tcp.h.
    if name.len() >= 16 || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)) {
        return Err("not a name of a congestion control algorithm".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use whyslow_documents::bench::Direction;

    fn stream() -> NetLoad {
        NetLoad::stream(Direction::Up, 1.0)
    }

    #[test]
    fn loads_outside_the_limits_are_refused() {
        assert_eq!(check(&[stream(), NetLoad::exchange(Transport::Udp, 1.0)]), Ok(()));
        let refused = [
            NetLoad { streams: 0, ..stream() },
            NetLoad { streams: 129, ..stream() },
            NetLoad { seconds: f64::NAN, ..stream() },
            NetLoad { seconds: 1e9, ..stream() },
            NetLoad { ramp_seconds: -1.0, ..stream() },
            NetLoad { block: 0, ..stream() },
            NetLoad { block: u32::MAX, ..stream() },
            NetLoad { rate: Some(f64::INFINITY), ..stream() },
            NetLoad { segment: Some(1), ..stream() },
            NetLoad { congestion: Some("../../etc".into()), ..stream() },
            NetLoad { transport: Transport::Udp, block: 19, ..stream() },
            NetLoad { answer: 0, ..NetLoad::exchange(Transport::Tcp, 1.0) },
        ];
        for load in refused {
            assert!(check(std::slice::from_ref(&load)).is_err(), "{load:?}");
        }
        assert!(check(&[]).is_err());
        let many = NetLoad { streams: 100, ..stream() };
        assert!(check(&[many.clone(), many]).is_err());
    }

    proptest! {
        #[test]
        fn no_message_panics(text: Vec<u8>) {
            let _ = serde_json::from_slice::<ClientRequest>(&text);
            let _ = serde_json::from_slice::<Response>(&text);
        }
    }
}
