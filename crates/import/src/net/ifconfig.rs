//! ifconfig(8): a card's counts since boot, in the old layout and the new.

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_model::catalogue::{Family, Interface, Link};
use whyslow_model::key::NetKey;

/// The format.
pub const FORMAT: Format = Format {
    name: "ifconfig",
    versions: "net-tools 1 and 2",
    tells: "counts of packets and of bad ones since boot, by card; no rate, where it was read once",
    starts: |lines| lines.peek(0).is_some_and(|line| head(line).is_some()),
    read,
};

/// The counts by the words they stand behind, of each direction.
const COUNTS: [(&str, &str, &str); 6] = [
    ("packets", "rx_packets", "tx_packets"),
    ("errors", "rx_errors", "tx_errors"),
    ("dropped", "rx_dropped", "tx_dropped"),
    ("overruns", "rx_fifo", "tx_fifo"),
    ("frame", "rx_frame", ""),
    ("carrier", "", "tx_carrier"),
];

/// `em1       Link encap:Ethernet ...`, `eth0: flags=4163<UP,...>  mtu 1500`
fn head(line: &str) -> Option<&str> {
    let name = line.split([' ', '\t']).next().filter(|n| !n.is_empty())?;
    let known = line.contains("Link encap:") || (line.contains(": flags=") && line.contains("mtu "));
    known.then(|| name.trim_end_matches(':'))
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    while let Some((blanks, name)) = lines.peek_past_blanks(0).and_then(|(at, line)| Some((at, head(line)?.to_owned())))
    {
        lines.skip(blanks);
        let key = NetKey { ns: "".into(), name: name.as_str().into() };
        let mut first = true;
        while let Some(text) = lines.peek(0).filter(|l| first || l.starts_with([' ', '\t'])).map(str::to_owned) {
            first = false;
            let line = lines.number();
            if let Some(mtu) = value(&text, "MTU").or(value(&text, "mtu")) {
                run.row::<Link>(0.0, line, key.clone()).mtu = mtu.into();
            }
            // The old layout has the bytes of both directions on one line.
            let sent = text.find(" TX bytes").unwrap_or(text.len());
            for direction in [&text[..sent], &text[sent..]] {
                counts(run.row::<Interface>(0.0, line, key.clone()), direction);
            }
            lines.skip(1);
        }
    }
    Ok(())
}

fn counts(row: &mut Interface, text: &str) {
    let receive = match text.split_whitespace().next() {
        Some("RX") => true,
        Some("TX") => false,
        _ => return,
    };
    for (word, rx, tx) in COUNTS {
        let column = if receive { rx } else { tx };
        if let Some(count) = value(text, word).filter(|_| !column.is_empty()) {
            row.set(column, count);
        }
    }
    if let Some(bytes) = value(text, "bytes") {
        row.set(if receive { "rx_bytes" } else { "tx_bytes" }, bytes);
    }
}

/// `errors:1270942`, or `errors 1270942`.
fn value(text: &str, word: &str) -> Option<u64> {
    let at = text.split([' ', '\t']).scan(0, |start, w| {
        let here = *start;
        *start += w.len() + 1;
        Some((here, w))
    });
    let (start, _) =
        at.into_iter().find(|(_, w)| *w == word || w.strip_prefix(word).is_some_and(|r| r.starts_with(':')))?;
    let rest = text.get(start + word.len()..)?.trim_start_matches([':', ' ']);
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use crate::testing::{fixture, window_of};
    use whyslow_model::catalogue::{Interface, Link};

    #[test]
    fn both_layouts() {
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
