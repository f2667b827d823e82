//! iperf 2 as text: the rate of a stream, its socket buffer and its segment size.

use crate::command::CommandLine;
use crate::lines::TextLine;
use crate::prelude::*;
use crate::run_options::{count, flag, size, value};
use whyslow_model::catalogue::Transfer;
use whyslow_model::settings::Settings;

pub const FORMAT: Format = Format {
    name: "iperf",
    versions: "iperf 2, client and server, text, or its results alone",
    shows: "the rate of a transfer, and whether the socket buffer could be the limit",
    lacks: "the limit, from one transfer alone; the single intervals: their total is used",
    programs: &[word("iperf")],
    starts,
    read,
    ..Format::NEW
};

const RULER: &str = "------------";

fn starts(lines: &mut Lines<'_>) -> bool {
    // iperf 3 prints "Server listening on 5201".
    const TITLES: [&str; 3] = ["Client connecting to ", "Server listening on TCP", "Server listening on UDP"];
    if lines.next_is(is_lone_result) {
        return true;
    }
    let ruler = usize::from(lines.next_is(|line| line.starts_with(RULER)));
    lines.peek(ruler).is_some_and(|line| TITLES.iter().any(|title| line.starts_with(title)))
}

/// Returns true for `[  3]  0.0-10.0 sec  112 MBytes  94.1 Mbits/sec` without the lines above it. iperf 3 puts two spaces
/// before the unit of time.
fn is_lone_result(line: &str) -> bool {
    let interval = line.split_once(" sec ").map(|(before, _)| before.ends_with(|c: char| c.is_ascii_digit()));
    line.starts_with('[') && interval == Some(true) && line.ends_with("bits/sec") && IperfResult::parse(line).is_some()
}

/// Output of a client or server above and below its results.
struct Section {
    peer: String,
    protocol: Option<&'static str>,
    streams: usize,
    /// Ends of its connections.
    ends: Vec<String>,
    window: Option<f64>,
    segment: Option<f64>,
    results: Vec<(u32, IperfResult)>,
}

impl Default for Section {
    fn default() -> Self {
        let peer = String::from("a server");
        Self { peer, protocol: None, streams: 0, ends: Vec::new(), window: None, segment: None, results: Vec::new() }
    }
}

impl Section {
    /// Returns the section that begins with a title.
    fn titled(text: &str) -> Option<Self> {
        let of_client = text.strip_prefix("Client connecting to ");
        let is_title = of_client.is_some() || text.starts_with("Server listening");
        let named = of_client.and_then(|rest| rest.split_once(',')).map(|(peer, _)| peer.trim());
        let section = Self::default();
        let peer = named.filter(|peer| !peer.is_empty()).map_or(section.peer, str::to_owned);
        is_title.then_some(Self { peer, ..section })
    }

    fn take(&mut self, line: &TextLine, lines: &Lines<'_>) -> ReadResult {
        let text = &line.text;
        for name in ["TCP", "UDP"] {
            if text.contains(&format!("{name} port")) || text.contains(&format!("on {name}")) {
                self.protocol = Some(name);
            }
        }
        self.streams += usize::from(text.contains(" local ") && text.contains(" connected with "));
        self.ends.extend(ends(text));
        if let Some((_, rest)) = text.split_once("TCP window size:") {
            self.window = amount(&rest.split_whitespace().collect::<Vec<_>>(), KIB, "Byte");
        } else if let Some((_, rest)) = text.split_once("MSS size ") {
            self.segment = rest.split_once(" bytes").and_then(|(bytes, _)| number(bytes.trim()));
        } else if text.starts_with('[') && text.contains("sec ") {
            let Some(result) = IperfResult::parse(text) else {
                let expected = "interval, transfer and bandwidth: 0.0-10.0 sec  900 MBytes  955 Mbits/sec";
                return Err(lines.refuse_at(line, expected));
            };
            self.results.push((line.number, result));
        }
        Ok(())
    }

