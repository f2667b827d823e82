//! Runs every source and puts what they read together.
//!
//! Sources are read in turn by a thread that lives as long as one sample. Where one of them hangs (a file of a dead
//! network mount, a driver that does not answer), its thread is abandoned and another goes on with the rest; while the
//! abandoned thread holds the source, the source is reported as hung and not asked again. Between samples no thread of
//! ours is awake, or exists.
//!
//! Who samples for days reads in his own thread instead ([`Sampler::sample_here`]), under a [`watch`](crate::watch): to begin
//! a thread for each sample, and to wait for it, costs two wake-ups and a tenth of a millisecond.

use crate::bpf::Types;
use crate::relay::{Relay, Relayed};
use crate::source::Tempo;
use crate::{Root, Source, os};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};
use whyslow_model::snapshot::{Outcome, Snapshot, SourceReport};

/// How long to wait for one source before it counts as hung.
const PATIENCE: Duration = Duration::from_secs(3);

/// How often to read sources of [`Tempo::Slow`].
const SLOW: Duration = Duration::from_secs(60);

/// All sources of a machine.
pub struct Sampler {
    root: Root,
    slots: Vec<Slot>,
    patience: Duration,
    slow: Duration,
    /// Held while the sources load their BPF objects, which they do when they are prepared or first read.
    types: Option<Types>,
}

/// Another of the same sources, for who goes on where the thread of the first is stuck in one of them.
impl Clone for Sampler {
    fn clone(&self) -> Self {
        Self { root: self.root.clone(), slots: self.slots.clone(), types: None, ..*self }
    }
}

impl Sampler {
    /// Every source there is, read from `root`, and prepared, which takes a quarter of a second where BPF is used.
    pub fn new(root: Root) -> Self {
        let wings = [
            crate::processor::sources(),
            crate::memory::sources(),
            crate::block::sources(),
            crate::net::sources(),
            crate::cgroup::sources(),
            crate::task::sources(),
            crate::kernel::sources(),
        ];
        let mut sampler = Self::with_sources(root, wings.into_iter().flatten().collect());
        sampler.prepare();
        sampler
    }

    /// What tells of processors, memory and storage: for a benchmark, whose load a reading of all there is would disturb.
    /// No BPF program is loaded.
    pub fn of_storage(root: Root) -> Self {
        let wings = [crate::processor::sources(), crate::memory::sources(), crate::block::sources()];
        Self::with_sources(root.without_bpf(), wings.into_iter().flatten().collect())
    }

    /// What tells of processors only: for a benchmark that takes readings while its load runs. No BPF program is loaded.
    pub fn of_processors(root: Root) -> Self {
        Self::with_sources(root.without_bpf(), crate::processor::sources())
    }

    /// These sources, read from `root`.
    pub fn with_sources(root: Root, sources: Vec<Box<dyn Source>>) -> Self {
        let types = Types::of(&root).ok();
        Self { root, slots: sources.into_iter().map(Slot::new).collect(), patience: PATIENCE, slow: SLOW, types }
    }

    /// Sets how long to wait for one source before it counts as hung; one second unless set.
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Sets how often sources of [`Tempo::Slow`] are read; once a minute unless set.
    pub fn slow(self, slow: Duration) -> Self {
        Self { slow, ..self }
    }

    /// Turns a source of [`Tempo::Asked`] on, from the next sample; any other is on already. False where there is none of
    /// that name.
    pub fn ask(&mut self, source: &str) -> bool {
        let slot = self.slots.iter_mut().find(|slot| slot.info.name == source);
        slot.map(|slot| slot.wanted = true).is_some()
    }

    /// What the sources are, in the order in which they are read.
    pub fn sources(&self) -> impl Iterator<Item = SourceInfo> {
        self.slots.iter().map(|slot| slot.info)
    }

