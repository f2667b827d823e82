//! biosnoop of bcc and libbpf-tools: every request to a block device, with the process that made it (tools/biosnoop.py).

use crate::prelude::*;
use crate::request_trace::{Operation, RequestTrace, TracedRequest};
use whyslow_model::value::Name;

pub const FORMAT: Format = Format {
    name: "biosnoop",
    versions: "bcc 0.5 to 0.31, libbpf-tools; with -Q",
    shows: "size, latency and process of every request",
    lacks: "the time in the queue without -Q; merges and splits",
    programs: &[program("biosnoop"), program("biosnoop-bpfcc"), program("biosnoop.py")],
    streamed: true,
    starts: |lines| lines.next_is(|line| header(line).is_some()),
    read,
    ..Format::NEW
};

/// Parses the header `TIME(s)     COMM           PID     DISK      T SECTOR     BYTES   QUE(ms) LAT(ms)`. Returns true if it
/// has a column for the time in the queue.
fn header(line: &str) -> Option<bool> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["TIME(s)", "COMM", "PID", "DISK", "T", "SECTOR", "BYTES", "LAT(ms)"] => Some(false),
        ["TIME(s)", "COMM", "PID", "DISK", "T", "SECTOR", "BYTES", "QUE(ms)", "LAT(ms)"] => Some(true),
        _ => None,
    }
}

/// Parses a row into the device and its request. The name of the process may contain spaces.
fn row(line: &str, has_queue: bool) -> Option<(&str, TracedRequest)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let columns = 7 + usize::from(has_queue);
    let (first, last) = fields.split_at_checked(fields.len().checked_sub(columns - 1).filter(|rest| *rest >= 2)?)?;
    let [pid, disk, letters, sector, bytes, times @ ..] = last else { return None };
    let completed = number(first[0])?;
    let milliseconds = |text: &&str| number(text).map(|ms| ms / 1e3);
    let issued = completed - milliseconds(times.last()?)?;
    let bytes: u64 = bytes.parse().ok()?;
    let operation = Operation::of_letters(letters)?;
    let request = TracedRequest {
        operation: if operation == Operation::Write && bytes == 0 { Operation::Flush } else { operation },
        sector: sector.parse().unwrap_or(u64::MAX),
        bytes,
        made: if has_queue { Some(issued - milliseconds(times.first()?)?) } else { None },
        issued,
        completed,
        read_ahead: letters.contains('A'),
        forced: letters.trim_start_matches('F').contains('F'),
        by: Some((pid.parse().unwrap_or(0), first[1..].join(" "))),
    };
    Some((*disk, request))
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let line = lines.number();
    let has_queue = lines.take().and_then(|line| header(&line.text)).unwrap_or(false);
    let mut requests = RequestTrace::default();
    let mut times: Option<(f64, f64)> = None;
    while let Some(text) = lines.take_past_blanks_if(|line| row(line, has_queue).is_some() || header(line).is_some()) {
        let Some((disk, request)) = row(&text.text, has_queue) else { continue };
        let (begin, end) = times.unwrap_or((request.completed, request.completed));
        times = Some((begin.min(request.completed), end.max(request.completed)));
        requests.completed(&Name::from(disk), request);
        lines.reuse(text);
    }
    if let Some((begin, end)) = times {
        requests.record(run, line, begin, end);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{fixture, window_of};
    use whyslow_model::catalogue::{Disk, Request, Requester};

    #[test]
    fn requests_by_device_and_process() {
        let text = fixture("layouts/biosnoop-Q.txt");
        let window = window_of(&text);
        let rows = |disk: &str, letter: char| {
            let of = |line: &&str| {
                let fields: Vec<&str> = line.split_whitespace().collect();
                fields.len() == 9 && fields[3] == disk && fields[4].starts_with(letter)
            };
            text.lines().filter(of).count() as f64
        };
        let changes = window.changes::<Disk>();
        let change = changes.iter().find(|c| **c.key() == *"loop0").unwrap();
        let reads = change.grown(|d| d.reads).unwrap();
        assert!(reads > 50.0 && (reads - rows("loop0", 'R')).abs() <= 1.0, "{reads}");
        let made = window.newest::<Requester>();
        assert!(made.values().any(|r| r.command.get() == Some("fio") && r.requests.get() > Some(50)), "{made:?}");
        let reads = window.newest::<Request>().into_values().find(|r| *r.operation.operation == *"read");
        assert_eq!(reads.and_then(|r| r.size.quantile(0.5)).map(|size| (size / 4096.0).round()), Some(1.0));
    }

    #[test]
    fn a_process_with_a_space_in_its_name_and_no_queue() {
        let header = "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES   LAT(ms)\n";
        let row = |n: u32| format!("{n}.500000    tmux: server   812     sda       W {}   4096    10.00\n", n * 100);
        let window = window_of(&(header.to_owned() + &(0..11).map(row).collect::<String>()));
        let change = &window.changes::<Disk>()[0];
        assert_eq!((change.rate(|d| d.writes), change.rate(|d| d.write_bytes)), (Some(1.1), Some(4505.6)));
        let made = window.the::<Requester>().unwrap();
        assert_eq!((made.command.get(), made.user.task.pid), (Some("tmux: server"), 812));
    }
}
