//! iperf 3, text and JSON (`-J`): the total over all streams of a test.

use super::iperf::{IperfResult, ends, options_of};
use crate::json::{self, NonNegative};
use crate::prelude::*;
use crate::run_options::{size, value};
use serde::Deserialize;
use std::collections::BTreeMap;
use whyslow_model::catalogue::Transfer;
use whyslow_model::settings::Settings;

pub const FORMAT: Format = Format {
    name: "iperf3",
    versions: "iperf 3, client and server, text and -J",
    shows: "the rate of a transfer; with -w, whether the socket buffer could be the limit",
    lacks: "the limit, from one transfer alone; the single intervals: their total is used, or their mean where it is cut off",
    programs: &[word("iperf3")],
    starts: |lines| {
        lines.next_is(|line| peer_of(line).is_some() || is_heading(line) || connection(line).is_some())
            || json::begins(lines, "start")
    },
    read: |lines, context, run| match json::begins(lines, "start") {
        true => read_json(lines, run),
        false => read_text(lines, context, run),
    },
    ..Format::NEW
};

/// Returns the peer in `Connecting to host 10.0.0.1, port 5201`; a server names it later.
fn peer_of(line: &str) -> Option<&str> {
    if let Some(rest) = line.strip_prefix("Connecting to host ") {
        return rest.split_once(", port ").map(|(host, _)| host);
    }
    let port = line.strip_prefix("Server listening on ")?;
    port.starts_with(|c: char| c.is_ascii_digit()).then_some("a client")
}

/// Returns true for `[ ID] Interval           Transfer     Bitrate         Retr  Cwnd`; iperf 2 has `Bandwidth` instead, and no
/// more columns.
fn is_heading(line: &str) -> bool {
    line.starts_with("[ ID] Interval") && (line.contains("Bitrate") || line.contains("Retr"))
}

/// Returns the peer in `[  5] local 10.0.0.1 port 41288 connected to 10.0.0.2 port 5201`; iperf 2 prints `connected with`.
fn connection(line: &str) -> Option<&str> {
    let (local, peer) = line.strip_prefix('[')?.split_once(" connected to")?;
    local
        .contains("] local ")
        .then(|| peer.trim().split(' ').next().filter(|p| !p.is_empty()).unwrap_or("another host"))
}

/// Returns true if a line after the first belongs to iperf3. The kernel's log also has lines in brackets.
fn is_own(text: &str) -> bool {
    let stream = ["[ ID]", " local ", "SUM", "sec "].iter().any(|part| text.contains(part));
    let own = text.starts_with(['[', '-']) || text.trim().is_empty() || text.starts_with("Accepted connection");
    own && (stream || !text.starts_with("[ ") || !text.contains(']'))
}

/// Returns the protocol that the columns show: UDP has `Total Datagrams`, or `Jitter` and `Lost/Total Datagrams`.
fn protocol_of(text: &str) -> Option<&'static str> {
    text.starts_with("[ ID]").then(|| if text.contains("Datagrams") { "UDP" } else { "TCP" })
}

fn read_text(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let command = context.command_of(FORMAT.name);
    let first = lines.peek(0).unwrap_or_default();
    let mut protocol = protocol_of(first);
    let mut streams = usize::from(connection(first).is_some());
    let mut peer = peer_of(first).or_else(|| connection(first)).unwrap_or("another host").to_owned();
    // Those of the first stream, in the order of their names.
    let mut first_ends = ends(first);
    let mut totals: Vec<StreamTotal> = Vec::new();
    let mut intervals = Intervals::default();
    // The heading of totals has the count of retransmitted segments, but no window.
    let heads_totals = |text: &str| text.contains("Retr") && !text.contains("Cwnd");
    let mut are_totals = is_heading(first) && heads_totals(first);
    lines.skip(1);
    while let Some(line) = lines.take_if(is_own) {
        let text = &line.text;
        if let Some(rest) = text.strip_prefix("Accepted connection from ") {
            peer = rest.split(',').next().unwrap_or(rest).to_owned();
        }
        protocol = protocol_of(text).or(protocol);
        first_ends = first_ends.into_iter().chain(ends(text)).min();
        streams += usize::from(connection(text).is_some());
        if let Some(end) = ["sender", "receiver"].into_iter().find(|end| text.trim_end().ends_with(end)) {
            let Some(result) = IperfResult::parse(text) else {
                let expected =
                    "interval, transfer and bitrate: 0.00-9.00   sec  10.3 GBytes  9.79 Gbits/sec  7  sender";
                return Err(lines.refuse_at(&line, expected));
            };
            totals.push(StreamTotal { line: line.number, end, is_sum: text.starts_with("[SUM]"), result });
        } else if is_heading(text) {
            are_totals = heads_totals(text);
        } else if let Some((stream, from, result)) = interval(text).filter(|_| !are_totals) {
            intervals.add(line.number, stream, from, result, retransmits(text));
        }
    }
    if totals.is_empty()
        && let Some((line, mean)) = intervals.mean()
    {
        let row = mean.record(run, line, FORMAT.name, &peer);
        row.options = options_of(command, protocol, streams).to_state();
        row.ends = first_ends.as_deref().into();
        intervals.record(row);
    }
    let totals = [whole(&totals, "receiver"), whole(&totals, "sender")];
    // Received data counts; a sender that was interrupted knows only what it sent.
    if let Some(StreamTotal { line, result, .. }) = totals.into_iter().flatten().next() {
        let row = result.record(run, line, FORMAT.name, &peer);
        let window = command.and_then(|command| value(command, 'w', "window")).and_then(size);
        // Datagrams do not wait for acknowledgements; with several streams, each has a buffer.
        let window = window.filter(|_| protocol != Some("UDP") && streams <= 1);
        row.window = window.and_then(|bytes| number(&bytes)).into();
        row.options = options_of(command, protocol, streams).to_state();
        row.ends = first_ends.as_deref().into();
        intervals.record(row);
    }
    Ok(())
}

