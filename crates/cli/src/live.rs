//! Live machine for long-running views: one thread samples, another one diagnoses a window that slides over the
//! samples.

use crate::baseline;
use crate::observe::add_command_lines;
use crate::options::next_multiple;
use crate::output::Failure;
use crate::pseudonymise::{PseudonymSession, SampleRenamer};
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use whyslow_diagnose::{RuleBook, diagnose, requested_sources};
use whyslow_documents::baseline::Baseline;
use whyslow_documents::diagnosis::{Diagnosis, Origin};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;
use whyslow_sense::{Root, Sampler};

/// Length of the window, in seconds; the same as for a diagnosis.
const WINDOW: f64 = 10.0;
/// Length of the first and shortest window that is diagnosed, in seconds.
const SHORTEST: f64 = 2.5;
/// Minimum and maximum time from one diagnosis to the next. In between, the longer a diagnosis takes, the less frequent
/// it is.
const PACE: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(10));
/// Minimum ratio of the interval between diagnoses to the duration of one.
const SELDOM: u32 = 500;
/// Maximum time between the first two samples, so that rates are known soon.
const FIRST_STEP: Duration = Duration::from_millis(300);
/// Time without a suspicion after which requested sources are no longer read.
const UNSUSPICIOUS: Duration = Duration::from_secs(60);

/// Options for observing and judging the live machine.
pub struct LiveOptions {
    /// Sampling interval.
    pub interval: Duration,
    /// Whether to avoid BPF.
    pub no_bpf: bool,
    /// Rules for judging a window.
    pub book: Arc<RuleBook>,
}

/// Event of the live machine.
pub enum LiveEvent {
    /// A sample was taken.
    Sample(Box<Snapshot>),
    /// The last seconds were diagnosed.
    Diagnosed(Box<Diagnosis>),
    /// Sampling was restarted: differences from earlier samples are meaningless.
    Restarted,
    /// A thread ended because of a bug: no more events follow.
    Failed,
}

/// Handler for events; returns false once they are no longer wanted.
pub type EventFn = Arc<dyn Fn(LiveEvent) -> bool + Send + Sync>;

/// Sources that rules have requested, and the time of the last request.
#[derive(Default)]
struct Asked {
    sources: BTreeSet<String>,
    at: Option<Instant>,
}

/// Message from the sampling thread to the diagnosing one.
enum Sampled {
    Sample(Box<Snapshot>),
    Restarted,
}

/// Starts both threads, which end when the result is dropped. Requests sent to it are answered between two samples.
/// Names are replaced as soon as they are read.
///
/// # Errors
/// Fails if a thread cannot be started.
pub fn begin<R: Send + 'static>(
    options: LiveOptions,
    names: &PseudonymSession,
    events: EventFn,
    answer: impl Fn(&Root, R) + Send + 'static,
) -> Result<Sender<R>, Failure> {
    let asked = Arc::<Mutex<Asked>>::default();
    let (requests, requested) = channel();
    let (samples, sampled) = channel();
    let root = if options.no_bpf { Root::live().without_bpf() } else { Root::live() };
    // Loading may print a warning, which must come before anything is drawn.
    let baseline = baseline::default().map(|usual| names.baseline(usual));
    let judging = Judging {
        book: options.book,
        baseline,
        // Command lines contain names.
        has_command_lines: !names.is_on(),
        root: root.clone(),
        asked: asked.clone(),
        events: events.clone(),
    };
    let rename = names.sample_renamer();
    let sampling = Sampling { root, interval: options.interval, rename, asked, events, samples };
    let thread = |name: &str| thread::Builder::new().name(name.into());
    thread("diagnosis").spawn(move || judging.run(&sampled)).map_err(cannot_start)?;
    thread("samples").spawn(move || sampling.run(&requested, answer)).map_err(cannot_start)?;
    Ok(requests)
}

/// Returns the error for a thread that cannot be started.
pub fn cannot_start(error: std::io::Error) -> Failure {
    Failure::usage(whyslow_model::human::no_thread(&error))
}

