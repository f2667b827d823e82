//! iperf 2 as text: a stream, its rate, its socket buffer, its segment size.

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::number::number;
use crate::refusal::Refusal;
use crate::run::{Run, SECOND};
use whyslow_model::catalogue::Transfer;

/// The format.
pub const FORMAT: Format = Format {
    name: "iperf",
    versions: "iperf 2, client and server, text",
    tells: "the rate that was had, and whether the socket buffer could be what limits it",
    starts,
    read,
};

const RULER: &str = "------------";

fn starts(lines: &mut Lines<'_>) -> bool {
    // iperf 3 says "Server listening on 5201".
    let server =
        |line: &str| line.starts_with("Server listening on TCP") || line.starts_with("Server listening on UDP");
    let head = |line: &str| line.starts_with("Client connecting to ") || server(line);
    match lines.peek(0) {
        Some(line) if line.starts_with(RULER) => lines.peek(1).is_some_and(head),
        Some(line) => head(line),
        None => false,
    }
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let (mut peer, mut window, mut segment) = (String::from("a server"), None, None);
    let mut results = Vec::new();
    let begin = lines.number();
    while let Some(text) = lines.peek(0).map(str::to_owned) {
        if let Some(rest) = text.strip_prefix("Client connecting to ") {
            peer = rest.split(',').next().unwrap_or(rest).to_owned();
        } else if let Some((_, rest)) = text.split_once("TCP window size:") {
            let words: Vec<&str> = rest.split_whitespace().collect();
            window = scaled(&words, 1024.0, "Byte").or(window);
        } else if let Some((_, rest)) = text.split_once("MSS size ") {
            segment = rest.split(' ').next().and_then(number);
        } else if text.starts_with('[') && text.contains("sec ") {
            let number = lines.number();
            let Some(result) = result(&text) else {
                return Err(lines.refuse("interval, transfer and bandwidth: 0.0-10.0 sec  900 MBytes  955 Mbits/sec"));
            };
            results.push((number, result));
        } else if !text.starts_with(RULER) && !text.starts_with('[') && !text.starts_with("Server listening") {
            break;
        }
        lines.skip(1);
    }
    if results.is_empty() {
        // A server that was not asked yet tells its buffer only.
        buffer(run, begin, &peer, window);
    }
    for (line, (bytes, seconds, rate)) in results {
        let row = run.row::<Transfer>(0.0, line, format!("to {peer}, line {line}").into());
        row.tool = "iperf".into();
        row.what = peer.as_str().into();
        row.bytes = bytes.into();
        row.time = (seconds * SECOND).into();
        row.rate = rate.into();
        row.window = window.into();
        row.segment = segment.into();
    }
    Ok(())
}

fn buffer(run: &mut Run, line: u32, peer: &str, window: Option<f64>) {
    let row = run.row::<Transfer>(0.0, line, format!("{peer}, line {line}").into());
    row.tool = "iperf".into();
    row.window = window.into();
}

/// `[  3]  0.0-10.0 sec  1.22 GBytes  1.05 Gbits/sec`: bytes, seconds, bytes a second.
pub(super) fn result(text: &str) -> Option<(f64, f64, f64)> {
    let (span, rest) = text.split_once(']')?.1.split_once("sec")?;
    let (from, to) = span.trim().split_once('-')?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let bytes = scaled(&words, 1024.0, "Bytes")?;
    let rate = scaled(words.get(2..)?, 1000.0, "bits/sec")? / 8.0;
    let seconds = number(to.trim())? - number(from.trim())?;
    // What was moved and how fast must agree, or the line is not what it seems.
    let agrees = seconds > 0.0 && (bytes / seconds / rate - 1.0).abs() < 0.1;
    agrees.then_some((bytes, seconds, rate))
}

/// `900 MBytes`, `955 Mbits/sec`, `27.5 KByte`: an amount in the unit, by its prefix.
fn scaled(words: &[&str], step: f64, unit: &str) -> Option<f64> {
    let amount = number(words.first()?)?;
    let prefix = words.get(1)?.strip_suffix(unit)?;
    let power = match prefix {
        "" => 0,
        "K" | "k" => 1,
        "M" | "m" => 2,
        "G" | "g" => 3,
        _ => return None,
    };
    Some(amount * step.powi(power))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn rate_buffer_and_segment() {
        let window = window_of(&fixture("net-iperf-before-client.txt"));
        let row = window.the::<Transfer>().unwrap();
        assert!((row.rate.get().unwrap() * 8.0 / 390e6 - 1.0).abs() < 0.001);
        assert_eq!((row.window.get(), row.segment.get()), (Some(27.5 * 1024.0), Some(8948.0)));
        let after = window_of(&fixture("power5-iperf-after.txt"));
        assert!((after.the::<Transfer>().unwrap().rate.get().unwrap() * 8.0 / 1.05e9 - 1.0).abs() < 0.001);
    }

    #[test]
    fn two_directions_in_one_file() {
        let window = window_of(&fixture("cases/035-nic-crc-errors-one-way-slow/iperf.txt"));
        let rows = window.newest::<Transfer>();
        assert_eq!(rows.values().filter(|t| t.rate.get().is_some()).count(), 2);
    }
}
