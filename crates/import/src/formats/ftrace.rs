//! Events of the kernel's tracer as text: /sys/kernel/tracing/trace and trace_pipe, `trace-cmd report`, `perf script`
//! (include/trace/events/block.h, sched.h).

use super::blkparse::{Trace, TraceEvent};
use crate::prelude::*;
use std::collections::HashMap;
use whyslow_model::catalogue::Latency;
use whyslow_model::histogram::Histogram;

pub const FORMAT: Format = Format {
    name: "ftrace",
    versions: "events of the block layer and of the scheduler: trace, trace_pipe, trace-cmd report, perf script",
    shows: "size, time in the queue and in the device of every request, and which process made it; how long tasks wait for a CPU",
    lacks: "events that were not traced; functions (function_graph) and the latency tracers are not evaluated",
    programs: &[partly_read("trace-cmd")],
    streamed: true,
    starts: |lines| {
        lines.next_is(|line| line.starts_with(TRACER) || Event::parse(line).is_some_and(|event| event.is_known()))
    },
    read,
    ..Format::NEW
};

const TRACER: &str = "# tracer: ";
/// Maximum number of tasks that wait at a time.
const MOST_TASKS: usize = 100_000;
const NS: f64 = 1e9;
/// Tracepoints of requests, and blktrace's letters for them.
const ACTIONS: [(&str, u8); 10] = [
    ("block_bio_queue", b'Q'),
    ("block_getrq", b'G'),
    ("block_rq_insert", b'I'),
    ("block_rq_issue", b'D'),
    ("block_rq_complete", b'C'),
    ("block_rq_requeue", b'R'),
    ("block_bio_backmerge", b'M'),
    ("block_bio_frontmerge", b'F'),
    ("block_split", b'X'),
    ("block_bio_remap", b'A'),
];
const WAKE_UPS: [&str; 3] = ["sched_waking", "sched_wakeup", "sched_wakeup_new"];
const SWITCH: &str = "sched_switch";

/// An event: `  dd-812   [001] d..2. 13177.499454: sched_switch: prev_comm=…`; the flags are missing in some versions, and
/// perf prints `dd   812 [001] 13177.499454: sched:sched_switch: …`.
struct Event<'t> {
    pid: u32,
    time: f64,
    name: &'t str,
    rest: &'t str,
}

impl<'t> Event<'t> {
    fn parse(line: &'t str) -> Option<Self> {
        let (task, rest) = line.split_once(" [")?;
        let (cpu, rest) = rest.split_once("] ")?;
        (!cpu.is_empty() && cpu.len() <= 4 && cpu.bytes().all(|b| b.is_ascii_digit())).then_some(())?;
        let (before, rest) = rest.split_once(": ")?;
        let time = before.split_whitespace().last().filter(|time| time.contains('.')).and_then(number)?;
        let (name, rest) = rest.trim_start().split_once(": ")?;
        // perf prints the TID after the PID.
        let pid = task.trim_end().rsplit([' ', '-', '/']).next()?.parse().ok()?;
        Some(Self { pid, time, name: name.rsplit(':').next()?, rest: rest.trim_start() })
    }

    fn is_known(&self) -> bool {
        self.action().is_some() || self.name == SWITCH || WAKE_UPS.contains(&self.name)
    }

    fn action(&self) -> Option<u8> {
        ACTIONS.iter().find(|(name, _)| *name == self.name).map(|(_, action)| *action)
    }

    /// Parses `254,0 WS 4096 () 23278840 + 8 be,0,5 [dd]`, `254,0 R 264192 + 1024 [dd]`.
    fn request(&self) -> Option<TraceEvent<'t>> {
        let action = self.action()?;
        let words: Vec<&str> = self.rest.split_whitespace().collect();
        let (major, minor) = words.first()?.split_once(',')?;
        let letters = words.get(1)?;
        let sector = words.iter().position(|word| *word == "+" || *word == "/").and_then(|at| at.checked_sub(1))?;
        let rest = words.get(sector..)?.to_vec();
        // A flush has no sector. The last field of a completion is its error.
        let is_flush = letters.starts_with('F') && rest.get(2) == Some(&"0");
        let rest = match action {
            _ if is_flush => Vec::new(),
            b'C' => rest.into_iter().take(3).collect(),
            _ => rest,
        };
        let device = (major.parse().ok()?, minor.parse().ok()?);
        Some(TraceEvent { device, time: self.time, pid: self.pid, action, letters, rest })
    }
}

/// Tasks that wait for a CPU, and the waiting times of the tasks that got one.
#[derive(Default)]
struct RunQueue {
    since: HashMap<u32, f64>,
    waits: Histogram,
}

impl RunQueue {
    fn add(&mut self, event: &Event<'_>) {
        if WAKE_UPS.contains(&event.name) {
            // `comm=dd pid=812 prio=120 target_cpu=000`, `dd:812 [120] success=1 CPU:000`
            let pid = value(event.rest, "pid=").or_else(|| Some(task(event.rest)?.0));
            if let Some(pid) = pid.filter(|_| self.since.len() < MOST_TASKS) {
                self.since.entry(pid).or_insert(event.time);
            }
        } else if event.name == SWITCH {
            let Some((previous, next)) = event.rest.split_once(" ==> ") else { return };
            let next = value(next, "next_pid=").or_else(|| Some(task(next)?.0));
            if let Some(since) = next.and_then(|next| self.since.remove(&next)).filter(|since| *since <= event.time) {
                self.waits.add(((event.time - since) * NS) as u64);
            }
            let stopped = value(previous, "prev_pid=").or_else(|| Some(task(previous)?.0));
            let state = previous
                .split_once("prev_state=")
                .map_or_else(|| task(previous).map(|(_, state)| state), |(_, s)| Some(s));
            // The idle task does not wait.
            if let Some(pid) = stopped.filter(|pid| *pid > 0 && self.since.len() < MOST_TASKS) {
                match state {
                    Some(state) if state.starts_with('R') => drop(self.since.insert(pid, event.time)),
                    _ => drop(self.since.remove(&pid)),
                }
            }
        }
    }
}

