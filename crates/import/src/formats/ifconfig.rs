//! ifconfig(8): counters of an interface since boot, in the old and the new layout.

use crate::prelude::*;
use whyslow_model::catalogue::{Interface, Link};

pub const FORMAT: Format = Format {
    name: "ifconfig",
    versions: "net-tools 1 and 2",
    shows: "packets and errors since boot, by interface",
    lacks: "whether errors still occur, if read once",
    programs: &[partly_read("ifconfig")],
    files: &["ifconfig"],
    columns: &[&INTERFACE, &LINK],
    starts: |lines| lines.next_is(|line| title(line).is_some()),
    read,
    ..Format::NEW
};

const LINK: MetricColumns<Link> = columns!["mtu" => mtu, "txqueuelen" => tx_queue_length];
const INTERFACE: MetricColumns<Interface> = columns![
    "RX packets" => rx_packets, "RX errors" => rx_errors, "RX dropped" => rx_dropped, "RX overruns" => rx_fifo,
    "RX frame" => rx_frame, "RX bytes" => rx_bytes, "TX packets" => tx_packets, "TX errors" => tx_errors,
    "TX dropped" => tx_dropped, "TX overruns" => tx_fifo, "TX carrier" => tx_carrier, "TX bytes" => tx_bytes,
    "collisions" => tx_collisions,
];

/// Values that are not counted by direction.
const UNDIRECTED: [&str; 3] = ["mtu", "collisions", "txqueuelen"];

/// Parses `em1       Link encap:Ethernet ...`, `eth0: flags=4163<UP,...>  mtu 1500`.
fn title(line: &str) -> Option<&str> {
    let name = line.split([' ', '\t']).next().filter(|n| !n.is_empty())?;
    let known = line.contains("Link encap:") || (line.contains(": flags=") && line.contains("mtu "));
    (known && name != "Link").then(|| name.trim_end_matches(':'))
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    while let Some(first) = lines.take_past_blanks_if(|text| title(text).is_some()) {
        let Some(name) = title(&first.text) else { break };
        let mut values = values(&first.text);
        while let Some(line) = lines.take_if(|text| text.starts_with([' ', '\t'])) {
            values.extend(self::values(&line.text).into_iter().filter(|(name, _)| !is_cut(&line.text, name)));
        }
        let row = TableRow::new(first.number, name, values).until(lines.number() - 1);
        run.counts(0.0, interface(name), &row, &LINK);
        run.counts(0.0, interface(name), &row, &INTERFACE);
    }
    Ok(())
}

/// Returns true if the number of this name is last on its line although more follows it in both layouts: the number may be cut
/// too.
fn is_cut(text: &str, name: &str) -> bool {
    let followed = ["packets", "bytes", "errors", "dropped", "overruns"];
    // In the old layout, the metric follows.
    if name == "mtu" {
        return text.trim_end().rsplit_once("MTU:").is_some_and(|(_, rest)| !rest.contains(' '));
    }
    let word = name.rsplit(' ').next().unwrap_or_default();
    // In the old layout, the length of the queue follows.
    if word == "collisions" {
        return text.trim_end().rsplit_once("collisions:").is_some_and(|(_, rest)| !rest.contains(' '));
    }
    let rest = text.rsplit_once(word).map_or("", |(_, rest)| rest);
    followed.contains(&word) && rest.split([' ', '\t', ':']).filter(|part| !part.is_empty()).count() < 2
}

/// Returns the values of a line, `errors:1270942` or `errors 1270942`, by name and direction. The old layout has the bytes of
/// both directions on one line.
fn values(text: &str) -> Vec<(String, f64)> {
    let mut direction = "";
    let mut words = text.split([' ', '\t', ':']).filter(|word| !word.is_empty()).peekable();
    let mut values = Vec::new();
    while let Some(word) = words.next() {
        if word == "RX" || word == "TX" {
            direction = word;
        } else if let Some(value) = words.peek().and_then(|next| next.parse::<u64>().ok()) {
            let undirected = UNDIRECTED.iter().find(|name| word.eq_ignore_ascii_case(name));
            let name = undirected.map_or_else(|| format!("{direction} {word}"), |name| (*name).to_owned());
            values.push((name, value as f64));
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use crate::testing::{fixture, window_of};
    use whyslow_model::catalogue::{Interface, Link};

    #[test]
    fn both_layouts_are_read() {
        let window = window_of(&fixture("cases/035-nic-crc-errors-one-way-slow/ifconfig.txt"));
        let row = window.the::<Interface>().unwrap();
        assert_eq!((row.rx_errors.get(), row.rx_frame.get()), (Some(1_270_942), Some(1_270_942)));
        assert_eq!((row.rx_packets.get(), row.tx_bytes.get()), (Some(47_977_247), Some(55_683_174_510)));
        assert_eq!(window.the::<Link>().unwrap().mtu.get(), Some(1500.0));
        let new = "eth0: flags=4163<UP,BROADCAST,RUNNING,MULTICAST>  mtu 9000
        RX packets 100  bytes 6400 (6.4 KB)
        RX errors 7  dropped 1  overruns 0  frame 5
";
        let window = window_of(new);
        let row = window.the::<Interface>().unwrap();
        assert_eq!((row.rx_packets.get(), row.rx_bytes.get(), row.rx_frame.get()), (Some(100), Some(6400), Some(5)));
    }

    #[test]
    fn every_number_is_the_one_beside_its_name() {
        let old = "eth0      Link encap:Ethernet  HWaddr 00:1e:67:aa:bb:cc
          inet addr:10.0.0.5  Bcast:10.0.0.255  Mask:255.255.255.0
          UP BROADCAST RUNNING MULTICAST  MTU:1492  Metric:1
          RX packets:11 errors:12 dropped:13 overruns:14 frame:15
          TX packets:21 errors:22 dropped:23 overruns:24 carrier:25
          collisions:98000 txqueuelen:1001
          RX bytes:16 (16.0 b)  TX bytes:26 (26.0 b)
";
        let new = "eth0: flags=4163<UP,BROADCAST,RUNNING,MULTICAST>  mtu 1492
        inet 10.0.0.5  netmask 255.255.255.0  broadcast 10.0.0.255
        ether 00:1e:67:aa:bb:cc  txqueuelen 1001  (Ethernet)
        RX packets 11  bytes 16 (16.0 B)
        RX errors 12  dropped 13  overruns 14  frame 15
        TX packets 21  bytes 26 (26.0 B)
        TX errors 22  dropped 23 overruns 24  carrier 25  collisions 98000
";
        for text in [old, new] {
            let window = window_of(text);
            let row = window.the::<Interface>().unwrap();
            let received = [row.rx_packets, row.rx_errors, row.rx_dropped, row.rx_fifo, row.rx_frame, row.rx_bytes];
            assert_eq!(received.map(|n| n.get().unwrap()), [11, 12, 13, 14, 15, 16], "{text}");
            let sent = [row.tx_packets, row.tx_errors, row.tx_dropped, row.tx_fifo, row.tx_carrier, row.tx_bytes];
            assert_eq!(sent.map(|n| n.get().unwrap()), [21, 22, 23, 24, 25, 26], "{text}");
            assert_eq!(row.tx_collisions.get(), Some(98_000), "{text}");
            let link = window.the::<Link>().unwrap();
            assert_eq!((link.mtu.get(), link.tx_queue_length.get()), (Some(1492.0), Some(1001.0)));
        }
    }
}