/// Calls a function when its thread panics.
pub struct OnPanic<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for OnPanic<F> {
    fn drop(&mut self) {
        if thread::panicking() {
            (self.0)();
        }
    }
}

struct Sampling {
    root: Root,
    interval: Duration,
    rename: Option<SampleRenamer>,
    asked: Arc<Mutex<Asked>>,
    events: EventFn,
    samples: Sender<Sampled>,
}

impl Sampling {
    /// Samples until the request channel is closed.
    fn run<R>(&self, requests: &Receiver<R>, answer: impl Fn(&Root, R)) {
        let _end = OnPanic(|| {
            (self.events)(LiveEvent::Failed);
        });
        let mut sampler = Sampler::new(self.root.clone());
        let mut enabled: BTreeSet<String> = BTreeSet::new();
        let start = Instant::now();
        let mut due = start;
        let mut is_first = true;
        loop {
            match requests.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(request) => {
                    answer(&self.root, request);
                    continue;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.is_unsuspicious(&enabled) {
                // There is no other way to unload sources that were loaded on demand.
                sampler = Sampler::new(self.root.clone());
                enabled.clear();
                if !(self.events)(LiveEvent::Restarted) || self.samples.send(Sampled::Restarted).is_err() {
                    return;
                }
            }
            let mut sample = Box::new(sampler.sample());
            if let Some(rename) = &self.rename {
                rename(&mut sample);
            }
            if self.samples.send(Sampled::Sample(sample.clone())).is_err() {
                return;
            }
            if !(self.events)(LiveEvent::Sample(sample)) {
                return;
            }
            for source in self.asked().sources.difference(&enabled.clone()) {
                sampler.ask(source);
                enabled.insert(source.clone());
            }
            due = start + next_multiple(self.interval, start.elapsed());
            if std::mem::take(&mut is_first) {
                due = due.min(Instant::now() + FIRST_STEP);
            }
        }
    }

    fn asked(&self) -> std::sync::MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_unsuspicious(&self, enabled: &BTreeSet<String>) -> bool {
        let mut asked = self.asked();
        let is_long_ago = !enabled.is_empty() && asked.at.is_none_or(|at| at.elapsed() > UNSUSPICIOUS);
        if is_long_ago {
            asked.sources.clear();
        }
        is_long_ago
    }
}

struct Judging {
    book: Arc<RuleBook>,
    baseline: Option<Baseline>,
    has_command_lines: bool,
    root: Root,
    asked: Arc<Mutex<Asked>>,
    events: EventFn,
}

impl Judging {
    /// Diagnoses until the sample channel is closed.
    fn run(&self, samples: &Receiver<Sampled>) {
        let _end = OnPanic(|| {
            (self.events)(LiveEvent::Failed);
        });
        let usual = self.baseline.as_ref().map(whyslow_compare::usual).unwrap_or_default();
        let mut window = Window::default().with_usual(usual.clone());
        let mut due = Instant::now();
        while let Ok(sampled) = samples.recv() {
            match sampled {
                Sampled::Restarted => window = Window::default().with_usual(usual.clone()),
                Sampled::Sample(sample) => {
                    window.push(*sample);
                    window.keep_last(WINDOW);
                }
            }
            if window.seconds() < SHORTEST || Instant::now() < due {
                continue;
            }
            let begun = Instant::now();
            let mut diagnosis = diagnose(&window, Origin::Live, &self.book);
            if let Some(usual) = &self.baseline {
                whyslow_compare::remember(&mut diagnosis, usual);
            }
            if self.has_command_lines {
                add_command_lines(&mut diagnosis, &window, &self.root);
            }
            let wanted = requested_sources(&window, &self.book);
            if !wanted.is_empty() {
                let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
                asked.sources.extend(wanted);
                asked.at = Some(Instant::now());
            }
            if !(self.events)(LiveEvent::Diagnosed(Box::new(diagnosis))) {
                return;
            }
            due = Instant::now() + (begun.elapsed() * SELDOM).clamp(PACE.0, PACE.1);
        }
    }
}