    fn record(&self, command: Option<&CommandLine>, run: &mut ToolRun) {
        for (line, result) in &self.results {
            let row = result.record(run, *line, FORMAT.name, &self.peer);
            row.window = self.window.into();
            row.segment = self.segment.into();
            row.options = options_of(command, self.protocol, self.streams).to_state();
            // With several connections, the lines do not show which result belongs to which.
            if let ([ends], [_]) = (&self.ends[..], &self.results[..]) {
                row.ends = ends.as_str().into();
            }
        }
    }
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let command = context.command_of(FORMAT.name);
    let mut section = Section::default();
    let begin = lines.number();
    let is_own = |text: &str| {
        const BEGINNINGS: [&str; 7] =
            ["Client connecting to ", RULER, "[", "Server listening", "Sending ", "Receiving ", "UDP buffer size:"];
        BEGINNINGS.iter().any(|begin| text.starts_with(begin))
            || text.contains("TCP window size:")
            || text.contains("MSS size ")
    };
    let mut has_results = false;
    let mut wrap = lines.wrap();
    while let Some((count, line)) =
        lines.peek_whole(&mut wrap, FORMAT.name, is_own).filter(|(_, line)| is_own(&line.text))
    {
        lines.skip(count);
        // The title of a client or server begins its output.
        if let Some(titled) = Section::titled(&line.text) {
            section.record(command, run);
            section = titled;
        }
        section.take(&line, lines)?;
        has_results |= !section.results.is_empty();
    }
    section.record(command, run);
    if !has_results {
        // A server without clients prints only its buffer size.
        let row = run.row::<Transfer>(0.0, begin, format!("{}, line {begin}", section.peer).into());
        row.tool = FORMAT.name.into();
        row.window = section.window.into();
    }
    Ok(())
}

/// Returns both ends in `[  5] local 10.0.0.1 port 41288 connected to 10.0.0.2 port 5201`, which are the same on both hosts.
pub fn ends(line: &str) -> Option<String> {
    let (_, connection) = line.split_once("] local ")?;
    let (local, peer) = [" connected to ", " connected with "].iter().find_map(|words| connection.split_once(words))?;
    let end = |text: &str| {
        let (host, port) = text.trim().split_once(" port ")?;
        let port: u16 = port.split_whitespace().next()?.parse().ok()?;
        Some(format!("{host}:{port}"))
    };
    let mut ends = [end(local)?, end(peer)?];
    ends.sort();
    Some(ends.join(" and "))
}

/// Returns the options of a run that decide what is measured, from the command line if that is known, and from the output.
pub fn options_of(command: Option<&CommandLine>, protocol: Option<&str>, streams: usize) -> Settings {
    let of = |letter, long| command.and_then(|command| value(command, letter, long));
    let given = |letter, long, yes: &'static str, no: &'static str| {
        command.map(|command| if flag(command, letter, long) { yes } else { no })
    };
    let or_default = |value: Option<String>| value.or(command.map(|_| "default".to_owned()));
    let mut options = Settings::default();
    options.set("protocol", protocol.or(given('u', "udp", "UDP", "TCP")));
    let printed = (streams > 0).then(|| streams.to_string());
    options.set("streams", of('P', "parallel").and_then(count).or(printed));
    options.set("window", or_default(of('w', "window").and_then(size)));
    options.set("message size", or_default(of('l', "length").or(of('l', "len")).and_then(size)));
    options.set("bitrate", or_default(of('b', "bitrate").or(of('b', "bandwidth")).map(str::to_owned)));
    options.set("MSS", or_default(of('M', "set-mss").or(of('M', "mss")).and_then(count)));
    options.set("congestion control", or_default(of('C', "congestion").map(str::to_owned)));
    options.set("direction", given('R', "reverse", "receive", "send"));
    options
}

