//! Intervals of reports, from the times that a tool prints or the interval on its command line.

use crate::clock::{PrintedTime, ReportInterval};
use crate::shell_session::OutputContext;
use crate::timeline::ReportClock;
use crate::tool_run::ToolRun;
use whyslow_model::since_boot::AVERAGED;

/// Interval in seconds if neither times nor the command line give it. It affects how long a capture appears to be, but no rate
/// that was printed.
const ASSUMED: f64 = 1.0;
/// Maximum number of reports without a time that wait for the next one with a time.
const MOST_WAITING: usize = 1000;

/// Time of a report, and the line of that time.
pub type ReportTime = (PrintedTime, u32);

/// Intervals for a tool whose first report covers the time since boot. That report is not a rate, but begins the first
/// interval. If it stays the only report, it is an average since boot where the tool certainly printed no report before it, and
/// an average over an unknown time elsewhere: people paste single reports from the middle of a run.
#[derive(Debug)]
pub struct ReportIntervals<R> {
    clock: ReportClock,
    /// End of the previous report.
    end: Option<f64>,
    first: Option<R>,
    /// Reports without a time, in a run that prints some times.
    waiting: Vec<R>,
    reports: usize,
    timed: bool,
    /// Whether the report since boot was omitted, so that the first one covers an interval too.
    omits_first: bool,
    /// Seconds between the start of the run and the first printed time.
    before: f64,
    /// Whether the tool's first report covers the time since boot, or since the mount.
    is_since_boot: bool,
    /// Whether the header was read that the tool prints only once, above its first report.
    is_headed: bool,
}

