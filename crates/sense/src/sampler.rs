//! Runs every source and puts what they read together.
//!
//! Sources are read in turn by a thread that lives as long as one sample. Where one of them hangs (a file of a dead
//! network mount, a driver that does not answer), its thread is abandoned and another goes on with the rest; while the
//! abandoned thread holds the source, the source is reported as hung and not asked again. Between samples no thread of
//! ours is awake, or exists.

use crate::bpf::Types;
use crate::relay::{Relay, Relayed};
use crate::source::Tempo;
use crate::{Root, Source, os};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
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
    /// Held while the sources load their BPF objects, which they do when first read.
    types: Option<Types>,
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
        let sampler = Self::with_sources(root, wings.into_iter().flatten().collect());
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

    fn prepare(&self) {
        for slot in self.slots.iter().filter(|slot| slot.wanted) {
            slot.source.lock().unwrap_or_else(PoisonError::into_inner).prepare(&self.root);
        }
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
            let reader =
                Reader { root: self.root.clone(), sources: waiting.iter().map(|s| s.source.clone()).collect() };
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
    let started = Instant::now();
    let Relayed { gathered, count, hangs_since } = relay.wait(patience);
    into.absorb(gathered);
    for slot in slots.iter_mut().take(count) {
        slot.asked = Some(started);
    }
    let Some(slot) = slots.get_mut(count) else { return count };
    slot.asked = hangs_since;
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

/// A source, which the thread that reads it holds locked.
type Shared = Arc<Mutex<Box<dyn Source>>>;

/// A source and how it stands.
struct Slot {
    info: SourceInfo,
    source: Shared,
    /// When it was last read.
    asked: Option<Instant>,
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
            source: Arc::new(Mutex::new(source)),
            asked: None,
            wanted: info.tempo != Tempo::Asked,
            hangs: false,
        }
    }

    /// A source that hung and has come back is due at once: what it read meanwhile is lost.
    fn turn(&mut self, slow: Duration) -> Turn {
        if self.hangs {
            if matches!(self.source.try_lock(), Err(TryLockError::WouldBlock)) {
                return Turn::Hung;
            }
            self.hangs = false;
            return Turn::Due;
        }
        match (self.info.tempo, self.asked) {
            _ if !self.wanted => Turn::Rests,
            (Tempo::Slow, Some(asked)) if asked.elapsed() < slow => Turn::Rests,
            _ => Turn::Due,
        }
    }

    /// The report of a source that has not answered since it was asked.
    fn hung(&self) -> SourceReport {
        let waited = self.asked.map_or(Duration::ZERO, |asked| asked.elapsed());
        SourceReport {
            source: self.info.name.into(),
            tells: self.info.tells.into(),
            outcome: Outcome::Hung(format!("has not answered for {:.1} s", waited.as_secs_f64())),
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
    sources: Vec<Shared>,
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
        if self.sources.iter().all(|source| relay.add(read(&self.root, source))) {
            relay.end();
        }
    }
}

/// Reads one source, and reports how it fared and what it cost. A panic is a failure of this source alone.
fn read(root: &Root, source: &Shared) -> Snapshot {
    let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
    let mut part = Snapshot::default();
    let (started, cpu_ns) = (Instant::now(), os::process_cpu_ns());
    let outcome = match catch_unwind(AssertUnwindSafe(|| source.read(root, &mut part))) {
        Ok(Ok(())) => Outcome::Read,
        Ok(Err(miss)) => miss.into(),
        Err(panic) => Outcome::Failed(format!("panicked: {}", message(&*panic))),
    };
    part.sources = vec![SourceReport {
        source: source.name().into(),
        tells: source.tells().into(),
        outcome,
        asked: source.tempo() == Tempo::Asked,
        cpu_ns: os::process_cpu_ns().saturating_sub(cpu_ns),
        wall_ns: os::nanoseconds(started.elapsed()),
    }];
    part
}

/// What a panic says.
fn message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "without a message",
    }
}
