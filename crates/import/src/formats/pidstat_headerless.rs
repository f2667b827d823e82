//! Rows of `pidstat -u` and `-d` without their header, as grep leaves them. The columns are known if the shares add up, or from
//! the kinds of their numbers.

use super::pidstat::record_row;
use crate::clock::timed_fields;
use crate::prelude::*;
use crate::timeline::ReportClock;

pub const FORMAT: Format = Format {
    name: "pidstat rows",
    versions: "rows of pidstat -u of sysstat 10 to 12 that grep left, whose shares must add up; of pidstat -d with iodelay; also averages",
    shows: "which process uses CPUs, or storage",
    lacks: "the other processes; the interval, which no rate depends on",
    starts: |lines| next_row(lines).is_some(),
    read,
    ..Format::NEW
};

/// Columns since sysstat 11.5.7, and columns before it.
const LAYOUTS: [&[&str]; 2] = [
    &["UID", "PID", "%usr", "%system", "%guest", "%wait", "%CPU", "CPU", "Command"],
    &["UID", "PID", "%usr", "%system", "%guest", "%CPU", "CPU", "Command"],
];
/// Columns of pidstat -d since sysstat 11.1.1: no other report has three rates and a whole number.
const STORAGE: &[&str] = &["UID", "PID", "kB_rd/s", "kB_wr/s", "kB_ccwr/s", "iodelay", "Command"];
/// Tolerance for three rounded shares and their rounded sum.
const ROUNDING: f64 = 0.021;
/// Assumed interval of one second, if no second row shows it.
const INTERVAL: f64 = 1.0;

/// A row: its time (averages have none), columns and fields.
struct Row {
    time: Option<f64>,
    columns: &'static [&'static str],
    fields: Vec<String>,
}

impl Row {
    fn parse(text: &str) -> Option<Self> {
        let (time, fields) = fields_of(text)?;
        let columns = LAYOUTS.into_iter().find(|columns| fits(columns, &fields, time.is_none()));
        let columns = columns.or_else(|| is_of_storage(&fields).then_some(STORAGE))?;
        let (numbers, command) = fields.split_at_checked(columns.len() - 1)?;
        let fields = numbers.iter().map(|field| (*field).to_owned()).chain([command.join(" ")]).collect();
        Some(Self { time, columns, fields })
    }
}

/// Returns the time of a row (averages have none), and its fields.
fn fields_of(text: &str) -> Option<(Option<f64>, Vec<&str>)> {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return timed_fields(text).map(|(time, fields)| (Some(time), fields));
    }
    clock::averaged_fields(text).map(|fields| (None, fields))
}

/// Returns true if the fields before the command are numbers, the shares have decimals, and the shares add up. Averages have no
/// CPU number.
fn fits(columns: &[&str], fields: &[&str], is_average: bool) -> bool {
    let get = |name: &str| number(fields.get(columns.iter().position(|c| *c == name)?)?);
    let is_whole =
        |name: &str| columns.iter().position(|c| *c == name).and_then(|at| fields.get(at)?.parse::<u32>().ok());
    let has_decimals = |at: usize| fields.get(at).is_some_and(|field| field.contains(['.', ',']));
    let shares = columns.iter().enumerate().filter(|(_, name)| name.starts_with('%'));
    let sum = || Some(get("%usr")? + get("%system")? + get("%guest")?);
    let has_cpu = || match columns.iter().position(|c| *c == "CPU").and_then(|at| fields.get(at)) {
        Some(&"-") => is_average,
        _ => is_whole("CPU").is_some(),
    };
    ["UID", "PID"].iter().all(|name| is_whole(name).is_some())
        && has_cpu()
        && shares.clone().all(|(at, _)| has_decimals(at))
        && fields.get(columns.len() - 1).is_some_and(|command| number(command).is_none())
        && !fields.iter().any(|field| clock::time_of_day(&[*field]).is_some())
        && sum().zip(get("%CPU")).is_some_and(|(sum, all)| all > 0.0 && (sum - all).abs() <= ROUNDING)
}

/// Returns true if the fields are those of pidstat -d.
fn is_of_storage(fields: &[&str]) -> bool {
    let [user, pid, read, written, cancelled, delay, command, ..] = fields else { return false };
    let is_whole = |field: &str| field.bytes().all(|b| b.is_ascii_digit());
    let is_rate = |field: &str| field.contains(['.', ',']) && number(field).is_some();
    [user, pid, delay].into_iter().all(|field| is_whole(field))
        && [read, written, cancelled].into_iter().all(|field| is_rate(field))
        && number(command).is_none()
        && clock::time_of_day(&[*command]).is_none()
}

