//! ifconfig(8): an interface's counts since boot, in the old and the new layout.

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

const LINK: MetricColumns<Link> = columns!["mtu" => mtu];
const INTERFACE: MetricColumns<Interface> = columns![
    "RX packets" => rx_packets, "RX errors" => rx_errors, "RX dropped" => rx_dropped, "RX overruns" => rx_fifo,
    "RX frame" => rx_frame, "RX bytes" => rx_bytes, "TX packets" => tx_packets, "TX errors" => tx_errors,
    "TX dropped" => tx_dropped, "TX overruns" => tx_fifo, "TX carrier" => tx_carrier, "TX bytes" => tx_bytes,
];

/// `em1       Link encap:Ethernet ...`, `eth0: flags=4163<UP,...>  mtu 1500`
fn title(line: &str) -> Option<&str> {
    let name = line.split([' ', '\t']).next().filter(|n| !n.is_empty())?;
    let known = line.contains("Link encap:") || (line.contains(": flags=") && line.contains("mtu "));
    (known && name != "Link").then(|| name.trim_end_matches(':'))
}

fn read(lines: &mut Lines<'_>, _: &CaptureContext, run: &mut ToolRun) -> ReadResult {
    while let Some(first) = lines.take_past_blanks_if(|text| title(text).is_some()) {
        let Some(name) = title(&first.text) else { break };
        let mut values = values(&first.text);
        while let Some(line) = lines.take_if(|text| text.starts_with([' ', '\t'])) {
            values.extend(self::values(&line.text).into_iter().filter(|(name, _)| !is_cut(&line.text, name)));
        }
        let row = TableRow::of(first.number, name, values).until(lines.number() - 1);
        run.counts(0.0, interface(name), &row, &LINK);
        run.counts(0.0, interface(name), &row, &INTERFACE);
    }
    Ok(())
}

/// Whether the number of this name stands last on its line, where more follows it in both layouts: it may be cut, too.
fn is_cut(text: &str, name: &str) -> bool {
    let followed = ["packets", "bytes", "errors", "dropped", "overruns"];
    // In the old layout the metric follows.
    if name == "mtu" {
        return text.trim_end().rsplit_once("MTU:").is_some_and(|(_, rest)| !rest.contains(' '));
    }
    let word = name.rsplit(' ').next().unwrap_or_default();
    let rest = text.rsplit_once(word).map_or("", |(_, rest)| rest);
    followed.contains(&word) && rest.split([' ', '\t', ':']).filter(|part| !part.is_empty()).count() < 2
}

/// The values of a line, `errors:1270942` or `errors 1270942`, by name and direction. The old layout has the bytes of
/// both directions on one line.
fn values(text: &str) -> Vec<(String, f64)> {
    let mut direction = "";
    let mut words = text.split([' ', '\t', ':']).filter(|word| !word.is_empty()).peekable();
    let mut values = Vec::new();
    while let Some(word) = words.next() {
        if word == "RX" || word == "TX" {
            direction = word;
        } else if let Some(value) = words.peek().and_then(|next| next.parse::<u64>().ok()) {
            let name = if word.eq_ignore_ascii_case("mtu") { "mtu".into() } else { format!("{direction} {word}") };
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
}
