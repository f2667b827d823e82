//! Recording view: a thread that moves to a position in the recording and diagnoses what was recorded there.

use crate::explain::{episodes, window};
use crate::live::{OnPanic, cannot_start};
use crate::output::{Failure, ProgressLine};
use crate::pseudonymise::PseudonymSession;
use crate::recordings;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use whyslow_diagnose::{RuleBook, diagnose};
use whyslow_documents::diagnosis::Origin;
use whyslow_model::catalogue::{Family, Process, Sample, Sleep, Thread};
use whyslow_model::window::Window;
use whyslow_store::{Recording, StoreError};
use whyslow_top::{Event, Request, Step};

const SECOND_NS: i64 = 1_000_000_000;
/// Length of the window; the same as for a diagnosis.
const WINDOW_NS: i64 = 10 * SECOND_NS;
/// Length of the time series before a position.
const COURSE_NS: i64 = 180 * SECOND_NS;
/// Maximum distance to the next sample for it to be searched there.
const NEXT_NS: i64 = 90 * SECOND_NS;
/// Time before and after the requested time in which to look for episodes.
const EPISODES_NS: i64 = 6 * 3600 * SECOND_NS;

/// Times at which episodes are worst, in order; `None` until they are known.
type Episodes = Arc<Mutex<Option<Vec<i64>>>>;

/// Starts the threads. Steps sent to the result are answered by events.
pub(super) fn begin(
    at: &str,
    dir: Option<&Path>,
    book: RuleBook,
    names: &Arc<PseudonymSession>,
    events: Sender<Event>,
) -> Result<Sender<Request>, Failure> {
    let at = recordings::moment(at)?;
    let folder = recordings::folder(dir)?;
    let messages = Messages { folder: folder.clone(), names: names.clone(), events };
    let log = messages.clone();
    let recording = Recording::open_with_log(&folder, Arc::new(move |what: &str| log.tell(what)));
    let recording = recording.and_then(|recording| names.recording(recording));
    let recording = recording.map_err(|e| Failure::usage(e.to_string()))?;
    if !recording.span().contains(&at) {
        return Err(recordings::recorded_then("nothing", &recording));
    }
    let book = Arc::new(book);
    let places = Places { recording: Arc::new(recording), messages, episodes: Episodes::default() };
    let (requests, requested) = channel();
    let thread = |name: &str| thread::Builder::new().name(name.into());
    let (looking, of) = (places.clone(), book.clone());
    thread("episodes").spawn(move || looking.find_episodes(at, &of)).map_err(cannot_start)?;
    thread("recording").spawn(move || places.run(at, &book, &requested)).map_err(cannot_start)?;
    Ok(requests)
}

#[derive(Clone)]
struct Places {
    recording: Arc<Recording>,
    messages: Messages,
    episodes: Episodes,
}

/// Messages to the screen.
#[derive(Clone)]
struct Messages {
    folder: PathBuf,
    names: Arc<PseudonymSession>,
    events: Sender<Event>,
}

impl Messages {
    fn send(&self, event: Event) {
        // The screen may be gone, and the requester with it.
        let _ = self.events.send(event);
    }

    fn tell(&self, what: &str) {
        self.send(Event::Message(self.names.message_about(&self.folder, what)));
    }
}

impl Places {
    /// Moves as requested, until the screen is gone.
    fn run(&self, at: i64, book: &RuleBook, requests: &Receiver<Request>) {
        // The screen would no longer change; it may already have ended.
        let _end = OnPanic(|| self.messages.send(Event::End));
        let mut at = self.tell_failure(self.sample_before(at)).flatten().unwrap_or(at);
        self.show(at, book);
        while let Ok(request) = requests.recv() {
            let before = at;
            // A key that is held down requests more steps than can be shown.
            for request in std::iter::once(request).chain(requests.try_iter()) {
                if let Request::Step(step) = request {
                    at = self.tell_failure(self.place(at, step)).unwrap_or(at);
                }
            }
            if at != before {
                self.show(at, book);
            }
        }
    }

