//! iw(8) and iwconfig(8): signal and rates of a wireless interface.

use crate::prelude::*;
use whyslow_model::catalogue::Wireless;

pub const FORMAT: Format = Format {
    name: "iw",
    versions: "iw dev IF link and station dump of iw 3 to 6, iwconfig of wireless-tools 29 and 30",
    shows: "a weak signal, low rates, and frames that have to be retransmitted",
    lacks: "which other stations use the channel, and for how long",
    programs: &[program("iw"), program("iwconfig")],
    files: &["iw_dev", "iwconfig"],
    starts: |lines| lines.next_is(is_start) || lone_signal(lines),
    read,
    ..Format::NEW
};

const LINKED: &str = "Connected to ";
const STATION: &str = "Station ";
/// Placeholder for the interface of lines that do not name it.
const UNNAMED: &str = "wlan";

/// Returns true for `Connected to 02:00:00:00:01:00 (on wlan0)`, `Station 02:00:00:00:01:00 (on wlan0)`, `wlan0     IEEE 802.11
/// ESSID:"x"`.
fn is_start(line: &str) -> bool {
    interface_of(line).is_some()
}

fn interface_of(line: &str) -> Option<&str> {
    if let Some(rest) = line.strip_prefix(LINKED).or_else(|| line.strip_prefix(STATION)) {
        return rest.split_once("(on ")?.1.split_once(')').map(|(name, _)| name);
    }
    let (name, rest) = line.split_once("  ")?;
    let is_name = !name.is_empty() && !name.contains(char::is_whitespace);
    (is_name && rest.trim_start().starts_with("IEEE 802.11")).then_some(name)
}

/// Returns true for a line that grep left: `signal: -78 dBm`, `Link Quality=32/70  Signal level=-78 dBm`.
fn lone_signal(lines: &mut Lines<'_>) -> bool {
    lines.next_is(|line| {
        let line = line.trim_start();
        line.strip_prefix("signal:").and_then(decibels).is_some()
            || line.starts_with("Link Quality=") && level(line).is_some()
    })
}

/// Parses `-78 dBm`, `-78 [-80, -82] dBm`.
fn decibels(text: &str) -> Option<f64> {
    let text = text.trim();
    let value = text.split_whitespace().next()?.strip_prefix('-').and_then(number)?;
    text.contains("dBm").then_some(-value)
}

/// Parses `Link Quality=32/70  Signal level=-78 dBm`.
fn level(line: &str) -> Option<f64> {
    decibels(line.split_once("Signal level=").or_else(|| line.split_once("Signal level:"))?.1)
}

/// Parses `6.5 MBit/s MCS 0`, `6.5 Mb/s`, `1 Gb/s`.
fn rate(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let amount = words.next().and_then(number)?;
    match words.next()? {
        "MBit/s" | "Mb/s" => Some(amount * 1e6),
        "Gb/s" => Some(amount * 1e9),
        _ => None,
    }
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let named = lines.peek(0).and_then(interface_of).map(str::to_owned);
    let asked_for = context.command_of("iw").or_else(|| context.command_of("iwconfig"));
    let asked_for = asked_for.and_then(|c| c.arguments().find(|a| a.starts_with("wl"))).map(str::to_owned);
    let name = named.clone().or(asked_for).unwrap_or_else(|| UNNAMED.to_owned());
    let begin = lines.number();
    let mut is_first = named.is_some();
    let mut row = Wireless::new(interface(&name));
    let mut end = begin;
    while is_first || lines.next_is(is_field) || is_broken(lines) {
        let Some(line) = lines.take() else { break };
        is_first = false;
        end = line.number;
        fill(&mut row, &line.text);
    }
    run.row::<Wireless>(0.0, begin, interface(&name));
    run.put(0.0, end, row);
    Ok(())
}

/// Returns true if a mail program broke the next line off the previous one: it is not indented, and a field follows.
fn is_broken(lines: &mut Lines<'_>) -> bool {
    let is_rest = |text: &str| !text.trim().is_empty() && !is_command(text) && !is_start(text);
    lines.next_is(is_rest)
        && lines.peek(1).is_some_and(|next| next.starts_with([' ', '\t']) && next.contains([':', '=']))
}

/// Returns true if a line continues the interface above it.
fn is_field(text: &str) -> bool {
    text.starts_with([' ', '\t']) && text.contains([':', '=']) || text.starts_with("signal:") || level(text).is_some()
}

fn fill(row: &mut Wireless, text: &str) {
    if let Some((field, value)) = text.trim().split_once(':') {
        match field {
            "signal" => row.signal = decibels(value).into(),
            "tx bitrate" => row.send_rate = rate(value).into(),
            "rx bitrate" => row.receive_rate = rate(value).into(),
            "tx packets" => row.sent = number(value.trim()).into(),
            "tx retries" => row.retries = number(value.trim()).into(),
            "tx failed" => row.failed = number(value.trim()).into(),
            _ => {}
        }
    }
    if let Some(signal) = level(text) {
        row.signal = signal.into();
    }
    for words in ["Bit Rate=", "Bit Rate:"] {
        if let Some((_, rest)) = text.split_once(words) {
            row.send_rate = rate(rest).into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, row_of};

    type Figures = (Option<f64>, Option<f64>, Option<f64>, Option<f64>, Option<f64>);

    fn figures(text: &str) -> (String, Figures) {
        let row = row_of::<Wireless>(text);
        let figures =
            (row.signal.get(), row.send_rate.get(), row.receive_rate.get(), row.retries.get(), row.sent.get());
        (row.interface.name.to_string(), figures)
    }

    /// Written after the sources of iw (link.c, station.c) and wireless-tools (iwconfig.c), since no radio is available here.
    #[test]
    fn signal_and_rates_of_all_three() {
        let link = figures(&fixture("layouts/iw-link.txt"));
        assert_eq!(link, ("wlan0".into(), (Some(-81.0), Some(6.5e6), Some(13e6), None, None)));
        let station = figures(&fixture("layouts/iw-station-dump.txt"));
        assert_eq!(station, ("wlp2s0".into(), (Some(-81.0), Some(6.5e6), Some(13e6), Some(3900.0), Some(5200.0))));
        let old = figures(&fixture("layouts/iwconfig.txt"));
        assert_eq!(old, ("wlan0".into(), (Some(-81.0), Some(6.5e6), None, None, None)));
    }

    #[test]
    fn a_line_that_grep_left() {
        assert_eq!(figures("\tsignal: -64 [-66, -68] dBm\n").1.0, Some(-64.0));
        assert_eq!(figures("          Link Quality=32/70  Signal level=-78 dBm\n").1.0, Some(-78.0));
        assert!(!lone_signal(&mut Lines::new("x", &b"signal: killed\n"[..])));
    }
}
