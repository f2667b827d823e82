//! pidstat(1) of sysstat 7 to 12: activity of each process, a table per interval; several kinds of table in turn.

use crate::clock::{stamped_fields, timed_fields};
use crate::prelude::*;
use crate::table::is_table_row;
use crate::timeline::{Cursor, Timeline};
use std::collections::BTreeMap;
use whyslow_model::catalogue::{Process, Thread};

pub const FORMAT: Format = Format {
    name: "pidstat",
    versions: "sysstat 7 to 12: -u, -d, -r, -w, with threads (-t) or without, -h, -H, -U",
    shows: "which process or thread uses CPUs and storage, waits for a CPU, switches, faults",
    lacks: "why; without -t, waits and switches of other threads than a process's first",
    programs: &[program("pidstat")],
    files: &["pidstat"],
    columns: &[&TASK, &THREAD],
    streamed: true,
    starts: |lines| lines.next_is(|line| header(line).is_some()),
    read,
};

const PERCENT: f64 = SECOND / 100.0;
const TASK: MetricColumns<Process> = columns![
    "%usr" => user * PERCENT, "%user" => user * PERCENT, "%guest" += user * PERCENT,
    "%system" => system * PERCENT, "%wait" => run_delay * PERCENT, "majflt/s" => major_faults,
    "cswch/s" => voluntary_switches, "nvcswch/s" => involuntary_switches, "kB_rd/s" => read_bytes * KIB,
    "kB_wr/s" => write_bytes * KIB, "kB_ccwr/s" => cancelled_write_bytes * KIB, "minflt/s" => minor_faults,
    "RSS" => rss * KIB, "VSZ" => virtual_size * KIB, "iodelay" => block_delay * TICK,
];
/// Column that counts the ticks of an interval, instead of a rate (pidstat(1); USER_HZ is 100).
const TICKS: &str = "iodelay";
const TICK: f64 = SECOND / 100.0;
const THREAD: MetricColumns<Thread> = columns![
    "%usr" => user * PERCENT, "%user" => user * PERCENT, "%guest" += user * PERCENT,
    "%system" => system * PERCENT, "%wait" => run_delay * PERCENT, "majflt/s" => major_faults,
    "cswch/s" => voluntary_switches, "nvcswch/s" => involuntary_switches,
];
/// Maximum length of a thread's name in the kernel (TASK_COMM_LEN without the terminator).
const LONGEST_NAME: usize = 15;
/// Columns in which the row of a process covers only its first thread. If threads are listed, their sums are used instead.
const OF_FIRST_THREAD: [&str; 3] = ["%wait", "cswch/s", "nvcswch/s"];
/// Prefixes of names that only kernel threads have.
const KERNEL_THREADS: [&str; 6] = ["kworker/", "ksoftirqd/", "migration/", "jbd2/", "irq/", "rcu_"];
/// Columns that are not averages over an interval.
const LEVELS: [&str; 2] = ["RSS", "VSZ"];
/// Assumed length in seconds of an interval of unknown length; no rate depends on it.
const ASSUMED: f64 = 1.0;
/// Maximum number of kinds of table; pidstat has fewer options.
const MOST_KINDS: usize = 64;

/// Beginning of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stamp {
    Time(PrintedTime),
    /// Word above the times of rows: `# Time`.
    Heading,
    /// Word in front of averages.
    Average,
}

/// Returns the time and the columns of a header: `02:03:50 AM   UID       PID    %usr ... Command`, `# Time        UID ...`.
fn header(line: &str) -> Option<(Stamp, Vec<String>)> {
    // Checked first, since every line is tested.
    if !line.trim_end().ends_with("Command") {
        return None;
    }
    let line = line.trim_start_matches('#');
    let (stamp, names) = match (line.trim_start().strip_prefix("Time "), clock::averaged_fields(line)) {
        (Some(names), _) => (Stamp::Heading, names.split_whitespace().collect()),
        (None, Some(names)) => (Stamp::Average, names),
        (None, None) => timed_fields(line).map(|(time, names)| (Stamp::Time(PrintedTime::of_day(time)), names))?,
    };
    let pid = names.contains(&"PID") || names.contains(&"TGID");
    (pid && names.last() == Some(&"Command")).then(|| (stamp, names.into_iter().map(str::to_owned).collect()))
}

