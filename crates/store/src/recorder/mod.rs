//! Records samples into files.
//!
//! The thread that adds a sample encodes it; a second thread appends it to the tail and flushes it to the device, so
//! that a slow disk delays no sample. A third thread, of low priority, turns the tail into Parquet every ten minutes; a
//! fourth, also of low priority, judges the recording every ten seconds. Nothing here wakes up on its own.

mod clocks;
mod closer;
mod free_space;
mod judging;
mod retention;
mod writer;

pub use closer::lower_priority;
pub use judging::{Judge, JudgeFn};
pub use retention::Retention;

use crate::error::{LogFn, StoreError};
use crate::folder::Folder;
use crate::frame::FrameEncoder;
use crate::tail::takes_state_after;
use clocks::{ClockGap, Clocks};
use closer::TailCloser;
use free_space::{KEEP_ONE_IN, SpaceLevel};
use judging::Judging;
use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use whyslow_model::catalogue::{Judgement, MachineInfo, RecordedFinding, Sample};
use whyslow_model::key::MachineKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::State;
use writer::{SampleWriter, WriterCommand};

/// Segments end at multiples of this, by the wall clock.
const SEGMENT_NS: i64 = 600 * 1_000_000_000;
/// Segments also end when their frames, uncompressed, reach this size, because closing holds them all in memory.
pub(crate) const MOST_BYTES: usize = 2 << 20;
/// Segments do not end before they reach this multiple of the first frame, which is complete and, with ten thousand
/// processes, large.
pub(crate) const MOST_TIMES: usize = 8;
/// Approximate interval between full states, on which the next sample is based, nanoseconds: damage costs the samples
/// up to the next state.
const STATE_NS: u64 = 60 * 1_000_000_000;
/// Maximum number of samples that wait for a slow disk; further ones are missed.
const MOST_WAITING: usize = 60;
/// Resolution of the wall clock, nanoseconds. It is for people (rates use the time since boot), and repeated in each
/// table: finer digits would be a tenth of a recording.
const WALL_STEP: i64 = 1_000_000;
/// Resolution of the cost of a source, nanoseconds; the measurement is no more accurate anyway.
const COST_STEP: u64 = 10_000;
/// In samples: the pause after a disk refused a write, and the interval between checks of free space.
const PAUSE: u32 = 10;

/// Records Snapshots into a folder.
pub struct Recorder {
    intake: Mutex<SampleIntake>,
    shared: Arc<SharedState>,
    threads: Mutex<Option<Threads>>,
    /// Keeps other recorders out.
    _lock: File,
}

struct Threads {
    /// Returns the last tail.
    writing: JoinHandle<Option<PathBuf>>,
    closing: JoinHandle<TailCloser>,
}

/// Decides what to do with a sample, and encodes it.
struct SampleIntake {
    interval: Duration,
    /// The time at which [`Clocks::running`] is zero.
    epoch: Instant,
    encoder: FrameEncoder,
    segment: Option<OpenSegment>,
    boot: String,
    /// The clocks at the last recorded sample.
    last: Option<Clocks>,
    /// Samples offered, recorded or not.
    samples: u64,
    counts: SampleCounts,
    /// Events for the next sample to report.
    events: Vec<String>,
    judging: Option<Judging>,
    /// `None` once the recording has ended.
    to_writer: Option<Sender<WriterCommand>>,
    shared: Arc<SharedState>,
}

/// Numbers of due samples, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleCounts {
    /// Recorded.
    pub samples: u64,
    /// Not taken, or taken and not recorded.
    pub missed: u64,
    /// Recorded earlier, and damaged beyond repair.
    pub lost: u64,
}

struct OpenSegment {
    start: i64,
    /// Sizes of all frames together, and of the first.
    bytes: usize,
    first: usize,
    frames: usize,
    /// Time since boot at the last full state.
    stated: u64,
    begun: Instant,
}

impl OpenSegment {
    fn begin(clocks: Clocks, begun: Instant) -> Self {
        Self { start: clocks.wall, bytes: 0, first: 0, frames: 0, stated: clocks.boot, begun }
    }

    /// Counts a frame, and returns whether a full state is to be written after it.
    fn count(&mut self, bytes: usize, boot_ns: u64) -> bool {
        self.bytes += bytes;
        self.first = if self.first == 0 { bytes } else { self.first };
        self.frames += 1;
        let is_due = takes_state_after(self.frames) && boot_ns.saturating_sub(self.stated) >= STATE_NS;
        if is_due {
            self.stated = boot_ns;
        }
        is_due
    }
}

