//! Finds how long a cause has lasted: within the window by the steps of the kernel's pressure totals, before it by its averages
//! over fixed times.

use jiff::Timestamp;
use serde::Deserialize;
use whyslow_documents::diagnosis::{KernelAverage, Since};
use whyslow_model::catalogue::{Pressure, System};
use whyslow_model::value::{Counter, Gauge};
use whyslow_model::window::{Change, Window};

/// The pressure that shows a rule's cause (Documentation/accounting/psi.rst).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Resource {
    Cpu,
    Memory,
    Io,
}

/// Share of its final value that an exponential average over a time reaches after that time: 1 - 1/e.
const REACHED: f64 = 0.632;
/// An average above this multiple of the present level shows that more was lost before: then it does not show how long the
/// present loss has lasted.
const HIGHER_BEFORE: f64 = 1.25;
/// Minimum share of a finding's impact that the pressure must show for its history to be the finding's.
const SHOWN: f64 = 0.5;
/// A step with less than this share of the busy steps' level is quiet.
const QUIET: f64 = 0.25;

/// One resource's pressure over a window.
#[derive(Debug)]
struct Course {
    /// Length of each step in seconds, and the share of it lost.
    steps: Vec<(f64, f64)>,
    /// Averages over the last minute and the last five minutes.
    minute: Option<f64>,
    five_minutes: Option<f64>,
    path: &'static str,
}

/// Pressure of a window's resources.
#[derive(Debug, Default)]
pub(crate) struct History {
    courses: Vec<(Resource, Course)>,
    /// Whether as many tasks were runnable for the last quarter of an hour as in the window.
    loaded: bool,
    /// Wall clock at the end, nanoseconds since 1970.
    end_ns: Option<i64>,
}

impl History {
    pub(crate) fn from_window(window: &Window) -> Self {
        let end_ns = window.last().map(|s| s.wall_ns).filter(|ns| *ns != 0);
        let Some(pressure) = window.change::<Pressure>() else { return Self { end_ns, ..Self::default() } };
        let cpu = Course::from_change(&pressure, |p| p.cpu_some, |p| (p.cpu_avg60, p.cpu_avg300), "/proc/pressure/cpu");
        let memory = Course::from_change(
            &pressure,
            |p| p.memory_some,
            |p| (p.memory_avg60, p.memory_avg300),
            "/proc/pressure/memory",
        );
        let io = Course::from_change(&pressure, |p| p.io_some, |p| (p.io_avg60, p.io_avg300), "/proc/pressure/io");
        Self {
            courses: vec![(Resource::Cpu, cpu), (Resource::Memory, memory), (Resource::Io, io)],
            loaded: window.change::<System>().is_some_and(|system| is_loaded_as_before(&system)),
            end_ns,
        }
    }

    /// Creates a duration of this many seconds, up to the end of the window.
    pub(crate) fn lasted(&self, seconds: f64, source: &str) -> Since {
        let start = self.end_ns.map(|end| end - (seconds * 1e9) as i64);
        let start = start.and_then(|ns| Timestamp::from_nanosecond(ns.into()).ok()).map(|t| format!("{t:.3}"));
        Since { start, seconds, source: source.to_owned(), average: None }
    }

    /// Returns since when a cause that costs `impact` of the time has lasted; `None` if the pressure does not show it.
    pub(crate) fn since(&self, resource: Resource, impact: f64) -> Option<Since> {
        let (_, course) = self.courses.iter().find(|(of, _)| *of == resource)?;
        let level = course.level().filter(|level| *level >= SHOWN * impact)?;
        let seconds: f64 = course.steps.iter().map(|(dt, _)| dt).sum();
        let source = |of: &str| format!("{}{of}", course.path);
        if let Some(quiet) = course.quiet_at_first(level) {
            return Some(self.lasted(seconds - quiet, &source("")));
        }
        let (seconds, source, average) = match course.before(level) {
            Some(300) if resource == Resource::Cpu && self.loaded => {
                (900.0, "/proc/loadavg".to_owned(), Some(KernelAverage::Load))
            }
            Some(300) => (300.0, source(" avg300"), Some(KernelAverage::Pressure)),
            Some(60) => (60.0, source(" avg60"), Some(KernelAverage::Pressure)),
            _ => (seconds, source(""), None),
        };
        Some(Since { start: None, seconds, source, average })
    }
}

impl Course {
    fn from_change(
        change: &Change<'_, Pressure>,
        total: impl Fn(&Pressure) -> Counter,
        averages: impl Fn(&Pressure) -> (Gauge, Gauge),
        path: &'static str,
    ) -> Self {
        let steps = change.steps(total).filter(|(dt, _)| *dt > 0.0);
        let (minute, five_minutes) = averages(change.last());
        Self {
            steps: steps.filter_map(|(dt, ns)| Some((dt, (ns? / 1e9 / dt).min(1.0)))).collect(),
            minute: minute.get(),
            five_minutes: five_minutes.get(),
            path,
        }
    }

