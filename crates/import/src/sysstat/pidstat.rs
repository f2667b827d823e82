//! pidstat(1) of sysstat 7 to 12: what each process did, an interval a table; several kinds of table in turn.

use crate::clock;
use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::number::{KIB, number};
use crate::refusal::Refusal;
use crate::run::{Run, SECOND, Step};
use std::collections::BTreeMap;
use whyslow_model::catalogue::{Process, Thread};
use whyslow_model::key::TaskKey;

/// The format.
pub const FORMAT: Format = Format {
    name: "pidstat",
    versions: "sysstat 7 to 12: -u, -d, -r, -w, with threads (-t) or without",
    tells: "which process or thread uses the processors and storage, waits for a processor, switches, faults",
    starts: |lines| lines.peek(0).is_some_and(|line| header(line).is_some()),
    read,
};

/// The time and the columns of a header: `02:03:50 AM   UID       PID    %usr ... Command`.
fn header(line: &str) -> Option<(f64, Vec<String>)> {
    let fields: Vec<&str> = line.trim_start_matches('#').split_whitespace().collect();
    let (time, taken) = clock::time_of_day(&fields)?;
    let names: Vec<String> = fields[taken..].iter().map(|f| (*f).to_owned()).collect();
    let has = |name: &str| names.iter().any(|n| n == name);
    ((has("PID") || has("TGID")) && names.last().is_some_and(|n| n == "Command")).then_some((time, names))
}

fn read(lines: &mut Lines<'_>, asked: &Asked, run: &mut Run) -> Result<(), Refusal> {
    run.start = asked.day();
    let mut clock = clock::Rewound::default();
    let mut columns = Vec::new();
    // With -t a thread's row follows that of its process, of which it does not say the number.
    let mut process = None;
    // The end of the step before, by kind of table.
    let mut ends: BTreeMap<Vec<String>, f64> = BTreeMap::new();
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        let text = text.to_owned();
        lines.skip(blanks);
        if let Some((time, names)) = header(&text) {
            if run.start.time.is_none() {
                run.start.time = Some(time);
            }
            let at = clock.read(time);
            ends.entry(names.clone()).or_insert(at);
            columns = names;
        } else if text.starts_with("Average:") {
            // Said before, row by row.
        } else if let Some((time, fields)) = row(&text) {
            let at = clock.read(time);
            let from = ends.get(&columns).copied().unwrap_or(0.0);
            let task = task(&columns, &fields, &mut process);
            let told = tell(lines, run, Step { from, to: at }, task, &columns, &fields);
            lines.keep(told)?;
            let last = lines.peek_past_blanks(1).is_none_or(|(_, next)| row(next).is_none_or(|(next, _)| next != time));
            if last {
                ends.insert(columns.clone(), at);
            }
        } else {
            break;
        }
        lines.skip(1);
    }
    Ok(())
}

fn row(line: &str) -> Option<(f64, Vec<String>)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (time, taken) = clock::time_of_day(&fields)?;
    let rest: Vec<String> = fields[taken..].iter().map(|f| (*f).to_owned()).collect();
    rest.first().is_some_and(|f| number(f).is_some() || f == "-").then_some((time, rest))
}

fn field<'f>(columns: &[String], fields: &'f [String], name: &str) -> Option<&'f str> {
    fields.get(columns.iter().position(|column| column == name)?).map(String::as_str)
}

/// Whose row it is: a process', or a thread's of `process`, the one before it.
fn task(columns: &[String], fields: &[String], process: &mut Option<u32>) -> Option<TaskKey> {
    let number = |name| field(columns, fields, name).and_then(|text| text.parse::<u32>().ok());
    if let Some(pid) = number("PID").or(number("TGID")) {
        *process = Some(pid);
        return Some(TaskKey { pid, tid: pid, start: 0 });
    }
    Some(TaskKey { pid: (*process)?, tid: number("TID")?, start: 0 })
}

