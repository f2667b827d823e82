//! Where to look, and how closely.

use crate::progress::Progress;
use crate::recordings::to_the_millisecond;
use std::time::Duration;
use whyslow_diagnose::{Lasting, RuleBook, Timeline, diagnose, is_quiet};
use whyslow_model::catalogue::{Family, Process, Thread};
use whyslow_model::diagnosis::Origin;
use whyslow_model::window::Window;
use whyslow_store::{Recording, Span, StoreError};

/// The length of the windows that are judged: as long as a live look.
const WINDOW: Duration = Duration::from_secs(10);
/// The length of those that tell when something began and ended: the shortest in which the rules see what they need.
const SHORT: Duration = Duration::from_secs(3);
/// How far from a window's edge a cause can begin or end, nanoseconds.
const EDGE_NS: i64 = 12 * 1_000_000_000;
/// One window in so many is judged in full even if the machine as a whole is quiet: who waits for a lock leaves no trace on
/// it.
const SPOT_CHECK: u64 = 6;

/// What lasted over a span. The machine as a whole is looked at throughout; its processes, which are most of a recording,
/// where it is not quiet, and now and then.
pub fn over(
    recording: &Recording,
    span: &Span,
    book: &RuleBook,
    progress: &Progress,
) -> Result<Vec<Lasting>, StoreError> {
    let mut timeline = Timeline::default();
    for part in worth_a_look(recording, span, book, progress)? {
        each(recording, &part, WINDOW, |window| {
            progress.say(&format!("explaining {} (Ctrl-C: end)", to_the_millisecond(times(window).0)));
            timeline.add(times(window), &diagnose(window, Origin::Recording, book));
        })?;
    }
    Ok(timeline.finish())
}

/// The parts of a span in which the machine as a whole is not quiet, and spot checks between them.
fn worth_a_look(
    recording: &Recording,
    span: &Span,
    book: &RuleBook,
    progress: &Progress,
) -> Result<Vec<Span>, StoreError> {
    let mut parts: Vec<Span> = Vec::new();
    let mut count = 0;
    let without_tasks = |family: &str| family != Process::INFO.name && family != Thread::INFO.name;
    recording.each_window(span, WINDOW, &without_tasks, |window| {
        let (from, to) = times(&window);
        progress.say(&format!("looking through {} (Ctrl-C: end)", to_the_millisecond(from)));
        count += 1;
        if count % SPOT_CHECK == 1 || !is_quiet(&window, book) {
            match parts.last_mut() {
                Some(last) if *last.end() >= from => *last = *last.start()..=to,
                _ => parts.push(from..=to),
            }
        }
        true
    })?;
    Ok(parts)
}

/// When a cause began and ended, to the length of a short window: the first and the last of those in which it is found.
pub fn refined(recording: &Recording, lasting: &Lasting, book: &RuleBook) -> Result<(i64, i64), StoreError> {
    let (start, end) = lasting.span;
    let found = |edge: i64| -> Result<Vec<(i64, i64)>, StoreError> {
        let mut found = Vec::new();
        each(recording, &(edge - EDGE_NS..=edge + EDGE_NS), SHORT, |window| {
            let diagnosis = diagnose(window, Origin::Recording, book);
            if diagnosis.findings.iter().any(|finding| finding.key() == lasting.key) {
                found.push(times(window));
            }
        })?;
        Ok(found)
    };
    let began = found(start)?.first().map_or(start, |first| first.0);
    let ended = found(end)?.last().map_or(end, |last| last.1);
    Ok(if began < ended { (began, ended) } else { (start, end) })
}

fn each(recording: &Recording, span: &Span, length: Duration, mut each: impl FnMut(&Window)) -> Result<(), StoreError> {
    recording.each_window(span, length, &|_: &str| true, |window| {
        each(&window);
        true
    })
}

/// From the first sample to the last, nanoseconds since 1970.
fn times(window: &Window) -> (i64, i64) {
    let first = window.snapshots().first().map_or(0, |sample| sample.wall_ns);
    (first, window.last().map_or(first, |sample| sample.wall_ns))
}
