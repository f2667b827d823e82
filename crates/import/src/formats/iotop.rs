//! iotop(8) -b: reads and writes of each process or thread, and the time it waits for them.

use super::task_table::record_guest;
use crate::prelude::*;
use crate::report_intervals::ReportIntervals;
use whyslow_model::catalogue::Process;

pub const FORMAT: Format = Format {
    name: "iotop",
    versions: "iotop 0.4 to 0.6 and iotop-c, -b; with -P, -o, -k, -t, -q; rows without their header",
    shows: "which process or thread uses storage, and the share of time it waits for it, if the kernel accounts for delays",
    lacks: "which device",
    programs: &[program("iotop"), program("iotop-py"), program("iotop-c")],
    files: &["iotop"],
    streamed: true,
    starts,
    read,
    ..Format::NEW
};

/// Words of a header on which all versions agree.
const HEADER: [&str; 7] = ["PRIO", "USER", "DISK", "READ", "DISK", "WRITE", "SWAPIN"];
/// Unit printed for a value that the kernel does not account for.
const UNAVAILABLE: &str = "?unavailable?";

/// Returns true for `Total DISK READ:         0.00 B/s | Total DISK WRITE:       484.81 K/s`, after a time with -t.
fn is_total(line: &str) -> bool {
    let line = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':' || c == ' ');
    ["Total DISK READ", "Actual DISK READ", "Current DISK READ"].iter().any(|start| line.starts_with(start))
}

/// Returns true for `  TID  PRIO  USER     DISK READ  DISK WRITE  SWAPIN      IO    COMMAND`; iotop-c prints `IO>`.
fn is_header(line: &str) -> bool {
    let mut words = line.split_whitespace().skip_while(|word| *word == "TIME");
    words.next().is_some_and(|first| ["TID", "PID"].contains(&first))
        && HEADER.iter().all(|name| words.next() == Some(*name))
        && words.all(|word| word.bytes().any(|b| b.is_ascii_uppercase()))
}

fn starts(lines: &mut Lines<'_>) -> bool {
    lines.next_is(|text| is_header(text) || row(0, text).is_some())
        || (lines.next_is(is_total) && (1..=3).any(|at| lines.peek(at).is_some_and(is_header)))
}

#[derive(Default)]
struct IotopReport {
    has_header: bool,
    /// Time at the start of each line with -t, and its line.
    time: Option<(f64, u32)>,
    rows: Vec<IotopRow>,
    is_row_lost: bool,
}

struct IotopRow {
    line: u32,
    pid: u32,
    read: f64,
    write: f64,
    /// Share of the time that it waited for storage.
    waited: Option<f64>,
    command: String,
}

/// Parses ` 3528 be/4 root        0.00 B/s  484.81 K/s  0.00 % 12.50 % mysqld --daemonize`.
fn row(line: u32, text: &str) -> Option<IotopRow> {
    let mut words = text.split_whitespace().peekable();
    let _time = words.next_if(|word| clock::time_of_day(&[*word]).is_some());
    let pid = words.next()?.parse().ok()?;
    words.next().filter(|priority| ["be/", "rt/", "idle", "?", "none"].iter().any(|class| priority.contains(class)))?;
    let _user = words.next()?;
    let mut rate = || bytes(words.next()?, words.next()?);
    let (read, write) = (rate()?, rate()?);
    let mut share = || match words.next()? {
        UNAVAILABLE => None,
        percent => number(percent).filter(|_| words.next() == Some("%")).map(|percent| percent / 100.0),
    };
    let swapped = share();
    // Without delay accounting, one word stands for both shares.
    let waited = swapped.and_then(|_| share());
    let command = words.collect::<Vec<_>>().join(" ");
    // Another row may have been joined to it.
    let is_priority = |word: &str| ["be/", "rt/"].iter().any(|class| word.starts_with(class));
    let is_joined = command.split(' ').any(is_priority) && command.contains("/s ");
    (!is_joined).then_some(())?;
    Some(IotopRow { line, pid, read, write, waited, command })
}

