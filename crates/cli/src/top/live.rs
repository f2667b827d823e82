//! The live machine: one thread samples, another one diagnoses a window that slides over the samples.

use super::{EndIfPanics, cannot_start};
use crate::baseline;
use crate::observe::add_command_lines;
use crate::options::next_multiple;
use crate::output::Failure;
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use whyslow_diagnose::{RuleBook, diagnose, requested_sources};
use whyslow_model::baseline::Baseline;
use whyslow_model::diagnosis::Origin;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;
use whyslow_sense::{Root, Sampler, descriptors};
use whyslow_top::{Event, OpenFile, Request};

/// As long as the window of a diagnosis.
const WINDOW: f64 = 10.0;
/// The shortest window that is diagnosed, which is the first one.
const SHORTEST: f64 = 2.5;
/// The time from one diagnosis to the next, at least and at most. In between, the longer a diagnosis takes, the rarer it is.
const PACE: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(10));
/// One diagnosis may take so small a part of the time until the next.
const SELDOM: u32 = 500;
/// The first two samples are this far apart at most, so that the screen shows rates soon.
const FIRST_STEP: Duration = Duration::from_millis(300);
/// Without a suspicion for this long, sources that were asked for are no longer read.
const UNSUSPICIOUS: Duration = Duration::from_secs(60);

/// The sources that rules have asked for, and when they last did.
#[derive(Default)]
struct Asked {
    sources: BTreeSet<String>,
    at: Option<Instant>,
}

/// What the diagnosing thread is told.
enum Sampled {
    Sample(Box<Snapshot>),
    Restarted,
}

/// Starts both threads. What is sent to the result is answered by events.
pub(super) fn begin(
    interval: Duration,
    no_bpf: bool,
    book: RuleBook,
    events: Sender<Event>,
) -> Result<Sender<Request>, Failure> {
    let asked = Arc::<Mutex<Asked>>::default();
    let (requests, requested) = channel();
    let (samples, sampled) = channel();
    let root = if no_bpf { Root::live().without_bpf() } else { Root::live() };
    // It may have something to complain of, before the screen is drawn.
    let baseline = baseline::default();
    let judging = Judging { book, baseline, root: root.clone(), asked: asked.clone(), events: events.clone() };
    let sampling = Sampling { root, interval, asked, events, samples };
    let thread = |name: &str| thread::Builder::new().name(name.into());
    thread("diagnosis").spawn(move || judging.run(&sampled)).map_err(cannot_start)?;
    thread("samples").spawn(move || sampling.run(&requested)).map_err(cannot_start)?;
    Ok(requests)
}

struct Sampling {
    root: Root,
    interval: Duration,
    asked: Arc<Mutex<Asked>>,
    events: Sender<Event>,
    samples: Sender<Sampled>,
}

impl Sampling {
    /// Samples until the screen is gone.
    fn run(&self, requests: &Receiver<Request>) {
        let _end = EndIfPanics(self.events.clone());
        let mut sampler = Sampler::new(self.root.clone());
        let mut enabled: BTreeSet<String> = BTreeSet::new();
        let start = Instant::now();
        let mut due = start;
        let mut is_first = true;
        loop {
            match requests.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(request) => {
                    self.answer(request);
                    continue;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.is_unsuspicious(&enabled) {
                // There is no other way to unload what was loaded on demand.
                sampler = Sampler::new(self.root.clone());
                enabled.clear();
                if self.events.send(Event::Restarted).is_err() || self.samples.send(Sampled::Restarted).is_err() {
                    return;
                }
            }
            let sample = Box::new(sampler.sample());
            if self.samples.send(Sampled::Sample(sample.clone())).is_err() {
                return;
            }
            if self.events.send(Event::Sample(sample)).is_err() {
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

    fn answer(&self, request: Request) {
        let Request::Files(task) = request else { return };
        let files = descriptors(&self.root, &task).map_err(|error| error.why().to_owned());
        let files = files.map(|files| files.into_iter().map(|(name, count)| OpenFile { name, count }).collect());
        // The next sample finds out that the screen is gone.
        let _ = self.events.send(Event::Files(task, files));
    }
}

struct Judging {
    book: RuleBook,
    baseline: Option<Baseline>,
    root: Root,
    asked: Arc<Mutex<Asked>>,
    events: Sender<Event>,
}

impl Judging {
    /// Diagnoses until no more samples come.
    fn run(&self, samples: &Receiver<Sampled>) {
        let _end = EndIfPanics(self.events.clone());
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
            add_command_lines(&mut diagnosis, &window, &self.root);
            let wanted = requested_sources(&window, &self.book);
            if !wanted.is_empty() {
                let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
                asked.sources.extend(wanted);
                asked.at = Some(Instant::now());
            }
            if self.events.send(Event::Diagnosed(Box::new(diagnosis))).is_err() {
                return;
            }
            due = Instant::now() + (begun.elapsed() * SELDOM).clamp(PACE.0, PACE.1);
        }
    }
}
