//! Live machine: samples and diagnoses since the start of the program.

use super::part::{PagePart, seconds};
use crate::http::host_name;
use crate::live::LiveEvent;
use crate::output::{self, complain};
use crate::pseudonymise::PseudonymSession;
use crate::report::{MOST_INTERVALS, page_of};
use crate::stack;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};
use whyslow_diagnose::add_loads;
use whyslow_documents::chart::{Chart, PageData};
use whyslow_documents::diagnosis::Diagnosis;
use whyslow_documents::io_stack::IoStack;
use whyslow_documents::overview::{HostKind, HostOverview};
use whyslow_documents::profile::{ProfileKind, StackProfile};
use whyslow_model::window::Window;
use whyslow_sense::profile::{ProfileOptions, Profiler};
use whyslow_sense::{Root, SourceError};
use whyslow_series::{ChartAxes, ChartBuilder, SeriesNames};
use whyslow_serve::{ApiError, PageContent};
use whyslow_store::{History, HistoryLimits};

/// Limits of the sample history, in time and memory.
const LIMITS: HistoryLimits = HistoryLimits { time: Duration::from_secs(3600), bytes: 64 << 20 };
/// Length of the window, in seconds; the same as for a diagnosis.
const WINDOW: f64 = 10.0;
/// Number of samples before the requested ones; they reveal missing samples and previous levels.
const LEAD: u32 = 10;
/// Maximum number of series that a chart continues to draw; with more, those drawn first are forgotten.
const MOST_DRAWN: usize = 64;
/// Sampling rate of a profile in Hz, the same as for `whyslow profile`.
const HZ: u32 = 99;

/// State of the live machine.
pub struct LiveHost {
    name: String,
    names: Arc<PseudonymSession>,
    interval: Duration,
    state: Mutex<LiveState>,
    /// Held while reading something that must be read only once at a time.
    reading_stack: Mutex<()>,
    profiling: Mutex<()>,
}

struct LiveState {
    history: History,
    /// Samples for a diagnosis.
    window: Window,
    diagnosis: Option<Diagnosis>,
    /// Series that pages have drawn, so that they can continue them.
    drawn: SeriesNames,
}

impl LiveHost {
    /// Id of the live machine in requests.
    pub const ID: &'static str = "live";

    /// Creates a host without data yet.
    pub fn new(interval: Duration, names: Arc<PseudonymSession>) -> Self {
        let state = LiveState {
            history: History::new(LIMITS),
            window: Window::default(),
            diagnosis: None,
            drawn: SeriesNames::new(),
        };
        Self {
            name: names.host(&host_name()),
            names,
            interval,
            state: Mutex::new(state),
            reading_stack: Mutex::default(),
            profiling: Mutex::default(),
        }
    }

    /// Adds an event.
    pub fn take(&self, event: LiveEvent) {
        let mut state = self.state();
        match event {
            LiveEvent::Sample(sample) => {
                state.window.push((*sample).clone());
                state.window.keep_last(WINDOW);
                state.history.add(*sample);
            }
            LiveEvent::Diagnosed(diagnosis) => state.diagnosis = Some(*diagnosis),
            LiveEvent::Restarted => {
                state.window = Window::default();
                state.history.restart();
            }
            LiveEvent::Failed => complain("the machine is no longer sampled: an internal error, see above"),
        }
    }

    fn state(&self) -> MutexGuard<'_, LiveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the machine's overview line.
    pub fn overview(&self) -> HostOverview {
        let state = self.state();
        let span = state.history.span();
        let finding = state.diagnosis.as_ref().and_then(|diagnosis| diagnosis.findings.first());
        HostOverview {
            id: Self::ID.into(),
            name: self.name.clone(),
            kind: HostKind::Live,
            from: span.as_ref().map(|span| seconds(*span.start())),
            to: span.as_ref().map(|span| seconds(*span.end())),
            interval: Some(self.interval.as_secs_f64()),
            verdict: state.diagnosis.as_ref().map(|diagnosis| diagnosis.verdict),
            finding: finding.map(|finding| finding.summary.clone()),
            severity: finding.map(|finding| finding.impact),
            ..HostOverview::default()
        }
    }

