//! numactl --hardware: the nodes, their processors and memory.

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::number::number;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_model::catalogue::Node;

/// The format.
pub const FORMAT: Format = Format {
    name: "numactl",
    versions: "numactl -H",
    tells: "processors, memory and free memory of each node",
    starts: |lines| lines.peek(0).is_some_and(is_head),
    read,
};

const MIB: f64 = 1_048_576.0;

/// `available: 2 nodes (0-1)`
fn is_head(line: &str) -> bool {
    line.strip_prefix("available: ").is_some_and(|rest| rest.contains(" nodes (") || rest.contains(" node ("))
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    lines.skip(1);
    while let Some(text) = lines.peek(0).filter(|line| line.starts_with("node ")).map(str::to_owned) {
        // Distances follow.
        if text.starts_with("node distances:") {
            lines.skip(1);
            while lines.peek(0).is_some_and(|line| line.starts_with("node ") || line.starts_with("  ")) {
                lines.skip(1);
            }
            break;
        }
        let Some((node, what, value)) = entry(&text) else {
            return Err(lines.refuse("a node's number, cpus, size or free, and a value: node 0 size: 24105 MB"));
        };
        let bytes = || value.strip_suffix(" MB").and_then(number).map(|mb| mb * MIB);
        let number = lines.number();
        match what {
            "cpus" => run.row::<Node>(0.0, number, node).cpus = value.into(),
            "size" | "free" => {
                let Some(bytes) = bytes() else { return Err(lines.refuse("an amount in MB")) };
                let row = run.row::<Node>(0.0, number, node);
                *if what == "size" { &mut row.mem_total } else { &mut row.mem_free } = bytes.into();
            }
            _ => {}
        }
        lines.skip(1);
    }
    Ok(())
}

/// `node 0 cpus: 0 1`
fn entry(text: &str) -> Option<(u32, &str, &str)> {
    let (head, value) = text.strip_prefix("node ")?.split_once(':')?;
    let (node, what) = head.split_once(' ')?;
    Some((node.parse().ok()?, what, value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    #[test]
    fn nodes_and_their_memory() {
        let text = fixture("numactl-H.txt");
        let window = window_of(&text);
        let row = window.the::<Node>().unwrap();
        assert_eq!((row.mem_total.get(), row.mem_free.get()), (Some(24_105.0 * MIB), Some(554.0 * MIB)));
        assert_eq!(row.cpus.get(), Some("0 1"));
        assert_eq!(refusal_of(&text.replace("24105 MB", "24105MB")).line, 3);
    }
}
