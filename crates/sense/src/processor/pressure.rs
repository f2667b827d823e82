//! /proc/pressure: time in which tasks of the whole machine stalled on a resource. Documentation/accounting/psi.rst.
//!
//! Shares of the window follow from the totals; the averages over one and five minutes show the time before it.

use crate::{Root, SourceError, SourceInfo};
use whyslow_model::catalogue::Pressure;
use whyslow_model::key::MachineKey;
use whyslow_model::snapshot::Snapshot;

pub(super) const INFO: SourceInfo =
    SourceInfo::new("proc/pressure", "time tasks waited for CPU, memory and I/O (pressure stall information)");

/// Lists the resources that the kernel reports. `irq` is missing before Linux 6.1 and without interrupt time accounting.
pub(super) fn resources(root: &Root) -> Vec<&'static str> {
    let exists = |resource: &&str| root.at(format!("proc/pressure/{resource}")).exists();
    ["cpu", "memory", "io", "irq"].into_iter().filter(exists).collect()
}

pub(super) fn read(resources: &[&'static str], root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let mut row = Pressure::new(MachineKey);
    let mut any = false;
    let mut result = Ok(());
    for resource in resources {
        let path = format!("proc/pressure/{resource}");
        match root.polled_text(&path).and_then(|text| parse(&text, &path, resource, &mut row)) {
            Ok(()) => any = true,
            Err(SourceError::Absent(_)) => {}
            Err(error) => result = Err(error),
        }
    }
    if any {
        out.processor.pressure.push(row);
    } else if result.is_ok() {
        return Err(SourceError::Absent(
            "pressure stall information is off (needs CONFIG_PSI=y, and psi=1 if it is disabled by default)".into(),
        ));
    }
    result
}

/// Parses the file of one resource. The `full` line of `cpu` is undefined for the whole machine and always zero.
fn parse(text: &str, path: &str, resource: &str, row: &mut Pressure) -> Result<(), SourceError> {
    for line in text.lines() {
        let (kind, ns) = total(line).ok_or_else(|| SourceError::malformed(path, line))?;
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

/// Parses `some avg10=0.40 avg60=0.71 avg300=0.34 total=6413953`: returns the kind, and the total converted from microseconds to
/// nanoseconds.
fn total(line: &str) -> Option<(&str, u64)> {
    let (kind, _) = line.split_once(' ')?;
    let (_, us) = line.rsplit_once(" total=")?;
    Some((kind, us.trim_ascii_end().parse::<u64>().ok()?.saturating_mul(1000)))
}

/// Returns one of the averages of such a line as a ratio; the kernel prints percent.
fn average(line: &str, name: &str) -> Option<f64> {
    let (_, rest) = line.split_once(name)?;
    let (percent, _) = rest.split_once(' ')?;
    percent.parse().ok().map(|percent: f64| percent / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Source, listed};
    use crate::testing::CapturedTree;

    fn source() -> Box<dyn Source> {
        listed(INFO, resources, read)
    }

    const CPU: &str =
        "some avg10=0.40 avg60=0.71 avg300=0.34 total=6413953\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";

    #[test]
    fn totals_become_nanoseconds() {
        let (outcome, out) = CapturedTree::with_files(&[("proc/pressure/cpu", CPU)]).read(&mut *source());
        let row = &out.processor.pressure[0];
        assert_eq!((outcome, row.cpu_some.get(), row.io_full.get()), (Ok(()), Some(6_413_953_000), None));
    }

    #[test]
    fn averages_become_ratios() {
        let mut row = Pressure::new(MachineKey);
        let text = "some avg10=0.40 avg60=71.00 avg300=50.00 total=1\nfull avg10=0.00 avg60=1.00 avg300=2.00 total=0\n";
        assert_eq!(parse(text, "proc/pressure/io", "io", &mut row), Ok(()));
        assert_eq!((row.io_avg60.get(), row.io_avg300.get()), (Some(0.71), Some(0.5)));
        assert_eq!(row.cpu_avg60.get(), None);
    }

    #[test]
    fn a_kernel_without_psi_is_absent_and_a_line_without_a_total_a_failure() {
        let none = CapturedTree::with_files(&[]).read(&mut *source()).0;
        assert!(matches!(none, Err(SourceError::Absent(_))), "{none:?}");
        let line = "some avg10=0.40 avg60=0.7";
        let (outcome, out) = CapturedTree::with_files(&[("proc/pressure/io", line)]).read(&mut *source());
        assert_eq!(outcome, Err(SourceError::malformed("proc/pressure/io", line)));
        assert!(out.processor.pressure.is_empty());
    }
}
