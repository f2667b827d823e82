//! A recording: its page, its stacks, and the survey of its machine's condition.

use super::part::{PagePart, nothing_then, seconds};
use crate::explain::{Extent, RecordedMachine, episodes, explain_by, window};
use crate::output::{ProgressLine, complain};
use crate::pseudonymise::PseudonymSession;
use crate::recordings::host;
use crate::report::{charts_of_recording, outline_of_recording, page_of, title};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use whyslow_diagnose::{FoundEpisode, RuleBook, add_loads, diagnose};
use whyslow_documents::chart::PageData;
use whyslow_documents::diagnosis::{Origin, Verdict};
use whyslow_documents::io_stack::IoStack;
use whyslow_documents::overview::HostOverview;
use whyslow_model::row::SampleTime;
use whyslow_model::window::Window;
use whyslow_series::charts;
use whyslow_serve::{ApiError, PageContent};
use whyslow_store::{LogFn, Recording, StoreError, TimeRange};

const SECOND_NS: i64 = 1_000_000_000;
const DAY_NS: i64 = 86_400 * SECOND_NS;
/// Length of the window; the same as for a diagnosis.
const WINDOW_NS: i64 = 10 * SECOND_NS;
/// Length of the end of a recording that is read to determine the sampling interval.
const NEWEST_NS: i64 = 120 * SECOND_NS;
/// Chart whose largest line is the time lost, and its intervals: with those at both ends, at most sixty.
const PRESSURE: &str = "pressure.some";
const PRESSURE_INTERVALS: usize = 58;
/// Minimum interval between surveys of a recording, in time and as a multiple of the duration of a survey.
const SURVEYED_EVERY: Duration = Duration::from_secs(60);
const SELDOM: u32 = 50;

/// A folder with a recording.
pub struct RecordedHost {
    folder: PathBuf,
    names: Arc<PseudonymSession>,
    log: LogFn,
    surveyed: Mutex<Surveyed>,
}

/// The newest survey.
struct Surveyed {
    overview: HostOverview,
    /// Time of the next survey.
    due: Instant,
}

