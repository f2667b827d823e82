//! blkparse(1): events of the block layer for each request (blkparse_fmt.c of blktrace).

use crate::prelude::*;
use crate::request_trace::{Operation, RequestTrace, TracedRequest};
use crate::table::is_remark;
use std::collections::HashMap;
use whyslow_model::catalogue::{Disk, Request};
use whyslow_model::histogram::Histogram;
use whyslow_model::key::OperationKey;
use whyslow_model::topology::device_by_number;
use whyslow_model::value::Name;

pub const FORMAT: Format = Format {
    name: "blkparse",
    versions: "blktrace 0.99 to 1.3: events in the default format, whole or with parts left out; the sums at the end",
    shows: "size, time in the queue and in the device, merges and splits of every request, and which process made it",
    lacks: "why; events that were left out",
    programs: &[program("blkparse"), program("blktrace")],
    files: &["blkparse"],
    streamed: true,
    starts: |lines| lines.next_is(|line| TraceEvent::read(line).is_some()),
    read,
    ..Format::NEW
};

/// Maximum number of open requests; a trace without completions has more.
const MOST_OPEN: usize = 100_000;
/// Maximum seconds between the pieces that a process makes of one discard: it waits for each discard that it issues.
const PIECES_WITHIN: f64 = 50e-6;
/// Placeholder for the sector of a flush, which has none.
const NO_SECTOR: u64 = u64::MAX;

/// An event: `  7,0    1       89     3.740837190   846  A   D 264192 + 1024 <- (9,0) 0`.
pub(super) struct TraceEvent<'t> {
    pub(super) device: (u32, u32),
    pub(super) time: f64,
    pub(super) pid: u32,
    pub(super) action: u8,
    pub(super) letters: &'t str,
    pub(super) rest: Vec<&'t str>,
}

impl<'t> TraceEvent<'t> {
    fn read(line: &'t str) -> Option<Self> {
        let mut fields = line.split_whitespace();
        let (major, minor) = fields.next()?.split_once(',')?;
        let _cpu: u32 = fields.next()?.parse().ok()?;
        let _sequence: u64 = fields.next()?.parse().ok()?;
        let time = fields.next().filter(|time| time.split_once('.').is_some_and(|(_, ns)| ns.len() == 9))?;
        let pid = fields.next()?.parse().ok()?;
        let action =
            fields.next().filter(|a| (1..=2).contains(&a.len()) && a.bytes().all(|b| b.is_ascii_alphabetic()))?;
        Some(Self {
            device: (major.parse().ok()?, minor.parse().ok()?),
            time: number(time)?,
            pid,
            action: action.as_bytes()[0],
            letters: fields.next().unwrap_or_default(),
            rest: fields.collect(),
        })
    }

    /// Returns the sector and the number of sectors in `264192 + 1024`.
    fn extent(&self) -> Option<(u64, u64)> {
        match self.rest[..] {
            [sector, "+", count, ..] => Some((sector.parse().ok()?, count.parse().ok()?)),
            _ => None,
        }
    }

    /// Returns the upper device in `<- (9,0) 0`.
    fn remapped_from(&self) -> Option<&'t str> {
        let at = self.rest.iter().position(|field| *field == "<-")?;
        self.rest.get(at + 1).copied()
    }

    /// Returns the name of the process in `[fio]`.
    fn command(&self) -> Option<&'t str> {
        let name = self.rest.last()?.strip_prefix('[')?.strip_suffix(']')?;
        (name != "(null)").then_some(name)
    }
}

#[derive(Default)]
struct OpenRequest {
    made: Option<f64>,
    issued: Option<f64>,
    bytes: u64,
    by: Option<(u32, String)>,
    /// Whether it was split off a larger request.
    split: bool,
}

/// Pieces of discards that were remapped to a device, which may be all that the trace shows of it.
#[derive(Default)]
struct Remapped {
    line: u32,
    discards: u64,
    bytes: u64,
    sizes: Histogram,
    splits: u64,
    last: Option<(u32, f64)>,
}

pub(super) struct Trace<'a> {
    run: &'a mut ToolRun,
    first_line: u32,
    begin: Option<f64>,
    end: f64,
    /// Whether parts of the trace were left out.
    cut: bool,
    open: HashMap<(Name, u64), OpenRequest>,
    requests: RequestTrace,
    remapped: HashMap<Name, Remapped>,
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut trace = Trace::new(lines.number(), run);
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        if let Some(event) = TraceEvent::read(text) {
            trace.add(&event);
            lines.skip(blanks);
            trace.located(lines.number());
            lines.skip(1);
        } else if is_sum(text) {
            lines.skip(blanks + 1);
        } else if is_remark(text) && goes_on(lines, blanks + 1) {
            trace.cut = true;
            lines.skip(blanks + 1);
        } else {
            break;
        }
    }
    trace.record();
    Ok(())
}

/// Returns true if the next line that is not blank is an event.
fn goes_on(lines: &mut Lines<'_>, from: usize) -> bool {
    lines.peek_past_blanks(from).is_some_and(|(_, next)| TraceEvent::read(next).is_some())
}

