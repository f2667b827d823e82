//! Appending to the tail, and keeping the folder within its bounds.

use super::clocks::Clocks;
use super::keep::{Keep, Keeper};
use super::memory::give_back_memory;
use super::space::Space;
use super::{Log, Shared, lock};
use crate::error::StoreError;
use crate::flush::Flusher;
use crate::folder::{Folder, sync_folder};
use crate::tail::{Header, TailWriter};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant, SystemTime};

/// What the writer is told.
pub(super) enum Message {
    /// A new segment begins.
    Begin { start: i64, boot: String },
    /// The next frame of it, and the clocks at its sample.
    Frame(Vec<u8>, Clocks),
    /// Nothing to write; look what the device has got, and how much space there is.
    Look,
}

/// Samples on their way to the device: how many, and the clocks at the last.
type Batch = (usize, Clocks);

/// The writer and what it holds.
pub(super) struct Writer {
    folder: Folder,
    shared: Arc<Shared>,
    /// `None` once it has ended.
    to_closer: Option<Sender<PathBuf>>,
    log: Log,
    /// How long between two looks at the space there is, and between two tries of a disk that refuses.
    pause: Duration,
    keeper: Keeper,
    tail: Option<(PathBuf, TailWriter)>,
    /// Device and inode of the folder.
    identity: (u64, u64),
    flusher: Flusher,
    /// What is being flushed.
    flushing: Option<Batch>,
    /// What was appended since that began.
    appended: Option<Batch>,
    /// Bytes of tails that wait to be closed.
    unclosed: u64,
    looked: Option<Instant>,
    space: Space,
    /// Whether the last write failed.
    failing: bool,
}

impl Writer {
    pub(super) fn new(
        folder: Folder,
        keep: Keep,
        pause: Duration,
        shared: Arc<Shared>,
        to_closer: Sender<PathBuf>,
        log: Log,
    ) -> Result<Self, StoreError> {
        let keeper = Keeper::new(&folder, keep)?;
        let metadata = fs::metadata(folder.path()).map_err(StoreError::io(folder.path()))?;
        Ok(Self {
            identity: (metadata.dev(), metadata.ino()),
            folder,
            shared,
            to_closer: Some(to_closer),
            log,
            pause,
            keeper,
            tail: None,
            flusher: Flusher::new(),
            flushing: None,
            appended: None,
            unclosed: 0,
            looked: None,
            space: Space::Enough,
            failing: false,
        })
    }

    /// Does what it is told.
    pub(super) fn take(&mut self, message: Message) {
        if self.is_gone() {
            return;
        }
        let done = match message {
            Message::Begin { start, boot } => self.begin(start, &boot),
            Message::Frame(frame, clocks) => self.append(&frame, clocks),
            Message::Look => self.flush(),
        };
        if let Err(error) = done.and_then(|()| self.keep_within_bounds()) {
            self.fail(&error);
        }
    }

    /// Takes word of what the device has got, and has it get the rest.
    pub(super) fn settle(&mut self) {
        if let Err(error) = self.flush() {
            self.fail(&error);
        }
    }

    /// Waits until the device has all. There is nothing more to come, for the closer neither; the last tail, to be closed.
    pub(super) fn end(&mut self) -> Option<PathBuf> {
        if self.is_gone() {
            self.to_closer = None;
            return None;
        }
        if let Err(error) = self.wait() {
            self.fail(&error);
        }
        self.to_closer = None;
        self.tail.take().map(|(path, _)| path)
    }