    /// Reads every source that is due, now. Takes at most the patience for each source that newly hangs.
    pub fn sample(&mut self) -> Snapshot {
        self.sample_at(os::wall_ns(), os::boot_ns())
    }

    fn prepare(&mut self) {
        for slot in self.slots.iter().filter(|slot| slot.wanted) {
            slot.desk.lock().prepare(&self.root);
        }
        self.types = None;
    }

    /// Reads every source that is due, now and in this thread, which a source that hangs then holds up. `goes_on` is asked
    /// before each; `None` where it says no, for nobody waits for the sample any more.
    pub fn sample_here(&mut self, goes_on: impl Fn() -> bool) -> Option<Snapshot> {
        let mut snapshot = Snapshot { wall_ns: os::wall_ns(), boot_ns: os::boot_ns(), ..Snapshot::default() };
        let mut meter = Meter::start();
        for slot in &mut self.slots {
            if !goes_on() {
                return None;
            }
            match slot.turn(self.slow) {
                Turn::Due => read(&self.root, &slot.desk, &mut meter, &mut snapshot),
                Turn::Hung => snapshot.sources.push(slot.hung()),
                Turn::Rests => {}
            }
        }
        self.types = None;
        snapshot.sort();
        Some(snapshot)
    }

    /// The same with the times given, for captured trees, which have clocks of their own: nanoseconds since 1970 and
    /// since boot.
    pub fn sample_at(&mut self, wall_ns: i64, boot_ns: u64) -> Snapshot {
        let mut snapshot = Snapshot { wall_ns, boot_ns, ..Snapshot::default() };
        let mut due = Vec::with_capacity(self.slots.len());
        for slot in &mut self.slots {
            match slot.turn(self.slow) {
                Turn::Due => due.push(slot),
                Turn::Hung => snapshot.sources.push(slot.hung()),
                Turn::Rests => {}
            }
        }
        let mut waiting = due.as_mut_slice();
        while !waiting.is_empty() {
            let reader = Reader { root: self.root.clone(), desks: waiting.iter().map(|s| s.desk.clone()).collect() };
            let done = collect(&reader.start(), waiting, self.patience, &mut snapshot);
            waiting = &mut waiting[done..];
        }
        self.types = None;
        snapshot.sort();
        snapshot
    }
}

/// Takes over what a reader read until it has read all or hangs. Returns how many sources that settled, hung included.
fn collect(relay: &Relay, slots: &mut [&mut Slot], patience: Duration, into: &mut Snapshot) -> usize {
    let Relayed { gathered, count } = relay.wait(patience);
    into.absorb(gathered);
    let Some(slot) = slots.get_mut(count) else { return count };
    slot.hangs = true;
    into.sources.push(slot.hung());
    count + 1
}

/// What a source is, as the documentation lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceInfo {
    /// Its name, such as `proc/stat`.
    pub name: &'static str,
    /// What it tells, in a few words.
    pub tells: &'static str,
    /// How often it is read.
    pub tempo: Tempo,
}

/// A source, and since when it is read, or was.
struct Desk {
    /// Locked by the thread that reads it.
    source: Mutex<Box<dyn Source>>,
    asked: Mutex<Option<Instant>>,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Box<dyn Source>> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_taken(&self) -> bool {
        matches!(self.source.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// How long ago the last reading of it began; `None` where there was none.
    fn asked(&self) -> Option<Duration> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).map(|asked| asked.elapsed())
    }
}

/// A source and how it stands.
#[derive(Clone)]
struct Slot {
    info: SourceInfo,
    desk: Arc<Desk>,
    /// Whether it is to be read at all.
    wanted: bool,
    /// Whether it has not answered since.
    hangs: bool,
}

/// Whether to read a source in this sample.
enum Turn {
    Due,
    Rests,
    Hung,
}

