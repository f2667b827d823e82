//! Episodes of one hour.

use crate::judged::JudgedWindow;
use whyslow_diagnose::{EpisodeBuilder, FeltCause, FoundEpisode, MAX_GAP_NS};

/// A cause within one hour.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HourEpisode {
    pub(crate) found: FoundEpisode,
    pub(crate) lost_seconds: f64,
    pub(crate) began_before: bool,
    pub(crate) goes_on: bool,
}

/// Returns the episodes within an hour (its start and end, nanoseconds since 1970), by their start. The windows, in
/// order, may begin before it and end after it.
pub(crate) fn episodes(windows: &[JudgedWindow], hour: (i64, i64)) -> Vec<HourEpisode> {
    let mut timeline = EpisodeBuilder::default();
    for window in windows.iter().filter(|window| window.seconds_within(hour) > 0.0) {
        timeline.add((window.span.0.max(hour.0), window.span.1.min(hour.1)), &window.felt);
    }
    let newest = windows.iter().map(|window| window.span.1).max().unwrap_or(hour.1);
    let of_hour = |found: FoundEpisode| {
        let (start, end) = found.span;
        let before = |window: &JudgedWindow| window.span.0 < hour.0 && window.span.1 >= start - MAX_GAP_NS;
        let after = |window: &JudgedWindow| window.span.1 > hour.1 && window.span.0 <= end + MAX_GAP_NS;
        let continues = |cause: &FeltCause| found.continues_with(&cause.id, &cause.subject);
        let felt = |is_near: &dyn Fn(&JudgedWindow) -> bool| {
            windows.iter().filter(|window| is_near(window)).any(|window| window.felt.iter().any(continues))
        };
        let (began_before, goes_on) = (felt(&before), felt(&after) || end + MAX_GAP_NS >= newest);
        HourEpisode { lost_seconds: found.lost_seconds(), began_before, goes_on, found }
    };
    timeline.finish().into_iter().map(of_hour).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_documents::diagnosis::Subject;

    const S: i64 = 1_000_000_000;
    const HOUR: (i64, i64) = (3600 * S, 7200 * S);

    /// Creates windows of ten seconds, each with the impact of one cause.
    fn windows(all: &[(i64, f64)]) -> Vec<JudgedWindow> {
        let felt = |impact: f64| match impact {
            0.0 => Vec::new(),
            _ => vec![FeltCause { id: "a".into(), subject: Subject::host(), impact, confidence: None, culprit: None }],
        };
        all.iter().map(|(at, impact)| JudgedWindow { span: (at * S, (at + 10) * S), felt: felt(*impact) }).collect()
    }

    /// Returns each episode's start, end, lost seconds, whether it began before the hour, and whether it continues.
    fn found(all: &[(i64, f64)]) -> Vec<(i64, i64, f64, bool, bool)> {
        let row = |e: &HourEpisode| {
            let lost = (e.lost_seconds * 1000.0).round() / 1000.0;
            (e.found.span.0 / S, e.found.span.1 / S, lost, e.began_before, e.goes_on)
        };
        episodes(&windows(all), HOUR).iter().map(row).collect()
    }

    #[test]
    fn an_episode_within_the_hour_is_one_row() {
        let all = [(3590, 0.0), (4000, 0.5), (4010, 0.0), (4020, 0.25), (4100, 0.0), (7200, 0.0)];
        assert_eq!(found(&all), [(4000, 4030, 7.5, false, false)], "a lull of ten seconds does not end it");
    }

    #[test]
    fn what_began_before_and_goes_on_is_cut_at_the_hour() {
        let all = [(3595, 0.5), (3605, 0.5), (7195, 0.2), (7205, 0.2)];
        let expected = [(3600, 3615, 7.5, true, false), (7195, 7200, 1.0, false, true)];
        assert_eq!(found(&all), expected, "of a window across the end of the hour the part within");
        // The last window before the hour ends 15 s before the cause is noticeable again.
        assert_eq!(found(&[(3580, 0.5), (3605, 0.5), (3700, 0.0)]), [(3605, 3615, 5.0, true, false)]);
        assert_eq!(found(&[(3570, 0.5), (3605, 0.5), (3700, 0.0)]), [(3605, 3615, 5.0, false, false)]);
    }

    #[test]
    fn what_lasts_to_the_end_of_what_is_known_goes_on() {
        assert_eq!(found(&[(4000, 0.5), (4010, 0.0)]), [(4000, 4010, 5.0, false, true)]);
        assert_eq!(found(&[(4000, 0.5), (4020, 0.0)]), [(4000, 4010, 5.0, false, false)]);
        assert_eq!(found(&[]), []);
    }
}
