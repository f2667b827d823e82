//! uptime(1), and the first line of w(1): load averages.

use super::top::record_load;
use crate::clock::timed_fields;
use crate::prelude::*;
use whyslow_model::catalogue::System;

pub const FORMAT: Format = Format {
    name: "uptime",
    versions: "procps 2 to 4, uptime and the first line of w",
    shows: "load averages, which alone prove nothing: they also count tasks that wait for storage",
    lacks: "whether any task waits",
    programs: &[program("uptime")],
    files: &["uptime"],
    starts: |lines| lines.next_is(is_uptime),
    read,
    ..Format::NEW
};

const LOADS: &str = "load average: ";

/// ` 16:54:42 up  6:37,  0 users,  load average: 1.24, 1.47, 2.55`
fn is_uptime(line: &str) -> bool {
    timed_fields(line).is_some_and(|(_, fields)| fields.first() == Some(&"up")) && line.contains(LOADS)
}

fn read(lines: &mut Lines<'_>, context: &CaptureContext, run: &mut ToolRun) -> ReadResult {
    let Some(line) = lines.take() else { return Ok(()) };
    run.start = PrintedTime { date: context.at.date, time: timed_fields(&line.text).map(|(time, _)| time) };
    let (_, loads) = line.text.split_once(LOADS).unwrap_or_default();
    let mut system = System::new(MachineKey);
    if loads.split_whitespace().count() != 3 || record_load(&mut system, loads) != 3 {
        return Err(lines.refuse_at(&line, "three load averages"));
    }
    run.put(0.0, line.number, system);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

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
