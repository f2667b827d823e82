//! vmstat -s: memory and totals since boot, in words.

use crate::prelude::*;
use whyslow_model::catalogue::{Meminfo, System, Vmstat};

pub const FORMAT: Format = Format {
    name: "vmstat -s",
    versions: "procps 2 to 4, in K",
    shows: "memory; of two with times, paging, swapping and context switches as rates",
    lacks: "what happens now, if read once",
    columns: &[&MEMORY, &PAGING, &SYSTEM],
    starts: |lines| lines.next_is(|line| entry(line).is_some_and(|(_, name)| is_first(name))),
    read,
    ..Format::NEW
};

const MEMORY: MetricColumns<Meminfo> = columns![
    "total memory" => mem_total * KIB, "active memory" => active * KIB, "inactive memory" => inactive * KIB,
    "free memory" => mem_free * KIB, "buffer memory" => buffers * KIB,
    // The page cache, despite its name.
    "swap cache" => cached * KIB, "total swap" => swap_total * KIB, "free swap" => swap_free * KIB,
];
const PAGING: MetricColumns<Vmstat> = columns![
    "paged in" => pgpgin * KIB, "paged out" => pgpgout * KIB, "pages paged in" => pgpgin * KIB,
    "pages paged out" => pgpgout * KIB, "pages swapped in" => pswpin, "pages swapped out" => pswpout,
];
/// CPU ticks are sums over an unknown number of CPUs, and are not used.
const SYSTEM: MetricColumns<System> = columns![
    "interrupts" => interrupts, "CPU context switches" => context_switches, "forks" => forks,
];

/// Parses `24684096 K total memory`.
fn entry(line: &str) -> Option<(f64, &str)> {
    let (count, name) = line.trim().split_once(' ')?;
    Some((count.parse::<u64>().ok()? as f64, name.trim()))
}

fn is_first(name: &str) -> bool {
    name.ends_with("total memory")
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let begin = lines.number();
    let mut values: Vec<(String, f64)> = Vec::new();
    while let Some((count, name)) = lines.peek(0).and_then(entry) {
        // A repeated first line belongs to the next reading.
        if !values.is_empty() && is_first(name) {
            break;
        }
        let memory = [" memory", " swap", " cache"].iter().any(|end| name.ends_with(end));
        match name.strip_prefix("K ").or((!memory).then_some(name)) {
            Some(name) => values.push((name.to_owned(), count)),
            None => return Err(lines.refuse("an amount in K, as vmstat -s prints it without -S")),
        }
        lines.skip(1);
    }
    let row = TableRow::new(begin, "", values).until(lines.number() - 1);
    run.counts(0.0, MachineKey, &row, &MEMORY);
    run.counts(0.0, MachineKey, &row, &PAGING);
    run.counts(0.0, MachineKey, &row, &SYSTEM);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    #[test]
    fn memory_and_counts_are_read() {
        let text = fixture("vmstat-s.txt");
        let window = window_of(&text);
        let memory = window.the::<Meminfo>().unwrap();
        assert_eq!((memory.mem_total.get(), memory.swap_total.get()), (Some(24_684_096.0 * 1024.0), Some(0.0)));
        assert_eq!(window.the::<Vmstat>().unwrap().pswpin.get(), Some(3_777_103));
        assert_eq!(refusal_of(&text.replace(" K free memory", " M free memory")).line, 5);
        let later = text.replace("3777103 pages", "3777303 pages");
        let both = format!("Sat Nov 21 16:54:34 UTC 2026\n{text}Sat Nov 21 16:54:44 UTC 2026\n{later}");
        assert_eq!(window_of(&both).change::<Vmstat>().unwrap().rate(|v| v.pswpin), Some(20.0));
    }
}
