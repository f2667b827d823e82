//! Counts requests that a tool traced one by one, by device and operation, as the kernel counts them.

use crate::clock::{ReportInterval, SECOND};
use crate::number::SECTOR;
use crate::tool_run::ToolRun;
use std::collections::{BTreeMap, VecDeque};
use whyslow_model::catalogue::{Disk, Request, Requester};
use whyslow_model::histogram::Histogram;
use whyslow_model::key::{OperationKey, RequesterKey, TaskKey};
use whyslow_model::value::{Counter, Name};

/// Maximum number of requests to hold for a trace.
const MOST_REQUESTS: usize = 200_000;
/// Maximum number of requesters to distinguish.
const MOST_REQUESTERS: usize = 1000;
/// Minimum length of a trace in seconds, and minimum number of requests, for meaningful rates.
const SHORTEST: f64 = 0.01;
const FEWEST: usize = 5;
/// Number of recent request ends to remember, to detect a request that follows another.
const STREAMS: usize = 16;
/// Threads that issue requests for others.
const KERNEL_THREADS: [&str; 9] =
    ["kworker", "jbd2/", "kswapd", "xfsaild", "dmcrypt", "loop", "btrfs-", "flush-", "swapper"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Read,
    Write,
    Flush,
    Discard,
}

impl Operation {
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
        }
    }

    /// Parses the operation from the letters that the kernel prints (blk_fill_rwbs of kernel/trace/blktrace.c).
    pub fn of_letters(letters: &str) -> Option<Self> {
        if letters.is_empty() || !letters.bytes().all(|b| b"RWDFNASMBEZPU".contains(&b)) {
            None
        } else if letters.contains('D') {
            Some(Self::Discard)
        } else if letters.contains('W') {
            Some(Self::Write)
        } else if letters.contains('R') {
            Some(Self::Read)
        } else {
            letters.starts_with('F').then_some(Self::Flush)
        }
    }
}

/// A request, with times in seconds since the trace began.
#[derive(Clone, Debug)]
pub struct TracedRequest {
    pub operation: Operation,
    pub sector: u64,
    pub bytes: u64,
    /// Time when the request was made, if traced.
    pub made: Option<f64>,
    /// Time when the request was issued to the device.
    pub issued: f64,
    pub completed: f64,
    pub read_ahead: bool,
    pub forced: bool,
    /// PID and name of the process that made the request.
    pub by: Option<(u32, String)>,
}

impl TracedRequest {
    fn began(&self) -> f64 {
        self.made.unwrap_or(self.issued)
    }
}

#[derive(Default)]
struct DeviceTrace {
    requests: Vec<TracedRequest>,
    merged: BTreeMap<Operation, u64>,
    splits: BTreeMap<Operation, u64>,
}

/// All requests of a trace.
#[derive(Default)]
pub struct RequestTrace {
    devices: BTreeMap<Name, DeviceTrace>,
    count: usize,
}

impl RequestTrace {
    pub fn is_full(&self) -> bool {
        self.count >= MOST_REQUESTS
    }

    /// Returns true if no request was traced from issue to completion.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn device(&mut self, name: &Name) -> &mut DeviceTrace {
        self.devices.entry(name.clone()).or_default()
    }

    pub fn completed(&mut self, device: &Name, request: TracedRequest) {
        if !self.is_full() {
            self.count += 1;
            self.device(device).requests.push(request);
        }
    }

    /// Counts a request that was merged into another.
    pub fn merged(&mut self, device: &Name, operation: Operation) {
        *self.device(device).merged.entry(operation).or_default() += 1;
    }

    /// Counts a request that was split off a larger one.
    pub fn split(&mut self, device: &Name, operation: Operation) {
        *self.device(device).splits.entry(operation).or_default() += 1;
    }

    /// Records the counts from `begin` to `end`.
    pub fn record(self, run: &mut ToolRun, line: u32, begin: f64, end: f64) {
        let seconds = end - begin;
        if seconds < SHORTEST || self.count < FEWEST {
            run.note(
                "rates from the trace",
                "it covers too little: less than 10 ms, or hardly any requests from their issue to their completion",
                "trace for some seconds, and give all events",
            );
            return;
        }
        let mut requesters: BTreeMap<RequesterKey, Requester> = BTreeMap::new();
        for (name, device) in &self.devices {
            device.record(run, line, name, begin, end);
            device.add_requesters(name, &mut requesters);
        }
        for (key, requester) in requesters.into_iter().take(MOST_REQUESTERS) {
            let zero = Requester {
                command: requester.command.clone(),
                requests: 0.into(),
                bytes: 0.into(),
                queue_time: 0.into(),
                device_time: 0.into(),
                ..Requester::new(key)
            };
            run.put(0.0, line, zero);
            run.put(seconds, line, requester);
        }
    }
}

