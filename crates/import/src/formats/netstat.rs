//! netstat(8) of net-tools: interfaces (`-i`) and protocol counters in words (`-s`).

use crate::prelude::*;
use crate::table::{take_row, words};
use std::collections::BTreeSet;
use std::sync::LazyLock;
use whyslow_model::catalogue::{Interface, Link, Protocol};
use whyslow_proc::net::CounterNames;

pub const INTERFACES: Format = Format {
    name: "netstat -i",
    versions: "net-tools 1 and 2",
    shows: "packets and errors since boot, by interface",
    lacks: "whether errors still occur, if read once",
    programs: &[program("netstat")],
    files: &["netstat"],
    columns: &[&LINK, &INTERFACE],
    starts: |lines| lines.next_is(|line| is_title(line) || is_header(line)),
    read: interfaces,
    ..Format::NEW
};

pub const PROTOCOLS: Format = Format {
    name: "netstat -s",
    versions: "net-tools 1 and 2",
    shows: "retransmissions, overflows and errors since boot; of two with times, their rates",
    lacks: "which connection",
    columns: &[&PHRASES],
    starts: |lines| {
        let title = lines.peek(0).and_then(section_title).filter(|name| SECTIONS.contains(name)).map(str::to_owned);
        (title.is_some() && lines.peek(1).is_some_and(|l| l.starts_with(' ')))
            || lines.next_is(|line| alone(line).is_some())
    },
    read: statistics,
    ..Format::NEW
};

const LINK: MetricColumns<Link> = columns!["MTU" => mtu];
const INTERFACE: MetricColumns<Interface> = columns![
    "RX-OK" => rx_packets, "RX-ERR" => rx_errors, "RX-DRP" => rx_dropped, "RX-OVR" => rx_fifo,
    "TX-OK" => tx_packets, "TX-ERR" => tx_errors, "TX-DRP" => tx_dropped, "TX-OVR" => tx_fifo,
];

fn is_title(line: &str) -> bool {
    line.starts_with("Kernel Interface table")
}

fn is_header(line: &str) -> bool {
    line.starts_with("Iface") && line.contains("RX-OK") && line.contains("TX-OK")
}

fn interfaces(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    if lines.next_is(is_title) {
        lines.skip(1);
    }
    let Some(header) = lines.take_if(is_header) else { return Ok(()) };
    let columns = words(&header.text).into_iter().skip(1).filter(|name| name != "Flg").collect();
    while lines.next_is(|text| !text.trim().is_empty()) && !another_output_starts(lines, INTERFACES.name) {
        // An alias has no counters of its own.
        if lines.next_is(|text| text.contains("no statistics available")) {
            lines.skip(1);
            continue;
        }
        let row = take_row(lines, &columns, 1);
        if let Some(row) = lines.keep(row)? {
            run.counts(0.0, interface(row.label()), &row, &LINK);
            run.counts(0.0, interface(row.label()), &row, &INTERFACE);
        }
    }
    Ok(())
}

/// Section titles; with -t, -u or -w only some of them are printed.
const SECTIONS: [&str; 5] = ["Ip", "Icmp", "Tcp", "Udp", "TcpExt"];

/// Phrases that net-tools prints instead of the kernel's names (statistics.c), after their section; `#` is the number.
const PHRASES: MetricColumns<Protocol> = columns![
    "Ip: # total packets received" => ip_in_receives,
    "Ip: # incoming packets discarded" => ip_in_discards,
    "Ip: # outgoing packets dropped" => ip_out_discards,
    "Ip: # fragments failed" => ip_frag_fails,
    "Ip: # packet reassembles failed" => ip_reasm_fails,
    "Ip: # packet reassemblies failed" => ip_reasm_fails,
    "Tcp: # active connections openings" => tcp_active_opens,
    "Tcp: # active connection openings" => tcp_active_opens,
    "Tcp: # passive connection openings" => tcp_passive_opens,
    "Tcp: # failed connection attempts" => tcp_attempt_fails,
    "Tcp: # connection resets received" => tcp_estab_resets,
    "Tcp: # connections established" => tcp_curr_estab,
    "Tcp: # segments received" => tcp_in_segs,
    "Tcp: # segments send out" => tcp_out_segs,
    "Tcp: # segments sent out" => tcp_out_segs,
    "Tcp: # segments retransmited" => tcp_retrans_segs,
    "Tcp: # segments retransmitted" => tcp_retrans_segs,
    "Tcp: # bad segments received" => tcp_in_errs,
    "Tcp: # resets sent" => tcp_out_rsts,
    "Udp: # packets received" => udp_in_datagrams,
    "Udp: # packets to unknown port received" => udp_no_ports,
    "Udp: # packet receive errors" => udp_in_errors,
    "Udp: # packets sent" => udp_out_datagrams,
    "Udp: # receive buffer errors" => udp_rcvbuf_errors,
    "Udp: # send buffer errors" => udp_sndbuf_errors,
    "TcpExt: # times the listen queue of a socket overflowed" => tcp_ext_listen_overflows,
    "TcpExt: # SYNs to LISTEN sockets ignored" => tcp_ext_listen_drops,
    "TcpExt: # SYNs to LISTEN sockets dropped" => tcp_ext_listen_drops,
    "TcpExt: # packets pruned from receive queue because of socket buffer overrun" => tcp_ext_prune_called,
    "TcpExt: # packets collapsed in receive queue due to low socket buffer" => tcp_ext_tcp_rcv_collapsed,
    "TcpExt: # TCP sockets finished time wait in fast timer" => tcp_ext_tw,
    "TcpExt: # other TCP timeouts" => tcp_ext_tcp_timeouts,
    "TcpExt: # fast retransmits" => tcp_ext_tcp_fast_retrans,
    "TcpExt: # DSACKs received" => tcp_ext_tcp_dsack_recv,
    "TcpExt: Detected reordering # times using SACK" => tcp_ext_tcp_sack_reorder,
    "TcpExt: Detected reordering # times using time stamp" => tcp_ext_tcp_ts_reorder,
    "TcpExt: # retransmits lost" => tcp_ext_tcp_lost_retransmit,
    "TcpExt: TCP ran low on memory # times" => tcp_ext_tcp_memory_pressures,
    "TcpExt: # connections aborted due to memory pressure" => tcp_ext_tcp_abort_on_memory,
];

