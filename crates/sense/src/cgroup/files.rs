//! The files in the directory of one cgroup, and their formats (Documentation/admin-guide/cgroup-v2.rst, "Interface Files").

use crate::{Root, SourceError};
use whyslow_model::catalogue::Family;
use whyslow_model::value::Gauge;

/// The key in a kernel file, the metric it fills, and the factor to the metric's unit.
pub(super) type KeyMetric = (&'static str, &'static str, u64);

/// Nanoseconds per microsecond.
pub(super) const US: u64 = 1000;

/// A cgroup's directory, and the outcome of reading it so far.
pub(super) struct CgroupDir<'r> {
    root: &'r Root,
    path: &'r str,
    polled: bool,
    /// Whether any file could be read.
    pub(super) found: bool,
    /// The first permission error.
    pub(super) denied: Option<SourceError>,
}

impl<'r> CgroupDir<'r> {
    /// Opens a directory whose files are read occasionally.
    pub(super) fn new(root: &'r Root, path: &'r str) -> Self {
        Self { root, path, polled: false, found: false, denied: None }
    }

    /// Opens a directory whose files are read at every sample.
    pub(super) fn polled(root: &'r Root, path: &'r str) -> Self {
        Self { polled: true, ..Self::new(root, path) }
    }

    /// Whether the directory belongs to a captured tree.
    pub(super) fn is_captured(&self) -> bool {
        !self.root.is_live()
    }

    /// Reads a file. Returns `None` if this kernel lacks it or the cgroup was just removed.
    pub(super) fn text(&mut self, file: &str) -> Option<String> {
        let path = format!("{}/{file}", self.path);
        match if self.polled { self.root.polled_text(&path) } else { self.root.text(&path) } {
            Ok(text) => {
                self.found = true;
                Some(text)
            }
            Err(error) => {
                if matches!(error, SourceError::NotPermitted { .. }) {
                    self.denied.get_or_insert(error);
                }
                None
            }
        }
    }

    /// Reads the number in a file. Returns `None` for `max` and `-1`, which mean no limit.
    pub(super) fn number(&mut self, file: &str) -> Option<u64> {
        self.text(file)?.trim().parse().ok()
    }

    pub(super) fn gauge(&mut self, file: &str, scale: u64) -> Gauge {
        self.number(file).map(|n| n.saturating_mul(scale)).into()
    }

    /// Fills a row from a flat keyed file.
    pub(super) fn fill<F: Family>(&mut self, row: &mut F, file: &str, fields: &[KeyMetric]) {
        if let Some(text) = self.text(file) {
            fill(row, flat_keyed(&text), fields);
        }
    }
}

/// Fills the metrics of `row` that `fields` lists.
pub(super) fn fill<'t, F: Family>(row: &mut F, values: impl Iterator<Item = (&'t str, u64)>, fields: &[KeyMetric]) {
    for (key, value) in values {
        if let Some((_, metric, scale)) = fields.iter().find(|field| field.0 == key) {
            row.set(metric, value.saturating_mul(*scale));
        }
    }
}

/// Parses lines of `key value`.
pub(super) fn flat_keyed(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (key, value) = line.split_once(' ')?;
        Some((key, value.trim().parse().ok()?))
    })
}

/// Parses the `key=value` pairs of a nested keyed line; skips the value `max`.
pub(super) fn nested_keyed(line: &str) -> impl Iterator<Item = (&str, u64)> {
    line.split_ascii_whitespace().filter_map(|word| {
        let (key, value) = word.split_once('=')?;
        Some((key, value.parse().ok()?))
    })
}

/// Parses lines that begin with a device, `8:16 rest`: returns `major:minor` and the rest.
pub(super) fn by_device(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.split_once(' ')).filter(|(number, _)| {
        number.split_once(':').is_some_and(|(a, b)| a.parse::<u32>().is_ok() && b.parse::<u32>().is_ok())
    })
}

/// Parses cpu.max: quota (`None` for `max`) and period in microseconds.
pub(super) fn cpu_max(text: &str) -> (Option<u64>, Option<u64>) {
    let mut words = text.split_ascii_whitespace().map(|word| word.parse().ok());
    (words.next().flatten(), words.next().flatten())
}

/// Parses a pressure file: total stall time in microseconds for `some` and `full` (Documentation/accounting/psi.rst).
pub(super) fn pressure(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (kind, values) = line.split_once(' ')?;
        let (_, total) = nested_keyed(values).find(|(key, _)| *key == "total")?;
        Some((kind, total))
    })
}

/// Returns the share of the last minute in which a task stalled, from a pressure file.
pub(super) fn pressure_average(text: &str) -> Option<f64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let percent: f64 = some.split_ascii_whitespace().find_map(|word| word.strip_prefix("avg60="))?.parse().ok()?;
    Some(percent / 100.0).filter(|share| (0.0..=1.0).contains(share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_is_parsed() {
        let flat: Vec<_> = flat_keyed("usage_usec 12\nbad\nneg -1\nnr 3 \n").collect();
        assert_eq!(flat, [("usage_usec", 12), ("nr", 3)]);
        let nested: Vec<_> = nested_keyed("rbps=max wiops=120 x").collect();
        assert_eq!(nested, [("wiops", 120)]);
        let devices: Vec<_> = by_device("8:16 Read 5\nTotal 5\n8: x\n").collect();
        assert_eq!(devices, [("8:16", "Read 5")]);
        assert_eq!(cpu_max("max 100000\n"), (None, Some(100_000)));
        assert_eq!(cpu_max("50000 100000\n"), (Some(50_000), Some(100_000)));
        assert_eq!(cpu_max(""), (None, None));
        let psi = "some avg10=0.03 avg60=0.87 avg300=0.75 total=12214641\nfull avg10=0.00 total=7\n";
        assert_eq!(pressure(psi).collect::<Vec<_>>(), [("some", 12_214_641), ("full", 7)]);
    }
}
