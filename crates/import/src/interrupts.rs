//! /proc/interrupts: counts since boot by line and processor, and the devices behind a line.

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::number::number;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_model::catalogue::Irq;
use whyslow_model::key::PerCpu;

/// The format.
pub const FORMAT: Format = Format {
    name: "/proc/interrupts",
    versions: "all",
    tells: "which device is behind which line; no rate, where it was read once",
    starts,
    read,
};

fn starts(lines: &mut Lines<'_>) -> bool {
    let processors = |line: &str| {
        let mut words = line.split_whitespace().peekable();
        words.peek().is_some() && words.all(|w| w.strip_prefix("CPU").is_some_and(|n| n.parse::<u32>().is_ok()))
    };
    lines.peek(0).is_some_and(processors)
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let header = lines.take().map(|line| line.text).unwrap_or_default();
    let cpus: Vec<u32> = header.split_whitespace().filter_map(|w| w.strip_prefix("CPU")?.parse().ok()).collect();
    while let Some((name, rest)) = lines.peek(0).and_then(line).map(|(name, rest)| (name.to_owned(), rest.to_owned())) {
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let counts: Vec<f64> = fields.iter().map_while(|f| number(f)).take(cpus.len()).collect();
        // ERR and MIS are counts of the whole machine.
        if counts.len() < cpus.len() && !["ERR", "MIS"].contains(&name.as_str()) {
            return Err(lines.refuse(format!("a count for each of {} processors", cpus.len())));
        }
        for (cpu, count) in cpus.iter().zip(&counts).filter(|(_, count)| **count > 0.0) {
            let number = lines.number();
            let row = run.row::<Irq>(0.0, number, PerCpu { name: name.as_str().into(), cpu: *cpu });
            row.count = (*count as u64).into();
            if fields.len() > cpus.len() {
                row.device = fields[cpus.len()..].join(" ").into();
            }
        }
        lines.skip(1);
    }
    Ok(())
}

/// `  9:      14464          XT-PIC  acpi, eth2`
fn line(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.trim_start().split_once(':')?;
    let plausible = name.len() <= 4 && name.bytes().all(|b| b.is_ascii_alphanumeric()) && !name.is_empty();
    (plausible && rest.split_whitespace().next().is_some_and(|f| number(f).is_some())).then_some((name, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    #[test]
    fn the_devices_behind_a_line() {
        let window = window_of(&fixture("irq-proc-interrupts.txt"));
        let rows = window.newest::<Irq>();
        let row = &rows[&PerCpu { name: "9".into(), cpu: 0 }];
        assert_eq!((row.count.get(), row.device.get()), (Some(14_464), Some("XT-PIC acpi, eth2")));
        assert_eq!(refusal_of("           CPU0       CPU1\n  0:  5   timer\n").line, 2);
    }
}
