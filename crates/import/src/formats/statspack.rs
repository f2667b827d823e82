//! Oracle statspack or AWR report as text.

use crate::prelude::*;
use whyslow_model::catalogue::Database;
use whyslow_model::value::Gauge;

pub const FORMAT: Format = Format {
    name: "statspack",
    versions: "Oracle statspack and AWR since 8.1.7, text",
    shows: "what the database waits for: reads, log, checkpoints, locks, latches, temporary segments; the hit ratios of its caches",
    lacks: "which device",
    columns: &[&DATABASE],
    starts: |lines| lines.next_is(is_start),
    read,
    ..Format::NEW
};

/// Ratios and rates by the words before their colon; since AWR 12.1, rates have a unit.
const DATABASE: MetricColumns<Database> = columns![
    "Buffer Hit %" => buffer_hit * 0.01, "Latch Hit %" => latch_hit * 0.01, "Physical reads" => physical_reads,
    "Physical read (blocks)" => physical_reads, "Physical writes" => physical_writes,
    "Physical write (blocks)" => physical_writes, "Std Block Size" => block_size * KIB,
];

/// Returns true for `DB Name         DB Id    Instance     Inst Num`; statspack since Oracle 10:
/// `Database    DB Id    Instance     Inst Num`.
fn is_start(line: &str) -> bool {
    (line.starts_with("DB Name ") || line.starts_with("Database ")) && line.contains("DB Id")
}

/// Returns true for the title of the table of events: `Top 5 Timed Events`, `Top 10 Foreground Events by Total Wait Time`.
fn is_title_of_events(line: &str) -> bool {
    line.starts_with("Top ") && (line.contains("Timed") || line.contains("Foreground Events"))
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let line = lines.number();
    // Since AWR 12.1 the instance has a separate table; the database's name is used instead. Statspack since Oracle 10 leaves
    // the column of the database empty.
    let header = lines.peek(0).unwrap_or_default();
    let column = match header.contains("Instance") {
        true if header.starts_with("Database ") => 1,
        true => 2,
        false => 0,
    };
    lines.skip(1);
    let is_ruled = lines.next_is(|line| line.trim_start().starts_with(['-', '~']));
    lines.skip(1);
    let instance = lines.peek(0).filter(|_| is_ruled).and_then(|l| l.split_whitespace().nth(column)).map(str::to_owned);
    let Some(instance) = instance.filter(|name| name.bytes().any(|b| b.is_ascii_alphanumeric())) else {
        return Err(lines.refuse("the names of database and instance under their header"));
    };
    read_sections(lines, line, &instance, run)
}

/// Reads what follows the names of database and instance.
fn read_sections(lines: &mut Lines<'_>, line: u32, instance: &str, run: &mut ToolRun) -> ReadResult {
    run.row::<Database>(0.0, line, instance.into()).product = "Oracle".into();
    let (mut events, mut has_means) = (false, false);
    let mut lost: Vec<&str> = Vec::new();
    while let Some(line) = lines.take_if(|text| !is_command(text)) {
        let text = &line.text;
        let plain = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let values = DATABASE.pairs().filter_map(|(words, _)| Some((words.to_owned(), value_of(&plain, words)?)));
        let row = TableRow::new(line.number, "", values);
        let database = run.counts(0.0, instance.into(), &row, &DATABASE);
        // The first table of events is by share of the time; later ones repeat the events in other units.
        events |= is_title_of_events(text);
        events &= !text.starts_with("-> ");
        has_means |= events && text.contains("Wait Class");
        match WaitEvent::parse(text, has_means).filter(|_| events) {
            Some(event) => event.record(database),
            None if events => lost.extend(SUMMED.iter().filter(|name| text.contains(**name))),
            None => {}
        }
    }
    let database = run.row::<Database>(0.0, line, instance.into());
    for name in lost {
        // A sum without one of its parts is unknown.
        *sum_of(database, name) = Gauge::default();
    }
    Ok(())
}

