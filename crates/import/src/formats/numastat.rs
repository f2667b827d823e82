//! numastat: allocations by NUMA node, and with -m memory by node.

use crate::prelude::*;
use whyslow_model::catalogue::Node;

pub const FORMAT: Format = Format {
    name: "numastat",
    versions: "numactl 2: numastat, numastat -m",
    shows: "pages allocated on another node than intended since boot; of two with times, rates; memory by node",
    lacks: "which process",
    programs: &[program("numastat")],
    files: &["numastat"],
    starts: |lines| lines.next_is(|line| columns(line).is_some()) && has_rows(lines),
    read,
    ..Format::NEW
};

/// The nodes in the header: `node0  node1`, or `Node 0  Node 1  Total`.
fn columns(line: &str) -> Option<Vec<u32>> {
    let joined = line.replace("Node ", "node");
    let words = joined.split_whitespace().filter(|w| *w != "Total");
    let nodes: Option<Vec<u32>> = words.map(|w| w.strip_prefix("node")?.parse().ok()).collect();
    nodes.filter(|nodes| !nodes.is_empty())
}

/// Whether the first row of such a table follows, below a ruler.
fn has_rows(lines: &mut Lines<'_>) -> bool {
    let ruled = usize::from(lines.peek(1).is_some_and(is_ruler));
    lines.peek(1 + ruled).is_some_and(|line| line.starts_with("numa_hit") || line.starts_with("MemTotal"))
}

fn is_ruler(line: &str) -> bool {
    !line.trim().is_empty() && line.bytes().all(|b| b == b'-' || b == b' ')
}

fn is_row(line: &str) -> bool {
    let Some(name) = line.split_whitespace().next() else { return false };
    let known = || Node::INFO.metrics.iter().any(|metric| metric.name == name);
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && (line.split_whitespace().count() > 1 || known())
}

fn read(lines: &mut Lines<'_>, _: &CaptureContext, run: &mut ToolRun) -> ReadResult {
    let header = lines.take().map(|line| line.text).unwrap_or_default();
    let nodes = columns(&header).unwrap_or_default();
    let total = usize::from(header.trim_end().ends_with("Total"));
    while let Some(line) = lines.take_if(|text| is_ruler(text) || is_row(text)) {
        if is_ruler(&line.text) {
            continue;
        }
        let mut fields = line.text.split_whitespace();
        let name = fields.next().unwrap_or_default();
        let values: Option<Vec<f64>> = fields.map(number).collect();
        let Some(values) = values.filter(|v| v.len() == nodes.len() + total) else {
            return Err(lines.refuse_at(&line, format!("a name and a number for each of {} nodes", nodes.len())));
        };
        for (node, value) in nodes.iter().zip(values) {
            let row = run.row::<Node>(0.0, line.number, *node);
            match name {
                "MemTotal" => row.mem_total = (value * MIB).into(),
                "MemFree" => row.mem_free = (value * MIB).into(),
                // The catalogue uses the same names.
                name => {
                    row.set(name, value as u64);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, row_of};

    #[test]
    fn pages_are_read_by_node() {
        let text = fixture("numastat.txt");
        let row = row_of::<Node>(&text);
        assert_eq!((row.numa_hit.get(), row.numa_miss.get()), (Some(349_468_039), Some(0)));
        assert_eq!(refusal_of(&text.replace("numa_miss                      0", "numa_miss")).line, 3);
    }

    #[test]
    fn memory_is_read_by_node() {
        let row = row_of::<Node>(&fixture("numastat-m.txt"));
        assert_eq!(row.mem_total.get(), Some(24_105.56 * MIB));
    }
}