/// State shared by intake, writer and closer.
#[derive(Default)]
struct SharedState {
    /// Samples passed to the writer that are not on the device yet.
    pending: AtomicUsize,
    /// Samples passed to the judging thread that are not judged yet.
    unjudged: AtomicUsize,
    /// Judgements for the next samples to report.
    judged: Mutex<VecDeque<(Judgement, Vec<RecordedFinding>)>>,
    /// The clocks at the last sample on the device.
    written: Mutex<Option<Clocks>>,
    /// True if the disk refused a write.
    refused: AtomicBool,
    /// True if an hour's files were replaced.
    closed: AtomicBool,
    space: Mutex<SpaceLevel>,
    /// Samples of earlier recorders that are damaged beyond repair.
    lost: AtomicUsize,
    /// Events for the next sample to report.
    events: Mutex<Vec<String>>,
    /// True if the recording's folder was removed: nothing more can be recorded.
    gone: AtomicBool,
    /// The error that currently prevents recording. Returned at the end.
    trouble: Mutex<Option<String>>,
}

impl SharedState {
    fn set_trouble(&self, trouble: Option<String>) {
        *lock(&self.trouble) = trouble;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    /// Starts to record into a folder, with a sample due every `interval`. Closes the tails that an earlier recorder
    /// left there.
    ///
    /// # Errors
    /// Fails if the folder cannot be created, another recorder uses it, or a thread cannot be started.
    pub fn begin(folder: &Path, interval: Duration, retention: Retention, log: LogFn) -> Result<Self, StoreError> {
        let folder = Folder::create(folder)?;
        let lock = folder.lock()?;
        let shared = Arc::new(SharedState::default());
        let (to_closer, tails) = channel();
        for tail in folder.tails()? {
            let _ = to_closer.send(tail);
        }
        let (to_writer, commands) = channel();
        let closer = TailCloser { folder: folder.clone(), log: log.clone(), shared: shared.clone() };
        let path = folder.path().to_owned();
        let writer = SampleWriter::new(folder, retention, interval * PAUSE, shared.clone(), to_closer, log)?;
        let thread = |name: &str| std::thread::Builder::new().name(name.into());
        let closing = thread("closing").spawn(move || closer.run(&tails)).map_err(StoreError::io(&path))?;
        let writing = thread("writing").spawn(move || writer.run(&commands)).map_err(StoreError::io(&path))?;
        Ok(Self {
            intake: Mutex::new(SampleIntake::new(interval, to_writer, shared.clone())),
            shared,
            threads: Mutex::new(Some(Threads { writing, closing })),
            _lock: lock,
        })
    }

    /// Returns the same recorder, which also judges the recording in a thread of low priority.
    ///
    /// # Errors
    /// Fails if the thread cannot be started.
    pub fn judged_by(self, judge: Judge) -> Result<Self, StoreError> {
        let judging = Judging::begin(judge, self.shared.clone()).map_err(StoreError::io(Path::new("judging")))?;
        lock(&self.intake).judging = Some(judging);
        Ok(self)
    }

    /// Records a sample that was started at `begun`. Does not wait for the disk: if that is too slow, full or gone, the
    /// sample is missed, and the next recorded sample reports it.
    pub fn add(&self, snapshot: Snapshot, begun: Instant) {
        lock(&self.intake).add(snapshot, begun);
    }

    /// Returns the number of samples that may not be on the device, or not be judged, yet. From sixty on, further
    /// samples are missed or not judged.
    pub fn waiting(&self) -> usize {
        self.shared.pending.load(Ordering::Relaxed).max(self.shared.unjudged.load(Ordering::Relaxed))
    }

    /// Returns whether the folder was removed: further samples are lost, and [`finish`](Self::finish) returns an error.
    pub fn is_gone(&self) -> bool {
        self.shared.gone.load(Ordering::Relaxed)
    }

    /// Ends the recording: waits until everything is written and closed. Later samples are not recorded.
    ///
    /// # Errors
    /// Returns the error that prevented writing. Everything written before stays readable.
    pub fn finish(&self) -> Result<SampleCounts, String> {
        let counts = lock(&self.intake).end();
        if let Some(Threads { writing, closing }) = lock(&self.threads).take() {
            let last = writing.join().map_err(|_| "the writing of samples panicked")?;
            let closer = closing.join().map_err(|_| "the closing of a segment panicked")?;
            // Runs in this thread, whose priority is not lowered, because the caller waits for it.
            last.into_iter().for_each(|tail| closer.close(tail));
        }
        let lost = u64::try_from(self.shared.lost.load(Ordering::Relaxed)).unwrap_or(u64::MAX);
        lock(&self.shared.trouble).take().map_or(Ok(SampleCounts { lost, ..counts }), Err)
    }
}

impl SampleIntake {
    fn new(interval: Duration, to_writer: Sender<WriterCommand>, shared: Arc<SharedState>) -> Self {
        Self {
            interval,
            epoch: Instant::now(),
            encoder: FrameEncoder::default(),
            segment: None,
            boot: String::new(),
            last: None,
            samples: 0,
            counts: SampleCounts::default(),
            events: vec!["recording began".into()],
            judging: None,
            to_writer: Some(to_writer),
            shared,
        }
    }

