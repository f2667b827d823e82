//! ip(8) of iproute2: `ip link` and `ip addr`, with `-s` the counts of each interface since boot.

use super::interface;
use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::run::Run;
use std::collections::BTreeMap;
use whyslow_model::catalogue::{Interface, Link};
use whyslow_model::key::NetKey;

/// The format.
pub const FORMAT: Format = Format {
    name: "ip",
    versions: "iproute2 3 to 6: ip link, ip addr, with -s and -s -s",
    tells: "counts of packets and of bad ones since boot, MTU, state, addresses; no rate, where it was read once",
    starts: |lines| lines.peek(0).is_some_and(|line| head(line).is_some()),
    read,
};

/// The name in `4: veth0@if3: <BROADCAST,MULTICAST,UP> mtu 1500 ...`
fn head(line: &str) -> Option<&str> {
    let (number, rest) = line.split_once(": ")?;
    let (name, rest) = rest.split_once(": <")?;
    let known = number.bytes().all(|b| b.is_ascii_digit()) && rest.contains(" mtu ") && !name.contains(' ');
    known.then(|| name.split('@').next().unwrap_or(name))
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let mut seen = Vec::new();
    while let Some((text, name)) = lines.peek(0).and_then(|line| Some((line.to_owned(), head(line)?.to_owned()))) {
        // An interface again is the next reading.
        if seen.contains(&name) {
            break;
        }
        let key = interface(&name);
        seen.push(name);
        let line = lines.number();
        lines.skip(1);
        link(run.row::<Link>(0.0, line, key.clone()), &text);
        details(lines, run, &key)?;
    }
    Ok(())
}

fn link(row: &mut Link, text: &str) {
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "mtu" => row.mtu = words.next().and_then(|w| w.parse::<f64>().ok()).into(),
            "qlen" => row.tx_queue_length = words.next().and_then(|w| w.parse::<f64>().ok()).into(),
            "state" => row.operstate = words.next().map(|w| w.to_ascii_lowercase().into()).unwrap_or_default(),
            _ => {}
        }
    }
}

/// The lines below an interface's head.
fn details(lines: &mut Lines<'_>, run: &mut Run, key: &NetKey) -> Result<(), Refusal> {
    let mut addresses: Vec<String> = Vec::new();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let begin = lines.number();
    while let Some(text) = lines.peek(0).filter(|line| line.starts_with([' ', '\t'])).map(str::to_owned) {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["inet" | "inet6", address, ..] => addresses.push(address.to_owned()),
            [direction @ ("RX:" | "TX:"), ref names @ ..] => {
                lines.skip(1);
                columns(lines, direction.trim_end_matches(':'), names, &mut counts)?;
            }
            [direction @ ("RX" | "TX"), "errors:", ref names @ ..] => {
                lines.skip(1);
                columns(lines, direction, names, &mut counts)?;
            }
            _ => {}
        }
        lines.skip(1);
    }
    if !addresses.is_empty() {
        run.row::<Link>(0.0, begin, key.clone()).addresses = addresses.join(" ").into();
    }
    if !counts.is_empty() {
        tell(run.row::<Interface>(0.0, begin, key.clone()), &counts);
    }
    Ok(())
}

/// The counts under a line of names: as many as there are names.
fn columns(
    lines: &mut Lines<'_>,
    direction: &str,
    names: &[&str],
    counts: &mut BTreeMap<String, u64>,
) -> Result<(), Refusal> {
    let values: Option<Vec<u64>> = lines.peek(0).and_then(|l| l.split_whitespace().map(|w| w.parse().ok()).collect());
    let Some(values) = values.filter(|values| values.len() == names.len()) else {
        return Err(lines.refuse(format!("whole numbers under {}, without -h", names.join(" "))));
    };
    counts.extend(names.iter().zip(values).map(|(name, count)| (format!("{direction} {name}"), count)));
    Ok(())
}

/// The columns of /proc/net/dev, which sums some of these up (`dev_seq_printf_stats`, net/core/net-procfs.c).
fn tell(row: &mut Interface, counts: &BTreeMap<String, u64>) {
    let sum = |names: &[&str]| -> Option<u64> {
        let known = names.iter().filter_map(|name| counts.get(*name).copied());
        known.reduce(u64::saturating_add)
    };
    // What is a sum there is one here only where all its parts are told.
    let all = |names: &[&str]| sum(names).filter(|_| names.iter().all(|name| counts.contains_key(*name)));
    let some = |count: Option<u64>| count.map(Into::into).unwrap_or_default();
    row.rx_bytes = some(sum(&["RX bytes"]));
    row.rx_packets = some(sum(&["RX packets"]));
    row.rx_errors = some(sum(&["RX errors"]));
    row.rx_dropped = some(all(&["RX dropped", "RX missed"]).or(sum(&["RX dropped"])));
    row.rx_fifo = some(sum(&["RX fifo"]));
    row.rx_frame = some(all(&["RX length", "RX crc", "RX frame", "RX overrun"]));
    row.rx_multicast = some(sum(&["RX mcast"]));
    row.tx_bytes = some(sum(&["TX bytes"]));
    row.tx_packets = some(sum(&["TX packets"]));
    row.tx_errors = some(sum(&["TX errors"]));
    row.tx_dropped = some(sum(&["TX dropped"]));
    row.tx_fifo = some(sum(&["TX fifo"]));
    row.tx_collisions = some(sum(&["TX collsns"]));
    row.tx_carrier = some(all(&["TX carrier", "TX aborted", "TX window", "TX heartbt"]));
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