    /// Returns charts and the newest diagnosis; `None` if there is nothing new.
    ///
    /// # Errors
    /// Fails if nothing was sampled at that time, or yet, and if an outline is requested.
    pub fn page(&self, part: &PagePart) -> Result<Option<PageData>, ApiError> {
        if part.content == PageContent::Outline {
            return Err(ApiError::BadRequest(
                "only=outline is for recordings; the live machine's charts are quick".into(),
            ));
        }
        let all = self.state().history.span();
        let all = all.ok_or_else(|| ApiError::Busy("no sample has been taken yet; try again in a second".into()))?;
        if part.since.is_some_and(|since| since >= *all.end()) {
            return Ok(None);
        }
        let lead = i64::try_from((self.interval * LEAD).as_nanos()).unwrap_or(i64::MAX);
        let span = match part.since {
            Some(since) => since.saturating_sub(lead)..=*all.end(),
            None => part.span(&all, i64::MAX)?,
        };
        let (samples, kept, diagnosis) = {
            let state = self.state();
            let diagnosis = state.diagnosis.clone().filter(|_| part.content.has_answer());
            (state.history.part(span.clone()), state.drawn.clone(), diagnosis)
        };
        let times = samples.times();
        let most = if part.since.is_some() { MOST_INTERVALS } else { part.most_intervals(times.len()) };
        let specs = if part.content.has_charts() { part.specs.clone() } else { Vec::new() };
        let axes = ChartAxes::new(times, most, false);
        let mut builder = ChartBuilder::new(specs, axes.into()).also_drawing(kept);
        let selections = builder.selections();
        samples.each_reading(&selections, |selection, reading| builder.add(selection, reading));
        let charts = builder.finish();
        let charts: Vec<Chart> = match part.since {
            Some(since) => charts.into_iter().filter_map(|chart| chart.after(seconds(since))).collect(),
            None => charts,
        };
        remember(&mut self.state().drawn, &charts);
        let span = if part.since.is_some() { all } else { span };
        Ok(Some(PageData {
            title: format!("whyslow: {}, live", self.name),
            from: seconds(*span.start()),
            to: seconds(*span.end()),
            diagnosis,
            ..page_of(self.name.clone(), charts, false)
        }))
    }

    /// Returns the current stacks, with their load over the last seconds.
    pub fn stack(&self) -> IoStack {
        let _one = self.reading_stack.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stack = stack::live(&self.names);
        let window = self.state().window.clone();
        add_loads(&mut stack, &window);
        stack
    }

    /// Profiles the whole machine.
    ///
    /// # Errors
    /// Fails if a profile is already running, if this user or kernel does not allow profiling, or if names must be
    /// replaced.
    pub fn profile(&self, kind: ProfileKind, time: Duration) -> Result<StackProfile, ApiError> {
        if self.names.is_on() {
            return Err(ApiError::BadRequest("--pseudonymise does not cover profiles, which are made of names".into()));
        }
        let _one = match self.profiling.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(ApiError::Busy("another profile is being recorded; try again when it is done".into()));
            }
        };
        let cannot = |error: SourceError| ApiError::BadRequest(output::unreadable("profile", error).words().to_owned());
        let options = ProfileOptions { kind, hz: HZ, pid: None, kernel: true, user: true };
        let mut profiler = Profiler::start(options, Root::live()).map_err(cannot)?;
        let end = Instant::now() + time;
        while profiler.poll().map_err(cannot)? && Instant::now() < end {
            thread::sleep(Profiler::PACE.min(end.saturating_duration_since(Instant::now())));
        }
        profiler.finish().map_err(cannot)
    }
}