impl Slot {
    fn new(source: Box<dyn Source>) -> Self {
        let info = SourceInfo { name: source.name(), tells: source.tells(), tempo: source.tempo() };
        Self {
            info,
            desk: Arc::new(Desk { source: Mutex::new(source), asked: Mutex::default() }),
            wanted: info.tempo != Tempo::Asked,
            hangs: false,
        }
    }

    /// A source that hung and has come back is due at once: what it read meanwhile is lost.
    fn turn(&mut self, slow: Duration) -> Turn {
        // Whoever took this over from a thread that is stuck knows nothing of it yet.
        if self.desk.is_taken() {
            self.hangs = true;
            return Turn::Hung;
        }
        if std::mem::take(&mut self.hangs) {
            return Turn::Due;
        }
        match (self.info.tempo, self.desk.asked()) {
            _ if !self.wanted => Turn::Rests,
            (Tempo::Slow, Some(ago)) if ago < slow => Turn::Rests,
            _ => Turn::Due,
        }
    }

    /// The report of a source that has not answered since it was asked.
    fn hung(&self) -> SourceReport {
        let waited = self.desk.asked().unwrap_or_default();
        SourceReport {
            source: self.info.name.into(),
            tells: self.info.tells.into(),
            outcome: Outcome::Hung(format!("no response for {:.1} s", waited.as_secs_f64())),
            asked: self.info.tempo == Tempo::Asked,
            cpu_ns: 0,
            wall_ns: os::nanoseconds(waited),
        }
    }
}

/// Reads sources in turn.
#[derive(Clone)]
struct Reader {
    root: Root,
    desks: Vec<Arc<Desk>>,
}

impl Reader {
    /// Reads in a thread of its own, which adds a part for each source, in order.
    ///
    /// Where no thread can be had (a limit on processes, which may be the very thing to find) it reads before it
    /// returns: better to risk a hang than to see nothing.
    fn start(self) -> Arc<Relay> {
        let relay = Arc::new(Relay::new());
        let (here, there) = (self.clone(), relay.clone());
        if thread::Builder::new().name("sources".into()).spawn(move || self.run(&there)).is_err() {
            here.run(&relay);
        }
        relay
    }

    /// Reads until all are read or nobody waits any more.
    fn run(&self, relay: &Relay) {
        let mut meter = Meter::start();
        let all = self.desks.iter().all(|desk| {
            let mut part = Snapshot::default();
            read(&self.root, desk, &mut meter, &mut part);
            relay.add(part)
        });
        if all {
            relay.end();
        }
    }
}

/// Reads one source, and reports how it fared and what it cost. A panic is a failure of this source alone.
fn read(root: &Root, desk: &Desk, meter: &mut Meter, out: &mut Snapshot) {
    let mut source = desk.lock();
    *desk.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(meter.at);
    let outcome = match catch_unwind(AssertUnwindSafe(|| source.read(root, out))) {
        Ok(Ok(())) => Outcome::Read,
        Ok(Err(miss)) => miss.into(),
        Err(panic) => Outcome::Failed(format!("panicked: {}", message(&*panic))),
    };
    let (cpu_ns, wall_ns) = meter.lap();
    out.sources.push(SourceReport {
        source: source.name().into(),
        tells: source.tells().into(),
        outcome,
        asked: source.tempo() == Tempo::Asked,
        cpu_ns,
        wall_ns,
    });
}

/// Measures what one source after the other costs: the end of one is the beginning of the next.
struct Meter {
    at: Instant,
    cpu_ns: u64,
}

impl Meter {
    fn start() -> Self {
        Self { at: Instant::now(), cpu_ns: os::process_cpu_ns() }
    }

    /// Processor time and wall time since the last lap, nanoseconds.
    fn lap(&mut self) -> (u64, u64) {
        let before = std::mem::replace(self, Self::start());
        (self.cpu_ns.saturating_sub(before.cpu_ns), os::nanoseconds(self.at.duration_since(before.at)))
    }
}

/// What a panic says.
fn message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "without a message",
    }
}
