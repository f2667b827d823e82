//! numactl --hardware: NUMA nodes, their CPUs and memory.

use crate::prelude::*;
use whyslow_model::catalogue::Node;

pub const FORMAT: Format = Format {
    name: "numactl",
    versions: "numactl -H",
    shows: "CPUs, memory and free memory of each node",
    lacks: "which process",
    programs: &[program("numactl")],
    files: &["numactl"],
    starts: |lines| lines.next_is(is_title),
    read,
    ..Format::NEW
};

/// Returns true for `available: 2 nodes (0-1)`.
fn is_title(line: &str) -> bool {
    line.strip_prefix("available: ").is_some_and(|rest| rest.contains(" nodes (") || rest.contains(" node ("))
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    lines.skip(1);
    while let Some(line) = lines.take_if(|text| text.starts_with("node ")) {
        if line.text.starts_with("node distances:") {
            while lines.take_if(|text| text.starts_with("node ") || text.starts_with("  ")).is_some() {}
            break;
        }
        let Some((node, what, value)) = entry(&line.text) else {
            let expected = "a node's number, cpus, size or free, and a value: node 0 size: 24105 MB";
            return Err(lines.refuse_at(&line, expected));
        };
        let row = run.row::<Node>(0.0, line.number, node);
        if what == "cpus" {
            row.cpus = value.into();
        } else if what == "size" || what == "free" {
            let Some(mib) = value.strip_suffix(" MB").and_then(number) else {
                return Err(lines.refuse_at(&line, "an amount in MB"));
            };
            *if what == "size" { &mut row.mem_total } else { &mut row.mem_free } = (mib * MIB).into();
        }
    }
    Ok(())
}

/// Parses `node 0 cpus: 0 1`.
fn entry(text: &str) -> Option<(u32, &str, &str)> {
    let (head, value) = text.strip_prefix("node ")?.split_once(':')?;
    let (node, what) = head.split_once(' ')?;
    Some((node.parse().ok()?, what, value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, row_of};

    #[test]
    fn nodes_and_their_memory_are_read() {
        let text = fixture("numactl-H.txt");
        let row = row_of::<Node>(&text);
        assert_eq!((row.mem_total.get(), row.mem_free.get()), (Some(24_105.0 * MIB), Some(554.0 * MIB)));
        assert_eq!(row.cpus.get(), Some("0 1"));
        assert_eq!(refusal_of(&text.replace("24105 MB", "24105MB")).line, 3);
    }
}