impl DeviceTrace {
    fn requests(&self, operation: Operation) -> impl Iterator<Item = &TracedRequest> {
        self.requests.iter().filter(move |request| request.operation == operation)
    }

    fn record(&self, run: &mut ToolRun, line: u32, name: &Name, begin: f64, end: f64) {
        use Operation::{Discard, Flush, Read, Write};
        let seconds = end - begin;
        let per_second = |total: f64| Some(total / seconds);
        let count = |operation| per_second(self.requests(operation).count() as f64);
        let bytes = |operation| per_second(self.requests(operation).map(|r| r.bytes as f64).sum());
        let time =
            |operation| per_second(self.requests(operation).map(|r| r.completed - r.began()).sum::<f64>() * SECOND);
        let merged = |operation| per_second(self.merged.get(&operation).copied().unwrap_or(0) as f64);
        let (busy, in_flight) = self.in_flight(begin, end);
        let rates = [
            ("reads", count(Read)),
            ("reads_merged", merged(Read)),
            ("read_bytes", bytes(Read)),
            ("read_time", time(Read)),
            ("writes", count(Write)),
            ("writes_merged", merged(Write)),
            ("write_bytes", bytes(Write)),
            ("write_time", time(Write)),
            ("discards", count(Discard)),
            ("discard_bytes", bytes(Discard)),
            ("discard_time", time(Discard)),
            ("flushes", count(Flush)),
            ("flush_time", time(Flush)),
            ("busy_time", per_second(busy * SECOND)),
            ("weighted_time", per_second(in_flight * SECOND)),
        ];
        run.grow::<Disk>(ReportInterval { from: 0.0, to: seconds }, line, name.clone(), &rates);
        let depths = self.depths();
        for operation in [Read, Write, Flush, Discard] {
            if self.requests(operation).next().is_none() {
                continue;
            }
            let key = || OperationKey { device: name.clone(), operation: operation.name().into() };
            run.put(0.0, line, request_row(key(), &[], 0, 0));
            let own: Vec<(&TracedRequest, usize)> =
                self.requests.iter().zip(depths.iter().copied()).filter(|(r, _)| r.operation == operation).collect();
            let splits = self.splits.get(&operation).copied().unwrap_or(0);
            run.put(seconds, line, request_row(key(), &own, splits, self.sequential(operation)));
        }
    }

    /// Returns the time with requests in flight, and the total time of all requests. Leaves out flushes, as the kernel does.
    fn in_flight(&self, begin: f64, end: f64) -> (f64, f64) {
        let spans = self.requests.iter().filter(|r| r.operation != Operation::Flush);
        let mut spans: Vec<(f64, f64)> =
            spans.map(|r| (r.began().max(begin), r.completed.min(end))).filter(|(from, to)| to > from).collect();
        spans.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut busy, mut until) = (0.0, begin);
        for (from, to) in &spans {
            busy += (to - from.max(until)).max(0.0);
            until = until.max(*to);
        }
        (busy, spans.iter().map(|(from, to)| to - from).sum())
    }

    /// Returns the number of requests on the device when each was issued, including that one.
    fn depths(&self) -> Vec<usize> {
        let mut events: Vec<(f64, bool, usize)> = Vec::with_capacity(2 * self.requests.len());
        for (at, request) in self.requests.iter().enumerate() {
            events.push((request.issued, true, at));
            events.push((request.completed, false, at));
        }
        // Completions precede issues at the same time.
        events.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut depths = vec![0; self.requests.len()];
        let mut in_flight = 0_usize;
        for (_, is_issue, at) in events {
            if is_issue {
                in_flight += 1;
                depths[at] = in_flight;
            } else {
                in_flight = in_flight.saturating_sub(1);
            }
        }
        depths
    }

    /// Counts the requests that begin where a recent one ended.
    fn sequential(&self, operation: Operation) -> u64 {
        let mut own: Vec<&TracedRequest> = self.requests(operation).collect();
        own.sort_by(|a, b| a.issued.total_cmp(&b.issued));
        let mut ends: VecDeque<u64> = VecDeque::new();
        let mut count = 0;
        for request in own {
            count += u64::from(ends.contains(&request.sector));
            ends.push_back(request.sector.saturating_add(request.bytes / SECTOR as u64));
            if ends.len() > STREAMS {
                ends.pop_front();
            }
        }
        count
    }

    fn add_requesters(&self, name: &Name, all: &mut BTreeMap<RequesterKey, Requester>) {
        for request in &self.requests {
            let Some((pid, command)) = &request.by else { continue };
            if command.is_empty() || KERNEL_THREADS.iter().any(|thread| command.starts_with(thread)) {
                continue;
            }
            let key = RequesterKey {
                on: OperationKey { device: name.clone(), operation: request.operation.name().into() },
                task: TaskKey { pid: *pid, tid: *pid, start: 0 },
                cgroup: "".into(),
            };
            let row = all.entry(key.clone()).or_insert_with(|| Requester::new(key));
            row.command = command.as_str().into();
            let add = |to: Counter, more: u64| Counter::from(to.get().unwrap_or(0).saturating_add(more));
            row.requests = add(row.requests, 1);
            row.bytes = add(row.bytes, request.bytes);
            row.queue_time = add(row.queue_time, nanoseconds(request.began(), request.issued));
            row.device_time = add(row.device_time, nanoseconds(request.issued, request.completed));
        }
    }
}