    /// Whether the folder is not there any more, or the tail is not in it. What is written then is lost with the last who
    /// holds it open.
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
        // Nobody closes what is not there.
        self.tail = None;
        (self.flushing, self.appended) = (None, None);
        self.shared.unflushed.store(0, Ordering::Relaxed);
        let folder = self.folder.path().display();
        self.shared
            .set_trouble(Some(format!("{folder}: removed while it was recorded into; nothing more is recorded")));
        self.shared.gone.store(true, Ordering::Relaxed);
        true
    }

    fn begin(&mut self, start: i64, boot: &str) -> Result<(), StoreError> {
        self.wait()?;
        self.hand_over();
        let path = self.folder.tail(start);
        let tail = TailWriter::create(&path, &Header::new(boot)).map_err(|error| {
            if error.kind() != ErrorKind::AlreadyExists {
                // Nothing is in it but a part of its header; where it cannot go, the next recorder finds it empty.
                let _ = fs::remove_file(&path);
            }
            StoreError::io(&path)(error)
        })?;
        sync_folder(self.folder.path())?;
        give_back_memory();
        self.tail = Some((path, tail));
        Ok(())
    }

    fn append(&mut self, frame: &[u8], clocks: Clocks) -> Result<(), StoreError> {
        // What belongs to a tail that was refused has nowhere to go.
        let Some((path, tail)) = &mut self.tail else { return Ok(()) };
        tail.append(frame).map_err(StoreError::io(path))?;
        self.appended = Some((self.appended.map_or(1, |(samples, _)| samples + 1), clocks));
        self.shared.unflushed.fetch_add(1, Ordering::Relaxed);
        self.flush()
    }

    /// Begins to flush what was appended, where the device has got what was flushed before.
    fn flush(&mut self) -> Result<(), StoreError> {
        let Some((path, tail)) = &self.tail else { return Ok(()) };
        if self.flusher.is_under_way().map_err(StoreError::io(path))? {
            return Ok(());
        }
        if let Some(batch) = self.appended {
            self.flusher.begin(tail.file()).map_err(StoreError::io(path))?;
            self.note_flushed();
            (self.flushing, self.appended) = (Some(batch), None);
        } else {
            self.note_flushed();
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<(), StoreError> {
        while self.flushing.is_some() || self.appended.is_some() {
            let Some((path, _)) = &self.tail else { return Ok(()) };
            self.flusher.wait().map_err(StoreError::io(path))?;
            self.flush()?;
        }
        Ok(())
    }

    /// The device has what was being flushed.
    fn note_flushed(&mut self) {
        let Some((samples, clocks)) = self.flushing.take() else { return };
        self.shared.unflushed.fetch_sub(samples, Ordering::Relaxed);
        *lock(&self.shared.written) = Some(clocks);
        if std::mem::take(&mut self.failing) {
            self.shared.set_trouble(None);
            (self.log)("recording again");
        }
    }

    /// Gives the tail to the closer. Where there is none any more it stays for the next recorder.
    fn hand_over(&mut self) {
        if let Some((path, tail)) = self.tail.take() {
            self.unclosed += tail.length();
            if let Some(to_closer) = &self.to_closer {
                let _ = to_closer.send(path);
            }
        }
    }

    /// Nothing can be added to a tail after an error, so it is closed, and the caller's thread begins another.
    fn fail(&mut self, error: &StoreError) {
        self.hand_over();
        (self.flushing, self.appended) = (None, None);
        self.shared.unflushed.store(0, Ordering::Relaxed);
        self.shared.refused.store(true, Ordering::Relaxed);
        if !std::mem::replace(&mut self.failing, true) {
            let what = format!("cannot record: {error}; trying again every {:?}", self.pause);
            (self.log)(&what);
            self.shared.set_trouble(Some(format!("cannot record: {error}")));
        }
    }

    fn keep_within_bounds(&mut self) -> Result<(), StoreError> {
        if self.shared.closed.swap(false, Ordering::Relaxed) {
            self.keeper.recount(&self.folder)?;
        }
        let tails = self.unclosed + self.tail.as_ref().map_or(0, |(_, tail)| tail.length());
        self.keeper.enforce(now_ns(), tails)?;
        if self.looked.is_some_and(|looked| looked.elapsed() < self.pause) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        let tails = self.folder.tails()?;
        let open = self.tail.as_ref().map(|(path, _)| path);
        let unclosed = tails.iter().filter(|tail| Some(*tail) != open);
        self.unclosed = unclosed.filter_map(|tail| fs::metadata(tail).ok()).map(|m| m.len()).sum();
        let space = Space::at(self.folder.path()).map_err(StoreError::io(self.folder.path()))?;
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
