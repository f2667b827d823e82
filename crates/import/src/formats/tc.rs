//! tc(8) of iproute2: queueing disciplines and classes; with `-s`, their sent and dropped packets and their backlog.

use crate::prelude::*;
use whyslow_model::catalogue::Qdisc;

pub const FORMAT: Format = Format {
    name: "tc",
    versions: "iproute2: tc -s qdisc, tc -s class",
    shows: "which disciplines shape, their backlog, and their drops since they were created; of two with times, rates",
    lacks: "whose packets",
    programs: &[word("tc")],
    files: &["tc"],
    starts: |lines| lines.next_is(|line| QdiscTitle::parse(line).is_some()),
    read,
    ..Format::NEW
};

/// Default discipline of virtual devices, which has no queue.
const NO_QUEUE: &str = "noqueue";

/// `qdisc tbf 800f: dev veth0 root refcnt 3 rate 200Mbit burst 64Kb lat 50ms`
struct QdiscTitle {
    kind: String,
    device: String,
    /// Handle, or the parent if the kernel created the discipline without a handle.
    place: String,
    /// Class above it, or `root`.
    parent: Option<String>,
    rate: Option<f64>,
}

impl QdiscTitle {
    /// Parses a title. A class does not name its device, which was on the command line; neither does a discipline if `dev` was
    /// given.
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [what @ ("qdisc" | "class"), kind, handle, ref rest @ ..] = words[..] else { return None };
        let after = |name: &str| rest.iter().position(|w| *w == name).and_then(|at| rest.get(at + 1)).copied();
        let is_placed = |word: &&str| ["dev", "root", "parent", "ingress"].contains(word);
        let is_nameless = rest.last() == Some(&"dev") || after("dev").is_some_and(|device| is_placed(&device));
        let is_handle = handle.split_once(':').is_some_and(|(major, minor)| {
            [major, minor].iter().all(|number| number.bytes().all(|b| b.is_ascii_hexdigit()))
        });
        if !is_handle || is_nameless || (what == "qdisc" && !rest.iter().any(is_placed)) {
            return None;
        }
        let parent = after("parent").or(rest.contains(&"root").then_some("root")).map(str::to_owned);
        let place = match (handle, after("parent")) {
            ("0:", Some(parent)) => format!("0: parent {parent}"),
            ("0:", None) => "0: parent ffff:ffff".to_owned(),
            (handle, _) => handle.to_owned(),
        };
        let limit = after("ceil").or(after("rate")).or(after("bandwidth"));
        let rate = limit.and_then(|rate| scaled(rate.strip_suffix("bit")?, 1e3, 1.0));
        Some(Self { kind: kind.into(), device: after("dev").unwrap_or_default().into(), place, parent, rate })
    }
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let arguments: Vec<&str> = context.arguments().collect();
    let on_command_line = arguments.iter().position(|w| *w == "dev").and_then(|at| arguments.get(at + 1));
    let mut seen = Vec::new();
    while let Some(mut title) = lines.peek(0).and_then(QdiscTitle::parse) {
        let line = lines.number();
        if title.device.is_empty() {
            title.device = on_command_line.copied().unwrap_or_default().to_owned();
        }
        let name = format!("{} {} {}", title.device, title.kind, title.place).trim_start().to_owned();
        // A repetition belongs to the next reading.
        if seen.contains(&name) {
            break;
        }
        seen.push(name.clone());
        lines.skip(1);
        let mut row = Qdisc::new(interface(&name));
        counts(lines, &mut row)?;
        if title.kind != NO_QUEUE {
            row.interface = Some(title.device.as_str()).filter(|device| !device.is_empty()).into();
            row.kind = title.kind.into();
            row.rate = title.rate.into();
            row.parent = title.parent.into();
            run.put(0.0, line, row);
        }
    }
    Ok(())
}

/// Reads the lines that `-s` adds: packets sent, dropped, held back and requeued, and the backlog.
fn counts(lines: &mut Lines<'_>, row: &mut Qdisc) -> ReadResult {
    while let Some(line) = lines.take_if(|text| text.starts_with([' ', '\t'])) {
        if line.text.trim_start().starts_with("Sent ") {
            let numbers = line.text.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u64>().ok());
            let [bytes, packets, drops, overlimits, requeues] = numbers.collect::<Vec<_>>()[..] else {
                return Err(lines.refuse_at(&line, "Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0)"));
            };
            row.bytes = bytes.into();
            row.packets = packets.into();
            row.drops = drops.into();
            row.overlimits = overlimits.into();
            row.requeues = requeues.into();
        } else if let Some((rate, rest)) = estimate(&line.text) {
            row.sending = rate.into();
            if let Some((bytes, packets)) = backlog(rest) {
                row.backlog = bytes.into();
                row.queue_length = packets.into();
            }
        } else if let Some(rest) = line.text.trim_start().strip_prefix("backlog ") {
            let Some((bytes, packets)) = backlog(rest) else {
                return Err(lines.refuse_at(&line, "backlog 0b 0p requeues 0"));
            };
            row.backlog = bytes.into();
            row.queue_length = packets.into();
        }
    }
    Ok(())
}

/// Returns the rate and the text after `backlog` in ` rate 49980Kbit 4122pps backlog 1204332b 796p requeues 0`, if the kernel
/// estimates rates.
fn estimate(text: &str) -> Option<(f64, &str)> {
    let (rate, rest) = text.trim_start().strip_prefix("rate ")?.split_once(' ')?;
    Some((scaled(rate.strip_suffix("bit")?, 1e3, 1.0)?, rest.split_once("backlog ")?.1))
}

/// Parses `12Kb 3p requeues 0`: bytes in steps of 1024 (`sprint_size`, tc/tc_util.c), rounded, and packets.
fn backlog(text: &str) -> Option<(f64, f64)> {
    let mut words = text.split_whitespace();
    let bytes = scaled(words.next()?.strip_suffix('b')?, KIB, 1.0)?;
    Some((bytes, number(words.next()?.strip_suffix('p')?)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, row_of, window_of};

    #[test]
    fn a_shaper_is_read() {
        let text = fixture("tc-s-qdisc-tbf.txt");
        let row = row_of::<Qdisc>(&text);
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
        let class = rows[&interface("eth0 htb 1:10")];
        assert_eq!((class.rate.get(), class.parent.get()), (Some(2e6), Some("root")));
        let unnamed = row_of::<Qdisc>(text.replace(" dev eth0", "").split("class").next().unwrap_or_default());
        assert_eq!((&*unnamed.qdisc.name, unnamed.interface.get()), ("pfifo_fast 0: parent ffff:ffff", None));
        assert_eq!(unnamed.drops.get(), Some(7));
    }
}