/// Data sent or received in total, by one stream or as the sum of all.
#[derive(Clone, Copy)]
struct StreamTotal {
    line: u32,
    end: &'static str,
    is_sum: bool,
    result: IperfResult,
}

/// Returns the total of one end: with several streams the sum, if it was printed.
fn whole(totals: &[StreamTotal], end: &str) -> Option<StreamTotal> {
    let own: Vec<&StreamTotal> = totals.iter().filter(|total| total.end == end).collect();
    let sum = own.iter().find(|total| total.is_sum);
    sum.or(own.first().filter(|_| own.len() == 1)).map(|total| **total)
}

/// Returns the stream, the beginning and the numbers of one interval, in which no data may have been transferred.
fn interval(text: &str) -> Option<(&str, f64, IperfResult)> {
    let (stream, rest) = text.strip_prefix('[')?.split_once(']')?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let (from, to) = words.first()?.split_once('-')?;
    let from = number(from)?;
    if let Some(result) = IperfResult::parse(text) {
        return Some((stream, from, result));
    }
    let [_, "sec", "0.00", "Bytes", "0.00", "bits/sec", ..] = words[..] else { return None };
    let seconds = number(to)? - from;
    (seconds > 0.0).then_some((stream, from, IperfResult { bytes: 0.0, seconds, rate: 0.0 }))
}

/// Returns the segments retransmitted in an interval: `694 Kbits/sec    2   1.41 KBytes`.
fn retransmits(text: &str) -> Option<f64> {
    let words: Vec<&str> = text.split_once("bits/sec")?.1.split_whitespace().collect();
    match words[..] {
        [count, _, window] if window.ends_with("Bytes") => number(count),
        _ => None,
    }
}

/// Intervals of a test.
#[derive(Default)]
struct Intervals {
    /// Intervals by stream; `SUM` is the sum of all.
    streams: BTreeMap<String, StreamIntervals>,
}

struct StreamIntervals {
    /// Line of the first interval.
    line: u32,
    bytes: f64,
    seconds: f64,
    /// End of the last interval.
    end: f64,
    /// Whether an interval in between is missing.
    has_gap: bool,
    /// Seconds of the intervals in which nothing was moved.
    stalled: f64,
    retransmits: Option<f64>,
}

impl Intervals {
    fn add(&mut self, line: u32, stream: &str, from: f64, result: IperfResult, retransmits: Option<f64>) {
        let sum = self.streams.entry(stream.trim().to_owned()).or_insert(StreamIntervals {
            line,
            bytes: 0.0,
            seconds: 0.0,
            end: from,
            has_gap: false,
            stalled: 0.0,
            retransmits: None,
        });
        // A total whose last word was wrapped begins at the same time as the first interval.
        if from < sum.end - 0.05 {
            return;
        }
        sum.has_gap |= from > sum.end + 0.05;
        sum.bytes += result.bytes;
        sum.seconds += result.seconds;
        sum.end = from + result.seconds;
        sum.stalled += if result.bytes == 0.0 { result.seconds } else { 0.0 };
        let is_first = sum.seconds == result.seconds;
        let before = if is_first { Some(0.0) } else { sum.retransmits };
        sum.retransmits = before.zip(retransmits).map(|(before, count)| before + count);
    }

    /// Returns the intervals of the sum, or those of the only stream.
    fn whole(&self) -> Option<&StreamIntervals> {
        let only = (self.streams.len() == 1).then(|| self.streams.values().next()).flatten();
        self.streams.get("SUM").or(only)
    }

    /// Records what only the intervals show.
    fn record(&self, row: &mut Transfer) {
        let is_complete = |whole: &&StreamIntervals| {
            let seconds = row.time.get().map_or(0.0, |ns| ns / SECOND);
            let begins = whole.end - whole.seconds;
            !whole.has_gap && begins < 0.05 && whole.seconds > 0.0 && (whole.seconds - seconds).abs() < 0.1 * seconds
        };
        let Some(whole) = self.whole().filter(is_complete) else { return };
        row.stalled = (whole.stalled / whole.seconds).into();
        row.retransmits = whole.retransmits.into();
    }