impl RecordedHost {
    /// Creates a host for a recording, with this id for requests.
    pub fn new(id: String, folder: PathBuf, names: Arc<PseudonymSession>) -> Self {
        let overview = HostOverview {
            id,
            name: names.host(&folder.file_name().unwrap_or_default().to_string_lossy()),
            folder: Some(names.argument(&folder.display().to_string())),
            ..HostOverview::default()
        };
        Self { folder, names, log: log_once(), surveyed: Mutex::new(Surveyed { overview, due: Instant::now() }) }
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the overview line of the machine, as far as it is known.
    pub fn overview(&self) -> HostOverview {
        self.surveyed().overview.clone()
    }

    fn surveyed(&self) -> MutexGuard<'_, Surveyed> {
        self.surveyed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the recording again each time, because it may still grow.
    fn open(&self) -> Result<Recording, StoreError> {
        self.names.recording(Recording::open_with_log(&self.folder, self.log.clone())?)
    }

    fn opened(&self) -> Result<Recording, ApiError> {
        self.open().map_err(|error| ApiError::NotFound(self.said(&error)))
    }

    /// Returns the message of an error.
    fn said(&self, error: &StoreError) -> String {
        self.names.message_about(&self.folder, &error.to_string())
    }

    fn busy(&self, error: StoreError) -> ApiError {
        ApiError::Busy(self.said(&error))
    }

    /// Returns charts and the explanation of what happened, by these rules.
    ///
    /// # Errors
    /// Fails if nothing was recorded at that time or the recording cannot be read.
    pub fn page(&self, part: &PagePart, book: &RuleBook) -> Result<PageData, ApiError> {
        if part.since.is_some() {
            return Err(ApiError::BadRequest("since is for the live machine; a recording has from and to".into()));
        }
        let recording = self.opened()?;
        let span = part.span(&recording.span(), DAY_NS)?;
        let name = host(&recording, &span).map_err(|e| self.busy(e))?;
        let folder = self.names.argument(&self.folder.display().to_string());
        let machine = RecordedMachine { folder, name, recording, span };
        let RecordedMachine { name, recording, span, .. } = &machine;
        let explain = || explain_by(&machine, &[], Extent::Page, book, &ProgressLine::silent());
        let (charts, explanation) = std::thread::scope(|scope| {
            let start = || std::thread::Builder::new().name("explain".into()).spawn_scoped(scope, explain);
            let explanation = part.content.has_answer().then(start);
            let charts = match part.content {
                PageContent::Outline => outline_of_recording(recording, span, &part.specs),
                PageContent::Answer => Ok(Vec::new()),
                PageContent::Everything | PageContent::Charts => {
                    charts_of_recording(recording, span, &part.specs, |samples| part.most_intervals(samples))
                }
            };
            let joined = explanation.map(|running| match running {
                // A panic is a bug: propagate it.
                Ok(running) => running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                // No thread could be started: run one after the other, which takes longer.
                Err(_) => explain(),
            });
            (charts, joined.transpose())
        });
        let (from, to) = (seconds(*span.start()), seconds(*span.end()));
        Ok(PageData {
            title: title(name, Some((from, to))),
            explanation: explanation.map_err(|e| self.busy(e))?,
            from,
            to,
            ..page_of(name.clone(), charts.map_err(|e| self.busy(e))?, false)
        })
    }

    /// Returns the stacks at a time, as far as they were recorded, and their load in the preceding seconds.
    ///
    /// # Errors
    /// Fails if nothing was recorded at that time or the recording cannot be read.
    pub fn stack(&self, at: Option<i64>) -> Result<IoStack, ApiError> {
        let recording = self.opened()?;
        let all = recording.span();
        let at = at.unwrap_or(*all.end());
        let span = at.saturating_sub(WINDOW_NS)..=at;
        let mut seen = window(&recording, &span).map_err(|e| self.busy(e))?;
        if seen.last().is_none() {
            // A single sample is not a window, but has stacks.
            seen = Window::new(recording.snapshots(&span, &|_: &str| true).map_err(|e| self.busy(e))?);
        }
        if seen.last().is_none() {
            return Err(nothing_then(&all));
        }
        let mut stack = IoStack::from_window(&seen);
        add_loads(&mut stack, &seen);
        Ok(stack)
    }

    /// Returns whether the next survey is due.
    pub fn is_due(&self) -> bool {
        self.surveyed().due <= Instant::now()
    }

    /// Reads the machine and the time span, which takes a moment.
    pub fn glance(&self) {
        let error = self.look_up().err().map(|error| self.said(&error));
        self.surveyed().overview.error = error;
    }

    fn look_up(&self) -> Result<(), StoreError> {
        let recording = self.open()?;
        let all = recording.span();
        let end = *all.end();
        let name = host(&recording, &all)?;
        let newest = recording.sample_times(&(end.saturating_sub(NEWEST_NS)..=end))?;
        let overview = &mut self.surveyed().overview;
        if !name.is_empty() {
            overview.name = name;
        }
        overview.from = Some(seconds(*all.start()));
        overview.to = Some(seconds(end));
        overview.interval = median_step(&newest.times);
        Ok(())
    }

    /// Judges the machine's condition, which can take seconds.
    pub fn survey(&self, book: &RuleBook) {
        let begun = Instant::now();
        let error = self.judge(book).err().map(|error| self.said(&error));
        let mut surveyed = self.surveyed();
        surveyed.overview.error = error;
        surveyed.due = Instant::now() + SURVEYED_EVERY.max(begun.elapsed() * SELDOM);
    }

    fn judge(&self, book: &RuleBook) -> Result<(), StoreError> {
        let recording = self.open()?;
        let all = recording.span();
        let end = *all.end();
        let last_day = end.saturating_sub(DAY_NS).max(*all.start())..=end;
        let found = worst(&recording, &last_day, book)?;
        let pressure = pressure(&recording, &all)?;
        let overview = &mut self.surveyed().overview;
        overview.verdict = Some(if found.is_some() { Verdict::Bottleneck } else { Verdict::Healthy });
        (overview.finding, overview.severity) = found.unzip();
        overview.pressure = pressure;
        Ok(())
    }
}

/// Reports each damaged file once, however often it is read.
fn log_once() -> LogFn {
    let reported = Mutex::new(BTreeSet::new());
    Arc::new(move |what: &str| {
        if reported.lock().unwrap_or_else(PoisonError::into_inner).insert(what.to_owned()) {
            complain(what);
        }
    })
}

/// Returns the median time between samples, in seconds.
fn median_step(times: &[SampleTime]) -> Option<f64> {
    let steps = times.windows(2).filter(|pair| pair[0].boot == pair[1].boot);
    let mut steps: Vec<u64> = steps.map(|pair| pair[1].clock.saturating_sub(pair[0].clock)).collect();
    steps.sort_unstable();
    // To the millisecond: the sampling times vary by more.
    steps.get(steps.len() / 2).map(|step| (*step as f64 / 1e6).round() / 1e3)
}

/// Returns the finding of the episode that cost the most time, and its impact.
fn worst(recording: &Recording, span: &TimeRange, book: &RuleBook) -> Result<Option<(String, f64)>, StoreError> {
    let found = episodes(recording, span, book, &ProgressLine::silent())?;
    let by_cost = |a: &&FoundEpisode, b: &&FoundEpisode| a.lost_seconds().total_cmp(&b.lost_seconds());
    let Some(worst) = found.iter().max_by(by_cost) else { return Ok(None) };
    let when = worst.worst_span.0..=worst.worst_span.1;
    let diagnosis = diagnose(&window(recording, &when)?, Origin::Recording, book);
    let key = worst.worst.key();
    let finding = diagnosis.findings.into_iter().find(|finding| finding.key() == key);
    Ok(Some((finding.map_or(key, |finding| finding.summary), worst.worst.impact)))
}

/// Returns the share of time lost over a span, in equal intervals.
fn pressure(recording: &Recording, span: &TimeRange) -> Result<Vec<Option<f64>>, StoreError> {
    let specs: Vec<_> = charts().filter(|chart| chart.id == PRESSURE).collect();
    let made = charts_of_recording(recording, span, &specs, |_| PRESSURE_INTERVALS)?;
    let Some(chart) = made.first() else { return Ok(Vec::new()) };
    let largest = |at: usize| chart.series.iter().filter_map(|series| *series.mean.get(at)?).reduce(f64::max);
    Ok((0..chart.times.len()).map(largest).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_most_samples_of_a_boot() {
        let time = |second: u64, boot| SampleTime { at: 0, clock: second * 1_000_000_000, boot };
        assert_eq!(median_step(&[time(1, 0), time(3, 0), time(5, 0), time(20, 0), time(1, 1), time(3, 1)]), Some(2.0));
        assert_eq!(median_step(&[time(1, 0), time(1, 1)]), None);
    }
}
