//! dropwatch(1): in which function the kernel dropped packets.

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

/// What it prints before the first drop.
const TALK: [&str; 5] = [
    "dropwatch>",
    "Enabling monitoring...",
    "Kernel monitoring activated.",
    "Issue Ctrl-C to stop monitoring",
    "Initializing kallsyms db",
];

fn is_talk(line: &str) -> bool {
    TALK.iter().any(|words| line.starts_with(words))
}

/// How many packets, and where: `3 drops at tcp_v4_rcv+4b (0xffffffff81662dab) [software]`.
fn drops(line: &str) -> Option<(u64, &str)> {
    let (count, rest) = line.split_once(" drops at ")?;
    let (place, rest) = rest.split_once(" (0x")?;
    let function = place.split(['+', '.']).next().filter(|name| !name.is_empty() && !name.contains(' '))?;
    rest.contains(')').then(|| Some((count.trim().parse().ok()?, function)))?
}

fn read(lines: &mut Lines<'_>, _: &CaptureContext, run: &mut ToolRun) -> ReadResult {
    let mut places: BTreeMap<String, (u32, u64)> = BTreeMap::new();
    let begin = lines.number();
    while let Some(line) = lines.take_past_blanks_if(|text| drops(text).is_some() || is_talk(text)) {
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
        (row.place, row.packets) = (place.as_str().into(), packets.into());
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
