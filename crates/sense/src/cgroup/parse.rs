//! The forms that files of control groups have (Documentation/admin-guide/cgroup-v2.rst, "Interface Files").

use whyslow_model::catalogue::Family;

/// A figure of a kernel file: its name there, the metric it fills, and the factor to the metric's unit.
pub(super) type Field = (&'static str, &'static str, u64);

/// Nanoseconds in a microsecond.
pub(super) const US: u64 = 1000;

/// Fills the metrics of `row` that `fields` names; other figures are passed over.
pub(super) fn fill<'t, F: Family>(row: &mut F, figures: impl Iterator<Item = (&'t str, u64)>, fields: &[Field]) {
    for (name, value) in figures {
        if let Some((_, metric, scale)) = fields.iter().find(|field| field.0 == name) {
            row.set(metric, value.saturating_mul(*scale));
        }
    }
}

/// Lines of `name value` ("flat keyed").
pub(super) fn keyed(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        Some((name, value.trim().parse().ok()?))
    })
}

/// Figures of the form `name=value` in one line ("nested keyed"); `max` is no figure.
pub(super) fn assigned(line: &str) -> impl Iterator<Item = (&str, u64)> {
    line.split_ascii_whitespace().filter_map(|word| {
        let (name, value) = word.split_once('=')?;
        Some((name, value.parse().ok()?))
    })
}

/// Lines that begin with a device, `8:16 rest`: the device's `major:minor`, and the rest.
pub(super) fn by_device(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.split_once(' ')).filter(|(number, _)| {
        number.split_once(':').is_some_and(|(a, b)| a.parse::<u32>().is_ok() && b.parse::<u32>().is_ok())
    })
}

/// cpu.max, `quota period` in microseconds; `None` for the quota `max`, and for what is missing.
pub(super) fn cpu_max(text: &str) -> (Option<u64>, Option<u64>) {
    let mut words = text.split_ascii_whitespace().map(|word| word.parse().ok());
    (words.next().flatten(), words.next().flatten())
}

/// A pressure file: stall time in microseconds by `some` and `full` (Documentation/accounting/psi.rst).
pub(super) fn pressure(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (share, figures) = line.split_once(' ')?;
        let (_, total) = assigned(figures).find(|(name, _)| *name == "total")?;
        Some((share, total))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use whyslow_model::catalogue::GroupIo;

    #[test]
    fn each_form_is_read() {
        let flat: Vec<_> = keyed("usage_usec 12\nbad\nneg -1\nnr 3 \n").collect();
        assert_eq!(flat, [("usage_usec", 12), ("nr", 3)]);
        let nested: Vec<_> = assigned("rbps=max wiops=120 x").collect();
        assert_eq!(nested, [("wiops", 120)]);
        let devices: Vec<_> = by_device("8:16 Read 5\nTotal 5\n8: x\n").collect();
        assert_eq!(devices, [("8:16", "Read 5")]);
        assert_eq!(cpu_max("max 100000\n"), (None, Some(100_000)));
        assert_eq!(cpu_max("50000 100000\n"), (Some(50_000), Some(100_000)));
        assert_eq!(cpu_max(""), (None, None));
    }

    #[test]
    fn pressure_is_the_total_alone() {
        let text = "some avg10=0.03 avg60=0.87 avg300=0.75 total=12214641\nfull avg10=0.00 total=7\n";
        assert_eq!(pressure(text).collect::<Vec<_>>(), [("some", 12_214_641), ("full", 7)]);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "([a-z0-9:=]{0,24}[ \\n]){0,30}|.*") {
            fill(&mut GroupIo::default(), keyed(&text), &[("rbytes", "read_bytes", u64::MAX)]);
            fill(&mut GroupIo::default(), assigned(&text), &[("rbytes", "read_bytes", 1)]);
            by_device(&text).for_each(drop);
            pressure(&text).for_each(drop);
            let _ = cpu_max(&text);
        }
    }
}
