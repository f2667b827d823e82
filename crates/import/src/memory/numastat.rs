//! numastat: allocations by node, and with -m memory by node.

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::number::number;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_model::catalogue::{Family, Node};

/// The format.
pub const FORMAT: Format = Format {
    name: "numastat",
    versions: "numactl 2: numastat, numastat -m",
    tells: "pages that came from another node than was wanted, since boot; of two with their times, rates; memory by node",
    starts: |lines| lines.peek(0).is_some_and(|line| columns(line).is_some()) && follows(lines),
    read,
};

const MIB: f64 = 1_048_576.0;

/// The nodes that head the columns: `node0  node1`, or `Node 0  Node 1  Total`.
fn columns(line: &str) -> Option<Vec<u32>> {
    let joined = line.replace("Node ", "node");
    let words = joined.split_whitespace().filter(|w| *w != "Total");
    let nodes: Option<Vec<u32>> = words.map(|w| w.strip_prefix("node")?.parse().ok()).collect();
    nodes.filter(|nodes| !nodes.is_empty())
}

/// Whether the first row, below a ruler, is one of these tables'.
fn follows(lines: &mut Lines<'_>) -> bool {
    let ruled = usize::from(lines.peek(1).is_some_and(is_ruler));
    lines.peek(1 + ruled).is_some_and(|line| line.starts_with("numa_hit") || line.starts_with("MemTotal"))
}

fn is_ruler(line: &str) -> bool {
    !line.trim().is_empty() && line.bytes().all(|b| b == b'-' || b == b' ')
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let head = lines.take().map(|line| line.text).unwrap_or_default();
    let nodes = columns(&head).unwrap_or_default();
    let total = usize::from(head.trim_end().ends_with("Total"));
    while let Some(text) = lines.peek(0).map(str::to_owned) {
        let fields: Vec<&str> = text.split_whitespace().collect();
        if is_ruler(&text) {
            lines.skip(1);
            continue;
        }
        let named = |name: &str| fields.len() > 1 || Node::INFO.metrics.iter().any(|metric| metric.name == name);
        if !fields.first().is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()) && named(name)) {
            break;
        }
        let values: Option<Vec<f64>> = fields[1..].iter().map(|f| number(f)).collect();
        let Some(values) = values.filter(|v| v.len() == nodes.len() + total) else {
            return Err(lines.refuse(format!("a name and a number for each of {} nodes", nodes.len())));
        };
        let line = lines.number();
        for (node, value) in nodes.iter().zip(values) {
            let row = run.row::<Node>(0.0, line, *node);
            match fields[0] {
                "MemTotal" => row.mem_total = (value * MIB).into(),
                "MemFree" => row.mem_free = (value * MIB).into(),
                // Names of counts are the catalogue's.
                name => {
                    row.set(name, value as u64);
                }
            }
        }
        lines.skip(1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    #[test]
    fn pages_by_node() {
        let text = fixture("numastat.txt");
        let window = window_of(&text);
        let row = window.the::<Node>().unwrap();
        assert_eq!((row.numa_hit.get(), row.numa_miss.get()), (Some(349_468_039), Some(0)));
        assert_eq!(refusal_of(&text.replace("numa_miss                      0", "numa_miss")).line, 3);
    }

    #[test]
    fn memory_by_node() {
        let window = window_of(&fixture("numastat-m.txt"));
        let row = window.the::<Node>().unwrap();
        assert_eq!(row.mem_total.get(), Some(24_105.56 * MIB));
    }
}
