//! dropwatch(1): kernel functions that dropped packets.

use crate::prelude::*;
use std::collections::BTreeMap;
use whyslow_model::catalogue::PacketDrop;

pub const FORMAT: Format = Format {
    name: "dropwatch",
    versions: "dropwatch 1.4 and 1.5, with -l kas",
    shows: "in which functions of the kernel packets are dropped; nothing by itself",
    lacks: "which packets, and whether anyone misses them; rates",
    programs: &[program("dropwatch")],
    streamed: true,
    starts: |lines| lines.next_is(|line| drops(line).is_some() || is_talk(line)),
    read,
    ..Format::NEW
};

/// Text that dropwatch prints before the first drop.
const TALK: [&str; 5] = [
    "dropwatch>",
    "Enabling monitoring...",
    "Kernel monitoring activated.",
    "Issue Ctrl-C to stop monitoring",
    "Initializing kallsyms db",
];

fn is_talk(line: &str) -> bool {
    TALK.iter().any(|words| line.starts_with(words)) && !line.contains(" drops at ")
}

/// Returns the number of packets and the function: `3 drops at tcp_v4_rcv+4b (0xffffffff81662dab) [software]`.
fn drops(line: &str) -> Option<(u64, &str)> {
    let (count, rest) = line.split_once(" drops at ")?;
    let (place, rest) = rest.split_once(" (0x")?;
    let function = place.split(['+', '.']).next().filter(|name| !name.is_empty() && !name.contains(' '))?;
    // Another line may have been joined to it.
    (rest.contains(')') && !rest.contains(" drops at ")).then(|| Some((count.trim().parse().ok()?, function)))?
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut places: BTreeMap<String, (u32, u64)> = BTreeMap::new();
    let begin = lines.number();
    let refused = lines.refused();
    let is_own = |text: &str| drops(text).is_some() || is_talk(text);
    let is_damaged = |text: &str| {
        let is_rest = ["(0x", "[software]", "[hardware]"].iter().any(|rest| text.trim_start().starts_with(rest));
        text.contains(" drop") || text.starts_with("drops at ") || text.contains(" (0x") || is_rest
    };
    loop {
        let blanks = lines.peek_past_blanks(0).filter(|(_, text)| is_own(text)).map_or(0, |(blanks, _)| blanks);
        lines.skip(blanks);
        let Some(line) = lines.take_own(is_own, is_damaged, "a count of drops and their place")? else { break };
        if let Some((count, place)) = drops(&line.text) {
            let sum = &mut places.entry(place.to_owned()).or_insert((line.number, 0)).1;
            *sum = sum.saturating_add(count);
        }
        lines.reuse(line);
    }
    if places.is_empty() {
        run.note(
            "dropwatch",
            format!("no packet was dropped from line {begin} on"),
            "let it run while packets are lost",
        );
    }
    for (place, (line, packets)) in places {
        let row = run.row::<PacketDrop>(0.0, line, interface(&place));
        // A sum with a missing part is unknown.
        let is_sum = lines.refused() == refused;
        (row.place, row.packets) = (place.as_str().into(), is_sum.then_some(packets).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn drops_are_added_up_by_function() {
        let window = window_of(&fixture("layouts/dropwatch.txt"));
        let found = window.newest::<PacketDrop>();
        let rows: Vec<_> = found.values().map(|row| (row.place.get(), row.packets.get())).collect();
        assert_eq!(rows, [(Some("__udp4_lib_rcv"), Some(14)), (Some("tcp_v4_rcv"), Some(3))]);
        assert_eq!(drops("Of 3 drops at noon (0x"), None);
    }
}