fn statistics(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let (mut seen, mut sections) = (BTreeSet::new(), BTreeSet::new());
    let mut section = String::new();
    while let Some(text) = lines.peek(0) {
        if let Some(name) = section_title(text) {
            // A repeated section belongs to the next reading.
            if !sections.insert(name.to_owned()) {
                break;
            }
            section = name.to_owned();
        } else if !text.starts_with([' ', '\t']) && alone(text).is_none() {
            break;
        } else if let Some((metric, count)) = counter(&section, text.trim()) {
            // So does a repeated counter, if grep left no sections.
            if !seen.insert(metric) && section.is_empty() {
                break;
            }
            let line = lines.number();
            run.row::<Protocol>(0.0, line, interface("ip")).set(metric, count);
        }
        lines.skip(1);
    }
    Ok(())
}

/// Parses `TcpExt:`.
fn section_title(text: &str) -> Option<&str> {
    text.trim_end().strip_suffix(':').filter(|name| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// Returns the text of a line below a section's title.
fn indented(line: &str) -> Option<&str> {
    line.strip_prefix("    ").filter(|text| text.starts_with(|c: char| c.is_ascii_alphanumeric()))
}

/// Returns the metric and count of a line that no title precedes: it is indented, or has a phrase that nothing else prints.
fn alone(line: &str) -> Option<(&'static str, u64)> {
    const LEAST_WORDS: usize = 4;
    let is_phrase = |text: &&str| text.split_whitespace().count() >= LEAST_WORDS && !text.contains(':');
    counter("", indented(line).or(Some(line.trim()).filter(is_phrase))?)
}

/// Returns the metric and count of a line: `5955 segments retransmitted` or `TCPTimeouts: 4971`. If grep left no section title,
/// `section` is empty, and only counters that occur in a single section are known.
fn counter(section: &str, text: &str) -> Option<(&'static str, u64)> {
    static NAMES: LazyLock<CounterNames> = LazyLock::new(CounterNames::default);
    let whole = |word: &str| number(word).map(|n| n as u64);
    if let Some((name, value)) = text.split_once(": ") {
        let section = if section.is_empty() { "TcpExt" } else { section };
        return Some((NAMES.metric(section, name)?, whole(value.trim())?));
    }
    let count = text.split_whitespace().find_map(whole)?;
    let phrase: Vec<&str> = text.split_whitespace().map(|w| if number(w).is_some() { "#" } else { w }).collect();
    let phrase = phrase.join(" ");
    let phrase = phrase.trim_end_matches('.');
    let is_known = |header: &str| {
        header.split_once(": ").is_some_and(|(of, words)| (section.is_empty() || of == section) && words == phrase)
    };
    PHRASES.metric(is_known).map(|metric| (metric, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_that_grep_left_are_rates_between_two_times() {
        let text = "$ date; netstat -s | grep -i listen\nFri May  5 15:39:58 CST 2017\n\
            1641685 times the listen queue of a socket overflowed\n1641685 SYNs to LISTEN sockets ignored\n\
            $ date; netstat -s | grep -i listen\nFri May  5 15:39:59 CST 2017\n\
            1641906 times the listen queue of a socket overflowed\n1641906 SYNs to LISTEN sockets ignored\n";
        let window = window_of(text);
        assert_eq!(window.change::<Protocol>().unwrap().grown(|p| p.tcp_ext_listen_overflows), Some(221.0));
    }
    use crate::testing::{fixture, refusal_of, row_of, window_of};
    use whyslow_model::value::Counter;

    #[test]
    fn two_readings_with_their_times_are_rates() {
        let text = fixture("netstat-s.txt");
        let printed = |nth: usize| -> f64 {
            let line = text.lines().filter(|l| l.ends_with("segments sent out")).nth(nth).unwrap();
            number(line.split_whitespace().next().unwrap()).unwrap()
        };
        let window = window_of(&text);
        let change = window.change::<Protocol>().unwrap();
        assert_eq!(change.rate(|p| p.tcp_out_segs), Some((printed(1) - printed(0)) / 5.0));
        assert_eq!(window.seconds(), 5.0);
    }

    #[test]
    fn with_t_there_are_fewer_sections() {
        let reading = |out: u32, again: u32, fast: u32| {
            format!(
                "Tcp:\n    {out} segments sent out\n    {again} segments retransmitted\nTcpExt:\n    {fast} fast retransmits\n"
            )
        };
        let (first, second) = (reading(1000, 50, 40), reading(3000, 110, 80));
        let times = ["Sat Jun  1 12:00:00 UTC 2024\n", "Sat Jun  1 12:00:20 UTC 2024\n"];
        let window = window_of(&format!("{}{first}{}{second}", times[0], times[1]));
        let change = window.change::<Protocol>().unwrap();
        assert_eq!((change.rate(|p| p.tcp_out_segs), change.rate(|p| p.tcp_retrans_segs)), (Some(100.0), Some(3.0)));
        assert_eq!(change.rate(|p| p.tcp_ext_tcp_fast_retrans), Some(2.0));
        // Without times, there are two captures.
        assert_eq!(crate::testing::read_text(&format!("{first}{second}")).unwrap().len(), 2);
    }

    #[test]
    fn without_times_there_is_no_rate() {
        let text: String =
            fixture("netstat-s.txt").lines().filter(|l| !l.contains("UTC")).map(|l| format!("{l}\n")).collect();
        let captures = crate::testing::read_text(&text).unwrap();
        assert_eq!(captures.len(), 2);
        assert!(captures.iter().all(|c| c.window.change::<Protocol>().unwrap().rate(|p| p.tcp_out_segs).is_none()));
    }

    #[test]
    fn wording_of_both_generations_is_read() {
        let text = "Ip:\n    7 total packets received\nTcp:\n    18 segments send out\n    3 segments retransmited\n\
            TcpExt:\n    5 times the listen queue of a socket overflowed\n    TCPTimeouts: 4\n    TCP ran low on memory 2 times\n";
        let row = row_of::<Protocol>(text);
        assert_eq!((row.tcp_out_segs.get(), row.tcp_retrans_segs.get()), (Some(18), Some(3)));
        assert_eq!((row.tcp_ext_listen_overflows.get(), row.tcp_ext_tcp_timeouts.get()), (Some(5), Some(4)));
        assert_eq!(row.tcp_ext_tcp_memory_pressures.get(), Some(2));
    }

    #[test]
    fn a_phrase_becomes_a_metric_of_its_own_section() {
        let foreign = PHRASES.pairs().filter(|(header, metric)| {
            let section = header.split(':').next().unwrap().replace("TcpExt", "tcp_ext").to_ascii_lowercase();
            !metric.starts_with(&format!("{section}_")) || (section == "tcp" && metric.starts_with("tcp_ext_"))
        });
        assert_eq!(foreign.collect::<Vec<_>>(), []);
    }

    #[test]
    fn what_grep_left_of_two_readings_is_rates() {
        let reading = |second: u32, count: u32| {
            format!(
                "[root@web1 ~]# date; netstat -s | grep -E 'listen|LISTEN|retrans'\nSat Jun  1 12:00:{second:02} UTC 2024\n    \
                 {count} segments retransmitted\n    {count} times the listen queue of a socket overflowed\n    \
                 TCPLostRetransmit: {count}\n"
            )
        };
        let window = window_of(&(reading(0, 1000) + &reading(10, 1600)));
        let change = window.change::<Protocol>().unwrap();
        let per_second = |counter: fn(&Protocol) -> Counter| change.rate(counter);
        assert_eq!(per_second(|p| p.tcp_retrans_segs), Some(60.0));
        assert_eq!(per_second(|p| p.tcp_ext_listen_overflows), Some(60.0));
        assert_eq!(per_second(|p| p.tcp_ext_tcp_lost_retransmit), Some(60.0));
        // Without times, there are two captures.
        let text = "    1000 segments retransmitted\n    1600 segments retransmitted\n";
        assert_eq!(crate::testing::read_text(text).unwrap().len(), 2);
    }

    #[test]
    fn interfaces_are_read_with_their_mtu() {
        let text = fixture("netstat-i.txt");
        let window = window_of(&text);
        let rows = window.newest::<Interface>();
        let veth = rows.values().find(|row| &*row.interface.name == "veth0").unwrap();
        assert_eq!((veth.rx_packets.get(), veth.tx_packets.get()), (Some(67_820), Some(288_419)));
        assert_eq!(refusal_of(&text.replace("      0      0 0 ", "      0 0 ")).line, 4);
    }
}
