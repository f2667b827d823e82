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
    // AWR since 12.1.
    ("Physical read (blocks)", "physical_reads", 1.0),
    ("Physical write (blocks)", "physical_writes", 1.0),
    ("Std Block Size", "block_size", 1024.0),
];

fn starts(lines: &mut Lines<'_>) -> bool {
    lines.peek(0).is_some_and(|line| line.starts_with("DB Name ") && line.contains("DB Id"))
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let line = lines.number();
    // Since 12.1 the instance has a table of its own; the database's name stands for it.
    let column = lines.peek(0).filter(|header| header.contains("Instance")).map_or(0, |_| 2);
    lines.skip(2);
    let Some(instance) = lines.peek(0).and_then(|l| l.split_whitespace().nth(column)).map(str::to_owned) else {
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
        events |= text.starts_with("Top ") && (text.contains("Timed") || text.contains("Foreground Events"));
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

/// What AWR puts an event under, behind its numbers.
const CLASSES: [&str; 12] = [
    "User I/O",
    "System I/O",
    "Commit",
    "Concurrency",
    "Configuration",
    "Application",
    "Administrative",
    "Network",
    "Scheduler",
    "Scheduling",
    "Cluster",
    "Other",
];

/// `log file sync     664,956      8,315      24.38`: waits, seconds, share. Since Oracle 10 the mean wait stands before the
/// share, and AWR adds a class: `log file sync  664,956  8,315  13  24.4  Commit`.
fn event(text: &str) -> Option<Event> {
    let text = text.trim_end();
    let text = CLASSES.iter().find_map(|class| text.strip_suffix(class)).unwrap_or(text);
    let fields: Vec<&str> = text.split_whitespace().collect();
    let last = fields.iter().rev().take_while(|field| value(field).is_some()).count().min(4);
    let (name, numbers) = fields.split_at_checked(fields.len() - last)?;
    let numbers: Vec<f64> = numbers.iter().filter_map(|field| value(field)).collect();
    let (waits, seconds, share) = match numbers[..] {
        [waits, seconds, share] | [waits, seconds, _, share] => (waits, seconds, share / 100.0),
        _ => return None,
    };
    (!name.is_empty()).then(|| Event { name: name.join(" "), waits, seconds, share })
}

/// A number of a table of events; since 12.2 large ones are in thousands or millions, and the mean wait says its unit.
fn value(field: &str) -> Option<f64> {
    let suffixes = [("K", 1e3), ("M", 1e6), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let (digits, factor) =
        suffixes.iter().find_map(|(s, f)| Some((field.strip_suffix(s)?, *f))).unwrap_or((field, 1.0));
    amount(digits).map(|n| n * factor)
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
    fn awr_of_all_ages() {
        let head = "DB Name         DB Id    Instance     Inst Num Startup Time    Release     RAC\n\
            ------------ ----------- ------------ -------- --------------- ----------- ---\n\
            ORCL          1797322438 orcl1               1 01-Jun-24 00:10 11.2.0.4.0  YES\n\n\
            Physical reads:            2,878.69               2.80\n\
            Buffer  Hit   %:   90.57    In-memory Sort %:  100.00\n";
        let old = "Top 5 Timed Foreground Events\n~~~~~\nEvent   Waits     Time(s)   (ms)   time Wait Class\n\
            log file sync                       664,956       8,315     13   24.4 Commit\n\
            DB CPU                                            3,211          9.4\n\
            db file sequential read             1,000,000     10,200     10   29.9 User I/O\n";
        let new = "Top 10 Foreground Events by Total Wait Time\n~~~~~\n\
            log file sync                       664.9K      8315.0    12.50ms   24.4 Commit\n\
            db file sequential read             1000K       10.2K     10.20ms   29.9 User I/O\n";
        for events in [old, new] {
            let window = window_of(&format!("{head}{events}"));
            let row = window.the::<Database>().unwrap();
            let close = |a: whyslow_model::value::Gauge, b: f64| {
                assert!((a.get().unwrap() / b - 1.0).abs() < 0.01, "{a:?} {b}")
            };
            assert_eq!(&*row.instance, "orcl1");
            close(row.log_sync_wait, 12.5e6);
            close(row.log_sync_share, 0.244);
            close(row.read_wait, 10.2e6);
            close(row.physical_reads, 2878.69);
        }
    }

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