    fn add(&mut self, mut snapshot: Snapshot, begun: Instant) {
        let Some(to_writer) = self.to_writer.clone() else { return };
        // The writer's thread ends only after the sender is dropped.
        let send = |command| drop(to_writer.send(command));
        self.samples += 1;
        drop_noise(&mut snapshot);
        if let Some(boot) = snapshot.the::<MachineInfo>().and_then(|machine| machine.boot.get()) {
            boot.clone_into(&mut self.boot);
        }
        if let Some(why) = self.refusal(self.shared.pending.load(Ordering::Relaxed)) {
            if self.events.last().is_none_or(|last| last != why) {
                self.events.push(why.into());
            }
            if self.shared.pending.load(Ordering::Relaxed) == 0 {
                // The writer finds out whether it can write again.
                send(WriterCommand::Check);
            }
            return;
        }
        let running = u64::try_from(begun.saturating_duration_since(self.epoch).as_nanos()).unwrap_or(u64::MAX);
        let clocks = Clocks { wall: snapshot.wall_ns, boot: snapshot.boot_ns, running };
        let refused = self.shared.refused.swap(false, Ordering::Relaxed);
        if refused {
            self.last = *lock(&self.shared.written);
        }
        let gap = self.last.map_or_else(|| clocks.since_start(self.interval), |last| clocks.since(last, self.interval));
        self.last = Some(clocks);
        if refused || self.segment_ends(clocks, gap) {
            self.encoder = FrameEncoder::default();
            self.segment = Some(OpenSegment::begin(clocks, begun));
            send(WriterCommand::BeginSegment { start: clocks.wall, boot: self.boot.clone() });
        }
        snapshot.kernel.sample = vec![self.sample_row(clocks, gap)];
        self.counts.samples += 1;
        self.counts.missed += gap.missed;
        if let Some(judging) = &mut self.judging {
            judging.add(&mut snapshot);
        }
        let frame = self.encoder.encode(snapshot);
        let is_state_due = self.segment.as_mut().is_some_and(|segment| segment.count(frame.len(), clocks.boot));
        self.shared.pending.fetch_add(1, Ordering::Relaxed);
        send(WriterCommand::Append(frame, clocks));
        if is_state_due {
            send(WriterCommand::AppendState(self.encoder.state()));
        }
    }

    /// Returns why a sample cannot be recorded; `None` if it can.
    fn refusal(&self, waiting: usize) -> Option<&'static str> {
        let resting = self.segment.as_ref().is_some_and(|segment| segment.begun.elapsed() < self.interval * PAUSE);
        match *lock(&self.shared.space) {
            _ if waiting >= MOST_WAITING => Some("the disk was too slow"),
            _ if self.shared.refused.load(Ordering::Relaxed) && resting => Some("the disk refused writes"),
            SpaceLevel::None => Some("no space was left"),
            SpaceLevel::Little if !self.samples.is_multiple_of(KEEP_ONE_IN) => Some("little space was left"),
            _ => None,
        }
    }

    fn segment_ends(&self, clocks: Clocks, gap: ClockGap) -> bool {
        self.segment.as_ref().is_none_or(|segment| {
            gap.stepped != 0
                || clocks.wall <= segment.start
                || clocks.wall.div_euclid(SEGMENT_NS) != segment.start.div_euclid(SEGMENT_NS)
                || segment.bytes >= MOST_BYTES.max(MOST_TIMES * segment.first)
        })
    }

    fn sample_row(&mut self, clocks: Clocks, gap: ClockGap) -> Sample {
        self.events.extend(gap.in_words());
        self.events.append(&mut lock(&self.shared.events));
        let event = std::mem::take(&mut self.events).join("; ");
        Sample {
            clock: clocks.boot.into(),
            missed: gap.missed.into(),
            event: if event.is_empty() { State::default() } else { event.into() },
            ..Sample::new(MachineKey)
        }
    }

    fn end(&mut self) -> SampleCounts {
        (self.to_writer, self.judging) = (None, None);
        self.counts
    }
}

/// Rounds off digits that carry no information and do not compress.
pub(crate) fn drop_noise(snapshot: &mut Snapshot) {
    snapshot.wall_ns -= snapshot.wall_ns.rem_euclid(WALL_STEP);
    for source in &mut snapshot.sources {
        for time in [&mut source.cpu_ns, &mut source.wall_ns] {
            *time -= *time % COST_STEP;
        }
    }
}
