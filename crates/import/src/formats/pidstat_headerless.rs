//! Rows of `pidstat -u` without their header, as grep leaves them. The columns are known if the shares add up.

use super::pidstat::record_row;
use crate::clock::{TableTime, timed_fields};
use crate::prelude::*;

pub const FORMAT: Format = Format {
    name: "pidstat rows",
    versions: "rows of pidstat -u of sysstat 10 to 12 that grep left; their shares must add up",
    shows: "which process uses CPUs",
    lacks: "the other processes; the interval, which no rate depends on",
    starts: |lines| next_row(lines).is_some(),
    read,
    ..Format::NEW
};

/// The columns of sysstat 11.5.7 on, and those before it.
const LAYOUTS: [&[&str]; 2] = [
    &["UID", "PID", "%usr", "%system", "%guest", "%wait", "%CPU", "CPU", "Command"],
    &["UID", "PID", "%usr", "%system", "%guest", "%CPU", "CPU", "Command"],
];
/// Three rounded shares and their rounded sum.
const ROUNDING: f64 = 0.021;
/// An interval of a second, where no second row shows it.
const INTERVAL: f64 = 1.0;

/// A row: its time, columns and fields.
struct Row {
    time: f64,
    columns: &'static [&'static str],
    fields: Vec<String>,
}

impl Row {
    fn of(text: &str) -> Option<Self> {
        if !text.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let (time, fields) = timed_fields(text)?;
        let columns = LAYOUTS.into_iter().find(|columns| fits(columns, &fields))?;
        let (numbers, command) = fields.split_at_checked(columns.len() - 1)?;
        let fields = numbers.iter().map(|field| (*field).to_owned()).chain([command.join(" ")]).collect();
        Some(Self { time, columns, fields })
    }
}

/// Whether the fields before the command are numbers, those of shares with decimals, and the shares add up.
fn fits(columns: &[&str], fields: &[&str]) -> bool {
    let get = |name: &str| number(fields.get(columns.iter().position(|c| *c == name)?)?);
    let is_whole =
        |name: &str| columns.iter().position(|c| *c == name).and_then(|at| fields.get(at)?.parse::<u32>().ok());
    let has_decimals = |at: usize| fields.get(at).is_some_and(|field| field.contains(['.', ',']));
    let shares = columns.iter().enumerate().filter(|(_, name)| name.starts_with('%'));
    let sum = || Some(get("%usr")? + get("%system")? + get("%guest")?);
    ["UID", "PID", "CPU"].iter().all(|name| is_whole(name).is_some())
        && shares.clone().all(|(at, _)| has_decimals(at))
        && fields.get(columns.len() - 1).is_some_and(|command| number(command).is_none())
        && !fields.iter().any(|field| clock::time_of_day(&[*field]).is_some())
        && sum().zip(get("%CPU")).is_some_and(|(sum, all)| all > 0.0 && (sum - all).abs() <= ROUNDING)
}

/// The row that begins at the next line, and how many lines it takes: a mail program may have broken it.
fn next_row(lines: &mut Lines<'_>) -> Option<(Row, usize)> {
    let is_timed = |text: &&str| text.starts_with(|c: char| c.is_ascii_digit()) && timed_fields(text).is_some();
    let first = lines.peek(0).filter(is_timed)?.to_owned();
    if let Some(row) = Row::of(&first) {
        return Some((row, 1));
    }
    let second = lines.peek(1)?;
    Row::of(&format!("{first} {second}")).map(|row| (row, 2))
}

fn read(lines: &mut Lines<'_>, context: &CaptureContext, run: &mut ToolRun) -> ReadResult {
    run.start = context.day();
    let mut rows = Vec::new();
    let mut clock = TableTime::default();
    while let Some((row, count)) = next_row(lines) {
        run.start.time.get_or_insert(row.time);
        rows.push((clock.read(row.time), lines.number(), row));
        lines.skip(count);
    }
    // Rows of one run have the same columns: those with fewer lost one.
    let most = rows.iter().map(|(.., row)| row.columns.len()).max().unwrap_or(0);
    let (rows, damaged): (Vec<_>, Vec<_>) = rows.into_iter().partition(|(.., row)| row.columns.len() == most);
    let first = rows.first().map_or(0.0, |(at, ..)| *at);
    let interval = rows.iter().find(|(at, ..)| *at > first).map_or(INTERVAL, |(at, ..)| at - first);
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
    run.note("the columns", "the rows have no header: those of pidstat -u fit them", "include the header");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window_of;
    use whyslow_model::catalogue::Process;

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
            assert!(Row::of(row).is_none(), "{row}");
        }
        assert_eq!(Row::of("17:06:50 0 812 1.00 2.00 0.00 3.00 6 dd").unwrap().columns.len(), 8);
    }
}
