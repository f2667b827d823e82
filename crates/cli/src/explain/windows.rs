//! Findings in each window of a recording, by the recorder or computed now.

use crate::output::ProgressLine;
use crate::recordings::for_people;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use whyslow_diagnose::{EpisodeBuilder, FeltCause, FoundEpisode, RuleBook};
use whyslow_model::catalogue::{Family, Judgement, RecordedFinding};
use whyslow_model::value::Counter;
use whyslow_model::window::Window;
use whyslow_store::{Recording, StoreError, TimeRange};

const SECOND_NS: i64 = 1_000_000_000;
/// Length of a window, the same as for a live diagnosis.
const WINDOW: Duration = Duration::from_secs(10);
/// Minimum length for the rules, in nanoseconds; a shorter time next to judged windows is skipped.
const SHORTEST_NS: i64 = 4 * SECOND_NS;
/// Maximum distance of segments that are judged together, in nanoseconds.
const APART_NS: i64 = 60 * SECOND_NS;
/// Maximum time between a window and the sample with the recorder's findings for it, in nanoseconds.
const LATEST_NS: i64 = 60 * SECOND_NS;
/// Maximum length of a part that one thread judges at once, in nanoseconds.
const PIECE_NS: i64 = 600 * SECOND_NS;
/// Maximum number of threads; the machine has its own work to do.
const MOST_THREADS: usize = 4;

/// First and last time of a window, and the causes noticeable in it.
type JudgedWindow = ((i64, i64), Vec<FeltCause>);

/// Returns the episodes of a span. Does not judge again what the recorder has judged by the same rules.
pub fn episodes(
    recording: &Recording,
    span: &TimeRange,
    book: &RuleBook,
    progress: &ProgressLine,
) -> Result<Vec<FoundEpisode>, StoreError> {
    let mut windows = judged_by_recorder(recording, span, &book.fingerprint())?;
    for batch in unjudged(recording, span, &windows).chunks(threads()) {
        for judged in in_parallel(batch, |part| judge(recording, part, book)) {
            windows.extend(judged?);
        }
        if let Some(part) = batch.last() {
            progress.say(&format!("explaining {} (Ctrl-C: end)", for_people(*part.end())));
        }
    }
    windows.sort_by_key(|(times, _)| *times);
    let mut timeline = EpisodeBuilder::default();
    windows.iter().for_each(|(times, felt)| timeline.add(*times, felt));
    Ok(timeline.finish())
}

/// Returns the windows within the span that the recorder has judged by these rules, in order.
fn judged_by_recorder(recording: &Recording, span: &TimeRange, rules: &str) -> Result<Vec<JudgedWindow>, StoreError> {
    let mut windows: Vec<JudgedWindow> = Vec::new();
    let wanted = |family: &str| [Judgement::INFO.name, RecordedFinding::INFO.name].contains(&family);
    let and_later = *span.start()..=span.end().saturating_add(LATEST_NS);
    recording.each_sample(&and_later, &wanted, |sample| {
        let judgement = sample.the::<Judgement>().filter(|judgement| judgement.rules.get() == Some(rules));
        let time = |counter: Counter| counter.get().and_then(|ns| i64::try_from(ns).ok());
        if let Some(times) = judgement.and_then(|judgement| time(judgement.start).zip(time(judgement.end)))
            && times.0 >= *span.start()
            && times.1 <= *span.end()
        {
            windows.push((times, sample.kernel.finding.iter().map(FeltCause::from_row).collect()));
        }
        true
    })?;
    windows.sort_by_key(|(times, _)| *times);
    Ok(windows)
}

/// Returns the parts of a span between the windows, in pieces.
fn unjudged(recording: &Recording, span: &TimeRange, windows: &[JudgedWindow]) -> Vec<TimeRange> {
    let mut recorded: Vec<TimeRange> =
        recording.segments().iter().filter_map(|segment| common(&segment.span, span)).collect();
    recorded.sort_by_key(|part| *part.start());
    let times: Vec<TimeRange> = windows.iter().map(|((start, end), _)| *start..=*end).collect();
    pieces(recorded, &times)
}

/// Returns the recorded parts, in chronological order, that no window covers. Skips time without a recording, which can
/// be decades if the clock was set: no piece begins or ends in it.
fn pieces(recorded: Vec<TimeRange>, windows: &[TimeRange]) -> Vec<TimeRange> {
    let mut pieces: Vec<TimeRange> = Vec::new();
    for part in recorded {
        // Segments of one recording, or before and after a restart, are judged together.
        match pieces.last_mut() {
            Some(last) if part.start().saturating_sub(*last.end()) <= APART_NS => {
                *last = *last.start()..=(*last.end()).max(*part.end());
            }
            _ => pieces.push(part),
        }
    }
    let shortest = if windows.is_empty() { 0 } else { SHORTEST_NS };
    pieces.iter().flat_map(|part| gaps(part, windows)).filter(|gap| length(gap) >= shortest).flat_map(cut).collect()
}

