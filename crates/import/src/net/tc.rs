//! tc(8) of iproute2: queueing disciplines and classes, with `-s` what they sent, dropped and hold.

use super::interface;
use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::number::number;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_model::catalogue::Qdisc;

/// The format.
pub const FORMAT: Format = Format {
    name: "tc",
    versions: "iproute2: tc -s qdisc, tc -s class",
    tells: "which disciplines shape, what they hold now and dropped since they were made; of two with their times, rates",
    starts: |lines| lines.peek(0).is_some_and(|line| Head::of(line).is_some()),
    read,
};

/// Set by nobody and holding nothing.
const NO_QUEUE: &str = "noqueue";

/// `qdisc tbf 800f: dev veth0 root refcnt 3 rate 200Mbit burst 64Kb lat 50ms`
struct Head {
    kind: String,
    device: String,
    /// Its handle; its parent, where the kernel made it and gave it none.
    place: String,
    rate: Option<f64>,
}

impl Head {
    /// A class does not say its device, which was on the command line: it is passed over where that is not known.
    fn of(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [what @ ("qdisc" | "class"), kind, handle, ref rest @ ..] = words[..] else { return None };
        let after = |name: &str| rest.iter().position(|w| *w == name).and_then(|at| rest.get(at + 1)).copied();
        if !handle.contains(':') || (what == "qdisc" && after("dev").is_none()) {
            return None;
        }
        let place = match (handle, after("parent")) {
            ("0:", Some(parent)) => format!("0: parent {parent}"),
            ("0:", None) => "0: parent ffff:ffff".to_owned(),
            (handle, _) => handle.to_owned(),
        };
        // What a shaper lets through at most: the ceiling, where there is one.
        let rate = after("ceil").or(after("rate")).or(after("bandwidth")).and_then(bits);
        Some(Self { kind: kind.into(), device: after("dev").unwrap_or_default().into(), place, rate })
    }
}

fn read(lines: &mut Lines<'_>, asked: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let of_command = |c: &crate::command::Command| {
        let words: Vec<&str> = c.arguments().collect();
        words.iter().position(|w| *w == "dev").and_then(|at| words.get(at + 1)).map(|w| (*w).to_owned())
    };
    let commanded = asked.command.as_ref().and_then(of_command);
    let mut seen = Vec::new();
    while let Some(mut head) = lines.peek(0).and_then(Head::of) {
        let line = lines.number();
        if head.device.is_empty() {
            head.device = commanded.clone().unwrap_or_default();
        }
        let name = format!("{} {} {}", head.device, head.kind, head.place);
        // The same one again is the next reading.
        if seen.contains(&name) {
            break;
        }
        seen.push(name.clone());
        lines.skip(1);
        let counts = counts(lines)?;
        if head.kind == NO_QUEUE || head.device.is_empty() {
            continue;
        }
        let row = run.row::<Qdisc>(0.0, line, interface(&name));
        row.interface = head.device.into();
        row.kind = head.kind.into();
        row.rate = head.rate.into();
        if let Some([bytes, packets, drops, overlimits, requeues]) = counts.sent {
            row.bytes = bytes.into();
            row.packets = packets.into();
            row.drops = drops.into();
            row.overlimits = overlimits.into();
            row.requeues = requeues.into();
        }
        if let Some((bytes, packets)) = counts.backlog {
            row.backlog = bytes.into();
            row.queue_length = packets.into();
        }
    }
    Ok(())
}

/// What `-s` adds.
#[derive(Default)]
struct Counts {
    /// Bytes and packets sent, packets dropped, held back, put back.
    sent: Option<[u64; 5]>,
    /// Bytes and packets that wait.
    backlog: Option<(f64, f64)>,
}

fn counts(lines: &mut Lines<'_>) -> Result<Counts, Refusal> {
    let mut counts = Counts::default();
    while let Some(text) = lines.peek(0).filter(|line| line.starts_with([' ', '\t'])).map(str::to_owned) {
        if text.trim_start().starts_with("Sent ") {
            let numbers: Vec<u64> = text.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
            counts.sent = Some(
                <[u64; 5]>::try_from(numbers)
                    .map_err(|_| lines.refuse("Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0)"))?,
            );
        } else if let Some(rest) = text.trim_start().strip_prefix("backlog ") {
            counts.backlog = Some(backlog(rest).ok_or_else(|| lines.refuse("backlog 0b 0p requeues 0"))?);
        }
        lines.skip(1);
    }
    Ok(counts)
}

/// `12Kb 3p requeues 0`: bytes in steps of 1024 (`sprint_size`, tc/tc_util.c), rounded, and packets.
fn backlog(text: &str) -> Option<(f64, f64)> {
    let mut words = text.split_whitespace();
    let bytes = words.next()?.strip_suffix('b')?;
    let (digits, unit) = match bytes.as_bytes().last()? {
        b'K' => (&bytes[..bytes.len() - 1], 1024.0),
        b'M' => (&bytes[..bytes.len() - 1], 1_048_576.0),
        b'G' => (&bytes[..bytes.len() - 1], 1_073_741_824.0),
        _ => (bytes, 1.0),
    };
    Some((number(digits)? * unit, number(words.next()?.strip_suffix('p')?)?))
}

/// `200Mbit`, in thousands.
fn bits(text: &str) -> Option<f64> {
    let text = text.strip_suffix("bit")?;
    let (digits, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1e3),
        b'M' => (&text[..text.len() - 1], 1e6),
        b'G' => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    Some(number(digits)? * unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    #[test]
    fn a_shaper() {
        let text = fixture("tc-s-qdisc-tbf.txt");
        let window = window_of(&text);
        let row = window.the::<Qdisc>().unwrap();
        assert_eq!((&*row.qdisc.name, row.interface.get()), ("veth0 tbf 800f:", Some("veth0")));
        assert_eq!((row.rate.get(), row.packets.get(), row.backlog.get()), (Some(200e6), Some(67_929), Some(0.0)));
        assert_eq!(refusal_of(&text.replace("67929 pkt", "pkt")).line, 5);
    }

    #[test]
    fn what_waits_and_was_dropped() {
        let text = "qdisc pfifo_fast 0: dev eth0 root refcnt 2 bands 3 priomap 1 2
 Sent 1000 bytes 10 pkt (dropped 7, overlimits 3 requeues 1)
 backlog 12Kb 9p requeues 1
class htb 1:10 root prio 0 rate 1Mbit ceil 2Mbit burst 1600b cburst 1600b
 Sent 5 bytes 1 pkt (dropped 0, overlimits 0 requeues 0)
";
        let window = window_of(&format!("$ tc -s class show dev eth0\n{text}"));
        let rows = window.newest::<Qdisc>();
        let fifo = &rows[&interface("eth0 pfifo_fast 0: parent ffff:ffff")];
        assert_eq!(
            (fifo.drops.get(), fifo.backlog.get(), fifo.queue_length.get()),
            (Some(7), Some(12_288.0), Some(9.0))
        );
        assert_eq!(rows[&interface("eth0 htb 1:10")].rate.get(), Some(2e6));
    }
}