/// Remembers which series are drawn.
fn remember(drawn: &mut SeriesNames, charts: &[Chart]) {
    for chart in charts.iter().filter(|chart| !chart.series.is_empty()) {
        let names: BTreeSet<String> = chart.series.iter().map(|series| series.name.clone()).collect();
        let known = drawn.entry(chart.id.clone()).or_default();
        if known.union(&names).count() > MOST_DRAWN {
            *known = names;
        } else {
            known.extend(names);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::catalogue::Disk;
    use whyslow_model::snapshot::Snapshot;

    const SECOND: u64 = 1_000_000_000;
    /// 2026-11-21 16:43:20 UTC.
    const START: u64 = 1_795_279_400;

    /// Simulates ten disks that take turns: each second one of them reads.
    fn sample(second: u64) -> LiveEvent {
        let wall_ns = ((START + second) * SECOND) as i64;
        let mut sample = Snapshot { wall_ns, boot_ns: (100 + second) * SECOND, ..Snapshot::default() };
        for disk in 0..10 {
            // Number of turns of this disk so far.
            let reads = second / 10 + u64::from(second % 10 >= disk);
            sample.block.disk.push(Disk {
                reads: (reads * 5).into(),
                identity: "1".into(),
                ..Disk::new(format!("sd{disk}").as_str().into())
            });
        }
        LiveEvent::Sample(Box::new(sample))
    }

    fn host(seconds: u64) -> LiveHost {
        let host = LiveHost::new(Duration::from_secs(1), Arc::default());
        (0..seconds).for_each(|second| host.take(sample(second)));
        host
    }

    fn part(since: Option<u64>) -> PagePart {
        let since = since.map(|second| ((START + second) * SECOND) as i64);
        let specs = whyslow_series::charts().filter(|chart| chart.id == "disk.requests").collect();
        PagePart { from: None, to: None, since, intervals: None, specs, content: PageContent::Everything }
    }

    fn requests(page: &PageData) -> Vec<(&str, Option<f64>)> {
        let chart = page.charts.first().expect("a chart");
        chart.series.iter().map(|series| (&*series.name, *series.mean.last().unwrap())).collect()
    }

    #[test]
    fn a_page_goes_on_with_what_came_since_and_with_what_it_has_drawn() {
        let host = host(100);
        let whole = host.page(&part(None)).unwrap().unwrap();
        assert_eq!((whole.from, whole.to), (START as f64, (START + 99) as f64));
        assert_eq!(whole.charts[0].times.len(), 100);
        let drawn: Vec<&str> = requests(&whole).into_iter().map(|(name, _)| name).collect();
        // The first turn of sd0 came before the first sample; of the other, equal ones, the first by name.
        assert_eq!(drawn, ["sd1 reads", "sd2 reads", "sd3 reads", "sd4 reads", "sd5 reads", "sd6 reads"]);
        assert!(host.page(&part(Some(99))).unwrap().is_none());
        host.take(sample(100));
        let newer = host.page(&part(Some(99))).unwrap().unwrap();
        assert_eq!((newer.from, newer.to), (START as f64, (START + 100) as f64));
        assert_eq!(newer.charts[0].times, [(START + 100) as f64]);
        let shown = requests(&newer);
        assert!(shown.contains(&("sd0 reads", Some(5.0))), "{shown:?}");
        for name in drawn {
            assert!(shown.contains(&(name, Some(0.0))), "{name}: {shown:?}");
        }
    }

    #[test]
    fn a_span_can_be_chosen_and_one_that_was_not_observed_is_refused() {
        let host = host(100);
        let at = |second: u64| Some(((START + second) * SECOND) as i64);
        let page = host.page(&PagePart { from: at(20), to: at(30), ..part(None) }).unwrap().unwrap();
        assert_eq!((page.from, page.to), ((START + 20) as f64, (START + 30) as f64));
        assert_eq!(page.charts[0].times.len(), 11);
        let later = host.page(&PagePart { from: at(200), to: at(300), ..part(None) });
        assert!(matches!(later, Err(ApiError::NotFound(_))));
        assert!(matches!(
            LiveHost::new(Duration::from_secs(1), Arc::default()).page(&part(None)),
            Err(ApiError::Busy(_))
        ));
    }

    #[test]
    fn the_series_that_are_drawn_on_are_bounded() {
        let chart = |from: usize, to: usize| {
            let series = (from..to)
                .map(|at| whyslow_documents::chart::ChartSeries { name: format!("series {at}"), ..Default::default() });
            [Chart { id: "x".into(), series: series.collect(), ..Chart::default() }]
        };
        let mut drawn = SeriesNames::new();
        remember(&mut drawn, &chart(0, 60));
        remember(&mut drawn, &chart(58, 64));
        assert_eq!(drawn["x"].len(), 64);
        remember(&mut drawn, &chart(64, 68));
        assert_eq!(drawn["x"].len(), 4);
    }
}