    /// Returns the mean over the window.
    fn level(&self) -> Option<f64> {
        let seconds: f64 = self.steps.iter().map(|(dt, _)| dt).sum();
        (seconds > 0.0).then(|| self.steps.iter().map(|(dt, share)| dt * share).sum::<f64>() / seconds)
    }

    /// Returns how long nothing was lost at first, if the loss continued without such a pause from then on.
    fn quiet_at_first(&self, level: f64) -> Option<f64> {
        let is_quiet = |(_, share): &&(f64, f64)| *share < QUIET * level;
        let first: f64 = self.steps.iter().take_while(is_quiet).map(|(dt, _)| dt).sum();
        let after = self.steps.iter().skip_while(is_quiet);
        let later = after.filter(is_quiet).map(|(dt, _)| dt).sum::<f64>();
        (first > 2.0 * later).then_some(first)
    }

    /// Returns the longest of the kernel's averaging times over which the level was the same, in seconds.
    fn before(&self, level: f64) -> Option<u32> {
        let same = |average: Option<f64>| average.is_some_and(|share| is_same(share, level));
        match (same(self.minute), same(self.five_minutes)) {
            (true, true) => Some(300),
            (true, false) => Some(60),
            _ => None,
        }
    }
}

fn is_same(average: f64, level: f64) -> bool {
    (REACHED * level..=HIGHER_BEFORE * level).contains(&average)
}

/// Returns true if all three load averages agree with the number of runnable tasks. Load averages also count tasks in
/// uninterruptible sleep: only then do they show how long the runnable tasks have been there.
fn is_loaded_as_before(system: &Change<'_, System>) -> bool {
    let Some(runnable) = system.mean(|s| s.running) else { return false };
    let last = system.last();
    let averages = [last.load_1m, last.load_5m, last.load_15m];
    averages.iter().all(|average| average.get().is_some_and(|load| is_same(load, runnable)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::key::MachineKey;
    use whyslow_model::snapshot::Snapshot;

    const SECOND: u64 = 1_000_000_000;

    /// Returns the history of a machine that loses these shares of each second to I/O, with these averages at the end.
    fn history(shares: &[f64], avg60: f64, avg300: f64) -> History {
        let mut total = 0.0;
        let shares = std::iter::once(&0.0).chain(shares).enumerate();
        let snapshots = shares.map(|(t, share)| {
            total += share * SECOND as f64;
            let wall_ns = (t as u64 + 100) * SECOND;
            let mut s = Snapshot { boot_ns: (t as u64 + 1) * SECOND, wall_ns: wall_ns as i64, ..Snapshot::default() };
            s.processor.pressure.push(Pressure {
                io_some: (total as u64).into(),
                io_avg60: avg60.into(),
                io_avg300: avg300.into(),
                ..Pressure::new(MachineKey)
            });
            s
        });
        History::from_window(&Window::new(snapshots.collect()))
    }

    fn since(shares: &[f64], avg60: f64, avg300: f64) -> Option<(Option<String>, f64)> {
        history(shares, avg60, avg300).since(Resource::Io, 0.5).map(|since| (since.start, since.seconds))
    }

    #[test]
    fn what_began_in_the_window_has_a_time() {
        let began = since(&[0.0, 0.0, 0.0, 0.9, 0.8, 0.9, 0.9, 0.8, 0.9, 0.9], 0.1, 0.02);
        assert_eq!(began, Some((Some("1970-01-01T00:01:43.000Z".into()), 7.0)));
    }

    #[test]
    fn what_was_there_from_the_start_has_lasted_as_long_as_was_watched_at_least() {
        assert_eq!(since(&[0.8; 10], 0.13, 0.03), Some((None, 10.0)));
    }

    #[test]
    fn the_kernels_averages_say_that_it_has_lasted_longer() {
        assert_eq!(since(&[0.8; 10], 0.7, 0.2), Some((None, 60.0)));
        assert_eq!(since(&[0.8; 10], 0.78, 0.6), Some((None, 300.0)));
        let average = |avg60, avg300| history(&[0.8; 10], avg60, avg300).since(Resource::Io, 0.5)?.average;
        assert_eq!([average(0.7, 0.2), average(0.13, 0.03)], [Some(KernelAverage::Pressure), None]);
    }

    #[test]
    fn averages_above_the_present_level_say_nothing_about_how_long() {
        assert_eq!(since(&[0.4; 10], 0.7, 0.4), Some((None, 10.0)));
    }

    #[test]
    fn bursts_have_no_beginning_in_the_window() {
        assert_eq!(since(&[0.0, 0.9, 0.0, 0.9, 0.0, 0.9, 0.0, 0.9], 0.1, 0.0), Some((None, 8.0)));
        assert_eq!(since(&[0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0], 0.1, 0.0), Some((None, 8.0)));
    }

    #[test]
    fn a_cause_that_the_pressure_does_not_show_has_no_history() {
        assert_eq!(since(&[0.1; 10], 0.1, 0.1), None);
        assert_eq!(history(&[0.8; 10], 0.8, 0.8).since(Resource::Memory, 0.5), None);
    }
}