fn nanoseconds(from: f64, to: f64) -> u64 {
    ((to - from).max(0.0) * SECOND).round() as u64
}

/// Builds the row of an operation from its requests, each with the number in flight when it was issued.
fn request_row(key: OperationKey, requests: &[(&TracedRequest, usize)], splits: u64, sequential: u64) -> Request {
    let sum = |of: &dyn Fn(&TracedRequest, u64) -> u64| {
        let all = requests.iter().map(|(request, depth)| of(request, *depth as u64));
        Counter::from(all.fold(0_u64, u64::saturating_add))
    };
    let device_time = |r: &TracedRequest| nanoseconds(r.issued, r.completed);
    let made = || requests.iter().filter_map(|(r, _)| Some(nanoseconds(r.made?, r.issued)));
    // If the making of requests was not traced, the time in the queue is unknown.
    let queued = requests.is_empty() || made().next().is_some();
    Request {
        requests: (requests.len() as u64).into(),
        bytes: sum(&|r, _| r.bytes),
        queue_time: if queued { Histogram::from_values(made()) } else { Histogram::default() },
        device_time: Histogram::from_values(requests.iter().map(|(r, _)| device_time(r))),
        size: Histogram::from_values(requests.iter().map(|(r, _)| r.bytes)),
        sequential: sequential.into(),
        read_ahead: sum(&|r, _| u64::from(r.read_ahead)),
        forced: sum(&|r, _| u64::from(r.forced)),
        splits: splits.into(),
        depth_requests: (requests.len() as u64).into(),
        depth: sum(&|_, depth| depth),
        depth_squared: sum(&|_, depth| depth * depth),
        depth_device_time: sum(&|r, _| device_time(r)),
        depth_x_device_time: sum(&|r, depth| depth * (device_time(r) / 1000)),
        ..Request::new(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(sector: u64, made: f64, completed: f64) -> TracedRequest {
        TracedRequest {
            operation: Operation::Read,
            sector,
            bytes: 4096,
            made: Some(made),
            issued: made + 0.001,
            completed,
            read_ahead: false,
            forced: false,
            by: None,
        }
    }

    #[test]
    fn what_was_in_flight_follows_from_the_requests() {
        let device = DeviceTrace {
            requests: vec![request(0, 0.0, 0.010), request(8, 0.005, 0.020), request(100, 0.030, 0.040)],
            ..DeviceTrace::default()
        };
        let (busy, sum) = device.in_flight(0.0, 1.0);
        assert!((busy - 0.030).abs() < 1e-9 && (sum - 0.035).abs() < 1e-9, "{busy} {sum}");
        assert_eq!(device.depths(), [1, 2, 1]);
        assert_eq!(device.sequential(Operation::Read), 1);
    }

    #[test]
    fn operations_by_the_letters_of_the_kernel() {
        let of = |letters| Operation::of_letters(letters);
        assert_eq!([of("R"), of("RA"), of("RSM")], [Some(Operation::Read); 3]);
        assert_eq!([of("WFS"), of("FWFSM"), of("W")], [Some(Operation::Write); 3]);
        assert_eq!(
            (of("FN"), of("DS"), of("N"), of("Quit")),
            (Some(Operation::Flush), Some(Operation::Discard), None, None)
        );
    }
}