/// `[  3]  0.0-10.0 sec  1.22 GBytes  1.05 Gbits/sec`
#[derive(Clone, Copy)]
pub struct IperfResult {
    pub bytes: f64,
    pub seconds: f64,
    /// Bytes per second.
    pub rate: f64,
}

impl IperfResult {
    pub fn parse(text: &str) -> Option<Self> {
        let (span, rest) = text.split_once(']')?.1.split_once("sec")?;
        let (from, to) = span.trim().split_once('-')?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let bytes = amount(&words, KIB, "Bytes")?;
        let rate = amount(words.get(2..)?, 1e3, "bits/sec")? / 8.0;
        let seconds = number(to.trim())? - number(from.trim())?;
        // Bytes and rate must agree, or the line is something else.
        let agrees = seconds > 0.0 && (bytes / seconds / rate - 1.0).abs() < 0.1;
        agrees.then_some(Self { bytes, seconds, rate })
    }

    pub fn record<'r>(self, run: &'r mut ToolRun, line: u32, tool: &str, peer: &str) -> &'r mut Transfer {
        let row = run.row::<Transfer>(0.0, line, format!("to {peer}, line {line}").into());
        row.tool = tool.into();
        row.what = peer.into();
        row.bytes = self.bytes.into();
        row.time = (self.seconds * SECOND).into();
        row.rate = self.rate.into();
        row
    }
}

/// Parses an amount in this unit with a prefix: `900 MBytes`, `955 Mbits/sec`, `27.5 KByte`.
fn amount(words: &[&str], step: f64, unit: &str) -> Option<f64> {
    let prefix = words.get(1)?.strip_suffix(unit)?;
    scaled(&format!("{}{prefix}", words[0]), step, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn rate_buffer_and_segment_size_are_read() {
        let window = window_of(&fixture("net-iperf-before-client.txt"));
        let row = window.the::<Transfer>().unwrap();
        assert!((row.rate.get().unwrap() * 8.0 / 390e6 - 1.0).abs() < 0.001);
        assert_eq!((row.window.get(), row.segment.get()), (Some(27.5 * 1024.0), Some(8948.0)));
        let after = window_of(&fixture("power5-iperf-after.txt"));
        assert!((after.the::<Transfer>().unwrap().rate.get().unwrap() * 8.0 / 1.05e9 - 1.0).abs() < 0.001);
    }

    #[test]
    fn each_result_has_the_protocol_and_buffer_above_it() {
        let text = "\
------------------------------------------------------------
Client connecting to db9, TCP port 5001
TCP window size: 85.0 KByte (default)
------------------------------------------------------------
[  3] local 10.0.0.5 port 40000 connected with 10.0.0.9 port 5001
[  3]  0.0-10.0 sec  1.10 GBytes   945 Mbits/sec
------------------------------------------------------------
Client connecting to db9, UDP port 5001
Sending 1470 byte datagrams
------------------------------------------------------------
[  3] local 10.0.0.5 port 40001 connected with 10.0.0.9 port 5001
[  3]  0.0-10.0 sec  1.25 MBytes  1.05 Mbits/sec
";
        let window = window_of(text);
        let rows = window.newest::<Transfer>();
        let mut found: Vec<_> = rows
            .values()
            .map(|row| {
                (row.options.get().unwrap().contains("protocol=UDP"), row.window.get(), row.bytes.get().unwrap() > 1e9)
            })
            .collect();
        found.sort_by_key(|(is_udp, ..)| *is_udp);
        assert_eq!(found, [(false, Some(85.0 * KIB), true), (true, None, false)]);
    }

    #[test]
    fn two_directions_in_one_file() {
        let window = window_of(&fixture("cases/035-nic-crc-errors-one-way-slow/iperf.txt"));
        let rows = window.newest::<Transfer>();
        assert_eq!(rows.values().filter(|t| t.rate.get().is_some()).count(), 2);
    }
}
