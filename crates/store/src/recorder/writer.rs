//! Appends to the tail, and keeps the folder within its limits.

use super::clocks::Clocks;
use super::closer::return_freed_memory;
use super::flusher::{FlushRequest, Flusher};
use super::free_space::FreeSpace;
use super::retention::{Retention, RetentionEnforcer};
use super::{LogFn, SharedState, lock};
use crate::error::StoreError;
use crate::folder::{Folder, sync_folder};
use crate::tail::{TailHeader, TailWriter};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant, SystemTime};

/// What the writer is asked to do.
pub(super) enum WriterCommand {
    BeginSegment {
        start: i64,
        boot: String,
    },
    /// Append the segment's next frame; the clocks are those at its sample.
    Append(Vec<u8>, Clocks),
    /// Only check for errors and free space.
    Check,
}

struct OpenTail {
    path: PathBuf,
    writer: TailWriter,
    /// See [`FlushRequest::attempt`].
    attempt: u64,
}

/// Writes the tail.
pub(super) struct Writer {
    folder: Folder,
    shared: Arc<SharedState>,
    /// `None` once the recording has ended.
    to_closer: Option<Sender<PathBuf>>,
    flusher: Option<Flusher>,
    log: LogFn,
    /// How often free space is checked, and a disk that refuses writes is tried again.
    pause: Duration,
    retention: RetentionEnforcer,
    tail: Option<OpenTail>,
    /// Device and inode of the folder.
    identity: (u64, u64),
    /// Bytes of tails that are to be closed.
    unclosed: u64,
    checked: Option<Instant>,
    space: FreeSpace,
}

impl Writer {
    pub(super) fn new(
        folder: Folder,
        retention: Retention,
        pause: Duration,
        shared: Arc<SharedState>,
        to_closer: Sender<PathBuf>,
        log: LogFn,
    ) -> Result<Self, StoreError> {
        let retention = RetentionEnforcer::new(&folder, retention)?;
        let metadata = fs::metadata(folder.path()).map_err(StoreError::io(folder.path()))?;
        let flusher = Flusher::start(shared.clone(), log.clone()).map_err(StoreError::io(folder.path()))?;
        Ok(Self {
            identity: (metadata.dev(), metadata.ino()),
            folder,
            shared,
            to_closer: Some(to_closer),
            flusher: Some(flusher),
            log,
            pause,
            retention,
            tail: None,
            unclosed: 0,
            checked: None,
            space: FreeSpace::Enough,
        })
    }

    pub(super) fn execute(&mut self, command: WriterCommand) {
        if self.is_gone() {
            return;
        }
        self.handle_flush_error();
        let done = match command {
            WriterCommand::BeginSegment { start, boot } => self.begin_segment(start, &boot),
            WriterCommand::Append(frame, clocks) => self.append(&frame, clocks),
            WriterCommand::Check => Ok(()),
        };
        if let Err(error) = done.and_then(|()| self.stay_within_limits()) {
            self.fail(&error);
        }
    }

    /// Waits until everything is on the device, and closes the channel to the closer. Returns the last tail, to be closed.
    pub(super) fn end(&mut self) -> Option<PathBuf> {
        if let Some(flusher) = self.flusher.take() {
            flusher.finish();
        }
        if !self.is_gone() {
            self.handle_flush_error();
        }
        self.to_closer = None;
        self.tail.take().map(|tail| tail.path)
    }

    /// Whether the folder was removed, or the tail was removed from it: whatever is written then is lost.
    fn is_gone(&mut self) -> bool {
        if self.shared.gone.load(Ordering::Relaxed) {
            return true;
        }
        let unlinked = |tail: &OpenTail| tail.writer.file().metadata().is_ok_and(|m| m.nlink() == 0);
        let replaced = match fs::metadata(self.folder.path()) {
            Ok(metadata) => (metadata.dev(), metadata.ino()) != self.identity,
            Err(error) => error.kind() == ErrorKind::NotFound,
        };
        if !replaced && !self.tail.as_ref().is_some_and(unlinked) {
            return false;
        }
        // There is nothing left to be closed.
        self.tail = None;
        lock(&self.shared.flush).give_up();
        let folder = self.folder.path().display();
        self.shared.set_trouble(Some(format!("{folder}: removed while recording; nothing more is recorded")));
        self.shared.gone.store(true, Ordering::Relaxed);
        true
    }

