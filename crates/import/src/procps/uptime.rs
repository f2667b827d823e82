//! uptime(1), and the first line of w(1): load averages.

use crate::clock::{Moment, time_of_day};
use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::number::number;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_model::catalogue::System;
use whyslow_model::key::Machine;

/// The format.
pub const FORMAT: Format = Format {
    name: "uptime",
    versions: "procps 2 to 4, uptime and the first line of w",
    tells: "load averages, which count tasks that wait for storage too: nothing by themselves",
    starts: |lines| lines.peek(0).is_some_and(is_line),
    read,
};

/// ` 16:54:42 up  6:37,  0 users,  load average: 1.24, 1.47, 2.55`
fn is_line(line: &str) -> bool {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let time = time_of_day(&fields).map(|(_, taken)| taken);
    time.is_some_and(|taken| fields.get(taken) == Some(&"up")) && line.contains("load average: ")
}

fn read(lines: &mut Lines<'_>, asked: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let line = lines.number();
    let text = lines.peek(0).unwrap_or_default().to_owned();
    let fields: Vec<&str> = text.split_whitespace().collect();
    let time = time_of_day(&fields).map(|(time, _)| time);
    run.start = Moment { date: asked.at.date, time };
    let (_, loads) = text.split_once("load average: ").unwrap_or_default();
    // In many locales each is `1,24`, and a comma stands between them too.
    let loads: Option<Vec<f64>> = loads.split_whitespace().map(|w| number(w.trim_end_matches(','))).collect();
    let Some(&[one, five, fifteen]) = loads.as_deref() else { return Err(lines.refuse("three load averages")) };
    lines.skip(1);
    let system = run.row::<System>(0.0, line, Machine);
    system.load_1m = one.into();
    system.load_5m = five.into();
    system.load_15m = fifteen.into();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    #[test]
    fn loads_and_their_time() {
        let text = fixture("uptime.txt");
        let window = window_of(&text);
        assert_eq!(window.the::<System>().unwrap().load_15m.get(), Some(2.55));
        let later = text.replace("16:54:42", "16:54:52").replace("1.24", "7,5");
        let window = window_of(&format!("{text}{later}"));
        assert_eq!((window.seconds(), window.the::<System>().unwrap().load_1m.get()), (10.0, Some(7.5)));
        refusal_of(&text.replace("1.24, ", ""));
    }
}