    /// Returns the mean over all intervals: of the sum with several streams, since without it some could be missing.
    fn mean(&self) -> Option<(u32, IperfResult)> {
        let StreamIntervals { line, bytes, seconds, has_gap, .. } = *self.whole()?;
        (!has_gap).then_some((line, IperfResult { bytes, seconds, rate: bytes / seconds }))
    }
}

#[derive(Deserialize)]
struct Iperf3Document {
    start: Iperf3Start,
    #[serde(default)]
    end: Iperf3End,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Iperf3Start {
    connecting_to: Iperf3Peer,
    accepted_connection: Iperf3Peer,
    tcp_mss_default: Option<NonNegative>,
    sock_bufsize: Option<NonNegative>,
    test_start: Iperf3Test,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Iperf3Test {
    protocol: Option<String>,
    num_streams: Option<NonNegative>,
    blksize: Option<NonNegative>,
    reverse: Option<NonNegative>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Iperf3Peer {
    host: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Iperf3End {
    sum_sent: Option<Iperf3Sum>,
    sum_received: Option<Iperf3Sum>,
    /// UDP has only one sum.
    sum: Option<Iperf3Sum>,
}

#[derive(Deserialize)]
struct Iperf3Sum {
    seconds: NonNegative,
    bytes: NonNegative,
    bits_per_second: NonNegative,
}

fn read_json(lines: &mut Lines<'_>, run: &mut ToolRun) -> ReadResult {
    let line = lines.number();
    let Iperf3Document { start, end } = json::take(lines, "the document that iperf3 -J prints")?;
    let sums = [end.sum_received, end.sum_sent, end.sum];
    let Some(sum) = sums.into_iter().flatten().find(|sum| sum.bytes.0 > 0.0) else {
        run.note("iperf3", "the test transferred nothing", "run it again");
        return Ok(());
    };
    let peer = start.connecting_to.host.or(start.accepted_connection.host).unwrap_or_else(|| "a client".into());
    let result = IperfResult { bytes: sum.bytes.0, seconds: sum.seconds.0, rate: sum.bits_per_second.0 / 8.0 };
    let row = result.record(run, line, "iperf3", &peer);
    // 0 is a buffer that the kernel sizes by itself.
    let is_one = start.test_start.protocol.as_deref() != Some("UDP")
        && start.test_start.num_streams.as_ref().is_none_or(|streams| streams.0 <= 1.0);
    let window = start.sock_bufsize.as_ref().map(|size| size.0);
    row.window = window.filter(|size| *size > 0.0 && is_one).into();
    row.segment = start.tcp_mss_default.map(|size| size.0).filter(|size| *size > 0.0).into();
    let count = |number: Option<NonNegative>| number.map(|number| format!("{:.0}", number.0));
    let mut options = Settings::default();
    options.set("protocol", start.test_start.protocol);
    options.set("streams", count(start.test_start.num_streams));
    options.set("message size", count(start.test_start.blksize));
    options.set("direction", start.test_start.reverse.map(|reverse| if reverse.0 > 0.0 { "receive" } else { "send" }));
    options.set(
        "window",
        start.sock_bufsize.map(|size| if size.0 > 0.0 { format!("{:.0}", size.0) } else { "default".into() }),
    );
    row.options = options.to_state();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{fixture, refusal_of, window_of};
    use whyslow_model::catalogue::Transfer;

    #[test]
    fn text_output_shows_what_arrived() {
        let text = fixture("iperf3-client.txt");
        let window = window_of(&text);
        let rows = window.newest::<Transfer>();
        assert_eq!(rows.len(), 1);
        let row = window.the::<Transfer>().unwrap();
        assert!((row.rate.get().unwrap() * 8.0 / 9.78e9 - 1.0).abs() < 1e-6);
        assert_eq!(row.what.get(), Some("10.99.1.2"));
        let cut = text.replace("10.3 GBytes  9.78 Gbits/sec", "10.3 GBytes");
        assert_eq!(refusal_of(&cut).line, 16);
    }

    #[test]
    fn intervals_count_where_the_total_is_missing() {
        let text = "[  5] local 10.0.0.1 port 41288 connected to 10.0.0.2 port 5201\n\n\
                    [ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n\n\
                    [  5]   0.00-1.00   sec   200 KBytes  1.64 Mbits/sec    2   3.93 KBytes\n\n\
                    [  5]   1.00-2.00   sec  0.00 Bytes  0.00 bits/sec    1   3.93 KBytes\n";
        let row = window_of(text).the::<Transfer>().unwrap().clone();
        assert_eq!(
            (row.what.get(), row.bytes.get(), row.rate.get()),
            (Some("10.0.0.2"), Some(204_800.0), Some(102_400.0))
        );
        // If there is a total, it alone counts.
        assert_eq!(window_of(&fixture("iperf3-client.txt")).newest::<Transfer>().len(), 1);
    }

    #[test]
    fn json_tells_the_segment_too() {
        let window = window_of(&fixture("iperf3-client.json.txt"));
        let row = window.the::<Transfer>().unwrap();
        assert!(row.rate.get().is_some_and(|rate| rate > 1e8));
        assert_eq!((row.segment.get(), row.window.get()), (Some(1448.0), None));
    }
}