/// Returns the time and the fields of a row below these columns, which has the user's ID (with -U the name) and then a number
/// or a dash.
fn row<'l>(line: &'l str, columns: &[String]) -> Option<(Stamp, Vec<&'l str>)> {
    let (stamp, fields) = match stamped_fields(line) {
        Some((time, fields)) => (Stamp::Time(time), fields),
        None => (Stamp::Average, clock::averaged_fields(line)?),
    };
    let first = usize::from(columns.first().is_some_and(|name| name == "USER"));
    let is_number = fields.get(first).is_some_and(|field| number(field).is_some() || *field == "-");
    is_number.then_some((stamp, fields))
}

/// Progress of a kind of table; each kind occurs once at each time.
#[derive(Clone, Copy, Default)]
struct TableProgress {
    cursor: Cursor,
    /// End of the previous interval.
    end: Option<f64>,
}

/// Maximum number of lines to search for the next time.
const MOST_OF_ONE_TIME: usize = 2000;

/// Returns the seconds from the time of the next line to the next later time below it.
fn spacing(lines: &mut Lines<'_>, time: PrintedTime, columns: &[String]) -> Option<f64> {
    let later = |text: &str| match row(text, columns)?.0 {
        Stamp::Time(other) => other.since(time).filter(|seconds| *seconds > 0.0),
        Stamp::Heading | Stamp::Average => None,
    };
    (0..MOST_OF_ONE_TIME).map_while(|at| lines.peek(at).map(later)).flatten().next()
}

/// Returns true if all columns except those of names (user and command) hold numbers, or dashes in their place.
fn are_numbers(columns: &[String], fields: &[&str]) -> bool {
    let is_name = |column: &str| ["UID", "USER", "Command"].contains(&column);
    let numbers = columns.iter().zip(fields).filter(|(column, _)| !is_name(column));
    let are_numbers =
        numbers.into_iter().all(|(_, field)| *field == "-" || number(field.trim_end_matches('%')).is_some());
    // If the header lost a name, the last number is below the command.
    let is_shifted = columns.iter().zip(fields).any(|(name, field)| name == "Command" && number(field).is_some());
    are_numbers && !is_shifted
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    run.start = context.day();
    let mut timeline = Timeline::default();
    let mut columns: Vec<String> = Vec::new();
    let mut open: Option<OpenProcess> = None;
    let mut tables: BTreeMap<Vec<String>, TableProgress> = BTreeMap::new();
    // Averages repeat the rows above them, if there are any.
    let are_alone = !context.is_past_output()
        && lines.next_is(|text| header(text).is_some_and(|(stamp, _)| stamp == Stamp::Average));
    while let Some(line) = lines.take_past_blanks_if(|text| header(text).is_some() || row(text, &columns).is_some()) {
        if let Some((stamp, names)) = header(&line.text) {
            if tables.len() >= MOST_KINDS && !tables.contains_key(&names) {
                tables.clear();
            }
            let table = tables.entry(names.clone()).or_default();
            if let Stamp::Time(time) = stamp {
                run.start =
                    if run.start.time.is_none() { PrintedTime { time: time.time, ..run.start } } else { run.start };
                let reading = timeline.read(&mut table.cursor, time, context.interval());
                let at = run.note_clock(reading, line.number);
                table.end.get_or_insert(at);
            }
            columns = names;
        } else if let Some((stamp, fields)) = row(&line.text, &columns) {
            let table = tables.entry(columns.clone()).or_default();
            let interval = match stamp {
                Stamp::Time(time) => {
                    if run.start.time.is_none() {
                        // Below a header without a time, this is the only hint at the start of the first interval.
                        let length = context.interval().or_else(|| spacing(lines, time, &columns)).unwrap_or(ASSUMED);
                        let begin = time.after(-length);
                        run.start = PrintedTime { date: begin.date.or(run.start.date), ..begin };
                        table.end = Some(timeline.read(&mut table.cursor, begin, None).elapsed);
                    }
                    let reading = timeline.read(&mut table.cursor, time, context.interval());
                    let at = run.note_clock(reading, line.number);
                    ReportInterval { from: table.end.unwrap_or(0.0), to: at }
                }
                _ if !are_alone => continue,
                _ => {
                    run.has_assumed_times |= context.interval().is_none();
                    ReportInterval { from: 0.0, to: context.interval().unwrap_or(ASSUMED) }
                }
            };
            // Two joined rows have two times.
            let is_joined = || {
                let rest = &fields[columns.len()..];
                rest.iter().any(|field| clock::time_of_day(&[*field]).is_some()) || is_table_row(&rest.join(" "))
            };
            let recorded = if fields.len() < columns.len() || !are_numbers(&columns, &fields) || is_joined() {
                // The row of the next process may be among the rest.
                if let Some(open) = &mut open {
                    open.is_whole = false;
                }
                close(run, &mut open);
                run.lose_row(interval.to);
                let expected = format!("{} columns as in the header ({})", columns.len(), columns.join(" "));
                Err(lines.refuse_at(&line, expected))
            } else {
                record(run, interval, &mut open, line.number, &columns, &fields);
                Ok(())
            };
            lines.keep(recorded)?;
            let next = lines.peek_past_blanks(0).and_then(|(_, next)| row(next, &columns)).map(|(stamp, _)| stamp);
            if next != Some(stamp) {
                close(run, &mut open);
                if let Some(table) = tables.get_mut(&columns) {
                    table.end = Some(interval.to);
                }
            }
        }
    }
    close(run, &mut open);
    Ok(())
}

