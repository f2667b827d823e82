//! What client and server tell each other once a connection stands, and what of it is believed.

use serde::{Deserialize, Serialize};
use whyslow_model::bench::{NetEnd, NetLoad, Transport, Work};

/// The largest message a stranger may send, bytes.
pub(super) const SMALL: usize = 1 << 10;
/// The largest that a client may send which has shown that it knows the token.
pub(super) const MEDIUM: usize = 1 << 14;
/// The largest answer: a hundred streams over an hour.
pub(super) const LARGE: usize = 1 << 24;

/// Loads of one round, at most.
pub(super) const MOST_LOADS: usize = 4;
/// Streams of one round, at most: each is a thread at either end.
pub(super) const MOST_STREAMS: u32 = 128;
/// A round lasts no longer, seconds.
pub(super) const LONGEST: f64 = 3600.0;
/// The largest block of a stream, bytes.
pub(super) const LARGEST_BLOCK: u32 = 1 << 20;
/// The smallest datagram: what tells when it was sent, and as which.
pub(super) const SMALLEST_DATAGRAM: u32 = 20;
/// The largest: 65535 less the headers of IP and UDP.
pub(super) const LARGEST_DATAGRAM: u32 = 65_507;

/// The server's first word: a challenge.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Challenge {
    pub(super) program: String,
    pub(super) nonce: [u8; 32],
}

/// The client's answer, and a challenge of its own.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Response {
    pub(super) nonce: [u8; 32],
    pub(super) proof: [u8; 32],
}

/// Whether the client is let in.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Admission {
    Welcome(Box<Welcome>),
    Refused(String),
}

/// Who the server is.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Welcome {
    pub(super) proof: [u8; 32],
    pub(super) session: [u8; 16],
    pub(super) host: Option<String>,
    pub(super) kernel: Option<String>,
    pub(super) cpus: Option<u32>,
    pub(super) receive_most: Option<u64>,
    pub(super) send_most: Option<u64>,
}

/// What a client asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// Get ready for a round: its number, which is higher than any before, and its loads. The lines come meanwhile.
    Prepare { round: u32, loads: Vec<NetLoad> },
    /// Begin.
    Start,
    /// End the round now.
    Stop,
    /// End the server.
    Quit,
}

/// What the server answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    /// To prepare: the lines may come.
    Expecting,
    /// All lines are there.
    Ready,
    /// Some have not come in time: the round is not played.
    Incomplete,
    /// To start: it has begun.
    Started,
    /// The round is over: what this end has to tell of each load, and how many other clients there were.
    Done { ends: Vec<NetEnd>, other_clients: u32 },
    /// It cannot be done.
    Refused(String),
    /// To quit.
    Ending,
}

/// Whether a round is one that may be run for a stranger.
///
/// # Errors
/// What speaks against it.
pub(super) fn check(loads: &[NetLoad]) -> Result<(), String> {
    if loads.is_empty() || loads.len() > MOST_LOADS {
        return Err(format!("a round has 1 to {MOST_LOADS} loads"));
    }
    loads.iter().try_for_each(check_load)?;
    let streams = loads.iter().map(|load| u64::from(load.streams)).sum::<u64>();
    if streams > MOST_STREAMS.into() {
        return Err(format!("a round has at most {MOST_STREAMS} streams, not {streams}"));
    }
    Ok(())
}

fn check_load(load: &NetLoad) -> Result<(), String> {
    let within = |what: &str, value: f64, least: f64, most: f64| {
        // Written so that what is no number is not within anything.
        if value >= least && value <= most { Ok(()) } else { Err(format!("{what}: {value}, not {least} to {most}")) }
    };
    within("streams", load.streams.into(), 1.0, MOST_STREAMS.into())?;
    within("seconds", load.seconds, 0.0, LONGEST)?;
    within("seconds before", load.ramp_seconds, 0.0, 60.0)?;
    within("pause", load.pause, 0.0, 60.0)?;
    within("rate", load.rate.unwrap_or(1.0), 1.0, 1e13)?;
    within("buffer", load.buffer.unwrap_or(1).into(), 1.0, f64::from(1 << 30))?;
    within("segment", load.segment.unwrap_or(88).into(), 88.0, 32_767.0)?;
    let (least, most) = match load.transport {
        Transport::Tcp => (1, LARGEST_BLOCK),
        Transport::Udp => (SMALLEST_DATAGRAM, LARGEST_DATAGRAM),
    };
    within("block", load.block.into(), least.into(), most.into())?;
    if load.work == Work::Exchange {
        within("answer", load.answer.into(), 1.0, most.into())?;
    }
    let name = load.congestion.as_deref().unwrap_or_default();
    // TCP_CA_NAME_MAX of include/net/tcp.h.
    if name.len() >= 16 || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)) {
        return Err("congestion: not the name of one".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use whyslow_model::bench::Direction;

    fn stream() -> NetLoad {
        NetLoad::stream(Direction::Up, 1.0)
    }

    #[test]
    fn what_a_round_may_be() {
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
        fn no_text_makes_reading_a_request_panic(text: Vec<u8>) {
            let _ = serde_json::from_slice::<Request>(&text);
            let _ = serde_json::from_slice::<Response>(&text);
        }
    }
}
