//! The interval of each report, from the times a tool prints, or the interval on its command line.

use crate::clock::{ElapsedTime, PrintedTime, ReportInterval};
use crate::context::CaptureContext;
use crate::tool_run::ToolRun;
use whyslow_model::since_boot::AVERAGED;

/// Used when neither times nor the command line give the interval, in seconds. It affects how long a capture appears to
/// be, but no rate that was printed.
const ASSUMED: f64 = 1.0;

/// Intervals for a tool whose first report covers the time since boot. That report is not a rate, but begins the first
/// interval. If it stays the only one, it is an average since boot where it is certain that the tool printed no report before
/// it, and an average of unknown length elsewhere: of a run with an interval, people paste a report from the middle.
#[derive(Debug)]
pub struct ReportIntervals<R> {
    clock: ElapsedTime,
    /// The end of the previous report.
    end: Option<f64>,
    first: Option<R>,
    reports: usize,
    timed: bool,
    /// Whether the report since boot was omitted, so that the first one covers an interval too.
    omits_first: bool,
    /// How long before the first printed time the run began.
    before: f64,
    /// Whether the tool's first report covers the time since boot, or since the mount.
    is_since_boot: bool,
    /// Whether the header was read that the tool prints once, above its first report.
    is_headed: bool,
}

impl<R> Default for ReportIntervals<R> {
    fn default() -> Self {
        Self {
            clock: ElapsedTime::default(),
            end: None,
            first: None,
            reports: 0,
            timed: false,
            omits_first: false,
            before: 0.0,
            is_since_boot: false,
            is_headed: false,
        }
    }
}

impl<R> ReportIntervals<R> {
    /// Intervals for a tool whose first report covers the time since boot.
    pub fn since_boot() -> Self {
        Self { is_since_boot: true, ..Self::default() }
    }

    /// The same, below a header that the tool prints above its first report.
    pub fn headed(self, is_headed: bool) -> Self {
        Self { is_headed, ..self }
    }

    /// Intervals for a tool that was told to omit the report since boot.
    pub fn without_first() -> Self {
        Self { omits_first: true, ..Self::default() }
    }

    /// The report and its interval; `None` for the first report, and for two reports of the same second.
    pub fn next(
        &mut self,
        report: R,
        when: Option<PrintedTime>,
        context: &CaptureContext,
        run: &mut ToolRun,
    ) -> Option<(R, ReportInterval)> {
        let time = when.and_then(|when| when.time);
        self.reports += 1;
        let Some(from) = self.end else {
            run.start = when.unwrap_or_default();
            self.timed = time.is_some();
            let at = time.map_or(0.0, |time| self.clock.read(time));
            if self.omits_first
                && let Some(interval) = context.interval()
            {
                run.start.time = time.map(|time| (time - interval).max(0.0));
                self.before = interval;
                self.end = Some(at + interval);
                return Some((report, ReportInterval { from: at, to: at + interval }));
            }
            self.end = Some(at);
            self.first = Some(report);
            return None;
        };
        let to = match time.filter(|_| self.timed) {
            Some(time) => self.clock.read(time) + self.before,
            None => from + context.interval().unwrap_or_else(|| assumed(run)),
        };
        self.end = Some(to);
        Some((report, ReportInterval { from, to })).filter(|(_, interval)| interval.seconds() > 0.0)
    }

    /// The only report, with an assumed interval; `None` if there were several.
    pub fn only(self, context: &CaptureContext, run: &mut ToolRun) -> Option<(R, ReportInterval)> {
        let first = self.first.filter(|_| self.reports == 1)?;
        if self.is_since_boot && (self.is_headed || context.prints_once(run.tool)) {
            run.is_average = true;
            return Some((first, ReportInterval { from: 0.0, to: AVERAGED }));
        }
        run.note(
            "rates over a known time",
            "the only report is an average over an unknown time, or since boot if it is the tool's first",
            "capture several: give an interval and a count",
        );
        Some((first, ReportInterval { from: 0.0, to: context.interval().unwrap_or(ASSUMED) }))
    }
}

fn assumed(run: &mut ToolRun) -> f64 {
    run.has_assumed_times = true;
    ASSUMED
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::CommandLine;

    fn intervals(times: &[Option<f64>]) -> (Vec<Option<(f64, f64)>>, usize) {
        let mut run = ToolRun::new("test", &"x".into());
        let context = CaptureContext::default();
        let mut reports = ReportIntervals::default();
        let when = |t: &Option<f64>| t.map(|time| PrintedTime { date: None, time: Some(time) });
        let mut all: Vec<_> = times.iter().map(|t| reports.next((), when(t), &context, &mut run)).collect();
        if let Some(only) = reports.only(&context, &mut run) {
            all = vec![Some(only)];
        }
        (all.into_iter().map(|report| report.map(|(_, i)| (i.from, i.to))).collect(), run.notes.len())
    }

    #[test]
    fn the_first_report_of_several_is_not_a_rate() {
        assert_eq!(intervals(&[Some(10.0), Some(12.0), Some(12.0)]), (vec![None, Some((0.0, 2.0)), None], 0));
        assert_eq!(intervals(&[None, None]), (vec![None, Some((0.0, 1.0))], 0));
    }

    #[test]
    fn the_only_report_is_a_rate_with_a_note() {
        assert_eq!(intervals(&[None]), (vec![Some((0.0, 1.0))], 1));
    }

    #[test]
    fn the_only_report_of_a_command_without_an_interval_is_since_boot() {
        let is_average = |command: &str| {
            let mut run = ToolRun::new("iostat", &"x".into());
            let context = CaptureContext { command: CommandLine::at_prompt(command), ..CaptureContext::default() };
            let mut reports = ReportIntervals::since_boot();
            assert!(reports.next((), None, &context, &mut run).is_none());
            assert!(reports.only(&context, &mut run).is_some());
            run.is_average
        };
        let commands = ["$ iostat -x", "$ iostat -x 5 1", "$ iostat -x 5", "$ iostat -x 5 3", "$ uptime"];
        assert_eq!(commands.map(is_average), [true, true, false, false, false]);
    }
}