/// Returns the number after a name: `prev_pid=812`.
fn value(text: &str, name: &str) -> Option<u32> {
    let (_, rest) = text.split_once(name)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Returns the PID and the state of `dd:812 [120] R`.
fn task(text: &str) -> Option<(u32, &str)> {
    let (before, after) = text.split_once(" [")?;
    let pid = before.rsplit(':').next()?.parse().ok()?;
    Some((pid, after.split_once("] ").map_or("", |(_, state)| state)))
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let begin = lines.number();
    let mut queue = RunQueue::default();
    let mut is_evaluated = false;
    let is_own = |text: &str| is_header(text) || Event::parse(text).is_some() || is_remark(text);
    let mut trace = Trace::new(begin, run);
    while let Some(line) = lines.take_past_blanks_if(is_own) {
        if let Some(event) = Event::parse(&line.text) {
            is_evaluated |= event.is_known();
            match event.request() {
                Some(request) => trace.add(&request),
                None => queue.add(&event),
            }
        }
        lines.reuse(line);
    }
    trace.record();
    if queue.waits.count().is_some_and(|count| count > 0) {
        let row = run.row::<Latency>(0.0, begin, "run queue".into());
        row.kind = "run queue".into();
        row.time = queue.waits;
    }
    if !is_evaluated {
        run.note(
            "the kernel's trace",
            "only events of the block layer and of the scheduler are evaluated",
            "trace-cmd record -e block -e sched_switch -e sched_waking",
        );
    }
    Ok(())
}

/// Returns true for `# tracer: nop`, `# entries-in-buffer/entries-written: 812/812   #P:2`, and the indented names of the
/// columns.
fn is_header(line: &str) -> bool {
    line == "#" || line.starts_with("#  ") || line.starts_with(TRACER) || line.starts_with("# entries-in-buffer")
}

/// Returns true for `CPU:1 [LOST 812 EVENTS]`, `cpus=2`.
fn is_remark(line: &str) -> bool {
    line.starts_with("CPU:") && line.contains("LOST") || line.starts_with("cpus=")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};
    use whyslow_model::catalogue::{Disk, Request, Requester};

    #[test]
    fn requests_are_followed_from_their_issue_to_their_completion() {
        let text = fixture("ftrace.txt");
        let window = window_of(&text);
        let completed = text.lines().filter(|line| line.contains(" block_rq_complete: 254,0 WS ")).count() as u64;
        let rows = window.newest::<Request>();
        let writes = rows.values().find(|row| *row.operation.operation == *"write").unwrap();
        assert!(writes.requests.get().unwrap() >= completed, "{writes:?}");
        // One was issued at 15284.297868 and completed at 15284.297900: after 32 µs.
        let shortest = writes.device_time.quantile(0.0).unwrap();
        assert!((10e3..33e3).contains(&shortest), "{shortest}");
        assert!(window.newest::<Requester>().values().any(|row| row.command.get() == Some("python3")));
        assert!(!window.newest::<Disk>().is_empty());
        let notes = &window.snapshots()[0].sources;
        assert!(notes.iter().all(|source| !source.tells.contains("trace")), "{notes:?}");
    }

    #[test]
    fn waits_for_a_cpu() {
        let line = |time: &str, event: &str| format!("          <idle>-0       [000] d..2. {time}: {event}\n");
        let switch = |from: &str, state: &str, to: &str| {
            format!(
                "sched_switch: prev_comm={from} prev_pid={from} prev_prio=120 prev_state={state} ==> next_comm={to} next_pid={to} next_prio=120"
            )
        };
        let text = line("10.000000", "sched_waking: comm=a pid=7 prio=120 target_cpu=000")
            // Woken once, but traced twice.
            + &line("10.000100", "sched_wakeup: comm=a pid=7 prio=120 target_cpu=000")
            + &line("10.002000", &switch("0", "R", "7"))
            // Preempted by 8, and running again after 3 ms.
            + &line("10.004000", &switch("7", "R+", "8"))
            + &line("10.007000", &switch("8", "S", "7"));
        let window = window_of(&text);
        let waits = window.the::<Latency>().unwrap().time.clone();
        assert_eq!(waits.count(), Some(2));
        let close = |a: Option<f64>, b: f64| assert!((a.unwrap() - b).abs() < 0.02 * b, "{a:?} {b}");
        close(waits.quantile(0.5), 2e6);
        close(waits.quantile(1.0), 3e6);
    }

    #[test]
    fn events_of_every_printer() {
        for (line, pid, name) in [
            ("         my dd-812   [001] d..2. 13177.499454: sched_switch: x", 812, "sched_switch"),
            ("   dd-812   [001]   124.482134: block_rq_issue: 8,0 W", 812, "block_rq_issue"),
            ("my dd   812 [001] 13177.499454: sched:sched_switch: x", 812, "sched_switch"),
            ("dd   812/813 [001] 13177.499454: sched:sched_switch: x", 813, "sched_switch"),
        ] {
            let event = Event::parse(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((event.pid, event.name), (pid, name), "{line}");
        }
        assert!(Event::parse("[   12.3] usb 1-1: new: device").is_none());
        assert_eq!(task("dd:812 [120] R"), Some((812, "R")));
    }
}
