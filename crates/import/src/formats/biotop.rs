//! biotop of bcc and libbpf-tools: disk requests by process.

use crate::prelude::*;
use crate::table::is_table_row;
use std::collections::BTreeMap;
use whyslow_model::catalogue::Process;

pub const FORMAT: Format = Format {
    name: "biotop",
    versions: "bcc, libbpf-tools; the interval from the first line or the command line",
    shows: "which process reads and writes how much",
    lacks: "processes below the end of the list; what a disk does in all; who writes what the kernel writes back later",
    programs: &[program("biotop"), program("biotop-bpfcc")],
    streamed: true,
    starts: |lines| lines.next_is(|line| is_header(line) || title(line).is_some() || is_load(line)),
    read,
    ..Format::NEW
};

/// Returns true for `PID    COMM             D MAJ MIN DISK       I/O  Kbytes  AVGms`.
fn is_header(line: &str) -> bool {
    line.split_whitespace().eq(["PID", "COMM", "D", "MAJ", "MIN", "DISK", "I/O", "Kbytes", "AVGms"])
}

/// Returns the seconds in `Tracing... Output every 1 secs. Hit Ctrl-C to end`.
fn title(line: &str) -> Option<f64> {
    number(line.strip_prefix("Tracing... Output every ")?.split_whitespace().next()?)
}

/// Returns true for `08:04:11 loadavg: 1.48 0.87 0.45 1/287 14547`.
fn is_load(line: &str) -> bool {
    line.split_once(" loadavg: ").is_some_and(|(time, _)| clock::time_of_day(&[time.trim()]).is_some())
}

/// Returns the process, its name, whether it read, and the bytes:
/// `14501  cksum            R 202 1   xvda1      361   28832   3.39`.
fn row(line: &str) -> Option<(u32, String, bool, f64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.len().checked_sub(7).filter(|at| *at >= 2)?;
    let [direction @ ("R" | "W"), major, minor, _, requests, kilobytes, mean] = words[at..] else { return None };
    [major, minor, requests, mean].iter().all(|word| number(word).is_some()).then_some(())?;
    // Two rows were joined.
    (!is_table_row(&words[1..at].join(" "))).then_some(())?;
    Some((words[0].parse().ok()?, words[1..at].join(" "), direction == "R", number(kilobytes)? * KIB))
}

/// Returns true if a line begins with a PID but is not a complete row.
fn is_damaged(line: &str) -> bool {
    line.split_whitespace().next().is_some_and(|pid| pid.parse::<u32>().is_ok()) && row(line).is_none()
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let command = context.command_of("biotop").or(context.command_of("biotop-bpfcc"));
    let asked = command.map(|command| command.positional(&["-r", "-p"]).next().and_then(number).unwrap_or(1.0));
    let mut seconds = asked.filter(|seconds| *seconds > 0.0);
    let mut reports = 0.0;
    let is_own = |text: &str| is_header(text) || title(text).is_some() || is_load(text) || row(text).is_some();
    while let Some(line) = lines.take_past_blanks_if(is_own) {
        if let Some(printed) = title(&line.text) {
            seconds = Some(printed);
        }
        if !is_header(&line.text) {
            continue;
        }
        // A process has a row for each disk and direction.
        let mut sums: BTreeMap<u32, (u32, String, [f64; 2])> = BTreeMap::new();
        let refused = lines.refused();
        while let Some(line) =
            lines.take_own(|text| row(text).is_some(), is_damaged, "a process, its disk and four numbers")?
        {
            if let Some((pid, name, reads, bytes)) = row(&line.text) {
                sums.entry(pid).or_insert((line.number, name, [0.0; 2])).2[usize::from(!reads)] += bytes;
            }
        }
        let Some(seconds) = seconds else {
            let why = "its interval is neither printed nor on a command line: its counts are no rates";
            run.note("biotop", why, "include its first line, or the command line");
            continue;
        };
        let interval = ReportInterval { from: reports * seconds, to: (reports + 1.0) * seconds };
        reports += 1.0;
        // The sums are unknown for processes that may have another row.
        if lines.refused() > refused {
            run.lose_row(interval.to);
            continue;
        }
        for (pid, (line, name, [read, written])) in sums {
            let rates = [("read_bytes", Some(read / seconds)), ("write_bytes", Some(written / seconds))];
            run.grow::<Process>(interval, line, process(pid), &rates).command = name.as_str().into();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn bytes_of_processes_become_rates() {
        let window = window_of(&fixture("layouts/biotop.txt"));
        let changes = window.changes::<Process>();
        let of = |pid: u32| changes.iter().find(|change| change.key().pid == pid).unwrap();
        // (28832 + 512) KiB in 2 s.
        assert_eq!(of(14501).rate(|p| p.read_bytes), Some(14_672.0 * KIB));
        assert_eq!(of(14501).rate(|p| p.write_bytes), Some(0.0));
        assert_eq!((of(77).last().command.get(), of(77).rate(|p| p.write_bytes)), (Some("my db"), Some(2000.0 * KIB)));
    }

    #[test]
    fn counts_over_an_unknown_time_are_no_rates() {
        let text = fixture("layouts/biotop.txt").lines().skip(2).map(|line| format!("{line}\n")).collect::<String>();
        let window = window_of(&text);
        assert!(window.newest::<Process>().is_empty());
    }
}
