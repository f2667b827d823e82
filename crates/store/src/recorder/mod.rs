//! Recording: samples in, files out.
//!
//! Who brings a sample encodes what changed and appends it to the tail, if nobody else is just at that; the kernel brings it to
//! the device meanwhile. One who is stuck in a slow disk therefore delays nobody: samples wait in a queue until he, or the
//! next, writes them. A thread of low priority closes what is ten minutes old. Nothing here wakes up by itself.

mod clocks;
mod closer;
mod keep;
mod memory;
mod space;
mod writer;

pub use keep::Keep;

use crate::error::StoreError;
use crate::folder::Folder;
use crate::frame::Encoder;
use clocks::{Between, Clocks};
use closer::Closer;
use space::{Space, THINNED};
use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use whyslow_model::catalogue::{MachineInfo, Sample};
use whyslow_model::key::Machine;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::State;
use writer::{Message, Writer};

/// Segments are cut where a multiple of this has passed on the wall clock.
const SEGMENT_NS: i64 = 600 * 1_000_000_000;
/// And where their frames, expanded, reach so many bytes: closing holds them all.
const MOST_BYTES: usize = 2 << 20;
/// But not before they reach so many times the first, which tells the whole: of ten thousand processes it is large itself.
const MOST_TIMES: usize = 8;
/// Samples that wait for a slow disk; further ones are missed.
const MOST_WAITING: usize = 60;
/// Wall clock is kept to the millisecond, nanoseconds: it is for people, rates use the time since boot, and each table repeats
/// it. What is left out would be a tenth of a recording.
const WALL_STEP: i64 = 1_000_000;
/// What a source cost is kept to this, nanoseconds, and is no more exact anyway.
const COST_STEP: u64 = 10_000;
/// How many samples to leave a disk alone for that refused a write, and between two looks at the space there is.
const PAUSE: u32 = 10;

/// Where the recorder says what befell it: one line, for the log.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// Writes Snapshots into a folder.
pub struct Recorder {
    intake: Mutex<Intake>,
    /// What the tail has not got yet, the oldest first.
    queue: Mutex<VecDeque<Message>>,
    writer: Mutex<Writer>,
    shared: Arc<Shared>,
    closing: Mutex<Option<JoinHandle<Closer>>>,
    /// Keeps other recorders out.
    _lock: File,
}

/// Where samples come in: what is known of those before.
struct Intake {
    interval: Duration,
    /// What the clocks count from that stands still in a suspend.
    epoch: Instant,
    encoder: Encoder,
    segment: Option<Segment>,
    boot: String,
    /// The clocks at the last sample that was kept.
    last: Option<Clocks>,
    /// Samples handed over.
    samples: u64,
    counts: Counts,
    events: Vec<String>,
    /// Nothing is kept any more.
    ended: bool,
    shared: Arc<Shared>,
}

/// What became of the samples that were due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Kept.
    pub samples: u64,
    /// Not taken, or not kept.
    pub missed: u64,
    /// Recorded before, and found damaged beyond repair.
    pub lost: u64,
}

/// The segment that is being written.
struct Segment {
    start: i64,
    /// Of all frames, and of the first.
    bytes: usize,
    first: usize,
    begun: Instant,
}

/// What the writing and the closing of files tell the intake, and each other.
#[derive(Default)]
struct Shared {
    /// Samples that were written, and the device may not have yet.
    unflushed: AtomicUsize,
    /// The disk refused a write.
    refused: AtomicBool,
    /// Hours were written.
    closed: AtomicBool,
    space: AtomicU8,
    /// The clocks at the last sample that the device has.
    written: Mutex<Option<Clocks>>,
    /// Samples of earlier recorders that were found damaged beyond repair, and what the next sample is to say of them.
    lost: AtomicUsize,
    befell: Mutex<Vec<String>>,
    /// The recording's folder is gone: nothing can be recorded any more.
    gone: AtomicBool,
    /// The last error that is not over; at the end it is the answer.
    trouble: Mutex<Option<String>>,
}

impl Shared {
    fn space(&self) -> Space {
        match self.space.load(Ordering::Relaxed) {
            0 => Space::Enough,
            1 => Space::Little,
            _ => Space::None,
        }
    }