/// Returns true for a line of the sums after the events.
fn is_sum(line: &str) -> bool {
    const SUMS: [&str; 15] = [
        "CPU",
        "Total (",
        "Reads ",
        "Read ",
        "Writes ",
        "Write ",
        "IO unplugs:",
        "Throughput (R/W)",
        "Events (",
        "Skips:",
        "PC Reads",
        "PC Writes",
        "PC Read",
        "PC Write",
        "Input file ",
    ];
    let line = line.trim_start();
    line.contains(':') && SUMS.iter().any(|start| line.starts_with(start))
}

impl<'a> Trace<'a> {
    pub(super) fn new(first_line: u32, run: &'a mut ToolRun) -> Self {
        Self {
            first_line,
            run,
            begin: None,
            end: 0.0,
            cut: false,
            open: HashMap::new(),
            requests: RequestTrace::default(),
            remapped: HashMap::new(),
        }
    }

    fn located(&mut self, line: u32) {
        for remapped in self.remapped.values_mut().filter(|remapped| remapped.line == 0) {
            remapped.line = line;
        }
    }

    pub(super) fn add(&mut self, event: &TraceEvent<'_>) {
        self.begin.get_or_insert(event.time);
        self.end = self.end.max(event.time);
        let Some(operation) = Operation::of_letters(event.letters) else { return };
        let (major, minor) = event.device;
        let device: Name =
            device_by_number(major, minor).unwrap_or_else(|| format!("dev{major}-{minor}")).as_str().into();
        let extent = event.extent();
        let sector = extent.map(|(sector, _)| sector);
        let key = |sector: u64| (device.clone(), sector);
        match (event.action, sector) {
            (b'Q' | b'G' | b'I', Some(sector)) if self.open.len() < MOST_OPEN => {
                let open = self.open.entry(key(sector)).or_default();
                open.made = open.made.filter(|_| event.action != b'Q').or(Some(event.time));
                if event.action == b'Q' || open.by.is_none() {
                    open.by = Some((event.pid, event.command().unwrap_or_default().to_owned()));
                }
            }
            (b'M' | b'F', Some(sector)) => {
                self.requests.merged(&device, operation);
                self.open.remove(&key(sector));
                // A front merge moves the beginning of a request.
                if event.action == b'F'
                    && let Some((_, count)) = extent
                    && let Some(moved) = self.open.remove(&key(sector.saturating_add(count)))
                {
                    self.open.insert(key(sector), moved);
                }
            }
            // `608256 / 608384`: the first piece, and the sector where the rest begins.
            (b'X', _) if self.open.len() < MOST_OPEN => {
                if let Some(sector) = event.rest.first().and_then(|sector| sector.parse().ok()) {
                    self.open.entry(key(sector)).or_default().split = true;
                }
            }
            (b'D', _) if operation == Operation::Flush && sector.is_none() => {
                self.open.insert(key(NO_SECTOR), OpenRequest { issued: Some(event.time), ..OpenRequest::default() });
            }
            (b'D', Some(sector)) if self.open.len() < MOST_OPEN => {
                let open = self.open.entry(key(sector)).or_default();
                open.issued = Some(event.time);
                open.bytes = extent.map_or(0, |(_, count)| count.saturating_mul(SECTOR as u64));
            }
            (b'R', Some(sector)) => {
                if let Some(open) = self.open.get_mut(&key(sector)) {
                    open.issued = None;
                }
            }
            (b'C', _) => {
                let at = match operation {
                    Operation::Flush => NO_SECTOR,
                    _ => sector.unwrap_or(NO_SECTOR),
                };
                let flush = at == NO_SECTOR && operation != Operation::Flush;
                if let Some(open) = Some(key(at)).filter(|_| !flush).and_then(|key| self.open.remove(&key)) {
                    self.complete(&device, event, operation, at, open);
                }
            }
            (b'A', Some(_)) if operation == Operation::Discard => self.remap(device, event),
            _ => {}
        }
    }

    fn complete(
        &mut self,
        device: &Name,
        event: &TraceEvent<'_>,
        operation: Operation,
        sector: u64,
        open: OpenRequest,
    ) {
        let Some(issued) = open.issued.filter(|issued| *issued <= event.time) else { return };
        if open.split {
            self.requests.split(device, operation);
        }
        self.requests.completed(
            device,
            TracedRequest {
                operation,
                sector,
                bytes: open.bytes,
                made: open.made.filter(|made| *made <= issued),
                issued,
                completed: event.time,
                read_ahead: event.letters.contains('A'),
                forced: event.letters.trim_start_matches('F').contains('F'),
                by: open.by,
            },
        );
    }

    fn remap(&mut self, device: Name, event: &TraceEvent<'_>) {
        let Some((_, count)) = event.extent().filter(|_| event.remapped_from().is_some()) else { return };
        let bytes = count.saturating_mul(SECTOR as u64);
        let remapped = self.remapped.entry(device).or_default();
        remapped.discards += 1;
        remapped.bytes = remapped.bytes.saturating_add(bytes);
        remapped.sizes.add(bytes);
        let follows = |(pid, time): (u32, f64)| pid == event.pid && (0.0..PIECES_WITHIN).contains(&(event.time - time));
        remapped.splits += u64::from(remapped.last.is_some_and(follows));
        remapped.last = Some((event.pid, event.time));
    }