/// Process of the current rows. With -t, the row of a thread follows that of its process and does not repeat the PID.
struct OpenProcess {
    interval: ReportInterval,
    pid: u32,
    command: String,
    row: TableRow,
    /// Sums over its threads in [`OF_FIRST_THREAD`].
    threads: Vec<(String, f64)>,
    /// Number of threads listed.
    thread_count: usize,
    /// Whether all its rows were readable.
    is_whole: bool,
}

impl OpenProcess {
    fn add_thread(&mut self, thread: &TableRow) {
        self.thread_count += 1;
        for column in OF_FIRST_THREAD {
            let Some(value) = thread.get(column) else { continue };
            match self.threads.iter_mut().find(|(name, _)| name == column) {
                Some((_, sum)) => *sum += value,
                None => self.threads.push((column.to_owned(), value)),
            }
        }
    }
}

/// Records a process after its threads were read.
fn close(run: &mut ToolRun, open: &mut Option<OpenProcess>) {
    let Some(open) = open.take() else { return };
    // If a name occurs twice, the first column counts.
    let mut row = TableRow::new(open.row.line, "", open.threads);
    row.extend(open.row);
    if !open.is_whole {
        row.remove(&OF_FIRST_THREAD);
    }
    let seconds = open.interval.seconds();
    row.scale(|column| column == TICKS, if seconds > 0.0 { 1.0 / seconds } else { 0.0 });
    let task = run.rates(open.interval, process(open.pid), &row, &TASK);
    task.command = open.command.as_str().into();
    if open.thread_count > 1 && open.is_whole {
        task.threads = (open.thread_count as f64).into();
    }
    if KERNEL_THREADS.iter().any(|name| open.command.starts_with(name)) {
        task.kernel_thread = 1.0.into();
    }
}

