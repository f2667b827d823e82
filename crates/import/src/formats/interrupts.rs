//! /proc/interrupts and /proc/softirqs: counts since boot by line or vector and CPU.

use crate::prelude::*;
use whyslow_model::catalogue::{Irq, Softirq};
use whyslow_proc::interrupts::{self, processors, split, take_softirqs};

pub const INTERRUPTS: Format = Format {
    name: "/proc/interrupts",
    shows: "which device uses which interrupt line",
    lacks: "rates, if read once; where grep left the header out, the names of the CPUs, if some are offline",
    files: &["interrupts"],
    starts: |lines| {
        is_header(lines) && !has_vectors(lines) || lines.next_is(|line| cpus_without_header(line).is_some())
    },
    read: |lines, _, run| read::<Irq>(lines, run, interrupts::take),
    ..Format::NEW
};

pub const SOFTIRQS: Format = Format {
    name: "/proc/softirqs",
    shows: "which CPU does the kernel's deferred work",
    lacks: "rates, if read once",
    starts: |lines| is_header(lines) && has_vectors(lines),
    read: |lines, _, run| read::<Softirq>(lines, run, |name, counts, _, rows| take_softirqs(name, counts, rows)),
    ..Format::NEW
};

/// Lines with one count for the whole machine.
const SINGLE: [&str; 2] = ["ERR", "MIS"];
/// Softirq vectors of kernel/softirq.c.
const VECTORS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

fn is_header(lines: &mut Lines<'_>) -> bool {
    lines.next_is(|line| processors(line).is_some())
}

fn has_vectors(lines: &mut Lines<'_>) -> bool {
    let name = lines.peek(1).and_then(|line| line.split_once(':')).map(|(name, _)| name.trim());
    name.is_some_and(|name| VECTORS.contains(&name))
}

/// Reads the lines; `rows` receives a line's name, its counts by CPU, and the text after them.
fn read<F: Family>(
    lines: &mut Lines<'_>,
    run: &mut ToolRun,
    rows: impl Fn(&str, &[(u32, u64)], &str, &mut Vec<F>),
) -> ReadResult {
    let cpus = match lines.peek(0).and_then(cpus_without_header) {
        Some(cpus) => cpus,
        None => lines.take().and_then(|header| processors(&header.text)).unwrap_or_default(),
    };
    let mut counts = Vec::with_capacity(cpus.len());
    while let Some(line) = lines.take_if(is_line) {
        let Some((name, rest)) = split(&line.text, &cpus, &mut counts) else { break };
        // Two lines were joined, or there are more counts than CPUs in the header.
        let is_next = |word: &str| word.ends_with(':') || word.bytes().all(|b| b.is_ascii_digit());
        if rest.split_whitespace().next().is_some_and(is_next) {
            lines.leave_out_line(&line, format!("one line with a count for each of {} CPUs", cpus.len()))?;
            continue;
        }
        if counts.len() == cpus.len() {
            let mut read = Vec::new();
            rows(name, &counts, rest, &mut read);
            read.into_iter().for_each(|row| run.put(0.0, line.number, row));
        } else if !SINGLE.contains(&name) {
            return Err(lines.refuse_at(&line, format!("a count for each of {} CPUs", cpus.len())));
        }
    }
    Ok(())
}

/// Returns the CPUs of a line that grep left without its header: `26:  1  0  PCI-MSI 327680-edge  eth0`. There are as many as
/// counts before the name of the interrupt controller.
fn cpus_without_header(text: &str) -> Option<Vec<u32>> {
    const CONTROLLERS: [&str; 6] = ["PCI-MSI", "IO-APIC", "IR-", "GIC", "XT-PIC", "xen-"];
    let (line, rest) = text.trim_start().split_once(':')?;
    line.parse::<u32>().ok()?;
    let is_count = |word: &&str| word.bytes().all(|b| b.is_ascii_digit());
    let count = rest.split_whitespace().take_while(is_count).count();
    let controller = rest.split_whitespace().nth(count)?;
    let is_known = CONTROLLERS.iter().any(|known| controller.starts_with(known));
    (count >= 2 && is_known).then(|| (0..count as u32).collect())
}

/// Returns true for `  9:      14464          XT-PIC  acpi, eth2`.
fn is_line(text: &str) -> bool {
    let Some((name, rest)) = text.trim_start().split_once(':') else { return false };
    let plausible = !name.is_empty() && name.len() <= 8 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    plausible && rest.trim_start().starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};
    use whyslow_model::key::PerCpu;

    #[test]
    fn the_devices_behind_a_line() {
        let window = window_of(&fixture("irq-proc-interrupts.txt"));
        let rows = window.newest::<Irq>();
        let row = &rows[&PerCpu { name: "9".into(), cpu: 0 }];
        assert_eq!((row.count.get(), row.device.get()), (Some(14_464), Some("acpi, eth2")));
        assert_eq!(refusal_of("           CPU0       CPU1\n  0:  5   timer\n").line, 2);
    }

    #[test]
    fn lines_that_grep_left_are_read_without_their_header() {
        let window = window_of("  27:  356669796          0         17   PCI-MSI 327681-edge      eth0-TxRx-0\n");
        let rows = window.newest::<Irq>();
        let count = |cpu| rows.get(&PerCpu { name: "27".into(), cpu }).and_then(|row| row.count.get());
        let counts = [0, 2].map(count);
        assert_eq!(counts, [Some(356_669_796), Some(17)]);
        assert_eq!(cpus_without_header("  27:  3566  0  of something"), None);
    }

    #[test]
    fn softirqs_are_read_by_vector() {
        let window = window_of(&fixture("proc-softirqs.txt"));
        let rows = window.newest::<Softirq>();
        let row = &rows[&PerCpu { name: "NET_RX".into(), cpu: 1 }];
        assert!(row.count.get().is_some_and(|count| count > 0));
        assert_eq!(refusal_of("      CPU0  CPU1\n  NET_RX:  5\n").line, 2);
    }
}