impl<R> Default for ReportIntervals<R> {
    fn default() -> Self {
        Self {
            clock: ReportClock::default(),
            end: None,
            first: None,
            waiting: Vec::new(),
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
    /// Creates intervals for a tool whose first report covers the time since boot.
    pub fn since_boot() -> Self {
        Self { is_since_boot: true, ..Self::default() }
    }

    /// Sets whether the reports stand below the header that the tool prints above its first report.
    pub fn headed(self, is_headed: bool) -> Self {
        Self { is_headed, ..self }
    }

    /// Creates intervals for a tool that ran with an option to omit the report since boot.
    pub fn without_first() -> Self {
        Self { omits_first: true, ..Self::default() }
    }

    /// Takes the next report. Returns the reports whose interval is now known. The first report has none, nor does the second
    /// of two in the same second.
    pub fn next(
        &mut self,
        report: R,
        when: Option<ReportTime>,
        context: OutputContext<'_>,
        run: &mut ToolRun,
    ) -> Vec<(R, ReportInterval)> {
        let when = when.filter(|(when, _)| when.time.is_some());
        self.reports += 1;
        let Some(from) = self.end else { return self.begin(report, when, context, run) };
        let Some((when, line)) = when else {
            if self.timed && self.waiting.len() < MOST_WAITING {
                self.waiting.push(report);
                return Vec::new();
            }
            return vec![self.place(report, from + context.interval().unwrap_or_else(|| assumed(run)))];
        };
        if !self.timed {
            return self.begin_to_time(report, when, from, context, run);
        }
        // Reports between two times are spread evenly.
        let count = self.waiting.len() + 1;
        let asked = context.interval().map(|interval| interval * count as f64);
        let reading = self.clock.read(when, asked);
        let mut to = run.note_clock_after(self.before, reading, line);
        // Times are printed in whole seconds, and may have been assumed where they were missing.
        if to <= from {
            to = from + context.interval().filter(|interval| *interval < 1.0 || self.before > to).unwrap_or(0.0);
        }
        let step = (to - from) / count as f64;
        let reports: Vec<R> = self.waiting.drain(..).chain([report]).collect();
        let placed = reports.into_iter().enumerate().map(|(at, report)| {
            let to = if at + 1 == count { to } else { from + step * (at + 1) as f64 };
            self.place(report, to)
        });
        placed.filter(|(_, interval)| interval.seconds() > 0.0).collect()
    }

    fn begin(
        &mut self,
        report: R,
        when: Option<ReportTime>,
        context: OutputContext<'_>,
        run: &mut ToolRun,
    ) -> Vec<(R, ReportInterval)> {
        let when = when.map(|(when, _)| when);
        run.start = when.unwrap_or(run.start);
        self.timed = when.is_some();
        let at = when.map_or(0.0, |when| self.clock.read(when, None).elapsed);
        let omits_first =
            self.omits_first || self.is_since_boot && !self.is_headed && context.lacks_beginning(run.tool);
        if omits_first && let Some(interval) = context.interval() {
            run.start = when.map_or(run.start, |when| when.after(-interval));
            self.before = interval;
            self.end = Some(at);
            return vec![self.place(report, at + interval)];
        }
        self.end = Some(at);
        self.first = Some(report);
        Vec::new()
    }

    /// Takes the first report with a time, after others without.
    fn begin_to_time(
        &mut self,
        report: R,
        when: PrintedTime,
        from: f64,
        context: OutputContext<'_>,
        run: &mut ToolRun,
    ) -> Vec<(R, ReportInterval)> {
        let to = from + context.interval().unwrap_or_else(|| assumed(run));
        self.clock.read(when, None);
        (self.timed, self.before) = (true, to);
        run.start = when.after(-to);
        vec![self.place(report, to)]
    }

    fn place(&mut self, report: R, to: f64) -> (R, ReportInterval) {
        let from = self.end.replace(to).unwrap_or(0.0);
        (report, ReportInterval { from, to })
    }

    /// Returns the remaining reports with an assumed interval: those after the last printed time, and a report that is the only
    /// one.
    pub fn finish(mut self, context: OutputContext<'_>, run: &mut ToolRun) -> Vec<(R, ReportInterval)> {
        let waiting: Vec<R> = self.waiting.drain(..).collect();
        let step = context.interval().or_else(|| self.clock.usual());
        let mut left = Vec::new();
        for report in waiting {
            let to = self.end.unwrap_or(0.0) + step.unwrap_or_else(|| assumed(run));
            left.push(self.place(report, to));
        }
        let Some(first) = self.first.filter(|_| self.reports == 1) else { return left };
        // A count is better evidence than a header: people paste the one report that matters.
        let is_first = match context.command_of(run.tool) {
            Some(command) => command.reports().map_or(self.is_headed, |count| count == 1),
            None => self.is_headed || context.prints_once(run.tool),
        };
        if self.is_since_boot && is_first {
            run.is_average = true;
            return vec![(first, ReportInterval { from: 0.0, to: AVERAGED })];
        }
        run.note(
            "rates over a known time",
            "the only report is an average over an unknown time, or since boot if it is the tool's first",
            "capture several: give an interval and a count",
        );
        vec![(first, ReportInterval { from: 0.0, to: context.interval().unwrap_or(ASSUMED) })]
    }
}

fn assumed(run: &mut ToolRun) -> f64 {
    run.has_assumed_times = true;
    ASSUMED
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell_session::ShellSession;

    /// Returns the ends of the intervals, the start of the run, and the number of notes.
    fn intervals(command: &str, times: &[Option<f64>]) -> (Vec<f64>, Option<f64>, usize) {
        let mut run = ToolRun::new("iostat", &"x".into());
        let session = ShellSession::of_command(command);
        let context = session.context();
        let mut reports = ReportIntervals::since_boot();
        let when = |time: &Option<f64>| time.map(|time| (PrintedTime::of_day(time), 7));
        let mut all: Vec<_> = times.iter().flat_map(|time| reports.next((), when(time), context, &mut run)).collect();
        all.extend(reports.finish(context, &mut run));
        (all.into_iter().map(|(_, interval)| interval.to).collect(), run.start.time, run.notes.len())
    }

    #[test]
    fn the_first_report_of_several_is_not_a_rate() {
        assert_eq!(intervals("", &[Some(10.0), Some(12.0), Some(12.0)]), (vec![2.0], Some(10.0), 0));
        assert_eq!(intervals("", &[None, None]), (vec![1.0], None, 0));
    }

    #[test]
    fn the_only_report_is_a_rate_with_a_note() {
        assert_eq!(intervals("", &[None]), (vec![1.0], None, 1));
    }

    #[test]
    fn what_comes_between_two_times_is_spread_evenly() {
        let sparse = [Some(10.0), None, None, Some(25.0), None, Some(35.0), None];
        assert_eq!(intervals("", &sparse).0, [5.0, 10.0, 15.0, 20.0, 25.0, 35.0]);
        assert_eq!(
            intervals("$ iostat 5 9", &[None, None, Some(20.0), Some(25.0)]),
            (vec![5.0, 10.0, 15.0], Some(10.0), 0)
        );
    }

    #[test]
    fn reports_of_the_same_second_are_as_far_apart_as_was_asked() {
        let times = [10.0, 10.0, 11.0, 11.0].map(Some);
        assert_eq!(intervals("$ iostat 0.5", &times).0, [0.5, 1.0, 1.5]);
    }

    #[test]
    fn a_clock_that_was_set_back_loses_no_report() {
        let times = [7198.0, 7199.0, 3600.0, 3601.0].map(Some);
        assert_eq!(intervals("", &times), (vec![1.0, 2.0, 3.0], Some(7198.0), 1));
        let at_once = [7198.0, 3600.0, 3602.0].map(Some);
        assert_eq!(intervals("$ iostat 2", &at_once), (vec![2.0, 4.0], Some(7198.0), 1));
    }

    #[test]
    fn what_cut_the_beginning_off_has_left_measurements() {
        assert_eq!(intervals("$ iostat -x 5 2 | tail -n 9", &[None]), (vec![5.0], None, 0));
        assert_eq!(intervals("$ iostat -x 5 3 | tail -n 20", &[None, None]).0, [5.0, 10.0]);
        assert_eq!(intervals("$ iostat -x | tail -n 20", &[None]), (vec![AVERAGED], None, 0));
    }

    #[test]
    fn a_header_says_less_than_a_count() {
        let is_average = |command: &str| {
            let mut run = ToolRun::new("vmstat", &"x".into());
            let session = ShellSession::of_command(command);
            let context = session.context();
            let mut reports = ReportIntervals::since_boot().headed(true);
            reports.next((), None, context, &mut run);
            reports.finish(context, &mut run);
            run.is_average
        };
        assert_eq!(
            ["", "$ vmstat", "$ vmstat 5 1", "$ vmstat 5 3", "$ vmstat 5"].map(is_average),
            [true, true, true, false, true]
        );
    }

    #[test]
    fn the_only_report_of_a_command_without_an_interval_is_since_boot() {
        let is_average = |command: &str| {
            let mut run = ToolRun::new("iostat", &"x".into());
            let session = ShellSession::of_command(command);
            let context = session.context();
            let mut reports = ReportIntervals::since_boot();
            assert!(reports.next((), None, context, &mut run).is_empty());
            assert_eq!(reports.finish(context, &mut run).len(), 1);
            run.is_average
        };
        let commands = ["$ iostat -x", "$ iostat -x 5 1", "$ iostat -x 5", "$ iostat -x 5 3", "$ uptime"];
        assert_eq!(commands.map(is_average), [true, true, false, false, false]);
    }
}
