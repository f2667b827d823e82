//! /proc/pressure: time tasks of the whole machine stood still for want of a resource.
//! Documentation/accounting/psi.rst.
//!
//! Shares of the window come from the totals. The averages over one and five minutes tell what was before it.

use crate::seldom::Seldom;
use crate::{Miss, Root, Source};
use whyslow_model::catalogue::Pressure;
use whyslow_model::key::Machine;
use whyslow_model::snapshot::Snapshot;

/// Reads /proc/pressure/{cpu,memory,io,irq}.
#[derive(Default)]
pub(super) struct PressureStall {
    resources: Seldom<Vec<&'static str>>,
}

impl Source for PressureStall {
    fn name(&self) -> &'static str {
        "proc/pressure"
    }

    fn tells(&self) -> &'static str {
        "time tasks waited for CPU, memory and I/O (pressure stall information)"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        let mut row = Pressure::new(Machine);
        let mut any = false;
        let mut result = Ok(());
        // Kernels before 6.1, or without interrupt time accounting, have no irq.
        let there = |resource: &&str| root.at(format!("proc/pressure/{resource}")).exists();
        for resource in self.resources.get(|| ["cpu", "memory", "io", "irq"].into_iter().filter(there).collect()) {
            let path = format!("proc/pressure/{resource}");
            match root.kept_text(&path).and_then(|text| parse(&text, &path, resource, &mut row)) {
                Ok(()) => any = true,
                Err(Miss::Absent(_)) => {}
                Err(miss) => result = Err(miss),
            }
        }
        if any {
            out.processor.pressure.push(row);
        } else if result.is_ok() {
            return Err(Miss::Absent("kernel without PSI, or booted with psi=0".into()));
        }
        result
    }
}

/// Parses one file, of which `resource` is the name. `cpu` has a `full` line too, which means nothing for the machine as
/// a whole and is always zero.
pub(super) fn parse(text: &str, path: &str, resource: &str, row: &mut Pressure) -> Result<(), Miss> {
    for line in text.lines() {
        let (kind, ns) = total(line).ok_or_else(|| Miss::malformed(path, line))?;
        let averages = match (resource, kind) {
            ("cpu", "some") => Some((&mut row.cpu_avg60, &mut row.cpu_avg300)),
            ("memory", "some") => Some((&mut row.memory_avg60, &mut row.memory_avg300)),
            ("io", "some") => Some((&mut row.io_avg60, &mut row.io_avg300)),
            _ => None,
        };
        if let Some((minute, five_minutes)) = averages {
            *minute = average(line, " avg60=").into();
            *five_minutes = average(line, " avg300=").into();
        }
        let stalled = match (resource, kind) {
            ("cpu", "some") => &mut row.cpu_some,
            ("memory", "some") => &mut row.memory_some,
            ("memory", "full") => &mut row.memory_full,
            ("io", "some") => &mut row.io_some,
            ("io", "full") => &mut row.io_full,
            ("irq", "full") => &mut row.irq_full,
            _ => continue,
        };
        *stalled = ns.into();
    }
    Ok(())
}

/// The kind (`some`, `full`) and the total in nanoseconds of a line such as
/// `some avg10=0.40 avg60=0.71 avg300=0.34 total=6413953`, which counts microseconds.
fn total(line: &str) -> Option<(&str, u64)> {
    let (kind, _) = line.split_once(' ')?;
    let (_, us) = line.rsplit_once(" total=")?;
    Some((kind, us.trim_ascii_end().parse::<u64>().ok()?.saturating_mul(1000)))
}

/// One of the averages of such a line, of which the kernel prints per cent, as a ratio.
fn average(line: &str, name: &str) -> Option<f64> {
    let (_, rest) = line.split_once(name)?;
    let (percent, _) = rest.split_once(' ')?;
    percent.parse().ok().map(|percent: f64| percent / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: &str =
        "some avg10=0.40 avg60=0.71 avg300=0.34 total=6413953\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";

    #[test]
    fn totals_become_nanoseconds() {
        let mut row = Pressure::new(Machine);
        assert_eq!(parse(CPU, "proc/pressure/cpu", "cpu", &mut row), Ok(()));
        assert_eq!(row.cpu_some.get(), Some(6_413_953_000));
        assert_eq!(row.io_full.get(), None);
    }

    #[test]
    fn averages_become_ratios() {
        let mut row = Pressure::new(Machine);
        let text = "some avg10=0.40 avg60=71.00 avg300=50.00 total=1\nfull avg10=0.00 avg60=1.00 avg300=2.00 total=0\n";
        assert_eq!(parse(text, "proc/pressure/io", "io", &mut row), Ok(()));
        assert_eq!((row.io_avg60.get(), row.io_avg300.get()), (Some(0.71), Some(0.5)));
        assert_eq!(row.cpu_avg60.get(), None);
    }

    #[test]
    fn a_line_without_a_total_is_an_error() {
        let mut row = Pressure::new(Machine);
        assert!(parse("some avg10=0.40 avg60=0.7", "proc/pressure/io", "io", &mut row).is_err());
        assert_eq!(row.io_some.get(), None);
    }
}