/// Records a single row.
pub(super) fn record_row(run: &mut ToolRun, interval: ReportInterval, line: u32, columns: &[&str], fields: &[String]) {
    let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let mut open = None;
    record(run, interval, &mut open, line, &columns, &fields);
    close(run, &mut open);
}

fn record(
    run: &mut ToolRun,
    interval: ReportInterval,
    open: &mut Option<OpenProcess>,
    line: u32,
    columns: &[String],
    fields: &[&str],
) {
    let id = |name: &str| fields.get(columns.iter().position(|c| c == name)?).and_then(|id| id.parse::<u32>().ok());
    let numbers = columns.iter().zip(fields).filter_map(|(name, field)| Some((name.clone(), number(field)?)));
    let mut row = TableRow::new(line, "", numbers);
    if interval.seconds() <= 0.0 {
        if interval.to > 0.0 {
            // Two tables have the same second.
            return;
        }
        let counted: Vec<&str> = columns.iter().map(String::as_str).filter(|name| !LEVELS.contains(name)).collect();
        row.remove(&counted);
        run.note(
            "what processes do now",
            "the only report is an average since boot, since no interval was given",
            "give an interval and a count: pidstat 5 3",
        );
    }
    let command = fields[columns.len() - 1].trim_start_matches("|__");
    if let Some(pid) = id("PID").or_else(|| id("TGID")) {
        close(run, open);
        *open = Some(OpenProcess {
            interval,
            pid,
            command: command.to_owned(),
            row,
            threads: Vec::new(),
            thread_count: 0,
            is_whole: true,
        });
    } else if let Some((process, tid)) = open.as_mut().zip(id("TID")) {
        process.add_thread(&row);
        let task = TaskKey { pid: process.pid, tid, start: 0 };
        let thread = run.rates(interval, task, &row, &THREAD);
        thread.command = thread_name(&fields[columns.len() - 1..]).as_str().into();
        thread.processor = id("CPU").map(f64::from).into();
    }
}

