//! iperf 3, text and JSON (`-J`): what a test moved in all, of all its streams.

use super::iperf::result;
use crate::format::{Asked, Format};
use crate::json::{self, Amount};
use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::run::{Run, SECOND};
use serde::Deserialize;
use whyslow_model::catalogue::Transfer;

/// The format.
pub const FORMAT: Format = Format {
    name: "iperf3",
    versions: "iperf 3, client and server, text and -J",
    tells: "the rate that was had; with -w, whether the socket buffer could be what limits it",
    starts: |lines| lines.peek(0).is_some_and(|line| head(line).is_some()) || json::begins(lines, "start"),
    read,
};

const EXPECTED: &str = "interval, transfer and bitrate: 0.00-9.00   sec  10.3 GBytes  9.79 Gbits/sec  7  sender";

/// The other end in `Connecting to host 10.0.0.1, port 5201`; a server names it later.
fn head(line: &str) -> Option<&str> {
    if let Some(rest) = line.strip_prefix("Connecting to host ") {
        return rest.split_once(", port ").map(|(host, _)| host);
    }
    let port = line.strip_prefix("Server listening on ")?;
    port.starts_with(|c: char| c.is_ascii_digit()).then_some("a client")
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    if json::begins(lines, "start") { document(lines, run) } else { text(lines, run) }
}

fn text(lines: &mut Lines<'_>, run: &mut Run) -> Result<(), Refusal> {
    let mut peer = lines.peek(0).and_then(head).unwrap_or_default().to_owned();
    let mut totals: Vec<(u32, String, f64, f64, f64)> = Vec::new();
    lines.skip(1);
    while let Some(text) = lines.peek(0).map(str::to_owned) {
        let own = text.starts_with(['[', '-']) || text.trim().is_empty() || text.starts_with("Accepted connection");
        if !own || text.starts_with("[ ") && text.contains(']') && !text.contains("sec ") && is_other(&text) {
            break;
        }
        if let Some(rest) = text.strip_prefix("Accepted connection from ") {
            peer = rest.split(',').next().unwrap_or(rest).to_owned();
        }
        let end = ["sender", "receiver"].into_iter().find(|end| text.trim_end().ends_with(end));
        if let Some(end) = end {
            let Some((bytes, seconds, rate)) = result(&text) else { return Err(lines.refuse(EXPECTED)) };
            let line = lines.number();
            // Of several streams the sum is what counts.
            if text.starts_with("[SUM]") {
                totals.retain(|(_, other, ..)| other != end);
            }
            totals.push((line, end.to_owned(), bytes, seconds, rate));
        }
        lines.skip(1);
    }
    // What arrived is what was moved; a sender that was cut off knows only what it sent.
    let arrived = totals.iter().any(|(_, end, ..)| end == "receiver");
    for (line, end, bytes, seconds, rate) in totals {
        if arrived && end == "sender" {
            continue;
        }
        let row = run.row::<Transfer>(0.0, line, format!("to {peer}, line {line}").into());
        row.tool = "iperf3".into();
        row.what = peer.as_str().into();
        row.bytes = bytes.into();
        row.time = (seconds * SECOND).into();
        row.rate = rate.into();
    }
    Ok(())
}

/// A line in brackets that iperf3 does not print: of the kernel's log, say.
fn is_other(text: &str) -> bool {
    !text.starts_with("[ ID]") && !text.contains(" local ") && !text.contains("SUM")
}

/// What is taken of `-J`.
#[derive(Deserialize)]
struct Document {
    start: Start,
    #[serde(default)]
    end: End,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Start {
    connecting_to: Host,
    accepted_connection: Host,
    tcp_mss_default: Option<Amount>,
    sock_bufsize: Option<Amount>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Host {
    host: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct End {
    sum_sent: Option<Sum>,
    sum_received: Option<Sum>,
    /// UDP has one sum only.
    sum: Option<Sum>,
}

#[derive(Deserialize)]
struct Sum {
    seconds: Amount,
    bytes: Amount,
    bits_per_second: Amount,
}

fn document(lines: &mut Lines<'_>, run: &mut Run) -> Result<(), Refusal> {
    let line = lines.number();
    let document: Document = json::take(lines, "the document that iperf3 -J prints")?;
    let Document { start, end } = document;
    let moved = |sum: &Sum| sum.bytes.0 > 0.0;
    let Some(sum) = end.sum_received.filter(moved).or(end.sum_sent.filter(moved)).or(end.sum.filter(moved)) else {
        run.note("iperf3", "a test that moved nothing", "run it again");
        return Ok(());
    };
    let peer = start.connecting_to.host.or(start.accepted_connection.host).unwrap_or_else(|| "a client".into());
    let row = run.row::<Transfer>(0.0, line, format!("to {peer}, line {line}").into());
    row.tool = "iperf3".into();
    row.what = peer.as_str().into();
    row.bytes = sum.bytes.0.into();
    row.time = (sum.seconds.0 * SECOND).into();
    row.rate = (sum.bits_per_second.0 / 8.0).into();
    // 0 is a buffer that the kernel sizes by itself.
    row.window = start.sock_bufsize.map(|size| size.0).filter(|size| *size > 0.0).into();
    row.segment = start.tcp_mss_default.map(|size| size.0).filter(|size| *size > 0.0).into();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    #[test]
    fn text_tells_what_arrived() {
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
    fn json_tells_the_segment_too() {
        let window = window_of(&fixture("iperf3-client.json.txt"));
        let row = window.the::<Transfer>().unwrap();
        assert!(row.rate.get().is_some_and(|rate| rate > 1e8));
        assert_eq!((row.segment.get(), row.window.get()), (Some(1448.0), None));
    }
}
