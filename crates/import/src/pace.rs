//! When each report of a tool was made: by the times it prints, else by the interval it was asked for.

use crate::clock::{Clock, Moment};
use crate::format::Asked;
use crate::run::{Run, Step};

/// What is taken where neither times nor the command line tell the interval. It bears on how long a capture is said to
/// be, and on no rate.
const ASSUMED: f64 = 1.0;

/// The steps that reports stand for, for a tool whose first report is of the time since boot: that one is no rate, but
/// it begins the first step. Where there is but one report it is taken for a rate, of a time that is not known.
pub fn since_first(reports: &[Option<Moment>], asked: &Asked, run: &mut Run) -> Vec<Option<Step>> {
    let times: Option<Vec<f64>> = reports.iter().map(|m| m.as_ref()?.time).collect();
    run.start = reports.first().copied().flatten().unwrap_or_default();
    if reports.len() == 1 {
        run.note(
            "the only report",
            "an average over a time that is not known; where it is a tool's first report, since boot",
            "capture several: give an interval and a count",
        );
        return vec![Some(Step { from: 0.0, to: asked.interval().unwrap_or(ASSUMED) })];
    }
    let ends: Vec<f64> = match times {
        Some(times) => {
            let mut clock = Clock::default();
            times.into_iter().map(|time| clock.read(time)).collect()
        }
        None => {
            let interval = asked.interval().unwrap_or_else(|| assumed(run));
            (0..reports.len()).map(|report| report as f64 * interval).collect()
        }
    };
    let mut steps = vec![None];
    // A step of no length is two reports of one second: nothing can be said of the time between them.
    steps.extend(ends.windows(2).map(|w| Some(Step { from: w[0], to: w[1] }).filter(|s| s.seconds() > 0.0)));
    steps
}

fn assumed(run: &mut Run) -> f64 {
    run.note(
        "the interval",
        format!("neither printed nor on a command line: {ASSUMED} s assumed, on which no rate depends"),
        "paste the command line too",
    );
    ASSUMED
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(times: &[Option<f64>]) -> (Vec<Option<(f64, f64)>>, usize) {
        let mut run = Run::new("test", &"x".into());
        let reports: Vec<_> = times.iter().map(|t| t.map(|time| Moment { date: None, time: Some(time) })).collect();
        let steps = since_first(&reports, &Asked::default(), &mut run);
        (steps.into_iter().map(|s| s.map(|s| (s.from, s.to))).collect(), run.notes.len())
    }

    #[test]
    fn the_first_report_of_several_is_no_rate() {
        assert_eq!(steps(&[Some(10.0), Some(12.0), Some(12.0)]), (vec![None, Some((0.0, 2.0)), None], 0));
        assert_eq!(steps(&[None, None]), (vec![None, Some((0.0, 1.0))], 1));
    }

    #[test]
    fn the_only_report_is_a_rate_with_a_note() {
        assert_eq!(steps(&[None]), (vec![Some((0.0, 1.0))], 1));
    }
}
