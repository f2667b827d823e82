//! Rows of top(1) without their header, as people cut them out of a screen.

use super::task_table::{TaskColumns, TaskKind, read_tasks};
use crate::prelude::*;

pub const FORMAT: Format = Format {
    name: "top rows",
    versions: "rows cut out of a screen of procps 3 or 4 in top's own order of columns; all of them must fit it",
    shows: "the processes that use most CPU time and memory",
    lacks: "the CPUs; the interval, which no rate depends on",
    starts: |lines| lines.next_is(is_row),
    read,
    ..Format::NEW
};

/// Default columns of top (top(1), section 3).
const COLUMNS: &str = "PID USER PR NI VIRT RES SHR S %CPU %MEM TIME+ COMMAND";
/// Minimum number of fields of a row: a command may have several words.
const FEWEST: usize = 12;
/// Interval of a screen if nothing else is known (top(1), -d).
const DELAY: f64 = 3.0;

/// Returns true for `20727 root      25   5 1499012 895064 216036 S  61.1   3.6   0:06.87 rustc`.
fn is_row(text: &str) -> bool {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [pid, user, priority, nice, virt, res, shr, state, cpu, memory, time, ref command @ ..] = fields[..] else {
        return false;
    };
    fields.len() >= FEWEST
        // A number here belongs to a column that top does not show by default.
        && command.first().is_none_or(|command| number(command).is_none())
        && pid.parse::<u32>().is_ok_and(|pid| pid > 0)
        && number(user).is_none()
        && (priority == "rt" || priority.parse::<i32>().is_ok_and(|p| (-100..=39).contains(&p)))
        && nice.parse::<i32>().is_ok_and(|nice| (-20..=19).contains(&nice))
        && [virt, res, shr].iter().all(|size| is_size(size))
        && ["R", "S", "D", "T", "t", "Z", "I", "X"].contains(&state)
        && is_share(cpu)
        && is_share(memory).then(|| number(memory)).flatten().is_some_and(|share| share <= 100.0)
        && is_time(time)
}

/// Returns true for `895064`, `1.4g`, `0.021t`.
fn is_size(text: &str) -> bool {
    number(text.trim_end_matches(['m', 'g', 't', 'p'])).is_some_and(|size| size >= 0.0)
}

fn is_share(text: &str) -> bool {
    number(text).is_some_and(|share| share >= 0.0)
}

/// Returns true for `0:06.87`, `1234:56`, `20,3h`.
fn is_time(text: &str) -> bool {
    match text.split_once(':') {
        Some((minutes, seconds)) => minutes.parse::<u64>().is_ok() && number(seconds).is_some_and(|s| s < 60.0),
        None => text.strip_suffix('h').is_some_and(|hours| number(hours).is_some()),
    }
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let fits = (0..).map_while(|at| lines.peek(at).filter(|text| is_listed(text)).map(is_row)).take(MOST_ROWS);
    if !fits.collect::<Vec<_>>().iter().all(|fits| *fits) {
        let refusal = lines.refuse(format!("rows that all have top's columns ({COLUMNS}); include the header"));
        while lines.take_if(is_listed).is_some() {}
        return Err(refusal);
    }
    let Some(columns) = TaskColumns::parse(COLUMNS) else { return Ok(()) };
    let result = read_tasks(lines, run, ReportInterval { from: 0.0, to: DELAY }, &columns, TaskKind::Unknown);
    run.note("the columns", "the rows have no header: top's own columns fit all of them", "include the header");
    result
}

/// Maximum number of rows to look at before any is taken.
const MOST_ROWS: usize = 5000;

/// Returns true if a line may be a row of the list: a number, then many fields.
fn is_listed(text: &str) -> bool {
    let mut fields = text.split_whitespace();
    fields.next().is_some_and(|pid| pid.parse::<u32>().is_ok()) && fields.count() + 2 > FEWEST
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};
    use whyslow_model::catalogue::Process;

    #[test]
    fn rows_that_fit_are_processes_and_others_are_refused() {
        let text = fixture("top-rows.txt");
        let window = window_of(&text);
        let rows = window.newest::<Process>();
        assert_eq!(rows.len(), text.lines().count());
        let first = text.lines().next().unwrap().split_whitespace().collect::<Vec<_>>();
        let (key, row) = rows.iter().find(|(key, _)| key.pid.to_string() == first[0]).unwrap();
        assert_eq!((key.pid.to_string().as_str(), row.command.get()), (first[0], Some(first[11])));
        let other = text.replacen(" R ", " 5 ", 1).replacen(" S ", " 5 ", 1);
        assert_eq!(refusal_of(&format!("{}\n{other}", text.lines().next().unwrap())).line, 1);
    }

    #[test]
    fn other_tables_are_none() {
        for line in [
            "1 root 20 0 100 50 20 S 5.0 0.1 0:01.00",
            "1 root 20 0 100 50 20 S 5.0 101.0 0:01.00 x",
            "1 77 20 0 100 50 20 S 5.0 0.1 0:01.00 x",
            "root 1 20 0 100 50 20 S 5.0 0.1 0:01.00 x",
            "1 root 20 40 100 50 20 S 5.0 0.1 0:01.00 x",
        ] {
            assert!(!is_row(line), "{line}");
        }
        assert!(is_row("1 root rt -20 1.4g 0.5g 20m R 1200 50.1 1234:56 java -jar x"));
    }
}
