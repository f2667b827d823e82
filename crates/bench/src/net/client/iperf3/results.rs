//! JSON of iperf3: the parameters and results of a test.

use serde::{Deserialize, Serialize};
use whyslow_documents::bench::{CpuCost, Direction, NetEnd, NetLoad, NetStream, Work};

#[derive(Serialize)]
pub(super) struct Parameters<'a> {
    tcp: bool,
    omit: u32,
    time: u32,
    parallel: u32,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    reverse: bool,
    len: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<u32>,
    #[serde(rename = "MSS", skip_serializing_if = "Option::is_none")]
    mss: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    congestion: Option<&'a str>,
    client_version: &'static str,
}

/// Results that each end sends to the other.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Iperf3Results {
    cpu_util_total: f64,
    cpu_util_user: f64,
    cpu_util_system: f64,
    /// 1 if retransmits are counted.
    sender_has_retransmits: f64,
    streams: Vec<StreamResult>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct StreamResult {
    id: u32,
    bytes: u64,
    /// Negative or 2⁶⁴-1 if unknown; the same applies to the next fields.
    retransmits: f64,
    jitter: f64,
    errors: f64,
    packets: f64,
    #[serde(default)]
    start_time: f64,
    #[serde(default)]
    end_time: f64,
}

pub(super) fn parameters(load: &NetLoad) -> Parameters<'_> {
    Parameters {
        tcp: true,
        omit: load.ramp_seconds as u32,
        // The server aborts a test that lasts longer.
        time: load.seconds.ceil() as u32 + 1,
        parallel: load.streams,
        reverse: load.work == Work::Stream(Direction::Down),
        len: load.block,
        window: load.buffer,
        mss: load.segment,
        congestion: load.congestion.as_deref(),
        client_version: "3.12",
    }
}

/// Returns iperf3's number of a stream: 1, 3, 4, 5 …
fn number(place: usize) -> u32 {
    if place == 0 { 1 } else { place as u32 + 2 }
}

pub(super) fn results(here: &NetEnd) -> Iperf3Results {
    let share = |seconds: f64| 100.0 * seconds / here.cost.thread_seconds.max(1e-9);
    let stream = |(place, stream): (usize, &NetStream)| StreamResult {
        id: number(place),
        bytes: stream.bytes,
        retransmits: stream.retransmits.map_or(-1.0, |n| n as f64),
        end_time: here.seconds,
        ..StreamResult::default()
    };
    Iperf3Results {
        cpu_util_total: share(here.cost.user_seconds + here.cost.system_seconds),
        cpu_util_user: share(here.cost.user_seconds),
        cpu_util_system: share(here.cost.system_seconds),
        sender_has_retransmits: 1.0,
        streams: here.streams.iter().enumerate().map(stream).collect(),
    }
}

/// Returns the results of the other end, as far as iperf3 reports them.
pub(super) fn end_of(load: &NetLoad, here: &NetEnd, theirs: &Iperf3Results) -> NetEnd {
    let finite = |number: f64| if number.is_finite() { number.max(0.0) } else { 0.0 };
    let own = theirs.streams.iter().map(|s| finite(s.end_time - s.start_time)).fold(0.0, f64::max);
    let seconds = if own > 0.0 { own } else { here.seconds };
    let sends = load.work == Work::Stream(Direction::Down) && theirs.sender_has_retransmits == 1.0;
    let stream = |stream: &StreamResult| NetStream {
        bytes: stream.bytes,
        retransmits: (sends && (0.0..1e18).contains(&stream.retransmits)).then_some(stream.retransmits as u64),
        ..NetStream::default()
    };
    let bytes = theirs.streams.iter().fold(0u64, |sum, stream| sum.saturating_add(stream.bytes));
    let spent = |percent: f64| finite(percent) / 100.0 * seconds;
    let cost = CpuCost {
        thread_seconds: seconds,
        user_seconds: spent(theirs.cpu_util_user),
        system_seconds: spent(theirs.cpu_util_system),
        ..CpuCost::default()
    };
    let streams = theirs.streams.iter().map(stream).collect();
    NetEnd { seconds, bytes, all_bytes: bytes, streams, cost, ..NetEnd::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn streams_are_numbered_as_in_iperf3() {
        assert_eq!([0, 1, 2, 3].map(number), [1, 3, 4, 5]);
    }

    #[test]
    fn defaults_are_left_out_of_the_parameters() {
        let load = NetLoad::stream(Direction::Up, 1.5);
        let json = serde_json::to_string(&parameters(&load)).unwrap();
        assert_eq!(json, r#"{"tcp":true,"omit":0,"time":3,"parallel":1,"len":131072,"client_version":"3.12"}"#);
        let load = NetLoad { segment: Some(1000), ..NetLoad::stream(Direction::Down, 1.0) };
        let json = serde_json::to_string(&parameters(&load)).unwrap();
        assert!(json.contains(r#""reverse":true"#) && json.contains(r#""MSS":1000"#), "{json}");
    }

    proptest! {
        #[test]
        fn no_results_panic(bytes: Vec<u64>, times: (f64, f64), cpu: f64) {
            let (start_time, end_time) = times;
            let stream = |bytes: u64| StreamResult { bytes, start_time, end_time, retransmits: -1.0, ..StreamResult::default() };
            let streams = bytes.into_iter().map(stream).collect();
            let results = Iperf3Results { cpu_util_user: cpu, streams, ..Iperf3Results::default() };
            let end = end_of(&NetLoad::stream(Direction::Up, 1.0), &NetEnd::default(), &results);
            prop_assert!(end.seconds >= 0.0 && end.cost.user_seconds >= 0.0);
        }
    }
}
