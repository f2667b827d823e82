//! ip(8) of iproute2: `ip link` and `ip addr`; with `-s`, the counters of each interface since boot.

use crate::prelude::*;
use whyslow_model::catalogue::{Interface, Link};

pub const FORMAT: Format = Format {
    name: "ip",
    versions: "iproute2 3 to 6: ip link, ip addr, with -s and -s -s",
    shows: "packets and errors since boot, MTU, state, addresses",
    lacks: "whether errors still occur, if read once",
    programs: &[word("ip")],
    files: &["ip"],
    columns: &[&INTERFACE],
    starts: |lines| lines.next_is(|line| title(line).is_some()),
    read,
    ..Format::NEW
};

/// Columns of /proc/net/dev, which adds up some of these (`dev_seq_printf_stats`, net/core/net-procfs.c). Packets that the card
/// missed because its ring was full are kept apart from packets dropped without a receiver.
const INTERFACE: MetricColumns<Interface> = columns![
    "RX bytes" => rx_bytes, "RX packets" => rx_packets, "RX errors" => rx_errors, "RX dropped" => rx_dropped,
    RING_FULL => rx_fifo, "RX damaged" => rx_frame, "RX mcast" => rx_multicast,
    "TX bytes" => tx_bytes, "TX packets" => tx_packets, "TX errors" => tx_errors, "TX dropped" => tx_dropped,
    "TX fifo" => tx_fifo, "TX collsns" => tx_collisions, "TX failed" => tx_carrier,
];
/// Packets that the card could not store: `fifo` and `missed`, as far as this layout has them.
const RING_FULL: &str = "RX ring full";
/// Sums that are known only if all their parts are.
const SUMS: [(&str, [&str; 4]); 2] = [
    ("RX damaged", ["RX length", "RX crc", "RX frame", "RX overrun"]),
    ("TX failed", ["TX carrier", "TX aborted", "TX window", "TX heartbt"]),
];

/// Returns the name in `4: veth0@if3: <BROADCAST,MULTICAST,UP> mtu 1500 ...`
fn title(line: &str) -> Option<&str> {
    let (number, rest) = line.split_once(": ")?;
    let (name, rest) = rest.split_once(": <")?;
    let known = number.bytes().all(|b| b.is_ascii_digit()) && rest.contains(" mtu ") && !name.contains(' ');
    known.then(|| name.split('@').next().unwrap_or(name))
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut seen: Vec<String> = Vec::new();
    // A repeated interface belongs to the next reading.
    while let Some(line) = lines.take_if(|text| title(text).is_some_and(|name| !seen.iter().any(|s| s == name))) {
        let Some(name) = title(&line.text) else { break };
        seen.push(name.to_owned());
        link(run.row::<Link>(0.0, line.number, interface(name)), &line.text);
        details(lines, run, name)?;
    }
    Ok(())
}

/// States of RFC 2863 as the kernel names them (Documentation/networking/operstates.rst).
const STATES: [&str; 7] = ["UNKNOWN", "NOTPRESENT", "DOWN", "LOWERLAYERDOWN", "TESTING", "DORMANT", "UP"];

fn link(row: &mut Link, text: &str) {
    let mut words = text.split_whitespace().collect::<Vec<_>>().into_iter();
    while let Some(word) = words.next() {
        match word {
            // At the end of a line that was cut, the number may be cut too.
            "mtu" => row.mtu = words.next().and_then(|w| w.parse::<f64>().ok()).filter(|_| words.len() > 0).into(),
            "qlen" => row.tx_queue_length = words.next().and_then(|w| w.parse::<f64>().ok()).into(),
            "state" => {
                let state = words.next().filter(|state| STATES.contains(state));
                row.operstate = state.map(str::to_ascii_lowercase).as_deref().into();
            }
            _ => {}
        }
    }
}

/// Reads the lines below an interface's title.
fn details(lines: &mut Lines<'_>, run: &mut ToolRun, name: &str) -> ReadResult {
    let mut addresses: Vec<String> = Vec::new();
    let mut counts: Vec<(String, f64)> = Vec::new();
    let begin = lines.number();
    while let Some(line) = lines.take_if(|text| text.starts_with([' ', '\t'])) {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        match words[..] {
            ["inet" | "inet6", address, ..] => addresses.push(address.to_owned()),
            ["RX:" | "TX:", ref names @ ..] | ["RX" | "TX", "errors:", ref names @ ..] => {
                columns(lines, words[0].trim_end_matches(':'), names, &mut counts)?;
            }
            _ => {}
        }
    }
    if !addresses.is_empty() {
        run.row::<Link>(0.0, begin, interface(name)).addresses = addresses.join(" ").into();
    }
    if !counts.is_empty() {
        let get = |name: &str| counts.iter().find(|(known, _)| known == name).map(|(_, count)| *count);
        let sums = SUMS.iter().filter_map(|(sum, parts)| {
            let parts: Option<Vec<f64>> = parts.iter().map(|part| get(part)).collect();
            Some(((*sum).to_owned(), parts?.iter().sum()))
        });
        let ring_full = [get("RX fifo"), get("RX missed")].into_iter().flatten().reduce(|a, b| a + b);
        let sums: Vec<_> = sums.chain(ring_full.map(|sum| (RING_FULL.to_owned(), sum))).collect();
        counts.extend(sums);
        run.counts(0.0, interface(name), &TableRow::new(begin, name, counts), &INTERFACE);
    }
    Ok(())
}

/// Reads the counters below a line of names; there must be as many as names.
fn columns(lines: &mut Lines<'_>, direction: &str, names: &[&str], counts: &mut Vec<(String, f64)>) -> ReadResult {
    let values: Option<Vec<u64>> = lines.peek(0).and_then(|l| l.split_whitespace().map(|w| w.parse().ok()).collect());
    let Some(values) = values.filter(|values| values.len() == names.len()) else {
        return Err(lines.refuse(format!("whole numbers under {}, without -h", names.join(" "))));
    };
    counts.extend(names.iter().zip(values).map(|(name, count)| (format!("{direction} {name}"), count as f64)));
    lines.skip(1);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    #[test]
    fn counts_with_all_their_parts() {
        let text = fixture("ip-s-s-link.txt");
        let window = window_of(&text);
        let rows = window.newest::<Interface>();
        let veth = &rows[&interface("veth0")];
        assert!(veth.tx_packets.get().is_some_and(|packets| packets > 1000));
        assert_eq!((veth.rx_frame.get(), veth.tx_carrier.get()), (Some(0), Some(0)));
        let link = &window.newest::<Link>()[&interface("veth0")];
        assert_eq!((link.mtu.get(), link.operstate.get()), (Some(1500.0), Some("up")));
    }

    #[test]
    fn the_older_layout_and_human_numbers() {
        let old = "2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP qlen 1000
    link/ether 00:1e:67:aa:bb:cc brd ff:ff:ff:ff:ff:ff
    inet 10.0.0.1/24 brd 10.0.0.255 scope global eth0
    RX: bytes  packets  errors  dropped overrun mcast
    1000       10       7       3       2       0
    TX: bytes  packets  errors  dropped carrier collsns
    2000       20       0       0       0       0
";
        let window = window_of(old);
        let row = window.the::<Interface>().unwrap();
        assert_eq!((row.rx_errors.get(), row.rx_dropped.get(), row.rx_frame.get()), (Some(7), Some(3), None));
        assert_eq!(window.the::<Link>().unwrap().addresses.get(), Some("10.0.0.1/24"));
        assert_eq!(refusal_of(&old.replace("1000       10       7", "1.0k       10       7")).line, 5);
    }
}
