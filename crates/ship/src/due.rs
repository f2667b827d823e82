//! Selects the hours to deliver, and their order.

use crate::state::{Delivered, State};
use std::collections::BTreeMap;
use whyslow_rollup::Hour;

/// The times of the first and last samples, nanoseconds since 1970.
pub(crate) type Span = (i64, i64);

/// Hours of a recording, with the parts of its segments in each.
pub(crate) type RecordedHours = BTreeMap<Hour, Vec<Span>>;

/// Time after its end in which an hour may still get rows, nanoseconds: judgements and changes arrive later than their subject.
pub(crate) const SETTLED_NS: i64 = 11 * 60 * 1_000_000_000;

const MS: i64 = 1_000_000;
/// A segment is ten minutes long; one that spans more hours than this is damaged.
const MOST_HOURS: usize = 24;

/// Splits segments into hours.
pub(crate) fn recorded_hours(segments: impl IntoIterator<Item = Span>) -> RecordedHours {
    let mut hours = RecordedHours::new();
    for (start, end) in segments {
        let begins = |hour: &Hour| hour.start().checked_mul(MS).is_some_and(|first| first <= end);
        let of_segment = std::iter::successors(Hour::from_ms(start.div_euclid(MS)), |hour| hour.next());
        for hour in of_segment.take_while(begins).take(MOST_HOURS) {
            let (first, last) = (hour.start().saturating_mul(MS), hour.end().saturating_mul(MS).saturating_sub(1));
            hours.entry(hour).or_default().push((start.max(first), end.min(last)));
        }
    }
    hours.values_mut().for_each(|segments| segments.sort_unstable());
    hours
}

/// An hour to deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) hour: Hour,
    /// Whether no more rows are expected.
    pub(crate) complete: bool,
}

/// Returns the hours to deliver: the newest first, so that the store is up to date, then the others, the oldest first, because
/// they expire first. `now` is nanoseconds since 1970.
pub(crate) fn due(recorded: &RecordedHours, state: &State, now: i64) -> Vec<Due> {
    let newest = recorded.values().flatten().map(|(_, end)| *end).max().unwrap_or(i64::MIN);
    // The later of the recording's end and the clock: a recorder that has ended adds nothing.
    let until = newest.max(now);
    let of_hour = |(hour, segments): (&Hour, &Vec<Span>)| {
        let end = hour.end().saturating_mul(MS);
        let complete = end.saturating_add(SETTLED_NS) <= until;
        let delivered = state.hours.get(hour).filter(|delivered| !delivered.segments.is_empty());
        // The missing part of an hour that has ended is delivered with the rest a few minutes later.
        let is_settling = end <= until && !complete;
        let is_due = delivered.is_none_or(|delivered| !is_settling && is_due(segments, complete, delivered));
        is_due.then_some(Due { hour: *hour, complete })
    };
    let mut all: Vec<Due> = recorded.iter().filter_map(of_hour).collect();
    let is_newest = |due: &Due| Some(&due.hour) == recorded.keys().next_back();
    if all.last().is_some_and(is_newest) {
        all.rotate_right(1);
    }
    all
}

/// Whether an hour has undelivered rows. If a part of the delivered rows has expired since, the hour is not due, because less
/// would replace more.
fn is_due(segments: &[Span], complete: bool, delivered: &Delivered) -> bool {
    let part = |span: &Span, of: &[Span]| of.iter().find(|other| other.0 == span.0).map(|other| other.1);
    let is_whole = delivered.segments.iter().all(|span| part(span, segments).is_some_and(|end| end >= span.1));
    let has_more = segments.iter().any(|span| part(span, &delivered.segments).is_none_or(|end| end < span.1));
    is_whole && (has_more || complete && !delivered.complete)
}