fn tell(
    lines: &mut Lines<'_>,
    run: &mut Run,
    step: Step,
    task: Option<TaskKey>,
    columns: &[String],
    fields: &[String],
) -> Result<(), Refusal> {
    if fields.len() < columns.len() || step.seconds() <= 0.0 {
        return match step.seconds() <= 0.0 {
            // Two tables of one second: nothing can be said of the time between them.
            true => Ok(()),
            false => Err(lines.refuse(format!("{} columns as in the header ({})", columns.len(), columns.join(" ")))),
        };
    }
    let Some(task) = task else { return Ok(()) };
    let value = |name: &str| field(columns, fields, name).and_then(number);
    let line = lines.number();
    let share = |name: &str| value(name).map(|percent| percent / 100.0 * SECOND);
    let both = [
        ("user", share("%usr").or_else(|| share("%user")).map(|u| u + share("%guest").unwrap_or(0.0))),
        ("system", share("%system")),
        ("run_delay", share("%wait")),
        ("major_faults", value("majflt/s")),
        ("voluntary_switches", value("cswch/s")),
        ("involuntary_switches", value("nvcswch/s")),
    ];
    let command = fields[columns.len() - 1].trim_start_matches("|__");
    if field(columns, fields, "TGID") == Some("-") {
        let thread = run.grow::<Thread>(step, line, task, &both);
        thread.command = command.into();
        return Ok(());
    }
    let of_processes = [
        ("read_bytes", value("kB_rd/s").map(|k| k * KIB)),
        ("write_bytes", value("kB_wr/s").map(|k| k * KIB)),
        ("cancelled_write_bytes", value("kB_ccwr/s").map(|k| k * KIB)),
        ("minor_faults", value("minflt/s")),
    ];
    let process = run.grow::<Process>(step, line, task, &[&both[..], &of_processes].concat());
    process.command = command.into();
    process.rss = value("RSS").map(|k| k * KIB).or(process.rss.get()).into();
    process.virtual_size = value("VSZ").map(|k| k * KIB).or(process.virtual_size.get()).into();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    const TEXT: &str = "Linux 6.1.0 (web)  06/01/2024  _x86_64_  (4 CPU)

10:00:00      UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command
10:00:02        0       812   40.00   10.00    0.00   20.00   50.00     1  hog
10:00:02        0       900    1.00    0.00    0.00    0.00    1.00     2  other

10:00:00      UID       PID   kB_rd/s   kB_wr/s kB_ccwr/s iodelay  Command
10:00:02        0       812   2048.00      0.00      0.00       3  hog

10:00:02      UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command
10:00:04        0       812   60.00   10.00    0.00   20.00   70.00     1  hog

Average:        0       812   50.00   10.00    0.00   20.00   60.00     -  hog
";

    #[test]
    fn two_kinds_of_table() {
        let window = window_of(TEXT);
        let changes = window.changes::<Process>();
        let hog = changes.iter().find(|c| c.last().command.get() == Some("hog")).unwrap();
        let close = |a: Option<f64>, b: f64| assert!((a.unwrap() / b - 1.0).abs() < 0.001, "{a:?} {b}");
        close(hog.rate(|p| p.user), 0.5 * SECOND);
        close(hog.rate(|p| p.run_delay), 0.2 * SECOND);
        close(hog.rate(|p| p.read_bytes), 2048.0 * 1024.0);
        assert_eq!(window.seconds(), 4.0);
    }

    #[test]
    fn threads_belong_to_the_process_above_them() {
        let window = window_of(&fixture("pidstat-t.txt"));
        let threads = window.newest::<Thread>();
        let processes = window.newest::<Process>();
        assert!(threads.len() > 2);
        for key in threads.keys() {
            assert!(processes.contains_key(&TaskKey { pid: key.pid, tid: key.pid, start: 0 }), "{key}");
        }
    }

    #[test]
    fn a_row_that_is_short_is_refused() {
        assert_eq!(refusal_of(&TEXT.replace("20.00   70.00     1", "20.00   70.00")).line, 11);
    }
}