    fn set_space(&self, space: Space) {
        self.space.store(space as u8, Ordering::Relaxed);
    }

    fn set_trouble(&self, trouble: Option<String>) {
        *lock(&self.trouble) = trouble;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    /// Begins to record into a folder, where one sample is due every `interval`. What an earlier recorder left unclosed
    /// there is closed.
    ///
    /// # Errors
    /// Where the folder cannot be made, another recorder is at work in it, or no thread is to be had.
    pub fn begin(folder: &Path, interval: Duration, keep: Keep, log: Log) -> Result<Self, StoreError> {
        let folder = Folder::make(folder)?;
        let lock = folder.lock()?;
        let shared = Arc::new(Shared::default());
        let (to_closer, tails) = channel();
        for tail in folder.tails()? {
            let _ = to_closer.send(tail);
        }
        let closer = Closer { folder: folder.clone(), log: log.clone(), shared: shared.clone() };
        let writer = Writer::new(folder.clone(), keep, interval * PAUSE, shared.clone(), to_closer, log)?;
        let closing = std::thread::Builder::new().name("closing".into()).spawn(move || closer.run(&tails));
        let closing = closing.map_err(StoreError::io(folder.path()))?;
        Ok(Self {
            intake: Mutex::new(Intake::new(interval, shared.clone())),
            queue: Mutex::default(),
            writer: Mutex::new(writer),
            shared,
            closing: Mutex::new(Some(closing)),
            _lock: lock,
        })
    }

    /// Takes a sample that was begun at `begun`. May wait for the disk, where nobody else already does; another thread can
    /// bring the next sample meanwhile. Where the disk is too slow, full or gone, the sample is missed, and the next one that
    /// is kept says so.
    pub fn add(&self, snapshot: Snapshot, begun: Instant) {
        let queued = lock(&self.queue).len();
        let messages = lock(&self.intake).take(snapshot, begun, queued);
        lock(&self.queue).extend(messages);
        self.write();
    }

    /// How many samples the device may not have yet. Where it is sixty, those that come are missed.
    pub fn waiting(&self) -> usize {
        if let Some(mut writer) = self.writer_if_free() {
            writer.settle();
        }
        self.unwritten()
    }

    /// Whether the folder was removed meanwhile: what is added is lost, and [`finish`](Self::finish) says so.
    pub fn is_gone(&self) -> bool {
        self.shared.gone.load(Ordering::Relaxed)
    }

    fn unwritten(&self) -> usize {
        lock(&self.queue).len() + self.shared.unflushed.load(Ordering::Relaxed)
    }

    /// Writes what waits, unless somebody is at it.
    fn write(&self) {
        if let Some(mut writer) = self.writer_if_free() {
            self.write_with(&mut writer);
        }
    }

    fn write_with(&self, writer: &mut Writer) {
        loop {
            // The queue is let go of before anything is written.
            let next = lock(&self.queue).pop_front();
            match next {
                Some(message) => writer.take(message),
                None => return,
            }
        }
    }

    fn writer_if_free(&self) -> Option<MutexGuard<'_, Writer>> {
        match self.writer.try_lock() {
            Ok(writer) => Some(writer),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Ends the recording: waits until all is written and closed. What is added after that is not kept.
    ///
    /// # Errors
    /// What could not be written, in words. What was written before stays readable.
    pub fn finish(&self) -> Result<Counts, String> {
        let counts = lock(&self.intake).end();
        let mut writer = lock(&self.writer);
        self.write_with(&mut writer);
        let last = writer.end();
        drop(writer);
        if let Some(closing) = lock(&self.closing).take() {
            let closer = closing.join().map_err(|_| "the closing of a segment panicked")?;
            // In this thread, which has not given way: somebody waits for it.
            last.into_iter().for_each(|tail| closer.close(tail));
        }
        let lost = u64::try_from(self.shared.lost.load(Ordering::Relaxed)).unwrap_or(u64::MAX);
        lock(&self.shared.trouble).take().map_or(Ok(Counts { lost, ..counts }), Err)
    }
}

impl Intake {
    fn new(interval: Duration, shared: Arc<Shared>) -> Self {
        Self {
            interval,
            epoch: Instant::now(),
            encoder: Encoder::default(),
            segment: None,
            boot: String::new(),
            last: None,
            samples: 0,
            counts: Counts::default(),
            events: vec!["recording began".into()],
            ended: false,
            shared,
        }
    }

    /// What to do about a sample, where so many messages wait to be written already.
    fn take(&mut self, mut snapshot: Snapshot, begun: Instant, queued: usize) -> Vec<Message> {
        if self.ended {
            return Vec::new();
        }
        self.samples += 1;
        drop_noise(&mut snapshot);
        if let Some(boot) = snapshot.the::<MachineInfo>().and_then(|machine| machine.boot.get()) {
            boot.clone_into(&mut self.boot);
        }
        if let Some(why) = self.refusal(queued + self.shared.unflushed.load(Ordering::Relaxed)) {
            if self.events.last().is_none_or(|last| last != why) {
                self.events.push(why.into());
            }
            // So that the writer looks whether that is over.
            return if queued == 0 { vec![Message::Look] } else { Vec::new() };
        }
        let running = u64::try_from(begun.saturating_duration_since(self.epoch).as_nanos()).unwrap_or(u64::MAX);
        let clocks = Clocks { wall: snapshot.wall_ns, boot: snapshot.boot_ns, running };
        let refused = self.shared.refused.swap(false, Ordering::Relaxed);
        if refused {
            self.last = *lock(&self.shared.written);
        }
        let between = self
            .last
            .map_or_else(|| clocks.since_the_beginning(self.interval), |last| clocks.since(last, self.interval));
        self.last = Some(clocks);
        let mut messages = Vec::new();
        if refused || self.is_at_an_end(clocks, between) {
            self.encoder = Encoder::default();
            self.segment = Some(Segment { start: clocks.wall, bytes: 0, first: 0, begun });
            messages.push(Message::Begin { start: clocks.wall, boot: self.boot.clone() });
        }
        snapshot.kernel.sample = vec![self.sample(clocks, between)];
        self.counts.samples += 1;
        self.counts.missed += between.missed;
        let frame = self.encoder.encode(snapshot);
        if let Some(segment) = &mut self.segment {
            segment.bytes += frame.len();
            segment.first = if segment.first == 0 { frame.len() } else { segment.first };
        }
        messages.push(Message::Frame(frame, clocks));
        messages
    }

    /// Why a sample cannot be kept, if it cannot.
    fn refusal(&self, waiting: usize) -> Option<&'static str> {
        let resting = self.segment.as_ref().is_some_and(|segment| segment.begun.elapsed() < self.interval * PAUSE);
        match self.shared.space() {
            _ if waiting >= MOST_WAITING => Some("the disk was too slow"),
            _ if self.shared.refused.load(Ordering::Relaxed) && resting => Some("the disk refused to be written to"),
            Space::None => Some("no space was left"),
            Space::Little if !self.samples.is_multiple_of(THINNED) => Some("little space was left"),
            _ => None,
        }
    }

    fn is_at_an_end(&self, clocks: Clocks, between: Between) -> bool {
        self.segment.as_ref().is_none_or(|segment| {
            between.stepped != 0
                || clocks.wall <= segment.start
                || clocks.wall.div_euclid(SEGMENT_NS) != segment.start.div_euclid(SEGMENT_NS)
                || segment.bytes >= MOST_BYTES.max(MOST_TIMES * segment.first)
        })
    }

    fn sample(&mut self, clocks: Clocks, between: Between) -> Sample {
        self.events.extend(between.in_words());
        self.events.append(&mut lock(&self.shared.befell));
        let event = std::mem::take(&mut self.events).join("; ");
        Sample {
            clock: clocks.boot.into(),
            missed: between.missed.into(),
            event: if event.is_empty() { State::default() } else { event.into() },
            ..Sample::new(Machine)
        }
    }

    fn end(&mut self) -> Counts {
        self.ended = true;
        self.counts
    }
}

/// Leaves digits out that tell nothing and cannot be compressed.
fn drop_noise(snapshot: &mut Snapshot) {
    snapshot.wall_ns -= snapshot.wall_ns.rem_euclid(WALL_STEP);
    for source in &mut snapshot.sources {
        for time in [&mut source.cpu_ns, &mut source.wall_ns] {
            *time -= *time % COST_STEP;
        }
    }
}