/// Forgets the hours that the recording no longer has. Returns those that were not delivered completely.
pub(crate) fn take_expired(recorded: &RecordedHours, state: &mut State) -> Vec<Hour> {
    let expired = state.hours.extract_if(.., |hour, _| !recorded.contains_key(hour));
    expired.filter(|(_, delivered)| !delivered.complete).map(|(hour, _)| hour).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    const SECOND: i64 = 1_000_000_000;
    const HOUR: i64 = 3600 * SECOND;

    fn hour(hour: i8) -> Hour {
        Hour { day: date(1970, 1, 1), hour }
    }

    fn delivered(recorded: &RecordedHours, complete: bool) -> State {
        let of = |(hour, segments): (&Hour, &Vec<Span>)| (*hour, Delivered { segments: segments.clone(), complete });
        State { hours: recorded.iter().map(of).collect(), ..State::default() }
    }

    fn hours_of(due: &[Due]) -> Vec<(i8, bool)> {
        due.iter().map(|due| (due.hour.hour, due.complete)).collect()
    }

    #[test]
    fn segments_are_cut_at_hours() {
        let recorded = recorded_hours([(HOUR - SECOND, 2 * HOUR), (HOUR / 2, HOUR / 2)]);
        assert_eq!(recorded[&hour(0)], [(HOUR / 2, HOUR / 2), (HOUR - SECOND, HOUR - 1)]);
        assert_eq!(recorded[&hour(1)], [(HOUR, 2 * HOUR - 1)]);
        assert_eq!(recorded[&hour(2)], [(2 * HOUR, 2 * HOUR)]);
        assert_eq!(recorded_hours([(i64::MAX - 1, i64::MAX)]).len(), 1, "the year 2262");
    }

    #[test]
    fn the_newest_hour_is_first_and_then_the_oldest() {
        let recorded = recorded_hours([(0, 4 * HOUR + 600 * SECOND)]);
        // The previous hour has ended, but its changes are not known yet.
        let all = due(&recorded, &State::default(), 4 * HOUR + 610 * SECOND);
        assert_eq!(hours_of(&all), [(4, false), (0, true), (1, true), (2, true), (3, false)]);
        let all = due(&recorded, &delivered(&recorded, false), 4 * HOUR + 660 * SECOND);
        assert_eq!(hours_of(&all), [(0, true), (1, true), (2, true), (3, true)], "the newest has nothing new");
        assert_eq!(hours_of(&due(&recorded, &delivered(&recorded, true), 0)), []);
    }

    #[test]
    fn what_was_recorded_since_is_delivered() {
        let before = recorded_hours([(0, 100 * SECOND)]);
        let more = recorded_hours([(0, 101 * SECOND)]);
        let state = delivered(&before, false);
        assert_eq!(hours_of(&due(&more, &state, 0)), [(0, false)]);
        assert_eq!(hours_of(&due(&before, &state, 0)), []);
        // After the clock was set back, a complete hour gets more rows.
        let again = recorded_hours([(0, 100 * SECOND), (50 * SECOND, 60 * SECOND)]);
        assert_eq!(hours_of(&due(&again, &delivered(&before, true), 0)), [(0, false)]);
    }

    #[test]
    fn an_hour_that_has_ended_is_delivered_again_when_nothing_more_is_expected() {
        let state = delivered(&recorded_hours([(0, HOUR - 100 * SECOND)]), false);
        let whole = recorded_hours([(0, HOUR + 300 * SECOND)]);
        assert_eq!(hours_of(&due(&whole, &state, 0)), [(1, false)]);
        assert_eq!(hours_of(&due(&whole, &state, HOUR + 660 * SECOND)), [(1, false), (0, true)]);
    }

    #[test]
    fn less_does_not_replace_more() {
        let before = recorded_hours([(0, 100 * SECOND), (200 * SECOND, 300 * SECOND)]);
        let state = delivered(&before, false);
        for left in [vec![(200 * SECOND, 300 * SECOND)], vec![(0, 50 * SECOND), (200 * SECOND, 400 * SECOND)]] {
            assert_eq!(hours_of(&due(&recorded_hours(left), &state, 10 * HOUR)), []);
        }
    }

    #[test]
    fn hours_that_expired_before_they_were_delivered_are_lost() {
        let all = recorded_hours([(0, 3 * HOUR - 1)]);
        let mut state = delivered(&all, true);
        state.hours.insert(hour(1), Delivered::default());
        let left = recorded_hours([(2 * HOUR, 3 * HOUR - 1)]);
        assert_eq!(take_expired(&left, &mut state), [hour(1)]);
        assert_eq!(state.hours.len(), 1);
        assert_eq!(take_expired(&left, &mut state), [], "told once");
    }
}