/// Returns the row that begins at the next line, and the number of its lines: a mail program may have broken it.
fn next_row(lines: &mut Lines<'_>) -> Option<(Row, usize)> {
    let first = lines.peek(0).filter(|text| fields_of(text).is_some())?.to_owned();
    if let Some(row) = Row::parse(&first) {
        return Some((row, 1));
    }
    let second = lines.peek(1)?;
    Row::parse(&format!("{first} {second}")).map(|row| (row, 2))
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    run.start = context.day();
    let mut rows = Vec::new();
    let mut clock = ReportClock::default();
    while let Some((row, count)) = next_row(lines) {
        // An average repeats the rows above it.
        let is_repeated = row.time.is_none() && (run.start.time.is_some() || context.is_past_output());
        let at = row.time.map_or(0.0, |time| {
            let reading = clock.read(PrintedTime::of_day(time), context.interval());
            run.note_clock(reading, lines.number())
        });
        run.start.time = run.start.time.or(row.time);
        if !is_repeated {
            rows.push((at, lines.number(), row));
        }
        lines.skip(count);
    }
    // Rows of one run have the same columns: those with fewer columns lost one.
    let most = rows.iter().map(|(.., row)| row.columns.len()).max().unwrap_or(0);
    let (rows, damaged): (Vec<_>, Vec<_>) = rows.into_iter().partition(|(.., row)| row.columns.len() == most);
    let first = rows.first().map_or(0.0, |(at, ..)| *at);
    let interval = rows.iter().find(|(at, ..)| *at > first).map(|(at, ..)| at - first);
    let interval = interval.or(context.interval());
    run.has_assumed_times |= interval.is_none();
    let interval = interval.unwrap_or(INTERVAL);
    for (at, line, _) in damaged {
        let refusal = Refusal::described(lines.file(), line, "as many columns as in other rows", "fewer");
        lines.keep(Err::<(), _>(refusal))?;
        run.lose_row(at - first + interval);
    }
    let mut span = ReportInterval { from: 0.0, to: interval };
    for (at, line, row) in &rows {
        let to = at - first + interval;
        if to > span.to {
            span = ReportInterval { from: span.to, to };
        }
        record_row(run, span, *line, row.columns, &row.fields);
    }
    run.note("the columns", "the rows have no header: those of pidstat fit them", "include the header");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window_of;
    use whyslow_model::catalogue::Process;

    #[test]
    fn rows_of_storage() {
        let text = "19:03:40        0     18820      0.00  51820.80      0.00       0  rsync\n\
                    19:03:40        0     18834      4.00  50977.60      0.00       7  rsync\n";
        let window = window_of(text);
        let changes = window.changes::<Process>();
        let rates: Vec<_> = changes.iter().map(|c| (c.rate(|p| p.read_bytes), c.rate(|p| p.write_bytes))).collect();
        let written = |kib: f64| Some((kib * KIB).round());
        assert_eq!(rates, [(Some(0.0), written(51_820.80)), (Some(4.0 * KIB), written(50_977.60))]);
        for line in ["19:03:40 0 18820 0.00 51820.80 0.00 rsync", "19:03:40 0 18820 0 51820 0 0 rsync"] {
            assert!(Row::parse(line).is_none(), "{line}");
        }
    }

    #[test]
    fn averages_alone_are_rates() {
        let text = "Media:        48     21014   22,10   61,40    0,00   83,50     -  php-fpm\n\
                    Media:        48     21022   21,90   60,80    0,00   82,70     -  php-fpm\n";
        let window = window_of(text);
        let changes = window.changes::<Process>();
        let rates: Vec<_> = changes.iter().map(|c| c.rate(|p| p.system).map(|r| (r / 1e6).round())).collect();
        assert_eq!(rates, [Some(614.0), Some(608.0)]);
        assert!(
            Row::parse("Average:       0    0.00    0.00    0.80    0.00    0.00    0.10    0.00   99.10").is_none()
        );
        assert!(
            Row::parse("05:06:50 PM  1000       812   40.50    1.50    0.00    0.25   42.00     -  tmux").is_none()
        );
    }

    const ROWS: &str = "05:06:50 PM     0     13702    0.00   92.00    0.00    8.00   92.00     6  kworker/6:3+pm\n\
                        05:06:50 PM  1000       812   40.50    1.50    0.00    0.25   42.00     1  tmux: server\n";

    #[test]
    fn rows_whose_shares_add_up_are_processes() {
        for text in [ROWS.to_owned(), ROWS.replace("     6  kw", "\n 6  kw")] {
            let window = window_of(&text);
            let of = |pid| {
                let changes = window.changes::<Process>();
                let change = changes.iter().find(|c| c.key().pid == pid).unwrap();
                (change.last().command.get().map(str::to_owned), change.rate(|p| p.system).map(|r| (r / 1e7).round()))
            };
            assert_eq!(of(13702), (Some("kworker/6:3+pm".to_owned()), Some(92.0)));
            assert_eq!(of(812), (Some("tmux: server".to_owned()), Some(2.0)));
        }
    }

    #[test]
    fn other_rows_are_none() {
        for row in [
            "05:06:50 PM 0 13702 0.00 92.00 0.00 8.00 90.00 6 kworker",
            "05:06:50 PM 0 13702 0 92 0 8 92 6 kworker",
            "05:06:50 PM 0 13702 0.00 92.00 0.00 8.00 92.00 6",
            "0 13702 0.00 92.00 0.00 8.00 92.00 6 kworker",
        ] {
            assert!(Row::parse(row).is_none(), "{row}");
        }
        assert_eq!(Row::parse("17:06:50 0 812 1.00 2.00 0.00 3.00 6 dd").unwrap().columns.len(), 8);
    }
}
