//! uptime(1), and the first line of w(1): load averages.

use super::top::record_load;
use crate::clock::{DAY, timed_fields};
use crate::prelude::*;
use whyslow_model::catalogue::System;
use whyslow_model::value::Counter;

pub const FORMAT: Format = Format {
    name: "uptime",
    versions: "procps 2 to 4, uptime and the first line of w, or the load averages alone",
    shows: "load averages, which alone prove nothing: they also count tasks that wait for storage; with the counts of other captures, which are since boot, rates",
    lacks: "whether any task waits",
    programs: &[program("uptime")],
    files: &["uptime"],
    starts: |lines| lines.next_is(|line| is_uptime(line) || are_loads(line)),
    read,
    ..Format::NEW
};

const LOADS: &str = "load average: ";

/// Returns true for ` 16:54:42 up  6:37,  0 users,  load average: 1.24, 1.47, 2.55`.
fn is_uptime(line: &str) -> bool {
    timed_fields(line).is_some_and(|(_, fields)| fields.first() == Some(&"up")) && line.contains(LOADS)
}

/// Returns true for `load average: 1.24, 1.47, 2.55`, cut out of a line.
fn are_loads(line: &str) -> bool {
    let loads = line.trim_start().strip_prefix(LOADS);
    loads.is_some_and(|loads| {
        loads.split_whitespace().count() == 3 && record_load(&mut System::new(MachineKey), loads) == 3
    })
}

/// Minimum time since boot in seconds: a shorter one, printed in whole minutes, is too coarse for rates.
const SHORTEST: f64 = 600.0;

/// Returns the time since boot in `... up 12 days,  3:04,  2 users,  load average: ...`, in nanoseconds; also `3:04`, `1 day, 5
/// min`.
pub fn time_up(title: &str) -> Counter {
    let (_, after) = title.split_once(" up ").unwrap_or_default();
    let mut seconds = 0.0;
    for part in after.split(',').map(str::trim) {
        let (count, unit) = part.split_once(' ').unwrap_or((part, ""));
        let unit = match (unit.trim(), count.split_once(':')) {
            ("day" | "days", _) => DAY,
            ("hr" | "hrs" | "hour" | "hours", _) => 3600.0,
            ("min" | "mins", _) => 60.0,
            ("", Some((hours, minutes))) => {
                let Some((hours, minutes)) = number(hours).zip(number(minutes)) else { return Counter::default() };
                seconds += hours * 3600.0 + minutes * 60.0;
                break;
            }
            _ => break,
        };
        let Some(count) = number(count) else { return Counter::default() };
        seconds += count * unit;
    }
    if seconds < SHORTEST { Counter::default() } else { ((seconds * SECOND) as u64).into() }
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let Some(line) = lines.take() else { return Ok(()) };
    run.start = timed_fields(&line.text).map_or(context.at(), |(time, _)| context.at_time_of_day(time));
    let (_, loads) = line.text.split_once(LOADS).unwrap_or_default();
    let mut system = System::new(MachineKey);
    if loads.split_whitespace().count() != 3 || record_load(&mut system, loads) != 3 {
        return Err(lines.refuse_at(&line, "three load averages"));
    }
    system.uptime = time_up(&line.text);
    run.put(0.0, line.number, system);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    #[test]
    fn the_time_since_boot_of_all_lengths() {
        let seconds = |text: &str| time_up(&format!(" 16:54:42 up {text},  load average: 1.24, 1.47, 2.55")).get();
        let of = |text: &str| seconds(text).map(|ns| ns as f64 / SECOND);
        assert_eq!(of(" 6:37,  0 users"), Some(23_820.0));
        assert_eq!(of("12 days,  3:04,  2 users"), Some(1_047_840.0));
        assert_eq!(of("1 day, 5 min,  1 user"), Some(86_700.0));
        assert_eq!(of("12 min,  0 users"), Some(720.0));
        // Whole minutes are too coarse; the others are not times.
        assert_eq!([of("9 min,  0 users"), of("x:y"), of("")], [None, None, None]);
    }

    #[test]
    fn load_averages_are_read_with_their_time() {
        let text = fixture("uptime.txt");
        let window = window_of(&text);
        assert_eq!(window.the::<System>().unwrap().load_15m.get(), Some(2.55));
        let later = text.replace("16:54:42", "16:54:52").replace("1.24", "7,5");
        let window = window_of(&format!("{text}{later}"));
        assert_eq!((window.seconds(), window.the::<System>().unwrap().load_1m.get()), (10.0, Some(7.5)));
        refusal_of(&text.replace("1.24, ", ""));
    }
}
