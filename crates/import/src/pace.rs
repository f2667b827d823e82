//! When each report of a tool was made: by the times it prints, else by the interval it was asked for.

use crate::clock::{Clock, Moment};
use crate::format::Asked;
use crate::run::{Run, Step};

/// What is taken where neither times nor the command line tell the interval. It bears on how long a capture is said to
/// be, and on no rate.
const ASSUMED: f64 = 1.0;

/// The steps that reports stand for, one after the other, for a tool whose first report is of the time since boot: that one
/// is no rate, but it begins the first step.
#[derive(Debug, Default)]
pub struct Pace {
    clock: Clock,
    /// The end of the report before; `None` before the first one.
    end: Option<f64>,
    reports: usize,
    timed: bool,
}

impl Pace {
    /// The step of the next report; `None` for the first one, and where nothing can be said of the time between two.
    pub fn next(&mut self, when: Option<Moment>, asked: &Asked, run: &mut Run) -> Option<Step> {
        let time = when.and_then(|when| when.time);
        self.reports += 1;
        let Some(from) = self.end else {
            run.start = when.unwrap_or_default();
            self.timed = time.is_some();
            self.end = Some(time.map_or(0.0, |time| self.clock.read(time)));
            return None;
        };
        let to = match time.filter(|_| self.timed) {
            Some(time) => self.clock.read(time),
            None => from + asked.interval().unwrap_or_else(|| assumed(run)),
        };
        self.end = Some(to);
        // A step of no length is two reports of one second.
        Some(Step { from, to }).filter(|step| step.seconds() > 0.0)
    }

    /// The step of a report that stayed the only one. It is taken for a rate, of a time that is not known.
    pub fn only(&self, asked: &Asked, run: &mut Run) -> Option<Step> {
        if self.reports != 1 {
            return None;
        }
        run.note(
            "the only report",
            "an average over a time that is not known; where it is a tool's first report, since boot",
            "capture several: give an interval and a count",
        );
        Some(Step { from: 0.0, to: asked.interval().unwrap_or(ASSUMED) })
    }
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
        let mut pace = Pace::default();
        let when = |t: &Option<f64>| t.map(|time| Moment { date: None, time: Some(time) });
        let mut steps: Vec<_> = times.iter().map(|t| pace.next(when(t), &Asked::default(), &mut run)).collect();
        if let Some(only) = pace.only(&Asked::default(), &mut run) {
            steps = vec![Some(only)];
        }
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
