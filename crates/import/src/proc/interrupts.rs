//! /proc/interrupts and /proc/softirqs: counts since boot by line or vector and processor.

use crate::format::Format;
use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_model::catalogue::{Irq, Softirq};
use whyslow_proc::{interrupts, per_cpu, softirqs};

/// Interrupts.
pub const INTERRUPTS: Format = Format {
    name: "/proc/interrupts",
    versions: "all",
    tells: "which device is behind which line; no rate, where it was read once",
    starts: |lines| is_header(lines) && !has_vectors(lines),
    read: |lines, _, run| read(lines, run, Kind::Interrupts),
};

/// Softirqs.
pub const SOFTIRQS: Format = Format {
    name: "/proc/softirqs",
    versions: "all",
    tells: "which processor does the kernel's deferred work; no rate, where it was read once",
    starts: |lines| is_header(lines) && has_vectors(lines),
    read: |lines, _, run| read(lines, run, Kind::Softirqs),
};

/// Lines that count for the machine as a whole, in one column.
const SINGLE: [&str; 2] = ["ERR", "MIS"];
/// The vectors of kernel/softirq.c; the first one stands first.
const VECTORS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Interrupts,
    Softirqs,
}

fn is_header(lines: &mut Lines<'_>) -> bool {
    lines.peek(0).is_some_and(|line| per_cpu::processors(line).is_some())
}

fn has_vectors(lines: &mut Lines<'_>) -> bool {
    let name = lines.peek(1).and_then(|line| line.split_once(':')).map(|(name, _)| name.trim());
    name.is_some_and(|name| VECTORS.contains(&name))
}

fn read(lines: &mut Lines<'_>, run: &mut Run, kind: Kind) -> Result<(), Refusal> {
    let cpus = lines.take().and_then(|header| per_cpu::processors(&header.text)).unwrap_or_default();
    let mut counts = Vec::with_capacity(cpus.len());
    while let Some(text) = lines.peek(0).filter(|text| is_line(text)).map(str::to_owned) {
        let Some((name, rest)) = per_cpu::split(&text, &cpus, &mut counts) else { break };
        if counts.len() < cpus.len() && !SINGLE.contains(&name) {
            return Err(lines.refuse(format!("a count for each of {} processors", cpus.len())));
        }
        let line = lines.number();
        if counts.len() == cpus.len() {
            match kind {
                Kind::Interrupts => {
                    let mut rows = Vec::new();
                    interrupts::take(name, &counts, rest, &mut rows);
                    rows.into_iter().for_each(|row: Irq| run.put(0.0, line, row));
                }
                Kind::Softirqs => {
                    let mut rows = Vec::new();
                    softirqs::take(name, &counts, &mut rows);
                    rows.into_iter().for_each(|row: Softirq| run.put(0.0, line, row));
                }
            }
        }
        lines.skip(1);
    }
    Ok(())
}

/// `  9:      14464          XT-PIC  acpi, eth2`
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
    fn softirqs_by_vector() {
        let window = window_of(&fixture("proc-softirqs.txt"));
        let rows = window.newest::<Softirq>();
        let row = &rows[&PerCpu { name: "NET_RX".into(), cpu: 1 }];
        assert!(row.count.get().is_some_and(|count| count > 0));
        assert_eq!(refusal_of("      CPU0  CPU1\n  NET_RX:  5\n").line, 2);
    }
}
