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

/// More kinds of table than it has options for.
const MOST_KINDS: usize = 64;

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
    let mut open: Option<Open> = None;
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
            if ends.len() >= MOST_KINDS && !ends.contains_key(&names) {
                ends.clear();
            }
            ends.entry(names.clone()).or_insert(at);
            columns = names;
        } else if text.starts_with("Average:") {
            // Said before, row by row.
        } else if let Some((time, fields)) = row(&text) {
            let at = clock.read(time);
            let from = ends.get(&columns).copied().unwrap_or(0.0);
            let told = tell(lines, run, Step { from, to: at }, &mut open, &columns, &fields);
            lines.keep(told)?;
            let last = lines.peek_past_blanks(1).is_none_or(|(_, next)| row(next).is_none_or(|(next, _)| next != time));
            if last {
                close(run, &mut open);
                ends.insert(columns.clone(), at);
            }
        } else {
            break;
        }
        lines.skip(1);
    }
    close(run, &mut open);
    Ok(())
}

/// Counts that a process' own row has of its first thread only, where threads are listed: they are summed up over them.
const OF_FIRST_THREAD: [&str; 3] = ["run_delay", "voluntary_switches", "involuntary_switches"];

/// A counter and its rate, where it is known.
type Rate = (&'static str, Option<f64>);

/// A process whose threads may follow.
struct Open {
    step: Step,
    line: u32,
    task: TaskKey,
    command: String,
    rates: Vec<Rate>,
    rss: Option<f64>,
    virtual_size: Option<f64>,
    /// What its threads told of [`OF_FIRST_THREAD`], summed up.
    threads: Option<[Option<f64>; 3]>,
}

impl Open {
    fn add(&mut self, thread: &[Rate]) {
        let sums = self.threads.get_or_insert_default();
        for (sum, name) in sums.iter_mut().zip(OF_FIRST_THREAD) {
            let rate = thread.iter().find(|(counter, _)| *counter == name).and_then(|(_, rate)| *rate);
            *sum = rate.map(|rate| sum.unwrap_or(0.0) + rate).or(*sum);
        }
    }

    fn rates(&self) -> Vec<Rate> {
        let of_threads = |name: &str| {
            let at = OF_FIRST_THREAD.iter().position(|counter| *counter == name)?;
            self.threads?[at]
        };
        self.rates.iter().map(|(name, rate)| (*name, of_threads(name).or(*rate))).collect()
    }
}

/// Puts down a process whose threads have been read.
fn close(run: &mut Run, open: &mut Option<Open>) {
    let Some(open) = open.take() else { return };
    let process = run.grow::<Process>(open.step, open.line, open.task, &open.rates());
    process.command = open.command.as_str().into();
    process.rss = open.rss.or(process.rss.get()).into();
    process.virtual_size = open.virtual_size.or(process.virtual_size.get()).into();
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

fn tell(
    lines: &mut Lines<'_>,
    run: &mut Run,
    step: Step,
    open: &mut Option<Open>,
    columns: &[String],
    fields: &[String],
) -> Result<(), Refusal> {
    // Two tables of one second: nothing can be said of the time between them.
    if step.seconds() <= 0.0 {
        return Ok(());
    }
    if fields.len() < columns.len() {
        return Err(lines.refuse(format!("{} columns as in the header ({})", columns.len(), columns.join(" "))));
    }
    let value = |name: &str| field(columns, fields, name).and_then(number);
    let id = |name: &str| field(columns, fields, name).and_then(|text| text.parse::<u32>().ok());
    let share = |name: &str| value(name).map(|percent| percent / 100.0 * SECOND);
    let line = lines.number();
    let both = [
        ("user", share("%usr").or_else(|| share("%user")).map(|u| u + share("%guest").unwrap_or(0.0))),
        ("system", share("%system")),
        ("run_delay", share("%wait")),
        ("major_faults", value("majflt/s")),
        ("voluntary_switches", value("cswch/s")),
        ("involuntary_switches", value("nvcswch/s")),
    ];
    let command = fields[columns.len() - 1].trim_start_matches("|__");
    if let Some(pid) = id("PID").or_else(|| id("TGID")) {
        close(run, open);
        let of_processes = [
            ("read_bytes", value("kB_rd/s").map(|k| k * KIB)),
            ("write_bytes", value("kB_wr/s").map(|k| k * KIB)),
            ("cancelled_write_bytes", value("kB_ccwr/s").map(|k| k * KIB)),
            ("minor_faults", value("minflt/s")),
        ];
        *open = Some(Open {
            step,
            line,
            task: TaskKey { pid, tid: pid, start: 0 },
            command: command.to_owned(),
            rates: [&both[..], &of_processes].concat(),
            rss: value("RSS").map(|k| k * KIB),
            virtual_size: value("VSZ").map(|k| k * KIB),
            threads: None,
        });
    } else if let Some((process, tid)) = open.as_mut().zip(id("TID")) {
        process.add(&both);
        let task = TaskKey { pid: process.task.pid, tid, start: 0 };
        run.grow::<Thread>(step, line, task, &both).command = command.into();
    }
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
    fn what_a_process_waits_is_what_its_threads_wait() {
        let text = "Linux 6.1.0 (web)  06/01/2024  _x86_64_  (4 CPU)

10:00:00      UID      TGID       TID    %usr %system  %guest   %wait    %CPU   CPU  Command
10:00:02        0       812         -   90.00   10.00    0.00    5.00  100.00     1  hog
10:00:02        0         -       812   40.00   10.00    0.00    5.00   50.00     1  |__hog
10:00:02        0         -       813   50.00    0.00    0.00   45.00   50.00     2  |__hog
10:00:02        0       900         -    1.00    0.00    0.00    2.00    1.00     2  other
";
        let window = window_of(text);
        let delay = |pid: u32| {
            let changes = window.changes::<Process>();
            changes.iter().find(|c| c.key().pid == pid).unwrap().rate(|p| p.run_delay).unwrap() / SECOND
        };
        assert!((delay(812) - 0.5).abs() < 1e-6 && (delay(900) - 0.02).abs() < 1e-6, "{} {}", delay(812), delay(900));
        assert_eq!(window.changes::<Thread>().len(), 2);
    }

    #[test]
    fn a_row_that_is_short_is_refused() {
        assert_eq!(refusal_of(&TEXT.replace("20.00   70.00     1", "20.00   70.00")).line, 11);
    }
}