    pub(super) fn record(self) {
        let (begin, seconds) = (self.begin.unwrap_or(0.0), self.end - self.begin.unwrap_or(0.0));
        for (device, remapped) in self.remapped {
            let key = || OperationKey { device: device.clone(), operation: Operation::Discard.name().into() };
            // Rates are unknown, because parts may have been left out; shares are known.
            let row = |requests: u64, bytes: u64, size: Histogram, splits: u64| Request {
                requests: requests.into(),
                bytes: bytes.into(),
                size,
                splits: splits.into(),
                ..Request::new(key())
            };
            let to = seconds.max(1e-6);
            for at in [0.0, to] {
                self.run.row::<Disk>(at, remapped.line, device.clone());
            }
            self.run.put(0.0, remapped.line, row(0, 0, Histogram::from_values([]), 0));
            self.run.put(to, remapped.line, row(remapped.discards, remapped.bytes, remapped.sizes, remapped.splits));
        }
        if self.requests.is_empty() {
            return;
        }
        if self.cut {
            self.run.note(
                "rates from the trace",
                "parts of it were left out, and with them an unknown number of requests",
                "give the whole trace",
            );
            return;
        }
        if self.requests.is_full() {
            self.run.note("the end of the trace", "more requests than can be held", "give a shorter trace");
        }
        self.requests.record(self.run, self.first_line, begin, self.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};
    use whyslow_model::value::Counter;
    use whyslow_model::window::Window;

    fn rate(window: &Window, of: fn(&Disk) -> Counter) -> f64 {
        let changes = window.changes::<Disk>();
        changes.iter().find(|c| **c.key() == *"loop0").unwrap().rate(of).unwrap()
    }

    fn operation<'w>(window: &'w Window, name: &str) -> &'w Request {
        let rows = window.newest::<Request>();
        rows.into_values().find(|row| *row.operation.operation == *name).unwrap()
    }

    #[test]
    fn what_blkparse_sums_up_itself() {
        // Reads Completed: 75, 300KiB; Writes Completed: 75, 300KiB; no merges.
        let window = window_of(&fixture("layouts/blkparse.txt"));
        let total = |of: fn(&Disk) -> Counter| rate(&window, of) * window.seconds();
        let close = |found: f64, want: f64| assert!((found - want).abs() < 1e-3 * want, "{found} {want}");
        close(total(|d| d.reads), 75.0);
        close(total(|d| d.writes), 75.0);
        close(total(|d| d.read_bytes), 300.0 * KIB);
        close(total(|d| d.write_bytes), 300.0 * KIB);
        assert_eq!(total(|d| d.writes_merged), 0.0);
    }

    #[test]
    fn times_agree_with_btt() {
        // btt of the same trace: 0.000739709 from issue to completion, 0.000751021 from the start, 34.38 % of the time.
        let window = window_of(&fixture("layouts/blkparse.txt"));
        let device_time = ["read", "write"].map(|name| operation(&window, name).device_time.mean().unwrap());
        assert!(((device_time[0] + device_time[1]) / 2.0 / 739_709.0 - 1.0).abs() < 0.01, "{device_time:?}");
        let time = rate(&window, |d| d.read_time) + rate(&window, |d| d.write_time);
        assert!((time * window.seconds() / 150.0 / 751_021.0 - 1.0).abs() < 0.01, "{time}");
        let busy = rate(&window, |d| d.busy_time) / SECOND;
        assert!((busy - 0.3438).abs() < 0.02, "{busy}");
    }

    #[test]
    fn splits_are_counted() {
        let window = window_of(&fixture("layouts/blkparse-split.txt"));
        let reads = operation(&window, "read");
        assert_eq!(reads.size.quantile(0.5).map(|size| (size / 65536.0).round()), Some(1.0));
        let share = reads.splits.get().unwrap() as f64 / reads.requests.get().unwrap() as f64;
        assert!((share - 15.0 / 16.0).abs() < 0.01, "{share}");
    }

    #[test]
    fn pieces_of_a_discard_whose_trace_was_cut() {
        let event = |n: u32, size: u32| {
            let time = f64::from(n).mul_add(4e-6, 3.74);
            format!("  7,0    1  {n:>7} {time:>15.9}   846  A   D {} + {size} <- (9,0) {}\n", n * 1024, n * 2048)
        };
        let part = |from: u32, size: u32| (from..from + 10).map(|n| event(n, size)).collect::<String>();
        let window = window_of(&format!("{}[...]\n{}\nlater:\n{}", part(1, 1024), part(500, 8), part(900, 1016)));
        let row = operation(&window, "discard");
        assert_eq!((row.requests.get(), row.splits.get()), (Some(30), Some(27)));
        assert_eq!(window.changes::<Disk>()[0].rate(|d| d.discards), None, "unknown, as parts were left out");
    }
}
