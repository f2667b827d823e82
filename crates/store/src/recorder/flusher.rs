//! Flushes the tail to the device, in a thread of its own: fdatasync(2) takes seconds on a slow disk, and no sample may wait
//! for it.

use super::clocks::Clocks;
use super::{LogFn, SharedState, lock};
use crate::error::StoreError;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// A sample that was appended and is to be flushed.
pub(super) struct FlushRequest {
    pub(super) path: PathBuf,
    pub(super) file: Arc<File>,
    /// Which of all appended samples this is.
    pub(super) sample: u64,
    pub(super) clocks: Clocks,
    /// [`FlushState::attempt`] when the tail was created.
    pub(super) attempt: u64,
}

/// How much of what was appended is on the device.
#[derive(Debug, Default)]
pub(super) struct FlushState {
    /// Samples appended so far, and how many of them were flushed or given up.
    pub(super) appended: u64,
    flushed: u64,
    /// Incremented on failure, so that results of earlier tails no longer count.
    pub(super) attempt: u64,
    /// An error the writer has yet to deal with.
    pub(super) error: Option<StoreError>,
    /// The clocks at the last sample on the device.
    pub(super) last: Option<Clocks>,
    /// Recording is interrupted by an error.
    pub(super) failing: bool,
}

impl FlushState {
    /// Samples that may not be on the device yet.
    pub(super) fn unflushed(&self) -> usize {
        usize::try_from(self.appended - self.flushed).unwrap_or(usize::MAX)
    }

    /// Stops waiting for anything appended so far.
    pub(super) fn give_up(&mut self) {
        self.flushed = self.appended;
        self.attempt += 1;
    }
}

/// The thread that flushes.
pub(super) struct Flusher {
    requests: Sender<FlushRequest>,
    thread: JoinHandle<()>,
}

impl Flusher {
    pub(super) fn start(shared: Arc<SharedState>, log: LogFn) -> io::Result<Self> {
        let (requests, received) = channel();
        let thread =
            std::thread::Builder::new().name("flushing".into()).spawn(move || run(&received, &shared, &log))?;
        Ok(Self { requests, thread })
    }

    pub(super) fn request(&self, request: FlushRequest) {
        // The thread ends only when this sender is dropped.
        let _ = self.requests.send(request);
    }

    /// Waits until everything requested was flushed or has failed.
    pub(super) fn finish(self) {
        drop(self.requests);
        let _ = self.thread.join();
    }
}

fn run(requests: &Receiver<FlushRequest>, shared: &SharedState, log: &LogFn) {
    while let Ok(first) = requests.recv() {
        let mut batch: Vec<FlushRequest> = std::iter::once(first).chain(requests.try_iter()).collect();
        // One flush of a file covers all earlier samples in it.
        batch.dedup_by(|later, earlier| {
            let same_file = Arc::ptr_eq(&later.file, &earlier.file);
            if same_file {
                std::mem::swap(later, earlier);
            }
            same_file
        });
        for request in batch {
            flush(&request, shared, log);
        }
    }
}

fn flush(request: &FlushRequest, shared: &SharedState, log: &LogFn) {
    // After a failed fdatasync(2) the next one on the same file succeeds, though data are lost.
    if lock(&shared.flush).attempt != request.attempt {
        return;
    }
    let result = request.file.sync_data();
    if shared.note_flushed(request, result) {
        log("recording again");
    }
}

impl SharedState {
    /// Returns whether this ends an interruption.
    fn note_flushed(&self, request: &FlushRequest, result: io::Result<()>) -> bool {
        let mut state = lock(&self.flush);
        if state.attempt != request.attempt {
            return false;
        }
        if let Err(error) = result {
            state.error = Some(StoreError::io(&request.path)(error));
            state.give_up();
            return false;
        }
        state.flushed = request.sample;
        state.last = Some(request.clocks);
        let recovered = std::mem::take(&mut state.failing);
        if recovered {
            self.set_trouble(None);
        }
        recovered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;
    use std::sync::Mutex;

    fn request(file: File, sample: u64) -> FlushRequest {
        let clocks = Clocks { wall: 0, boot: sample, running: 0 };
        FlushRequest { path: "1.tail".into(), file: Arc::new(file), sample, clocks, attempt: 0 }
    }

    #[test]
    fn flushed_samples_are_counted_and_a_failure_is_reported_once() {
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = said.clone();
        let log: LogFn = Arc::new(move |line: &str| lock(&lines).push(line.to_owned()));
        let shared = Arc::new(SharedState::default());
        let flush = |request| {
            let flusher = Flusher::start(shared.clone(), log.clone()).unwrap();
            flusher.request(request);
            flusher.finish();
        };
        lock(&shared.flush).appended = 3;
        lock(&shared.flush).failing = true;
        flush(request(tempfile::tempfile().unwrap(), 2));
        assert_eq!(lock(&shared.flush).unflushed(), 1);
        assert_eq!(lock(&shared.flush).last.map(|clocks| clocks.boot), Some(2));
        assert_eq!(*lock(&said), ["recording again"]);

        let (_, pipe) = std::io::pipe().unwrap();
        flush(request(File::from(OwnedFd::from(pipe)), 3));
        assert!(lock(&shared.flush).error.take().unwrap().to_string().starts_with("1.tail: "));
        assert_eq!(lock(&shared.flush).unflushed(), 0, "given up");

        // Nothing more counts of a tail that failed.
        lock(&shared.flush).appended = 4;
        flush(request(tempfile::tempfile().unwrap(), 4));
        assert_eq!(lock(&shared.flush).unflushed(), 1);
    }
}
