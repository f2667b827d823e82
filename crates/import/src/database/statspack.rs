//! An Oracle statspack or AWR report as text: a database's report on itself.

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::number::number;
use crate::refusal::Refusal;
use crate::run::{Run, SECOND};
use whyslow_model::catalogue::Database;

/// The format.
pub const FORMAT: Format = Format {
    name: "statspack",
    versions: "Oracle statspack and AWR since 8.1.7, text, by an interval's snapshots",
    tells: "what the database waits for: reads, log, latches; how well its caches do",
    starts,
    read,
};

/// Hit ratios and rates: the words before the colon, the column, and the factor to the base unit.
const VALUES: &[(&str, &str, f64)] = &[
    ("Buffer Hit %", "buffer_hit", 0.01),
    ("Latch Hit %", "latch_hit", 0.01),
    ("Physical reads", "physical_reads", 1.0),
    ("Physical writes", "physical_writes", 1.0),
    ("Std Block Size", "block_size", 1024.0),
];

fn starts(lines: &mut Lines<'_>) -> bool {
    lines.peek(0).is_some_and(|line| line.starts_with("DB Name ") && line.contains("Instance"))
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let line = lines.number();
    lines.skip(2);
    let Some(instance) = lines.peek(0).and_then(|l| l.split_whitespace().nth(2)).map(str::to_owned) else {
        return Err(lines.refuse("the names of database and instance under their header"));
    };
    run.row::<Database>(0.0, line, instance.as_str().into());
    let mut events = false;
    while let Some(text) = lines.peek(0).map(str::to_owned) {
        if crate::command_of(&text).is_some() {
            break;
        }
        let line = lines.number();
        let row = run.row::<Database>(0.0, line, instance.as_str().into());
        for (words, column, factor) in VALUES {
            if let Some(value) = value_of(&text, words) {
                set(row, column, value * factor);
            }
        }
        // The first table of events is by share of the time; those after it repeat them in other units.
        events |= text.starts_with("Top 5 Timed Events");
        events &= !text.starts_with("-> ");
        if events && let Some(event) = event(&text) {
            timed(row, &event);
        }
        lines.skip(1);
    }
    Ok(())
}

/// The first number after `words` and a colon, however the words are spaced.
fn value_of(text: &str, words: &str) -> Option<f64> {
    let plain = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, rest) = plain.split_once(&format!("{words}:"))?;
    let field = rest.split_whitespace().next()?;
    amount(field.trim_end_matches(['K', 'M']))
}

/// `1,735,573`, `51.88`
fn amount(field: &str) -> Option<f64> {
    number(&field.replace(',', ""))
}

fn set(row: &mut Database, column: &str, value: f64) {
    match column {
        "buffer_hit" => row.buffer_hit = value.into(),
        "latch_hit" => row.latch_hit = value.into(),
        "physical_reads" => row.physical_reads = value.into(),
        "physical_writes" => row.physical_writes = value.into(),
        "block_size" => row.block_size = value.into(),
        _ => {}
    }
}

/// One of the timed events.
struct Event {
    name: String,
    waits: f64,
    seconds: f64,
    share: f64,
}

/// `log file sync                               664,956      8,315      24.38`
fn event(text: &str) -> Option<Event> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let (name, numbers) = fields.split_at_checked(fields.len().checked_sub(3)?)?;
    let numbers: Vec<f64> = numbers.iter().map(|f| amount(f)).collect::<Option<_>>()?;
    (!name.is_empty()).then(|| Event {
        name: name.join(" "),
        waits: numbers[0],
        seconds: numbers[1],
        share: numbers[2] / 100.0,
    })
}

fn timed(row: &mut Database, event: &Event) {
    let mean = (event.waits > 0.0).then(|| event.seconds / event.waits * SECOND);
    match event.name.as_str() {
        "log file sync" => {
            row.log_sync_share = event.share.into();
            row.log_sync_wait = mean.into();
        }
        "db file sequential read" => {
            row.read_share = event.share.into();
            row.read_wait = mean.into();
        }
        name if name.starts_with("latch") => row.latch_share = event.share.into(),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn ratios_rates_and_waits() {
        let window = window_of(&fixture("oracle-statspack.txt"));
        let row = window.the::<Database>().unwrap();
        let close =
            |a: whyslow_model::value::Gauge, b: f64| assert!((a.get().unwrap() / b - 1.0).abs() < 0.02, "{a:?} {b}");
        close(row.latch_hit, 0.9837);
        close(row.buffer_hit, 0.9057);
        close(row.physical_reads, 2878.69);
        close(row.log_sync_share, 0.2438);
        close(row.log_sync_wait, 12.5e6);
        close(row.read_wait, 10.2e6);
    }
}
