//! nstat(8) of iproute2: protocol counters by the kernel's names, as text and JSON.

use crate::json::{self, NonNegative};
use crate::prelude::*;
use serde::Deserialize;
use std::collections::BTreeMap;
use whyslow_model::catalogue::Protocol;
use whyslow_proc::net::CounterNames;

pub const FORMAT: Format = Format {
    name: "nstat",
    versions: "iproute2, text and -j; -a counts since boot, without it since the last call",
    shows: "retransmissions, overflows and errors; with -a, of two with times, their rates",
    lacks: "which connection",
    programs: &[program("nstat")],
    files: &["nstat"],
    starts: |lines| lines.next_is(|line| is_title(line) || is_row(line)) || json::begins(lines, JSON_KEY),
    read,
    ..Format::NEW
};

const JSON_KEY: &str = "kernel";

/// Returns true for `#kernel`, or `#48394.1804289383 sampling_interval=1 time_const=60`.
fn is_title(line: &str) -> bool {
    line == "#kernel" || (line.starts_with('#') && line.contains("sampling_interval="))
}

/// Prefixes of the kernel's names.
const PROTOCOLS: [&str; 6] = ["Ip", "Tcp", "Udp", "Icmp", "MPTcp", "Sctp"];

/// Returns true for a row that grep left: `UdpInErrors                     12                 0.0`
fn is_row(line: &str) -> bool {
    if !PROTOCOLS.iter().any(|protocol| line.starts_with(protocol)) {
        return false;
    }
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [name, count, rate] = fields[..] else { return false };
    let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric());
    is_name && count.parse::<u64>().is_ok() && rate.contains('.') && number(rate).is_some()
}

#[derive(Deserialize)]
struct NstatDocument {
    kernel: BTreeMap<String, NonNegative>,
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let line = lines.number();
    let counters = if json::begins(lines, JSON_KEY) {
        let document: NstatDocument = json::take(lines, "the kernel's counters by name")?;
        document.kernel.into_iter().map(|(name, count)| (line, name, count.0 as u64)).collect()
    } else {
        lines.take_if(is_title);
        table(lines)?
    };
    let names = CounterNames::default();
    // Differences must not be mixed with counts since boot.
    if let Some(command) = context.command_of("nstat").filter(|c| !c.has('a')) {
        // `nstat -n; sleep 10; nstat`
        let begins_silently = command.has('n') || command.is_silent();
        if let Some(seconds) = context.pause().filter(|_| begins_silently || context.is_repeated(FORMAT.name)) {
            for (line, name, count) in counters {
                if let Some(metric) = names.metric("", &name) {
                    run.row::<Protocol>(0.0, line, interface("ip")).set(metric, 0);
                    run.row::<Protocol>(seconds, line, interface("ip")).set(metric, count);
                }
            }
            return Ok(());
        }
        let why = "counts since its last call, whose time is unknown";
        run.note("nstat", why, "print them since boot: nstat -az");
        return Ok(());
    }
    for (line, name, count) in counters {
        if let Some(metric) = names.metric("", &name) {
            run.row::<Protocol>(0.0, line, interface("ip")).set(metric, count);
        }
    }
    Ok(())
}

/// Reads `TcpRetransSegs                  5955               0.0`: a name, a count, and a rate that is set only by nstat's
/// daemon.
fn table(lines: &mut Lines<'_>) -> Result<Vec<(u32, String, u64)>, Refusal> {
    let mut counters = Vec::new();
    while let Some(line) = lines.take_if(|text| {
        let mut words = text.split_whitespace();
        words.next().is_some_and(|name| name.starts_with(|c: char| c.is_ascii_uppercase()))
            && words.next().is_some_and(|count| count.starts_with(|c: char| c.is_ascii_digit()))
    }) {
        let fields: Vec<&str> = line.text.split_whitespace().collect();
        let count = match fields[..] {
            [_, count, rate] if number(rate).is_some() => count.parse::<u64>().ok(),
            _ => None,
        };
        let Some(count) = count else {
            return Err(lines.refuse_at(&line, "a counter's name, a whole number and a rate"));
        };
        counters.push((line.number, fields[0].to_owned(), count));
    }
    Ok(counters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, row_of, window_of};

    #[test]
    fn text_and_json_are_read() {
        let text = fixture("nstat-az.txt");
        let out = window_of(&text).the::<Protocol>().unwrap().tcp_out_segs.get();
        assert!(out.is_some_and(|segments| segments > 1000), "{out:?}");
        let row = row_of::<Protocol>("{\"kernel\":{\"TcpOutSegs\":18,\"IcmpInMsgs\":3,\"TcpExtListenOverflows\":5}}\n");
        assert_eq!((row.tcp_out_segs.get(), row.tcp_ext_listen_overflows.get()), (Some(18), Some(5)));
        assert_eq!(refusal_of("#kernel\nIpInReceives 7 0.0\nTcpOutSegs 18x 0.0\n").line, 3);
    }

    #[test]
    fn differences_over_an_unknown_time_are_left_out() {
        for line in ["$ nstat -n; sleep 10; nstat | grep Tcp", "$ nstat > /dev/null; sleep 10; nstat"] {
            let window = window_of(&format!("{line}\nTcpOutSegs 5488 0.0\nTcpRetransSegs 171 0.0\n"));
            let change = window.change::<Protocol>().unwrap();
            assert_eq!(change.rate(|p| p.tcp_retrans_segs), Some(17.1), "{line}");
        }
        let window =
            window_of("$ nstat; sleep 10; nstat\n#kernel\nTcpRetransSegs 9999 0.0\n#kernel\nTcpRetransSegs 20 0.0\n");
        assert_eq!(window.change::<Protocol>().and_then(|c| c.rate(|p| p.tcp_retrans_segs)), Some(2.0));
        let window = window_of("$ nstat\n#kernel\nTcpOutSegs 18 0.0\n");
        assert!(window.the::<Protocol>().is_none());
    }

    #[test]
    fn rows_that_grep_left_are_read() {
        let text = "$ nstat -az | grep Udp\nUdpInDatagrams                  900                0.0\n\
            UdpRcvbufErrors                 12                 0.0\n";
        let row = row_of::<Protocol>(text);
        assert_eq!((row.udp_in_datagrams.get(), row.udp_rcvbuf_errors.get()), (Some(900), Some(12)));
    }
}