/// Prefixes of the names of events that are added up.
const SUMMED: [&str; 10] = [
    "enqueue",
    "enq: ",
    "log file switch (",
    "direct path read temp",
    "direct path write temp",
    LATCHES[0],
    LATCHES[1],
    LATCHES[2],
    LATCHES[3],
    LATCHES[4],
];

/// Returns the sum that an event is added to.
fn sum_of<'d>(row: &'d mut Database, name: &str) -> &'d mut Gauge {
    match name {
        "enqueue" | "enq: " => &mut row.lock_share,
        "log file switch (" => &mut row.checkpoint_share,
        "direct path read temp" | "direct path write temp" => &mut row.temp_share,
        _ => &mut row.latch_share,
    }
}

/// Returns the first number after these words and a colon.
fn value_of(plain: &str, words: &str) -> Option<f64> {
    let (_, rest) = plain.split_once(&format!("{words}:"))?;
    amount(rest.split_whitespace().next()?.trim_end_matches(['K', 'M']))
}

/// Parses `1,735,573` or `51.88`.
fn amount(field: &str) -> Option<f64> {
    number(&field.replace(',', ""))
}

struct WaitEvent {
    name: String,
    waits: f64,
    seconds: f64,
    share: f64,
}

/// Classes that AWR prints after an event's numbers.
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

impl WaitEvent {
    /// Parses `log file sync     664,956      8,315      24.38`: waits, seconds, share. Since Oracle 10 the mean wait precedes
    /// the share, and AWR adds a class: `log file sync  664,956  8,315  13  24.4  Commit`. `has_mean` is true if the header
    /// shows the mean.
    fn parse(text: &str, has_mean: bool) -> Option<Self> {
        let text = text.trim_end();
        // Since Oracle 12, classes are cut to eight letters.
        let short = |class: &'static str| class.get(..8).unwrap_or(class);
        let class =
            CLASSES.iter().find_map(|class| text.strip_suffix(class).or_else(|| text.strip_suffix(short(class))));
        let text = class.unwrap_or(text);
        let fields: Vec<&str> = text.split_whitespace().collect();
        let count = fields.iter().rev().take_while(|field| event_number(field).is_some()).count().min(4);
        let (name, numbers) = fields.split_at_checked(fields.len() - count)?;
        let numbers: Vec<f64> = numbers.iter().filter_map(|field| event_number(field)).collect();
        let (waits, seconds, share) = match numbers[..] {
            [waits, seconds, share] if !has_mean => (waits, seconds, share / 100.0),
            [waits, seconds, _, share] => (waits, seconds, share / 100.0),
            _ => return None,
        };
        // A name with several numbers consists of two joined rows.
        let is_one = name.iter().filter(|word| event_number(word).is_some()).count() < 2;
        (!name.is_empty() && is_one).then(|| Self { name: name.join(" "), waits, seconds, share })
    }

    fn record(&self, row: &mut Database) {
        let mean = (self.waits > 0.0).then(|| self.seconds / self.waits * SECOND);
        match self.name.as_str() {
            "log file sync" => {
                row.log_sync_share = self.share.into();
                row.log_sync_wait = mean.into();
            }
            "db file sequential read" => {
                row.read_share = self.share.into();
                row.read_wait = mean.into();
            }
            // Up to Oracle 9, all locks are one event.
            "enqueue" => add(&mut row.lock_share, self.share),
            name if name.starts_with("log file switch (") => add(&mut row.checkpoint_share, self.share),
            "direct path read temp" | "direct path write temp" => add(&mut row.temp_share, self.share),
            name if name.starts_with("enq: TX") || name.starts_with("enq: TM") => add(&mut row.lock_share, self.share),
            name if LATCHES.iter().any(|start| name.starts_with(start)) => add(&mut row.latch_share, self.share),
            _ => {}
        }
    }
}

/// Waits for short locks of memory structures: latches, and the mutexes that replaced some of them in Oracle 10 and 11.
const LATCHES: [&str; 5] = ["latch", "library cache: mutex", "cursor: mutex", "cursor: pin S", "buffer busy waits"];

