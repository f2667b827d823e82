//! Recording: samples in, files out.
//!
//! Three threads, so that a slow disk never delays a sample: the caller's encodes what changed and hands it over, one
//! appends it to the tail and waits for the device, and one, at low priority, closes what is ten minutes old. None of them
//! wakes up by itself.

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
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
const MOST_BYTES: usize = 8 << 20;
/// Samples that wait for a slow disk; further ones are missed.
const MOST_WAITING: usize = 60;
/// How many samples to leave a disk alone for that refused a write, and between two looks at the space there is.
const PAUSE: u32 = 10;

/// Where the recorder says what befell it: one line, for the log.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// Writes Snapshots into a folder.
pub struct Recorder {
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
    shared: Arc<Shared>,
    to_writer: Sender<Message>,
    threads: Vec<JoinHandle<()>>,
    /// Keeps other recorders out.
    _lock: File,
}

/// What became of the samples that were due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Kept.
    pub samples: u64,
    /// Not taken, or not kept.
    pub missed: u64,
}

/// The segment that is being written.
struct Segment {
    start: i64,
    bytes: usize,
    begun: Instant,
}

/// What the threads tell the caller's.
#[derive(Default)]
struct Shared {
    /// Messages not dealt with yet.
    waiting: AtomicUsize,
    /// The disk refused a write.
    refused: AtomicBool,
    space: AtomicU8,
    /// The clocks at the last sample that the device has.
    written: Mutex<Option<Clocks>>,
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
        let (to_writer, messages) = channel();
        let (to_closer, tails) = channel();
        for tail in folder.tails()? {
            let _ = to_closer.send(tail);
        }
        let closer = Closer { folder: folder.clone(), log: log.clone(), to_writer: to_writer.clone() };
        let writer = Writer::new(folder.clone(), keep, interval * PAUSE, shared.clone(), to_closer, log)?;
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.into()).spawn(run).map_err(StoreError::io(folder.path()))
        };
        let threads = vec![
            spawn("tail", Box::new(move || writer.run(messages)))?,
            spawn("closing", Box::new(move || closer.run(&tails)))?,
        ];
        Ok(Self {
            interval,
            epoch: Instant::now(),
            encoder: Encoder::default(),
            segment: None,
            boot: String::new(),
            last: None,
            samples: 0,
            counts: Counts::default(),
            events: vec!["recording began".into()],
            shared,
            to_writer,
            threads,
            _lock: lock,
        })
    }

    /// Hands a sample over that was begun at `begun`. Never waits: where the disk is too slow, full or gone, the sample is
    /// missed, and the next one that is kept says so.
    pub fn add(&mut self, mut snapshot: Snapshot, begun: Instant) {
        self.samples += 1;
        if let Some(boot) = snapshot.the::<MachineInfo>().and_then(|machine| machine.boot.get()) {
            boot.clone_into(&mut self.boot);
        }
        if let Some(why) = self.refusal() {
            if self.events.last().is_none_or(|last| last != why) {
                self.events.push(why.into());
            }
            // So that the writer looks whether that is over.
            return self.send_if_idle(Message::Look);
        }
        let running = u64::try_from(begun.saturating_duration_since(self.epoch).as_nanos()).unwrap_or(u64::MAX);
        let clocks = Clocks { wall: snapshot.wall_ns, boot: snapshot.boot_ns, running };
        let refused = self.shared.refused.swap(false, Ordering::Relaxed);
        if refused {
            self.last = *lock(&self.shared.written);
        }
        let between = self.last.map(|last| clocks.since(last, self.interval)).unwrap_or_default();
        self.last = Some(clocks);
        if refused || self.is_at_an_end(clocks, between) {
            self.encoder = Encoder::default();
            self.segment = Some(Segment { start: clocks.wall, bytes: 0, begun });
            self.send(Message::Begin { start: clocks.wall, boot: self.boot.clone() });
        }
        snapshot.kernel.sample = vec![self.sample(clocks, between)];
        self.counts.samples += 1;
        self.counts.missed += between.missed;
        let frame = self.encoder.encode(snapshot);
        if let Some(segment) = &mut self.segment {
            segment.bytes += frame.len();
        }
        self.send(Message::Frame(frame, clocks));
    }

    /// How many samples wait for the disk. Where it is sixty, those that come are missed.
    pub fn waiting(&self) -> usize {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// Why a sample cannot be kept, if it cannot.
    fn refusal(&self) -> Option<&'static str> {
        let resting = self.segment.as_ref().is_some_and(|segment| segment.begun.elapsed() < self.interval * PAUSE);
        match self.shared.space() {
            _ if self.waiting() >= MOST_WAITING => Some("the disk was too slow"),
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
                || segment.bytes >= MOST_BYTES
        })
    }

    fn sample(&mut self, clocks: Clocks, between: Between) -> Sample {
        self.events.extend(between.in_words());
        let event = std::mem::take(&mut self.events).join("; ");
        Sample {
            clock: clocks.boot.into(),
            missed: between.missed.into(),
            event: if event.is_empty() { State::default() } else { event.into() },
            ..Sample::new(Machine)
        }
    }

    fn send(&self, message: Message) {
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        // The writer lives until it is told to end, unless it panicked; then there is nobody to write.
        let _ = self.to_writer.send(message);
    }

    fn send_if_idle(&self, message: Message) {
        if self.waiting() == 0 {
            self.send(message);
        }
    }

    /// Ends the recording: waits until all is written and closed.
    ///
    /// # Errors
    /// What could not be written, in words. What was written before stays readable.
    pub fn finish(mut self) -> Result<Counts, String> {
        self.send(Message::End);
        for thread in self.threads.drain(..) {
            thread.join().map_err(|_| "a thread of the recorder panicked")?;
        }
        lock(&self.shared.trouble).take().map_or(Ok(self.counts), Err)
    }
}