/// Returns the gaps between windows, in chronological order, within a span.
fn gaps(span: &TimeRange, windows: &[TimeRange]) -> Vec<TimeRange> {
    let mut gaps = Vec::new();
    let mut from = *span.start();
    for window in windows.iter().filter(|window| common(window, span).is_some()) {
        if from < *window.start() {
            gaps.push(from..=*window.start());
        }
        from = from.max(*window.end());
    }
    if from < *span.end() {
        gaps.push(from..=*span.end());
    }
    gaps
}

fn cut(span: TimeRange) -> impl Iterator<Item = TimeRange> {
    let end = *span.end();
    let starts = std::iter::successors(Some(*span.start()), |from| from.checked_add(PIECE_NS));
    starts.take_while(move |from| *from < end).map(move |from| from..=end.min(from.saturating_add(PIECE_NS)))
}

fn length(span: &TimeRange) -> i64 {
    span.end().saturating_sub(*span.start())
}

/// Returns the intersection of two spans.
fn common(a: &TimeRange, b: &TimeRange) -> Option<TimeRange> {
    let common = (*a.start()).max(*b.start())..=(*a.end()).min(*b.end());
    (!common.is_empty()).then_some(common)
}

fn judge(recording: &Recording, part: &TimeRange, book: &RuleBook) -> Result<Vec<JudgedWindow>, StoreError> {
    let mut judged = Vec::new();
    recording.each_window(part, WINDOW, &|_: &str| true, |window| {
        judged.push((times(&window), FeltCause::all_of(&window, book)));
        true
    })?;
    Ok(judged)
}

/// Returns everything recorded in a span as one window.
pub fn window(recording: &Recording, span: &TimeRange) -> Result<Window, StoreError> {
    let mut all = Window::default();
    recording.each_window(span, Duration::MAX, &|_: &str| true, |window| {
        all = window;
        true
    })?;
    Ok(all)
}

/// Processes the items in a few threads; the results are in the order of the items.
pub fn in_parallel<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let at = next.fetch_add(1, Ordering::Relaxed);
        all.get(at).map(|one| (at, work(one)))
    };
    let run = || std::iter::from_fn(take).collect::<Vec<_>>();
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let start = |_| std::thread::Builder::new().name("parallel".into()).spawn_scoped(scope, run).ok();
        // This thread works as well, and alone if no other can be started.
        let running: Vec<_> = (1..threads().min(all.len())).map_while(start).collect();
        let mut results = run();
        for one in running {
            // A panic is a bug: propagate it.
            results.extend(one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        results
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get().min(MOST_THREADS))
}

/// Returns the times of the first and last samples, in nanoseconds since 1970.
fn times(window: &Window) -> (i64, i64) {
    let first = window.snapshots().first().map_or(0, |sample| sample.wall_ns);
    (first, window.last().map_or(first, |sample| sample.wall_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(spans: &[(i64, i64)]) -> Vec<TimeRange> {
        spans.iter().map(|(from, to)| from * SECOND_NS..=to * SECOND_NS).collect()
    }

    #[test]
    fn what_is_judged_follows_what_was_recorded_and_not_the_time_between() {
        const DECADES: i64 = 50 * 365 * 86_400;
        let recorded = seconds(&[(0, 4), (DECADES, DECADES + 1500), (DECADES + 1501, DECADES + 1510)]);
        let expected =
            [(0, 4), (DECADES, DECADES + 600), (DECADES + 600, DECADES + 1200), (DECADES + 1200, DECADES + 1510)];
        assert_eq!(pieces(recorded, &[]), seconds(&expected));
    }

    #[test]
    fn restarts_one_after_the_other_are_judged_in_one_go() {
        let restarts: Vec<(i64, i64)> = (0..100).map(|number| (number * 3, number * 3 + 1)).collect();
        assert_eq!(pieces(seconds(&restarts), &[]), seconds(&[(0, 298)]));
    }

    #[test]
    fn what_the_recorder_judged_is_not_judged_again() {
        let windows = seconds(&[(2, 12), (12, 22), (40, 50), (50, 60)]);
        // Two seconds at the start are too short for the rules.
        assert_eq!(pieces(seconds(&[(0, 70)]), &windows), seconds(&[(22, 40), (60, 70)]));
        assert_eq!(pieces(seconds(&[(100, 120)]), &windows), seconds(&[(100, 120)]));
        // After the clock was set back, windows overlap.
        let set_back = seconds(&[(0, 30), (10, 20)]);
        assert_eq!(pieces(seconds(&[(0, 40)]), &set_back), seconds(&[(30, 40)]));
    }
}