/// Returns the name in `|__CPU 0/KVM`; the name of a thread may have several words. With -l it is a command line, which is
/// longer.
fn thread_name(words: &[&str]) -> String {
    let whole = words.join(" ");
    let name = whole.trim_start_matches("|__");
    let first = || name.split(' ').next().unwrap_or_default();
    if name.chars().count() <= LONGEST_NAME { name.to_owned() } else { first().to_owned() }
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
    fn both_kinds_of_table_are_read() {
        let window = window_of(TEXT);
        let changes = window.changes::<Process>();
        let hog = changes.iter().find(|c| c.last().command.get() == Some("hog")).unwrap();
        let close = |a: Option<f64>, b: f64| assert!((a.unwrap() / b - 1.0).abs() < 0.001, "{a:?} {b}");
        close(hog.rate(|p| p.user), 0.5 * SECOND);
        close(hog.rate(|p| p.run_delay), 0.2 * SECOND);
        // 3 ticks in 2 s; the second interval does not show them.
        close(hog.grown(|p| p.block_delay), 3.0 * TICK);
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
    fn threads_have_names_of_several_words_and_the_cpu_they_ran_on() {
        let text = "Linux 6.1.0 (kvm7)  06/01/2024  _x86_64_  (8 CPU)

10:00:00      UID      TGID       TID    %usr %system  %guest   %wait    %CPU   CPU  Command
10:00:02      107      4711         -    1.00    2.00   90.00    0.00   93.00     4  qemu-system-x86
10:00:02      107         -      4720    0.00    1.00   45.00   50.00   46.00     4  |__CPU 0/KVM
10:00:02      107         -      4721    1.00    1.00   45.00   50.00   47.00     5  |__CPU 1/KVM
10:00:02      107         -      4722    0.00    0.00    0.00    0.00    0.00     5  |__/usr/bin/qemu-system-x86_64 -name a
";
        let window = window_of(text);
        let threads = window.newest::<Thread>();
        let found: Vec<_> = threads.values().map(|t| (t.command.get().unwrap(), t.processor.get().unwrap())).collect();
        assert_eq!(found, [("CPU 0/KVM", 4.0), ("CPU 1/KVM", 5.0), ("/usr/bin/qemu-system-x86_64", 5.0)]);
        let processes = window.newest::<Process>();
        assert_eq!(processes.values().map(|p| p.threads.get()).collect::<Vec<_>>(), [Some(3.0)]);
    }

    /// Returns the waiting time of each process, in percent, by interval.
    fn waits(text: &str) -> Vec<(u32, Vec<f64>)> {
        let window = window_of(text);
        let steps = |change: &whyslow_model::window::Change<'_, Process>| {
            let steps = change.steps(|p| p.run_delay);
            steps.map(|(seconds, grown)| (grown.unwrap() / seconds / PERCENT).round()).collect()
        };
        window.changes::<Process>().iter().map(|change| (change.key().pid, steps(change))).collect()
    }

    #[test]
    fn users_by_name_and_seconds_since_1970_are_read() {
        let by_name = fixture("pidstat-U.txt");
        assert_eq!(waits(&by_name), [(4100, vec![60.0]), (4101, vec![55.0])]);
        let since_1970 = fixture("pidstat-H-epoch.txt");
        assert_eq!(waits(&since_1970), [(4100, vec![60.0, 60.0]), (4101, vec![55.0, 55.0])]);
        let window = window_of(&since_1970);
        assert_eq!((window.seconds(), window.last().unwrap().wall_ns), (2.0, 1_795_514_401_000_000_000));
        let with_times = since_1970.replace("1795514400", "10:00:00  ").replace("1795514401", "10:00:05  ");
        assert_eq!(window_of(&with_times).seconds(), 10.0);
    }

    #[test]
    fn a_clock_that_is_set_back_loses_no_row() {
        let row = |time: &str, pid: u32, wait: f64| {
            format!("{time}        0       {pid}   40.00   10.00    0.00   {wait:.2}   50.00     1  hog\n")
        };
        let header = |time: &str| {
            format!("\n{time}      UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command\n")
        };
        let times = ["01:59:57", "01:59:58", "01:59:59", "01:00:00", "01:00:01"];
        let reports = times.windows(2).enumerate().map(|(at, pair)| {
            let wait = 10.0 * (at + 1) as f64;
            format!("{}{}{}", header(pair[0]), row(pair[1], 7, wait), row(pair[1], 8, wait + 1.0))
        });
        let text: String = reports.collect();
        assert_eq!(waits(&text), [(7, vec![10.0, 20.0, 30.0, 40.0]), (8, vec![11.0, 21.0, 31.0, 41.0])]);
        let window = window_of(&text);
        assert_eq!(window.seconds(), 4.0);
        let notes: Vec<_> = window.snapshots()[0].sources.iter().map(|note| format!("{note:?}")).collect();
        assert!(notes.len() == 1 && notes[0].contains("set back by 1 h at line"), "{notes:?}");
    }

    #[test]
    fn averages_alone_are_rates() {
        let text = "Average:      UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command\n\
            Average:        0       812   50.00   10.00    0.00   20.00   60.00     -  hog\n";
        assert_eq!(waits(text), [(812, vec![20.0])]);
    }

    #[test]
    fn without_an_interval_only_levels_are_of_now() {
        let text = "10:00:00      UID       PID  minflt/s  majflt/s     VSZ     RSS   %MEM  Command\n\
            10:00:00        0       812    100.00      7.00   10000    2000   0.10  hog\n";
        let window = window_of(text);
        let processes = window.newest::<Process>();
        let row = processes.values().next().unwrap();
        assert_eq!((row.rss.get(), row.major_faults.get()), (Some(2000.0 * KIB), None));
    }

    #[test]
    fn a_row_that_is_short_is_refused() {
        assert_eq!(refusal_of(&TEXT.replace("20.00   70.00     1", "20.00   70.00")).line, 11);
    }
}
