//! numastat(8): allocations by NUMA node; with -m memory by node, with -p memory of processes by node.

use crate::prelude::*;
use crate::table::is_cell;
use whyslow_model::catalogue::{Node, Process};

pub const FORMAT: Format = Format {
    name: "numastat",
    versions: "numactl 2: numastat, numastat -m, numastat -p; -n and -s are recognized, but they print pages as rounded MB",
    shows: "pages allocated on another node than intended since boot; of two with times, rates; memory by node",
    lacks: "which process, without -p",
    programs: &[program("numastat")],
    files: &["numastat"],
    starts: |lines| {
        lines.next_is(|line| line.starts_with(TITLE) || is_complaint(line) || is_process_header(line))
            || (lines.next_is(|line| columns(line).is_some()) && has_rows(lines))
    },
    read,
    ..Format::NEW
};

/// Beginning of the title that -m, -n, -s and -p print above the table.
const TITLE: &str = "Per-node ";

/// Kinds of process memory, and their sum.
const KINDS: [&str; 5] = ["Huge", "Heap", "Stack", "Private", "Total"];
/// Counters that -n and -s print.
const COUNTS: [&str; 6] = ["Numa_Hit", "Numa_Miss", "Numa_Foreign", "Interleave_Hit", "Local_Node", "Other_Node"];

fn is_named(line: &str, names: &[&str]) -> bool {
    line.split_whitespace().next().is_some_and(|name| names.contains(&name))
}

/// Returns true for the complaint of versions that do not know all lines of the kernel's meminfo.
fn is_complaint(line: &str) -> bool {
    line.starts_with("Token ") && line.ends_with(" not in hash table.")
}

/// Returns true for `PID                        Node 0           Total`.
fn is_process_header(line: &str) -> bool {
    line.strip_prefix("PID ").is_some_and(|rest| columns(rest).is_some())
}

/// Returns the process in `... process memory usage (in MBs) for PID 812 (mysqld)`, or in a row:
/// `812 (mysqld)     3.95      3.95`.
fn process_of(text: &str) -> Option<(u32, &str, &str)> {
    let (pid, rest) = text.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(')')?;
    // Two rows were joined.
    let is_joined =
        name.split(") ").skip(1).any(|rest| rest.split_whitespace().next().is_some_and(|w| number(w).is_some()));
    Some((pid.trim().parse().ok().filter(|_| !is_joined)?, name, rest))
}

/// Returns the nodes in the header: `node0  node1`, or `Node 0  Node 1  Total`.
fn columns(line: &str) -> Option<Vec<u32>> {
    let joined = line.replace("Node ", "node");
    let words = joined.split_whitespace().filter(|w| *w != "Total");
    let nodes: Option<Vec<u32>> = words.map(|w| w.strip_prefix("node")?.parse().ok()).collect();
    nodes.filter(|nodes| !nodes.is_empty())
}

/// Returns true if the first row of such a table follows, below a ruler.
fn has_rows(lines: &mut Lines<'_>) -> bool {
    let ruled = usize::from(lines.peek(1).is_some_and(is_ruler));
    lines.peek(1 + ruled).is_some_and(|line| line.starts_with("numa_hit") || line.starts_with("MemTotal"))
}

fn is_ruler(line: &str) -> bool {
    !line.trim().is_empty() && line.bytes().all(|b| b == b'-' || b == b' ')
}

fn is_row(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let Some(name) = words.next() else { return false };
    let known = || Node::INFO.metrics.iter().any(|metric| metric.name == name);
    let numbers: Vec<&str> = words.collect();
    let has_numbers = !numbers.is_empty() && numbers.iter().all(|word| is_cell(word));
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && (has_numbers || known())
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let title = lines.take_if(|text| text.starts_with(TITLE)).map(|line| line.text).unwrap_or_default();
    while lines.take_if(is_complaint).is_some() {}
    if title.contains("process memory") || lines.next_is(is_process_header) {
        return processes(lines, &title, run);
    }
    if title.contains("numastat info") {
        return in_megabytes(lines, run);
    }
    if !lines.next_is(|text| columns(text).is_some()) {
        return Ok(());
    }
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
                "AnonPages" => row.anon_pages = (value * MIB).into(),
                // The catalogue uses the same names.
                name => {
                    row.set(name, value as u64);
                }
            }
        }
    }
    Ok(())
}

/// Reads the resident memory of processes: for one process by kind, for several one row each.
fn processes(lines: &mut Lines<'_>, title: &str, run: &mut ToolRun) -> ReadResult {
    let one = title.split_once("for PID ").and_then(|(_, rest)| process_of(rest));
    let Some(header) = lines.take() else { return Err(lines.refuse("the names of the nodes")) };
    let nodes = columns(header.text.trim_start_matches("PID")).unwrap_or_default();
    let mut record = |line: u32, (pid, name): (u32, &str), numbers: &str| {
        let values: Option<Vec<f64>> = numbers.split_whitespace().map(number).collect();
        // The total follows the nodes; a table that does not fit the screen has it only in its last part.
        if let Some(total) = values.filter(|values| values.len() == nodes.len() + 1).and_then(|v| v.last().copied()) {
            let row = run.row::<Process>(0.0, line, process(pid));
            (row.command, row.rss) = (name.into(), (total * MIB).into());
        }
    };
    while let Some(line) = lines.take_if(|text| is_ruler(text) || process_of(text).is_some() || is_named(text, &KINDS))
    {
        match (process_of(&line.text), line.text.strip_prefix("Total")) {
            (Some((pid, name, numbers)), _) => record(line.number, (pid, name), numbers),
            (None, Some(numbers)) => {
                if let Some((pid, name, _)) = one {
                    record(line.number, (pid, name), numbers);
                }
            }
            (None, None) => {}
        }
    }
    Ok(())
}

/// Reads counts of pages as rounded megabytes: the size of a page is not printed.
fn in_megabytes(lines: &mut Lines<'_>, run: &mut ToolRun) -> ReadResult {
    let (begin, header) = (lines.number(), lines.take().map(|line| line.text).unwrap_or_default());
    for node in columns(&header).unwrap_or_default() {
        run.row::<Node>(0.0, begin, node);
    }
    while lines.take_if(|text| is_ruler(text) || is_named(text, &COUNTS)).is_some() {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, row_of, window_of};

    #[test]
    fn pages_are_read_by_node() {
        let text = fixture("numastat.txt");
        let row = row_of::<Node>(&text);
        assert_eq!((row.numa_hit.get(), row.numa_miss.get()), (Some(349_468_039), Some(0)));
        assert_eq!(refusal_of(&text.replace("numa_miss                      0", "numa_miss")).line, 3);
    }

    #[test]
    fn memory_of_processes_is_read() {
        let window = window_of(&fixture("numastat-p-n.txt"));
        let found = window.newest::<Process>();
        let rows: Vec<_> = found.values().map(|p| (p.task.pid, p.command.get(), p.rss.get())).collect();
        assert_eq!(
            rows,
            [
                (1200, Some("my (sql)d"), Some(40.5 * MIB)),
                (1201, Some("bash"), Some(3.91 * MIB)),
                (1202, Some("bash"), Some(3.94 * MIB))
            ]
        );
        // Pages printed as megabytes are not read as page counts.
        assert_eq!(window.the::<Node>().map(|node| node.numa_hit.get()), Some(None));
    }

    #[test]
    fn memory_is_read_by_node() {
        let row = row_of::<Node>(&fixture("numastat-m.txt"));
        assert_eq!(row.mem_total.get(), Some(24_105.56 * MIB));
    }
}
