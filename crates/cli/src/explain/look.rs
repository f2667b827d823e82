//! Which parts of a recording to judge, and the judging.

use crate::progress::Progress;
use crate::recordings::for_people;
use std::time::Duration;
use whyslow_diagnose::{FoundEpisode, Prefilter, RuleBook, TRIGGERS, Timeline, diagnose, nothing_is_felt};
use whyslow_model::catalogue::{Family, Process, Sample, Thread};
use whyslow_model::diagnosis::Origin;
use whyslow_model::window::Window;
use whyslow_store::{FamilyColumns, Recording, SegmentRef, Span, StoreError};

/// As long as the window of a live diagnosis.
const WINDOW: Duration = Duration::from_secs(10);
/// How much is judged before and after what the prefilter selects, nanoseconds.
const AROUND_NS: i64 = 5 * 1_000_000_000;
/// The longest part that one thread judges at once, nanoseconds.
const PIECE_NS: i64 = 120 * 1_000_000_000;
const HOUR_NS: i64 = 3600 * 1_000_000_000;
/// The machine has its own work to do.
const MOST_THREADS: usize = 4;

/// The episodes of a span. Only the parts that the prefilter selects are judged.
pub fn over(
    recording: &Recording,
    span: &Span,
    book: &RuleBook,
    progress: &Progress,
) -> Result<Vec<FoundEpisode>, StoreError> {
    let mut timeline = Timeline::default();
    let parts = worth_a_look(recording, span, book, progress)?;
    // One batch at a time, to limit the diagnoses in memory.
    for batch in parts.chunks(threads()) {
        let judged = in_parallel(batch, |part| {
            let mut judged = Vec::new();
            each(recording, part, WINDOW, |window| {
                judged.push((times(window), diagnose(window, Origin::Recording, book)));
            })?;
            Ok(judged)
        });
        for part in judged {
            for (times, diagnosis) in part? {
                progress.say(&format!("explaining {} (Ctrl-C: end)", for_people(times.0)));
                timeline.add(times, &diagnosis);
            }
        }
    }
    Ok(timeline.finish())
}

/// The parts of a span to be judged, in order.
fn worth_a_look(
    recording: &Recording,
    span: &Span,
    book: &RuleBook,
    progress: &Progress,
) -> Result<Vec<Span>, StoreError> {
    let mut parts: Vec<Span> = Vec::new();
    for batch in recording.segments().chunks(threads()) {
        for found in in_parallel(batch, |segment| suspicious_parts(recording, segment, span, book)) {
            for part in found? {
                progress.say(&format!("looking through {} (Ctrl-C: end)", for_people(*part.start())));
                match parts.last_mut() {
                    Some(last) if *last.end() >= *part.start() => *last = *last.start()..=*part.end(),
                    _ => parts.push(part),
                }
            }
        }
    }
    Ok(parts.iter().flat_map(cut).collect())
}

/// The parts of a segment that the prefilter selects. If the machine as a whole is not well at the start of an hour, the whole
/// segment: a rule may fire on what no trigger covers.
fn suspicious_parts(
    recording: &Recording,
    segment: &SegmentRef,
    span: &Span,
    book: &RuleBook,
) -> Result<Vec<Span>, StoreError> {
    let part = (*segment.span.start()).max(*span.start())..=(*segment.span.end()).min(*span.end());
    if part.is_empty() {
        return Ok(Vec::new());
    }
    if begins_an_hour(recording, segment) && !begins_well(recording, &part, book)? {
        return Ok(vec![part]);
    }
    let mut prefilter = Prefilter::new(interval(recording, segment)?);
    let columns: Vec<FamilyColumns<'_>> = TRIGGERS.iter().map(|trigger| (trigger.family, trigger.columns)).collect();
    recording.scan(segment, &part, &columns, &mut |number, series| prefilter.check(number, series))?;
    let around =
        |found: Span| (*found.start() - AROUND_NS).max(*part.start())..=(*found.end() + AROUND_NS).min(*part.end());
    Ok(prefilter.finish().into_iter().map(around).filter(|found| !found.is_empty()).collect())
}

/// Whether this is the first segment of an hour.
fn begins_an_hour(recording: &Recording, segment: &SegmentRef) -> bool {
    let hour = |segment: &SegmentRef| segment.span.start().div_euclid(HOUR_NS);
    let earlier = |other: &&SegmentRef| hour(other) == hour(segment) && other.span.start() < segment.span.start();
    !recording.segments().iter().any(|other| earlier(&other))
}

/// Whether the machine as a whole is well in the first window of a span.
fn begins_well(recording: &Recording, span: &Span, book: &RuleBook) -> Result<bool, StoreError> {
    let mut is_well = true;
    recording.each_window(span, WINDOW, &without_tasks, |window| {
        is_well = nothing_is_felt(&window, book);
        false
    })?;
    Ok(is_well)
}

/// Seconds between the first two samples of a segment.
fn interval(recording: &Recording, segment: &SegmentRef) -> Result<f64, StoreError> {
    let mut first = None;
    let mut interval = 1.0;
    recording.each_row(&segment.span, Sample::INFO.name, |row| match first.replace(row.at) {
        None => true,
        Some(before) => {
            interval = (row.at - before) as f64 / 1e9;
            false
        }
    })?;
    Ok(interval)
}

fn without_tasks(family: &str) -> bool {
    family != Process::INFO.name && family != Thread::INFO.name
}

/// Splits a long part into consecutive pieces.
fn cut(part: &Span) -> Vec<Span> {
    let (start, end) = (*part.start(), *part.end());
    let starts = std::iter::successors(Some(start), |from| from.checked_add(PIECE_NS)).take_while(|from| *from < end);
    starts.map(|from| from..=end.min(from.saturating_add(PIECE_NS))).collect()
}

/// Processes all items in parallel, and returns the results in order.
pub fn in_parallel<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let running: Vec<_> = all.iter().map(|one| scope.spawn(|| work(one))).collect();
        // A panic is a bug: propagate it.
        running.into_iter().map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get().min(MOST_THREADS))
}

fn each(recording: &Recording, span: &Span, length: Duration, mut each: impl FnMut(&Window)) -> Result<(), StoreError> {
    recording.each_window(span, length, &|_: &str| true, |window| {
        each(&window);
        true
    })
}

/// The times of the first and last samples, nanoseconds since 1970.
pub fn times(window: &Window) -> (i64, i64) {
    let first = window.snapshots().first().map_or(0, |sample| sample.wall_ns);
    (first, window.last().map_or(first, |sample| sample.wall_ns))
}