    /// Returns the position that a step leads to; if there is none, the position that it starts from.
    fn place(&self, at: i64, step: Step) -> Result<i64, StoreError> {
        let found = match step {
            Step::Sample(by) if by < 0 => self.sample_before(at - 1)?,
            Step::Sample(_) => self.sample_after(at)?,
            Step::Minute(by) => {
                let span = self.recording.span();
                let wanted = (at + i64::from(by) * 60 * SECOND_NS).clamp(*span.start(), *span.end());
                self.sample_before(wanted)?
            }
            Step::Episode(by) => self.episode(at, by),
        };
        Ok(found.unwrap_or(at))
    }

    fn episode(&self, at: i64, by: i32) -> Option<i64> {
        let episodes = self.episodes.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(all) = &*episodes else {
            self.tell("Still looking for episodes ...");
            return None;
        };
        let found = if by < 0 {
            all.iter().rev().find(|episode| **episode < at)
        } else {
            all.iter().find(|episode| **episode > at)
        };
        if found.is_none() {
            self.tell(if by < 0 { "There is no episode before." } else { "There is no episode after." });
        }
        found.copied()
    }

    fn sample_before(&self, at: i64) -> Result<Option<i64>, StoreError> {
        let near = self.samples(at.saturating_sub(NEXT_NS), at)?;
        let ends = self.recording.segments().iter().map(|segment| *segment.span.end()).filter(|end| *end <= at);
        Ok(near.into_iter().max().or(ends.max()))
    }

    fn sample_after(&self, at: i64) -> Result<Option<i64>, StoreError> {
        let near = self.samples(at.saturating_add(1), at.saturating_add(NEXT_NS))?;
        let starts = self.recording.segments().iter().map(|segment| *segment.span.start()).filter(|start| *start > at);
        Ok(near.into_iter().min().or(starts.min()))
    }

    /// Returns the times of the samples in a span.
    fn samples(&self, from: i64, to: i64) -> Result<Vec<i64>, StoreError> {
        let samples = self.recording.snapshots(&(from..=to), &|family: &str| family == Sample::INFO.name)?;
        Ok(samples.iter().map(|sample| sample.wall_ns).filter(|at| (from..=to).contains(at)).collect())
    }

    /// Shows a position: first what was recorded, then its diagnosis.
    fn show(&self, at: i64, book: &RuleBook) {
        let tasks = [Process::INFO.name, Thread::INFO.name, Sleep::INFO.name];
        let of_courses = |family: &str| !tasks.contains(&family);
        let before = self.recording.snapshots(&(at - COURSE_NS..=at), &of_courses);
        let (Some(window), Some(before)) = (self.tell_failure(self.window(at)), self.tell_failure(before)) else {
            return;
        };
        if window.snapshots().len() < 2 {
            self.tell("Nothing was recorded in the ten seconds before: there are levels, but no rates.");
        }
        let diagnosis = diagnose(&window, Origin::Recording, book);
        self.messages.send(Event::Recorded(Box::new(window), Box::new(Window::new(before))));
        self.messages.send(Event::Diagnosed(Box::new(diagnosis)));
    }

    /// Returns what was recorded in the seconds before a position, even if it is a single sample.
    fn window(&self, at: i64) -> Result<Window, StoreError> {
        let span = at - WINDOW_NS..=at;
        let window = window(&self.recording, &span)?;
        if window.last().is_some() {
            return Ok(window);
        }
        Ok(Window::new(self.recording.snapshots(&span, &|_: &str| true)?))
    }

    /// Finds episodes around a time, which may take a while.
    fn find_episodes(&self, at: i64, book: &RuleBook) {
        let span = at.saturating_sub(EPISODES_NS)..=at.saturating_add(EPISODES_NS);
        let found = episodes(&self.recording, &span, book, &ProgressLine::silent());
        if let Some(found) = self.tell_failure(found) {
            let mut all: Vec<i64> = found.iter().map(|episode| episode.worst_span.1).collect();
            all.sort_unstable();
            *self.episodes.lock().unwrap_or_else(PoisonError::into_inner) = Some(all);
        }
    }

    fn tell_failure<T>(&self, result: Result<T, StoreError>) -> Option<T> {
        result.inspect_err(|error| self.tell(&error.to_string())).ok()
    }

    fn tell(&self, what: &str) {
        self.messages.tell(what);
    }
}
