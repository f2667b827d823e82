//! /proc/zoneinfo and /proc/buddyinfo: free pages of each zone, relative to its watermarks and by the size of free blocks
//! (proc(5), mm/vmstat.c).

use crate::prelude::*;
use whyslow_model::catalogue::Zone;

pub const BUDDYINFO: Format = Format {
    name: "/proc/buddyinfo",
    shows: "whether free memory is fragmented: which sizes of contiguous memory are left",
    lacks: "whether anything waits for contiguous memory",
    files: &["buddyinfo"],
    starts: |lines| lines.next_is(|line| buddy_row(line).is_some()),
    read: read_buddyinfo,
    ..Format::NEW
};

pub const ZONEINFO: Format = Format {
    name: "/proc/zoneinfo",
    shows: "whether free memory of a zone is below its watermarks, so that allocations reclaim memory themselves",
    lacks: "whether anything waits for memory",
    files: &["zoneinfo"],
    columns: &[&WATERMARKS],
    starts: |lines| lines.next_is(|line| zone(line).is_some_and(|(_, rest)| is_title(&rest))),
    read: read_zoneinfo,
    ..Format::NEW
};

const WATERMARKS: MetricColumns<Zone> =
    columns!["free" => free, "min" => min, "low" => low, "high" => high, "managed" => managed];

/// Numbers of orders (NR_PAGE_ORDERS): by default, and with pages of 16 and 64 KiB on arm64.
const ORDERS: [usize; 3] = [11, 12, 14];
/// Order of a huge page: 2 MiB in pages of 4 KiB.
const HUGE: usize = 9;

/// Returns the key and the fields after it: `Node 0, zone   Normal  19449  28749 ...`.
fn zone(line: &str) -> Option<(String, Vec<&str>)> {
    let (node, rest) = line.trim_start().strip_prefix("Node ")?.split_once(", zone ")?;
    node.parse::<u32>().ok()?;
    let mut words = rest.split_whitespace();
    let name = words.next()?;
    Some((format!("{name} of node {node}"), words.collect()))
}

/// Returns true if the name of a zone is followed by nothing, or by a heading that was joined to it.
fn is_title(rest: &[&str]) -> bool {
    rest.is_empty() || rest == ["per-node", "stats"]
}

/// Returns the key, and the number of free blocks of each order.
fn buddy_row(line: &str) -> Option<(String, Vec<f64>)> {
    let (key, fields) = zone(line)?;
    let blocks: Option<Vec<f64>> = fields.into_iter().map(number).collect();
    blocks.filter(|blocks| ORDERS.contains(&blocks.len())).map(|blocks| (key, blocks))
}

fn read_buddyinfo(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut seen: Vec<String> = Vec::new();
    // All zones have the same orders.
    let mut orders = None;
    let is_damaged = |text: &str| zone(text).is_some_and(|(_, rest)| !rest.is_empty()) && buddy_row(text).is_none();
    let expected = "a zone and the number of free blocks of each order";
    while let Some(line) =
        lines.take_own(|text| buddy_row(text).is_some_and(|(key, _)| !seen.contains(&key)), is_damaged, expected)?
    {
        let Some((key, blocks)) = buddy_row(&line.text) else { continue };
        if *orders.get_or_insert(blocks.len()) != blocks.len() {
            lines.leave_out_line(&line, "as many orders as the other zones have")?;
            continue;
        }
        let pages: Vec<f64> =
            blocks.iter().enumerate().map(|(order, count)| count * f64::from(1_u32 << order.min(31))).collect();
        let free: f64 = pages.iter().sum();
        let row = run.row::<Zone>(0.0, line.number, key.as_str().into());
        row.free = free.into();
        row.largest_order = blocks.iter().rposition(|count| *count > 0.0).map_or(-1.0, |order| order as f64).into();
        row.huge_share = Some(pages[HUGE..].iter().sum::<f64>() / free).filter(|share| share.is_finite()).into();
        seen.push(key);
    }
    Ok(())
}

fn read_zoneinfo(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut seen: Vec<String> = Vec::new();
    while let Some(title) =
        lines.take_past_blanks_if(|text| zone(text).is_some_and(|(key, rest)| is_title(&rest) && !seen.contains(&key)))
    {
        let Some((key, _)) = zone(&title.text) else { continue };
        let mut fields: Vec<(String, f64)> = Vec::new();
        let mut last = title.number;
        while let Some(text) = lines.peek(0).filter(|text| zone(text).is_none()) {
            // A broken line does not end the zone.
            if !text.starts_with(' ') {
                let goes_on = |next: &str| next.starts_with(' ') || zone(next).is_some();
                if text.trim().is_empty() || is_command(text) || !lines.peek(1).is_some_and(goes_on) {
                    break;
                }
                lines.leave_out("a line of a zone: its name and a number")?;
                continue;
            }
            // `  pages free     24956`, `        min      2116`
            let mut words = text.trim_start().trim_start_matches("pages ").split_whitespace();
            let (name, value, more) =
                (words.next().unwrap_or_default().to_owned(), words.next().and_then(number), words.next());
            if let Some(value) = value.filter(|_| more.is_none() && WATERMARKS.has(&name))
                && !fields.iter().any(|(known, _)| *known == name)
            {
                fields.push((name, value));
                last = lines.number();
            }
            lines.skip(1);
        }
        let row = TableRow::new(title.number, "", fields).until(last);
        run.counts(0.0, key.as_str().into(), &row, &WATERMARKS);
        seen.push(key);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn free_blocks_by_order() {
        let window = window_of(&fixture("proc-buddyinfo.txt"));
        let rows = window.newest::<Zone>();
        let row = rows.values().find(|row| &*row.name == "Normal of node 0").unwrap();
        assert_eq!(row.largest_order.get(), Some(9.0));
    }

    #[test]
    fn fragmented_memory_has_no_large_blocks() {
        let window = window_of(
            "Node 0, zone   Normal  90000  30000      7      0      0      0      0      0      0      0      0\n",
        );
        let row = window.the::<Zone>().unwrap();
        assert_eq!(
            (row.free.get(), row.largest_order.get(), row.huge_share.get()),
            (Some(150_028.0), Some(2.0), Some(0.0))
        );
    }

    #[test]
    fn watermarks_are_those_of_the_zone_not_of_its_cpus() {
        let window = window_of(&fixture("proc-zoneinfo.txt"));
        let rows = window.newest::<Zone>();
        assert_eq!(rows.len(), 5, "{:?}", rows.keys());
        let row = rows.values().find(|row| &*row.name == "DMA32 of node 0").unwrap();
        assert_eq!((row.min.get(), row.low.get(), row.high.get()), (Some(2116.0), Some(2888.0), Some(3660.0)));
        assert_eq!(row.managed.get(), Some(772_915.0));
    }
}
