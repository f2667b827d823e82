//! cpupower-frequency-info(1): the limits of the frequency policy, and those of the hardware.

use crate::prelude::*;
use whyslow_model::catalogue::Frequency;

pub const FORMAT: Format = Format {
    name: "cpupower",
    versions: "cpupower and cpufrequtils: frequency-info, cpufreq-info",
    shows: "CPUs whose policy keeps them below what the hardware can do",
    lacks: "what limits them otherwise; the frequency it prints is that of one moment",
    programs: &[partly_read("cpupower"), program("cpufreq-info")],
    files: &["cpupower"],
    starts: |lines| lines.next_is(|line| cpu(line).is_some()),
    read,
    ..Format::NEW
};

/// Parses `analyzing CPU 0:`.
fn cpu(line: &str) -> Option<u32> {
    line.trim().strip_prefix("analyzing CPU ")?.trim_end_matches(':').parse().ok()
}

/// Parses `3.60 GHz`, at the beginning of a text.
fn hertz(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let value = number(words.next()?)?;
    let unit = match words.next()?.trim_end_matches('.') {
        "kHz" => 1e3,
        "MHz" => 1e6,
        "GHz" => 1e9,
        _ => return None,
    };
    Some(value * unit)
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    while let Some((begin, cpu)) = lines.peek(0).and_then(cpu).map(|cpu| (lines.number(), cpu)) {
        lines.skip(1);
        let (mut least, mut most, mut limit, mut current, mut governor) = (None, None, None, None, None);
        while let Some(text) = lines.peek(0).filter(|text| text.starts_with([' ', '\t'])).map(str::trim) {
            if let Some(range) = text.strip_prefix("hardware limits:") {
                (least, most) = range.split_once(" - ").map_or((None, None), |(a, b)| (hertz(a), hertz(b)));
            } else if let Some(range) = text.strip_prefix("current policy: frequency should be within ") {
                limit = range.split_once(" and ").and_then(|(_, most)| hertz(most));
            } else if let Some(frequency) = text.strip_prefix("current CPU frequency: ").and_then(hertz) {
                current = Some(frequency);
            } else if let Some(name) = text.strip_prefix("The governor \"").and_then(|rest| rest.split('"').next()) {
                governor = Some(name.to_owned());
            }
            lines.skip(1);
        }
        let row = run.row::<Frequency>(0.0, begin, cpu);
        (row.hardware_min, row.hardware_max) = (least.into(), most.into());
        (row.limit, row.current) = (limit.into(), current.into());
        if let Some(governor) = governor {
            row.governor = governor.as_str().into();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn limits_of_policy_and_hardware() {
        let window = window_of(&fixture("layouts/cpupower-frequency-info.txt"));
        let row = window.the::<Frequency>().unwrap();
        assert_eq!((row.cpu, row.limit.get(), row.hardware_max.get()), (0, Some(1.2e9), Some(3.6e9)));
        assert_eq!(row.governor.get(), Some("powersave"));
        let acpi = "analyzing CPU 0:\n  driver: acpi-cpufreq\n  hardware limits: 1.20 GHz - 2.61 GHz\n  \
                    current policy: frequency should be within 1.20 GHz and 2.61 GHz.\n                  \
                    The governor \"powersave\" may decide which speed to use\n                  within this range.\n  \
                    current CPU frequency: 1.20 GHz (asserted by call to hardware)\n";
        let window = window_of(acpi);
        let row = window.the::<Frequency>().unwrap();
        assert_eq!(
            (row.current.get(), row.hardware_min.get(), row.limit.get()),
            (Some(1.2e9), Some(1.2e9), Some(2.61e9))
        );
        assert_eq!((hertz("800 MHz and"), hertz("1.20 GHz."), hertz("12 W")), (Some(8e8), Some(1.2e9), None));
    }
}
