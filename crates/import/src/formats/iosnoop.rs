//! iosnoop of perf-tools: every request to a block device, with the process that made it (perf-tools, iosnoop).

use crate::prelude::*;
use crate::request_trace::{Operation, RequestTrace, TracedRequest};
use whyslow_model::topology::device_by_number;
use whyslow_model::value::Name;

pub const FORMAT: Format = Format {
    name: "iosnoop",
    versions: "perf-tools, with -s or -t, which print times; with -Q",
    shows: "size, latency and process of every request",
    lacks: "without -s and -t everything but the latencies; the time in the queue, which -Q includes in the latency",
    programs: &[program("iosnoop"), program("iosnoop-perf")],
    streamed: true,
    starts: |lines| header_lines(lines).is_some(),
    read,
    ..Format::NEW
};

const COLUMNS: [&str; 7] = ["COMM", "PID", "TYPE", "DEV", "BLOCK", "BYTES", "LATms"];
/// Columns before the name of the process, which may contain spaces.
const TIMES: [&str; 2] = ["STARTs", "ENDs"];

/// Times that the rows have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    start: bool,
    end: bool,
}

impl Header {
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (times, columns) = words.split_at_checked(words.len().checked_sub(COLUMNS.len())?)?;
        let is_known = columns == COLUMNS && times.iter().all(|time| TIMES.contains(time));
        is_known.then(|| Self { start: times.contains(&TIMES[0]), end: times.contains(&TIMES[1]) })
    }

    fn times(self) -> usize {
        usize::from(self.start) + usize::from(self.end)
    }
}

/// Returns the header that begins at the next line, and the number of its lines: a mail program may have broken it.
fn header_lines(lines: &mut Lines<'_>) -> Option<(Header, usize)> {
    let first = lines.peek(0).filter(|text| text.contains("COMM"))?.to_owned();
    if let Some(header) = Header::parse(&first) {
        return Some((header, 1));
    }
    let second = lines.peek(1)?;
    Header::parse(&format!("{first} {second}")).map(|header| (header, 2))
}

/// Parses a row into the device and its request, which is timed if the row has a time.
fn row(line: &str, header: Header) -> Option<(String, TracedRequest)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let named = fields.len().checked_sub(COLUMNS.len() - 1).filter(|named| *named > header.times())?;
    let (first, [pid, letters, device, block, bytes, latency]) = fields.split_at(named) else { return None };
    let (times, command) = first.split_at(header.times());
    let latency = number(latency)? / 1e3;
    let times: Option<Vec<f64>> = times.iter().map(|time| number(time)).collect();
    let (issued, completed) = match (header, &times?[..]) {
        (Header { start: true, .. }, [start, ..]) => (*start, start + latency),
        (_, [end]) => (end - latency, *end),
        _ => (0.0, latency),
    };
    let operation = Operation::of_letters(letters)?;
    let request = TracedRequest {
        operation,
        // On recent kernels the script picks the wrong words: the block is then not a number, and the bytes are wrong.
        sector: block.parse().ok()?,
        bytes: bytes.parse().ok()?,
        made: None,
        issued,
        completed,
        read_ahead: letters.contains('A'),
        forced: letters.trim_start_matches('F').contains('F'),
        by: Some((pid.parse().ok()?, command.join(" "))),
    };
    Some((disk(device)?, request))
}

/// Returns the name of the device `202,1`, or its numbers if they have no fixed meaning.
fn disk(numbers: &str) -> Option<String> {
    let (major, minor) = numbers.split_once(',')?;
    let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
    Some(device_by_number(major, minor).unwrap_or_else(|| format!("{major}:{minor}")))
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let line = lines.number();
    let Some((header, count)) = header_lines(lines) else { return Ok(()) };
    lines.skip(count);
    let mut requests = RequestTrace::default();
    let mut times: Option<(f64, f64)> = None;
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        let first = text.to_owned();
        let (parsed, taken) = match row(&first, header) {
            Some(parsed) => (Some(parsed), 1),
            None => {
                let joined = lines.peek(blanks + 1).and_then(|next| row(&format!("{first} {next}"), header));
                (joined, 2)
            }
        };
        let Some((device, request)) = parsed else { break };
        lines.skip(blanks + taken);
        let (begin, end) = times.unwrap_or((request.completed, request.completed));
        times = Some((begin.min(request.completed), end.max(request.completed)));
        requests.completed(&Name::from(device.as_str()), request);
    }
    match times {
        Some((begin, end)) if header.times() > 0 => requests.record(run, line, begin, end),
        Some(_) => run.note("rates from iosnoop", "it prints times only with -s or -t", "run it as: iosnoop -ts"),
        None => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{read_text, window_of};
    use whyslow_model::catalogue::{Disk, Requester};

    /// Returns a trace of requests of 4 KiB to sdb, each 10 ms long, every 20 ms.
    fn trace(is_wrapped: bool) -> String {
        let gap = if is_wrapped { "\n" } else { " " };
        let row = |n: u32| {
            let start = 100.0 + f64::from(n) * 0.02;
            format!("{start:.6} {:.6} db writer    812    WS   8,16{gap}{}  4096     10.00\n", start + 0.01, n * 1000)
        };
        let rows: String = (0..51).map(row).collect();
        format!("Tracing block I/O. Ctrl-C to end.\nSTARTs ENDs COMM PID TYPE DEV{gap}BLOCK BYTES LATms\n\n{rows}")
    }

    #[test]
    fn requests_by_device_and_process_however_they_are_wrapped() {
        for is_wrapped in [false, true] {
            let window = window_of(&trace(is_wrapped));
            let change = &window.changes::<Disk>()[0];
            assert_eq!(**change.key(), *"sdb");
            let rate = |of: fn(&Disk) -> whyslow_model::value::Counter| change.rate(of).map(|n| n.round());
            // 51 requests complete within a second.
            assert_eq!((rate(|d| d.writes), rate(|d| d.write_bytes)), (Some(51.0), Some(51.0 * 4096.0)));
            let made = window.the::<Requester>().unwrap();
            assert_eq!((made.command.get(), made.user.task.pid), (Some("db writer"), 812));
        }
    }

    #[test]
    fn without_times_there_are_no_rates() {
        let text = "COMM PID TYPE DEV BLOCK BYTES LATms\nfio 812 R 202,1 8 4096 0.30\n";
        let captures = read_text(text).unwrap();
        assert!(captures.iter().all(|capture| capture.window.changes::<Disk>().is_empty()));
        assert_eq!(disk("8,192").as_deref(), Some("sdm"));
        assert_eq!(disk("202,1").as_deref(), Some("202:1"));
    }
}
