//! Text about a node, in the tree and in the diagram.

use crate::human;
use whyslow_documents::diagnosis::Reading;
use whyslow_documents::io_stack::{InterruptLine, LimitKind, NodeFact, NodeKind, NodeLimit, StackNode};

/// Facts whose value is self-explanatory.
const SELF_EVIDENT: [&str; 14] = [
    "alignment",
    "compression",
    "data profile",
    "driver",
    "file",
    "level",
    "made by",
    "mapped name",
    "medium",
    "model",
    "size",
    "target",
    "transport",
    "type",
];
/// Facts shown only in the long view.
const DETAILS: [&str; 14] = [
    "adaptive coalescing",
    "bus address",
    "coalescing rx frames",
    "coalescing tx",
    "duplex",
    "firmware",
    "hardware queues",
    "largest segmented packet",
    "logical block",
    "offloads",
    "receive queues at most",
    "send queue",
    "state",
    "write-back throttling",
];
/// With more interrupts than this, the short view shows their number instead of lines.
const MOST_INTERRUPTS: usize = 4;
/// Maximum number of similar items that are named.
const MOST_NAMES: usize = 4;

/// Returns the facts of a node, with their names and in words.
pub(crate) fn facts(node: &StackNode, all: bool) -> Vec<(&str, String)> {
    let shown = node.facts.iter().filter(|fact| all || !DETAILS.contains(&fact.name.as_str()));
    let mut texts: Vec<(&str, String)> = shown.map(|fact| (fact.name.as_str(), fact_text(node.kind, fact))).collect();
    if !node.mount_points.is_empty() {
        let points: Vec<&str> = node.mount_points.iter().map(String::as_str).collect();
        // Options, which come last, are long.
        let place = texts.len().saturating_sub(usize::from(node.words("options").is_some()));
        let points = if all { points.join(", ") } else { names(&points) };
        texts.insert(place, ("mount points", format!("also on {points}")));
    }
    texts
}

fn fact_text(kind: NodeKind, fact: &NodeFact) -> String {
    let value = match &fact.value {
        Reading::Text(text) => text.clone(),
        Reading::Number(number) if kind == NodeKind::Interface && fact.unit == "bytes" => {
            LimitKind::PacketSize.quantity(*number)
        }
        Reading::Number(number) => human::quantity(*number, &fact.unit),
    };
    if SELF_EVIDENT.contains(&fact.name.as_str()) { value } else { format!("{} {value}", fact.name) }
}

/// Returns the origin of a limit, in parentheses; empty if it is obvious.
pub(crate) fn origin(limit: &NodeLimit, all: bool) -> String {
    match (limit.how.is_empty(), all) {
        (true, false) => String::new(),
        (true, true) => format!(" ({})", limit.setting),
        (false, false) => format!(" ({})", limit.how),
        (false, true) => format!(" ({}: {})", limit.setting, limit.how),
    }
}

/// Formats the interrupt lines in words; `joined` keeps each of them on one line. Returns `None` if there are none.
pub(crate) fn interrupts(lines: &[InterruptLine], all: bool, joined: impl Fn(String) -> String) -> Option<String> {
    // An interrupt that was never raised has no name.
    let used: Vec<&InterruptLine> = lines.iter().filter(|line| all || line.name.is_some()).collect();
    if used.is_empty() {
        return None;
    }
    if all || used.len() <= MOST_INTERRUPTS {
        return Some(used.iter().map(|line| joined(interrupt(line))).collect::<Vec<_>>().join(", "));
    }
    let mut cpus: Vec<&str> = used.iter().filter_map(|line| line.cpus.as_deref()).collect();
    cpus.dedup();
    Some(format!("{} lines, on CPUs {}", used.len(), names(&cpus)))
}

fn interrupt(line: &InterruptLine) -> String {
    let name = line.name.as_ref().map_or_else(String::new, |name| format!(" {name}"));
    let cpus = line.cpus.as_ref().map_or_else(String::new, |cpus| format!(" on CPU {cpus}"));
    format!("{}{name}{cpus}", line.line)
}

/// Returns the name, with the network namespace if it is a different one.
pub(crate) fn full_name(node: &StackNode) -> &str {
    let name = node.id.strip_prefix("interface:").filter(|_| node.netns.is_some());
    name.unwrap_or(&node.name)
}

/// Formats several names, and the number of further ones.
pub(crate) fn names(all: &[&str]) -> String {
    let more = all.len().saturating_sub(MOST_NAMES);
    // The name takes the place of '1 more'.
    if more <= 1 {
        return all.join(", ");
    }
    format!("{} and {more} more", all[..MOST_NAMES].join(", "))
}
