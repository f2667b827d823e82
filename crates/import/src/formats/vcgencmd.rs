//! vcgencmd of the Raspberry Pi: throttling of the CPUs by its firmware because of low power supply or heat
//! (raspberrypi.com/documentation: vcgencmd, get_throttled).

use crate::prelude::*;
use whyslow_model::catalogue::{Board, Thermal};

pub const FORMAT: Format = Format {
    name: "vcgencmd",
    versions: "get_throttled, measure_temp",
    shows: "CPUs that are throttled because of heat or because the supply voltage is too low, now and since boot",
    lacks: "how much slower they are",
    programs: &[program("vcgencmd")],
    files: &["vcgencmd"],
    starts: |lines| lines.next_is(|line| throttled(line).is_some() || temperature(line).is_some()),
    read,
    ..Format::NEW
};

/// Parses `throttled=0x50005`.
fn throttled(line: &str) -> Option<u32> {
    /// Bits that have a meaning.
    const KNOWN: u32 = 0xf_000f;
    let bits = u32::from_str_radix(line.trim().strip_prefix("throttled=0x")?, 16).ok()?;
    (bits & !KNOWN == 0).then_some(bits)
}

/// Parses `temp=48.3'C`.
fn temperature(line: &str) -> Option<f64> {
    number(line.trim().strip_prefix("temp=")?.strip_suffix("'C")?)
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut seen = 0;
    while let Some(line) = lines.take_if(|text| throttled(text).is_some() || temperature(text).is_some()) {
        if let Some(celsius) = temperature(&line.text) {
            let zone = run.row::<Thermal>(0.0, line.number, "soc".into());
            zone.kind = "soc".into();
            // If it was measured before and after, the hotter value counts.
            zone.temperature = zone.temperature.get().map_or(celsius, |known| known.max(celsius)).into();
        }
        let Some(bits) = throttled(&line.text) else { continue };
        seen |= bits;
        let row = run.row::<Board>(0.0, line.number, MachineKey);
        let bit = |at: u32| f64::from((seen >> at) & 1).into();
        row.under_voltage = bit(0);
        row.capped = bit(1);
        row.throttled = bit(2);
        row.soft_limit = bit(3);
        row.had_under_voltage = bit(16);
        row.had_throttling = f64::from(u8::from(seen & (0b110 << 16) != 0)).into();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, row_of, window_of};

    /// Written after the documentation, since no such board is available here.
    #[test]
    fn bits_of_now_and_since_boot() {
        let window = window_of(&fixture("layouts/vcgencmd.txt"));
        let board = window.the::<Board>().unwrap();
        assert_eq!(
            (board.under_voltage.get(), board.capped.get(), board.throttled.get()),
            (Some(1.0), Some(0.0), Some(1.0))
        );
        assert_eq!(
            (board.soft_limit.get(), board.had_under_voltage.get(), board.had_throttling.get()),
            (Some(0.0), Some(1.0), Some(1.0))
        );
        assert_eq!(window.newest::<Thermal>().values().next().unwrap().temperature.get(), Some(52.6));
        let fine = row_of::<Board>("throttled=0x0\n");
        assert_eq!((fine.under_voltage.get(), fine.had_throttling.get()), (Some(0.0), Some(0.0)));
    }
}
