//! The thread that appends to the tail, flushes it, and keeps the folder within its limits.

use super::clocks::Clocks;
use super::closer::return_freed_memory;
use super::free_space::SpaceLevel;
use super::retention::{Retention, RetentionEnforcer};
use super::{SharedState, lock};
use crate::error::{LogFn, StoreError};
use crate::folder::{Folder, sync_folder};
use crate::tail::{TailHeader, TailWriter};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant, SystemTime};

pub(super) enum WriterCommand {
    BeginSegment {
        start: i64,
        boot: String,
    },
    /// Append the segment's next frame; the clocks are those at its sample.
    Append(Vec<u8>, Clocks),
    /// Append the state that the next frame is relative to.
    AppendState(Vec<u8>),
    /// Only check for errors and free space.
    Check,
}

pub(super) struct SampleWriter {
    folder: Folder,
    shared: Arc<SharedState>,
    to_closer: Sender<PathBuf>,
    log: LogFn,
    /// Interval between checks of free space, and between retries after a disk refused a write.
    pause: Duration,
    retention: RetentionEnforcer,
    tail: Option<(PathBuf, TailWriter)>,
    /// Samples appended since the last flush, and the clocks at the last of them.
    unflushed: usize,
    appended: Option<Clocks>,
    /// Device and inode number of the folder.
    identity: (u64, u64),
    /// Bytes of tails that are waiting to be closed.
    unclosed: u64,
    checked: Option<Instant>,
    /// True while an error interrupts recording.
    failing: bool,
}

impl SampleWriter {
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
        Ok(Self {
            identity: (metadata.dev(), metadata.ino()),
            folder,
            shared,
            to_closer,
            log,
            pause,
            retention,
            tail: None,
            unflushed: 0,
            appended: None,
            unclosed: 0,
            checked: None,
            failing: false,
        })
    }

    /// Executes commands until the channel is closed; then returns the last tail, to be closed.
    pub(super) fn run(mut self, commands: &Receiver<WriterCommand>) -> Option<PathBuf> {
        while let Ok(first) = commands.recv() {
            for command in std::iter::once(first).chain(commands.try_iter()) {
                if let Err(error) = self.execute(command) {
                    self.fail(&error);
                }
            }
            if let Err(error) = self.flush() {
                self.fail(&error);
            }
        }
        if self.is_gone() { None } else { self.tail.map(|(path, _)| path) }
    }

    fn execute(&mut self, command: WriterCommand) -> Result<(), StoreError> {
        let gone = self.is_gone();
        match command {
            WriterCommand::Append(frame, clocks) => self.append(&frame, clocks)?,
            WriterCommand::AppendState(state) => {
                if let Some((path, tail)) = &mut self.tail {
                    tail.append_state(&state).map_err(StoreError::io(path))?;
                }
            }
            WriterCommand::BeginSegment { start, boot } if !gone => self.begin_segment(start, &boot)?,
            WriterCommand::BeginSegment { .. } | WriterCommand::Check => {}
        }
        if gone { Ok(()) } else { self.stay_within_limits() }
    }

    /// Returns whether the folder was removed, or the tail was removed from it: anything written then is lost.
    fn is_gone(&mut self) -> bool {
        if self.shared.gone.load(Ordering::Relaxed) {
            return true;
        }
        let unlinked = |(_, tail): &(PathBuf, TailWriter)| tail.file().metadata().is_ok_and(|m| m.nlink() == 0);
        let replaced = match fs::metadata(self.folder.path()) {
            Ok(metadata) => (metadata.dev(), metadata.ino()) != self.identity,
            Err(error) => error.kind() == ErrorKind::NotFound,
        };
        if !replaced && !self.tail.as_ref().is_some_and(unlinked) {
            return false;
        }
        // Nothing is left to be closed.
        self.tail = None;
        self.settle();
        let folder = self.folder.path().display();
        self.shared.set_trouble(Some(format!("{folder}: removed while recording; nothing more is recorded")));
        self.shared.gone.store(true, Ordering::Relaxed);
        true
    }

    fn begin_segment(&mut self, start: i64, boot: &str) -> Result<(), StoreError> {
        self.flush()?;
        self.hand_over_tail();
        let path = self.folder.tail(start);
        let writer = TailWriter::create(&path, &TailHeader::new(boot)).map_err(|error| {
            if error.kind() != ErrorKind::AlreadyExists {
                // The file has at most part of a header. If it cannot be removed, the next recorder finds it empty.
                let _ = fs::remove_file(&path);
            }
            StoreError::io(&path)(error)
        })?;
        sync_folder(self.folder.path())?;
        return_freed_memory();
        self.tail = Some((path, writer));
        Ok(())
    }

    fn append(&mut self, frame: &[u8], clocks: Clocks) -> Result<(), StoreError> {
        self.unflushed += 1;
        let Some((path, tail)) = &mut self.tail else {
            // After a failure, or once the folder is gone, the rest of a segment cannot be written.
            self.settle();
            return Ok(());
        };
        tail.append(frame).map_err(StoreError::io(path))?;
        self.appended = Some(clocks);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let (Some((path, tail)), Some(clocks)) = (&self.tail, self.appended) else { return Ok(()) };
        tail.file().sync_data().map_err(StoreError::io(path))?;
        *lock(&self.shared.written) = Some(clocks);
        self.settle();
        if std::mem::take(&mut self.failing) {
            self.shared.set_trouble(None);
            (self.log)("recording again");
        }
        Ok(())
    }

    /// Stops counting samples as pending: each is on the device, or lost.
    fn settle(&mut self) {
        self.shared.pending.fetch_sub(std::mem::take(&mut self.unflushed), Ordering::Relaxed);
        self.appended = None;
    }

    fn hand_over_tail(&mut self) {
        if let Some((path, tail)) = self.tail.take() {
            self.unclosed += tail.length();
            // Without a closer the tail stays for the next recorder.
            let _ = self.to_closer.send(path);
        }
    }

    /// Handles an error: nothing more can be appended to the tail, so it is closed, and another one is started.
    fn fail(&mut self, error: &StoreError) {
        self.hand_over_tail();
        self.settle();
        self.shared.refused.store(true, Ordering::Relaxed);
        if !std::mem::replace(&mut self.failing, true) {
            (self.log)(&format!("cannot record: {error}; trying again every {:?}", self.pause));
            self.shared.set_trouble(Some(format!("cannot record: {error}")));
        }
    }

    fn stay_within_limits(&mut self) -> Result<(), StoreError> {
        if self.shared.closed.swap(false, Ordering::Relaxed) {
            self.retention.recount(&self.folder)?;
        }
        let tails = self.unclosed + self.tail.as_ref().map_or(0, |(_, tail)| tail.length());
        self.retention.enforce(now_ns(), tails)?;
        if self.checked.is_some_and(|checked| checked.elapsed() < self.pause) {
            return Ok(());
        }
        self.checked = Some(Instant::now());
        let tails = self.folder.tails()?;
        let open = self.tail.as_ref().map(|(path, _)| path);
        let unclosed = tails.iter().filter(|tail| Some(*tail) != open);
        self.unclosed = unclosed.filter_map(|tail| fs::metadata(tail).ok()).map(|m| m.len()).sum();
        if !self.retention.limits.thin_when_full {
            return Ok(());
        }
        let space = SpaceLevel::at(self.folder.path()).map_err(StoreError::io(self.folder.path()))?;
        if std::mem::replace(&mut *lock(&self.shared.space), space) != space {
            (self.log)(&format!("{}: {}", self.folder.path().display(), space.in_words()));
        }
        Ok(())
    }
}

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
