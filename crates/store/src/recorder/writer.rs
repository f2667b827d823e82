//! The thread that appends to the tail and keeps the folder within its bounds.

use super::clocks::Clocks;
use super::keep::{Keep, Keeper};
use super::memory::give_back_memory;
use super::space::Space;
use super::{Log, Shared, lock};
use crate::error::StoreError;
use crate::folder::{Folder, sync_folder};
use crate::tail::{Header, TailWriter};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant, SystemTime};

/// What the writer is told.
pub(super) enum Message {
    /// A new segment begins.
    Begin { start: i64, boot: String },
    /// The next frame of it, and the clocks at its sample.
    Frame(Vec<u8>, Clocks),
    /// Nothing to write; look how much space there is.
    Look,
    /// The closer wrote into the hours.
    Closed,
    /// There is nothing more to come.
    End,
}

/// The writer and what it holds.
pub(super) struct Writer {
    folder: Folder,
    shared: Arc<Shared>,
    to_closer: Sender<PathBuf>,
    log: Log,
    /// How long between two looks at the space there is, and between two tries of a disk that refuses.
    pause: Duration,
    keeper: Keeper,
    tail: Option<(PathBuf, TailWriter)>,
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
        Ok(Self {
            folder,
            shared,
            to_closer,
            log,
            pause,
            keeper,
            tail: None,
            unclosed: 0,
            looked: None,
            space: Space::Enough,
            failing: false,
        })
    }

    /// Does what it is told until the end.
    pub(super) fn run(mut self, messages: Receiver<Message>) {
        for message in messages {
            let counted = !matches!(message, Message::Closed);
            let done = match message {
                Message::Begin { start, boot } => self.begin(start, &boot),
                Message::Frame(frame, clocks) => self.append(&frame, clocks),
                Message::Closed => self.keeper.recount(&self.folder),
                Message::Look => Ok(()),
                Message::End => break,
            };
            if let Err(error) = done.and_then(|()| self.keep_within_bounds()) {
                self.fail(&error);
            }
            if counted {
                self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.hand_over();
    }

    fn begin(&mut self, start: i64, boot: &str) -> Result<(), StoreError> {
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
        *lock(&self.shared.written) = Some(clocks);
        if std::mem::take(&mut self.failing) {
            self.shared.set_trouble(None);
            (self.log)("recording again");
        }
        Ok(())
    }

    /// Gives the tail to the closer. Where there is none any more it stays for the next recorder.
    fn hand_over(&mut self) {
        if let Some((path, tail)) = self.tail.take() {
            self.unclosed += tail.length();
            let _ = self.to_closer.send(path);
        }
    }

    /// Nothing can be added to a tail after an error, so it is closed, and the caller's thread begins another.
    fn fail(&mut self, error: &StoreError) {
        self.hand_over();
        self.shared.refused.store(true, Ordering::Relaxed);
        if !std::mem::replace(&mut self.failing, true) {
            let what = format!("cannot record: {error}; trying again every {:?}", self.pause);
            (self.log)(&what);
            self.shared.set_trouble(Some(format!("cannot record: {error}")));
        }
    }

    fn keep_within_bounds(&mut self) -> Result<(), StoreError> {
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