    fn begin_segment(&mut self, start: i64, boot: &str) -> Result<(), StoreError> {
        self.hand_over_tail();
        let path = self.folder.tail(start);
        let writer = TailWriter::create(&path, &TailHeader::new(boot)).map_err(|error| {
            if error.kind() != ErrorKind::AlreadyExists {
                // There is at most part of a header in it. If it cannot be removed, the next recorder finds it empty.
                let _ = fs::remove_file(&path);
            }
            StoreError::io(&path)(error)
        })?;
        sync_folder(self.folder.path())?;
        return_freed_memory();
        self.tail = Some(OpenTail { path, writer, attempt: lock(&self.shared.flush).attempt });
        Ok(())
    }

    fn append(&mut self, frame: &[u8], clocks: Clocks) -> Result<(), StoreError> {
        // The rest of a segment that failed has nowhere to go.
        let Some(OpenTail { path, writer, attempt }) = &mut self.tail else { return Ok(()) };
        writer.append(frame).map_err(StoreError::io(path))?;
        let sample = {
            let mut state = lock(&self.shared.flush);
            state.appended += 1;
            state.appended
        };
        if let Some(flusher) = &self.flusher {
            let (path, file) = (path.clone(), writer.file().clone());
            flusher.request(FlushRequest { path, file, sample, clocks, attempt: *attempt });
        }
        Ok(())
    }

    /// Gives the tail to the closer; after the end, it stays for the next recorder.
    fn hand_over_tail(&mut self) {
        if let Some(tail) = self.tail.take() {
            self.unclosed += tail.writer.length();
            if let Some(to_closer) = &self.to_closer {
                let _ = to_closer.send(tail.path);
            }
        }
    }

    fn handle_flush_error(&mut self) {
        let error = lock(&self.shared.flush).error.take();
        if let Some(error) = error {
            self.fail(&error);
        }
    }

    /// After an error nothing can be appended to the tail, so it is closed, and another one is begun.
    fn fail(&mut self, error: &StoreError) {
        self.hand_over_tail();
        let was_failing = {
            let mut state = lock(&self.shared.flush);
            state.give_up();
            std::mem::replace(&mut state.failing, true)
        };
        self.shared.refused.store(true, Ordering::Relaxed);
        if !was_failing {
            (self.log)(&format!("cannot record: {error}; trying again every {:?}", self.pause));
            self.shared.set_trouble(Some(format!("cannot record: {error}")));
        }
    }

    fn stay_within_limits(&mut self) -> Result<(), StoreError> {
        if self.shared.closed.swap(false, Ordering::Relaxed) {
            self.retention.recount(&self.folder)?;
        }
        let tails = self.unclosed + self.tail.as_ref().map_or(0, |tail| tail.writer.length());
        self.retention.enforce(now_ns(), tails)?;
        if self.checked.is_some_and(|checked| checked.elapsed() < self.pause) {
            return Ok(());
        }
        self.checked = Some(Instant::now());
        let tails = self.folder.tails()?;
        let open = self.tail.as_ref().map(|tail| &tail.path);
        let unclosed = tails.iter().filter(|tail| Some(*tail) != open);
        self.unclosed = unclosed.filter_map(|tail| fs::metadata(tail).ok()).map(|m| m.len()).sum();
        let space = FreeSpace::at(self.folder.path()).map_err(StoreError::io(self.folder.path()))?;
        if std::mem::replace(&mut self.space, space) != space {
            self.shared.set_space(space);
            (self.log)(&format!("{}: {}", self.folder.path().display(), space.in_words()));
        }
        Ok(())
    }
}

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