/// Parses `484.81 K/s`, in units of 1024.
fn bytes(value: &str, unit: &str) -> Option<f64> {
    scaled(&format!("{value}{}", unit.strip_suffix("/s")?.trim_end_matches('B')), KIB, 1.0)
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut intervals = ReportIntervals::default();
    let mut open: Option<IotopReport> = None;
    let mut close = |report: Option<IotopReport>, run: &mut ToolRun| {
        let Some(report) = report else { return };
        let at = report.time.map(|(time, line)| (PrintedTime::of_day(time), line));
        let is_row_lost = report.is_row_lost;
        for (rows, interval) in intervals.next(report.rows, at, context, run) {
            record(run, interval, rows);
            if is_row_lost {
                run.lose_row(interval.to);
            }
        }
    };
    let is_own = |text: &str| is_total(text) || is_header(text) || row(0, text).is_some();
    let is_damaged = |text: &str| {
        let is_process = text.split_whitespace().next().is_some_and(|pid| pid.parse::<u32>().is_ok());
        is_process || HEADER.iter().all(|name| text.contains(name))
    };
    let mut refused = lines.refused();
    loop {
        let blanks = lines.peek_past_blanks(0).filter(|(_, text)| is_own(text)).map_or(0, |(blanks, _)| blanks);
        lines.skip(blanks);
        let Some(line) = lines.take_own(is_own, is_damaged, "a process, its priority, user and rates")? else { break };
        if lines.refused() > refused {
            refused = lines.refused();
            open.get_or_insert_default().is_row_lost = true;
        }
        // A report begins with its totals or, if those were cut off, with its header.
        let is_sum = line.text.contains("Total DISK READ");
        let header = is_header(&line.text);
        if is_sum || (header && open.as_ref().is_none_or(|report| report.has_header)) {
            close(open.take(), run);
        }
        let report = open.get_or_insert_default();
        report.has_header |= header;
        if let Some((time, _)) = clock::time_of_day(&line.text.split_whitespace().collect::<Vec<_>>()) {
            report.time = Some((time, line.number));
        }
        report.rows.extend(row(line.number, &line.text));
        lines.reuse(line);
    }
    close(open, run);
    for (rows, interval) in intervals.finish(context, run) {
        record(run, interval, rows);
    }
    Ok(())
}

fn record(run: &mut ToolRun, interval: ReportInterval, rows: Vec<IotopRow>) {
    for row in rows {
        let waited = row.waited.map(|share| share * SECOND);
        let rates = [("read_bytes", Some(row.read)), ("write_bytes", Some(row.write)), ("block_delay", waited)];
        let command = row.command.trim_start_matches('[').split([' ', ']']).next().unwrap_or_default();
        if command.is_empty() {
            run.grow::<Process>(interval, row.line, process(row.pid), &rates);
            continue;
        }
        let command = command.rsplit_once('/').filter(|_| command.starts_with('/')).map_or(command, |(_, name)| name);
        run.grow::<Process>(interval, row.line, process(row.pid), &rates).command = command.into();
        let words = || row.command.split(' ').map(str::to_owned).collect();
        record_guest(run, interval.to, row.line, command, words, process(row.pid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn each_process_with_units() {
        let window = window_of(&fixture("layouts/iotop-b-o-P.txt"));
        let changes = window.changes::<Process>();
        let fio = changes.iter().filter(|c| c.last().command.get() == Some("fio"));
        let written: Vec<f64> = fio.filter_map(|c| c.rate(|p| p.write_bytes)).filter(|rate| *rate > 0.0).collect();
        assert!(!written.is_empty(), "{written:?}");
    }

    #[test]
    fn rows_without_header() {
        let text = "   4410 be/4 libvirt- 285.11 K/s  402.20 K/s  ?unavailable?  qemu-system-x86_64 -name guest=mail01\n   \
                    9120 be/4 libvirt- 604.80 K/s   37.91 M/s  ?unavailable?  qemu-system-x86_64 -name guest=build07\n";
        let window = window_of(text);
        let written: Vec<_> = window.changes::<Process>().iter().map(|c| c.rate(|p| p.write_bytes)).collect();
        assert_eq!(written, [Some((402.20 * KIB).round()), Some((37.91 * MIB).round())]);
        let guests = window.newest::<whyslow_model::catalogue::Guest>();
        assert_eq!(
            guests.values().map(|guest| guest.name.get()).collect::<Vec<_>>(),
            [Some("mail01"), Some("build07")]
        );
    }

    #[test]
    fn shares_of_waiting_and_the_first_report_which_has_no_interval() {
        let report = |read: &str, share: &str| {
            format!(
                "Total DISK READ :      15.70 K/s | Total DISK WRITE :     484.81 K/s\n\
                 Actual DISK READ:      15.70 K/s | Actual DISK WRITE:     484.81 K/s\n  \
                 TID  PRIO  USER     DISK READ  DISK WRITE  SWAPIN     IO>    COMMAND\n \
                 1234 be/4 mysql      {read} M/s  484.81 K/s  0.00 % {share} % /usr/sbin/mysqld --daemonize\n"
            )
        };
        let window = window_of(&(report("9.00", "1.00") + &report("1.50", "99.99")));
        let change = &window.changes::<Process>()[0];
        assert_eq!(change.last().command.get(), Some("mysqld"));
        assert_eq!(change.rate(|p| p.read_bytes), Some(1.5 * MIB));
        assert!((change.rate(|p| p.block_delay).unwrap() / SECOND - 0.9999).abs() < 1e-6);
    }
}