/// Adds to the share of several events with the same meaning.
fn add(sum: &mut Gauge, share: f64) {
    *sum = (sum.get().unwrap_or(0.0) + share).into();
}

/// Parses a number in a table of events; since 12.2 large numbers are in thousands or millions, and mean waits have units.
fn event_number(field: &str) -> Option<f64> {
    const SUFFIXES: [(&str, f64); 5] = [("K", 1e3), ("M", 1e6), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let suffixed = SUFFIXES.iter().find_map(|(suffix, factor)| Some((field.strip_suffix(suffix)?, *factor)));
    let (digits, factor) = suffixed.unwrap_or((field, 1.0));
    amount(digits).map(|n| n * factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, row_of};

    #[test]
    fn awr_reports_of_all_versions_are_read() {
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
            let row = row_of::<Database>(&format!("{head}{events}"));
            let close = |a: Gauge, b: f64| assert!((a.get().unwrap() / b - 1.0).abs() < 0.01, "{a:?} {b}");
            assert_eq!(&*row.instance, "orcl1");
            close(row.log_sync_wait, 12.5e6);
            close(row.log_sync_share, 0.244);
            close(row.read_wait, 10.2e6);
            close(row.physical_reads, 2878.69);
        }
    }

    #[test]
    fn statspack_since_oracle_10_is_read() {
        let text = "STATSPACK report for\n\nDatabase    DB Id    Instance     Inst Num Startup Time    Release     RAC\n\
            ~~~~~~~~ ----------- ------------ -------- --------------- ----------- ---\n          \
            1204481120 ERPP                1 07-Mar-10 21:02 10.2.0.4.0  NO\n\nPhysical reads:   388.12   17.15\n\
            Top 5 Timed Events                                                    Avg %Total\n~~~~~~~~~~~~~~~~~~   wait   Call\n\
            Event                                            Waits    Time (s)   (ms)   Time\n\
            ----------------------------------------- ------------ ----------- ------ ------\n\
            db file sequential read                      1,371,204      47,717     35   93.4\n\
            CPU time                                                     2,604           5.1\n";
        let row = row_of::<Database>(text);
        assert_eq!((&*row.instance, row.read_share.get()), ("ERPP", Some(0.934)));
        assert_eq!(row.read_wait.get().map(|ns| (ns / NS_PER_MS).round()), Some(35.0));
    }

    #[test]
    fn events_that_mean_the_same_are_added() {
        let text = fixture("layouts/oracle-awr.txt");
        let row = row_of::<Database>(&text);
        let per_mille = |share: Gauge| share.get().map(|share| (share * 1000.0).round());
        assert_eq!((&*row.instance, row.product.get()), ("SHOP", Some("Oracle")));
        assert_eq!((per_mille(row.lock_share), per_mille(row.checkpoint_share)), (Some(412.0), Some(118.0)));
        assert_eq!((per_mille(row.temp_share), per_mille(row.latch_share)), (Some(85.0), Some(73.0)));
        assert_eq!(per_mille(row.buffer_hit), Some(993.0));
        // Computed as time over waits, which is more exact than the printed mean.
        assert!((row.read_wait.get().unwrap() / 640e3 - 1.0).abs() < 0.001, "{:?}", row.read_wait);
    }

    #[test]
    fn ratios_rates_and_waits_are_read() {
        let row = row_of::<Database>(&fixture("oracle-statspack.txt"));
        let close = |a: Gauge, b: f64| assert!((a.get().unwrap() / b - 1.0).abs() < 0.02, "{a:?} {b}");
        close(row.latch_hit, 0.9837);
        close(row.buffer_hit, 0.9057);
        close(row.physical_reads, 2878.69);
        close(row.log_sync_share, 0.2438);
        close(row.log_sync_wait, 12.5e6);
        close(row.read_wait, 10.2e6);
    }
}
