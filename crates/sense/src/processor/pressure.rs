//! /proc/pressure: time tasks of the whole machine stood still for want of a resource.
//! Documentation/accounting/psi.rst.
//!
//! Only the totals are taken: the kernel's averages are over fixed times, and any average can be had from totals.

use crate::ttl_cache::Seldom;
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
        "time tasks waited for processors, memory, I/O (pressure stall information)"
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
    fn a_line_without_a_total_is_an_error() {
        let mut row = Pressure::new(Machine);
        assert!(parse("some avg10=0.40 avg60=0.7", "proc/pressure/io", "io", &mut row).is_err());
        assert_eq!(row.io_some.get(), None);
    }
}
