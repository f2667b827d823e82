//! Reads every source and merges the results into a Snapshot.
//!
//! One thread per sample reads the sources in turn. If a source hangs (a driver that does not answer), the sampler abandons the
//! thread and another one reads the rest. While the abandoned thread holds the source, the source is reported as hung and not
//! read. No thread exists between samples.
//!
//! A recorder, which samples for days, reads in its own thread instead ([`Sampler::sample_here`]) under a
//! [supervisor](crate::supervisor): starting a thread for each sample and waiting for it costs two wake-ups and a tenth of a
//! millisecond.

use crate::bpf::KernelBtf;
use crate::source::{Schedule, SourceInfo};
use crate::{Root, Source, os};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};
use whyslow_model::snapshot::{ReadOutcome, Snapshot, SourceReport};

/// A source that takes longer than this counts as hung.
const PATIENCE: Duration = Duration::from_secs(3);
/// Interval at which sources of [`Schedule::Slow`] are read.
const SLOW: Duration = Duration::from_secs(60);

/// The sources that describe how storage and network are stacked.
const OF_STACKS: [&str; 17] = [
    "machine",
    "network namespaces",
    "proc/interrupts",
    "proc/irq",
    "proc/qemu",
    "proc/self/mountinfo",
    "proc/self/mountstats",
    "proc/swaps",
    "rtnetlink links",
    "rtnetlink qdiscs",
    "sys/block",
    "sys/block/dm",
    "sys/block/md",
    "sys/block/queue",
    "sys/block/zram",
    "sys/bus/pci/devices",
    "sys/fs",
];

/// Reads all sources of a machine.
pub struct Sampler {
    root: Root,
    slots: Vec<SourceSlot>,
    patience: Duration,
    slow: Duration,
    /// Held until the sources have loaded their BPF objects, which they do when they are prepared or first read.
    btf: Option<KernelBtf>,
}

/// A second sampler for the same sources; takes over when the first sampler's thread hangs in a read.
impl Clone for Sampler {
    fn clone(&self) -> Self {
        Self { root: self.root.clone(), slots: self.slots.clone(), btf: None, ..*self }
    }
}

impl Sampler {
    /// Creates a sampler of every source and prepares them, which takes a tenth of a second or two if BPF is used.
    pub fn new(root: Root) -> Self {
        Self::with_sources(root, all_sources().collect()).prepared()
    }

    /// Creates a sampler of one source and prepares it, to benchmark its cost; the source may be [`Schedule::OnDemand`]. Returns
    /// `None` if no source has this name.
    pub fn of_source(root: Root, name: &str) -> Option<Self> {
        let source = all_sources().find(|source| source.info().name == name)?;
        let mut sampler = Self::with_sources(root, vec![source]);
        sampler.ask(name);
        Some(sampler.prepared())
    }

    fn prepared(self) -> Self {
        for slot in self.slots.iter().filter(|slot| slot.enabled) {
            slot.source.lock().prepare(&self.root);
        }
        Self { btf: None, ..self }
    }

    /// Creates a sampler of CPUs, memory and storage without BPF, for a benchmark whose load a full sample would disturb.
    pub fn of_storage(root: Root) -> Self {
        let subsystems = [crate::processor::sources(), crate::memory::sources(), crate::block::sources()];
        Self::with_sources(root.without_bpf(), subsystems.into_iter().flatten().collect())
    }

    /// Creates a sampler of the storage and network stacks: inventory and settings, without BPF.
    pub fn of_stacks(root: Root) -> Self {
        let subsystems = [
            crate::processor::sources(),
            crate::memory::sources(),
            crate::block::sources(),
            crate::net::sources(),
            crate::task::sources(),
            crate::kernel::sources(),
        ];
        let sources = subsystems.into_iter().flatten().filter(|source| OF_STACKS.contains(&source.info().name));
        Self::with_sources(root.without_bpf(), sources.collect())
    }

    /// Creates a sampler of CPUs only, without BPF, for a benchmark that samples while its load runs.
    pub fn of_processors(root: Root) -> Self {
        Self::with_sources(root.without_bpf(), crate::processor::sources())
    }

    /// Creates a sampler of these sources. The slow ones are read last, so that the others are read at the same offset in every
    /// sample and their counters grow by what happened between two samples.
    pub fn with_sources(root: Root, mut sources: Vec<Box<dyn Source>>) -> Self {
        let btf = KernelBtf::load(&root).ok();
        sources.sort_by_key(|source| source.info().schedule == Schedule::Slow);
        Self { root, slots: sources.into_iter().map(SourceSlot::new).collect(), patience: PATIENCE, slow: SLOW, btf }
    }

    /// Sets how long to wait for one source before it counts as hung; the default is three seconds.
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Sets how often sources of [`Schedule::Slow`] are read; the default is once a minute.
    pub fn slow(self, slow: Duration) -> Self {
        Self { slow, ..self }
    }

    /// Enables a source of [`Schedule::OnDemand`] or [`Schedule::Recorded`] from the next sample on. Returns false if no source
    /// has this name.
    pub fn ask(&mut self, source: &str) -> bool {
        let slot = self.slots.iter_mut().find(|slot| slot.info.name == source);
        slot.map(|slot| slot.enabled = true).is_some()
    }

    /// Lists the sources in the order in which they are read.
    pub fn sources(&self) -> impl Iterator<Item = SourceInfo> {
        self.slots.iter().map(|slot| slot.info)
    }

    /// Reads every source that is due. Takes at most the patience for each source that newly hangs.
    pub fn sample(&mut self) -> Snapshot {
        self.sample_at(os::wall_ns(), os::boot_ns())
    }

    /// Reads every source that is due in the calling thread; a source that hangs blocks it. Calls `goes_on` before each source,
    /// and returns `None` if that returns false because the sample is no longer needed.
    pub fn sample_here(&mut self, goes_on: impl Fn() -> bool) -> Option<Snapshot> {
        let mut snapshot = Snapshot { wall_ns: os::wall_ns(), boot_ns: os::boot_ns(), ..Snapshot::default() };
        let mut meter = CostMeter::start();
        for slot in &mut self.slots {
            if !goes_on() {
                return None;
            }
            match slot.status(self.slow) {
                SlotStatus::Due => read(&self.root, &slot.source, &mut meter, &mut snapshot),
                SlotStatus::Hung => snapshot.sources.push(slot.hung()),
                SlotStatus::NotDue => {}
            }
        }
        self.btf = None;
        snapshot.sort();
        Some(snapshot)
    }

    /// Like [`sample`](Self::sample), for captured trees: takes the times in nanoseconds since 1970 and since boot.
    pub fn sample_at(&mut self, wall_ns: i64, boot_ns: u64) -> Snapshot {
        let mut snapshot = Snapshot { wall_ns, boot_ns, ..Snapshot::default() };
        let mut due = Vec::with_capacity(self.slots.len());
        for slot in &mut self.slots {
            match slot.status(self.slow) {
                SlotStatus::Due => due.push(slot),
                SlotStatus::Hung => snapshot.sources.push(slot.hung()),
                SlotStatus::NotDue => {}
            }
        }
        let mut waiting = due.as_mut_slice();
        while !waiting.is_empty() {
            let sources = waiting.iter().map(|s| s.source.clone()).collect();
            let (parts, count) = start_reading(self.root.clone(), sources).wait(self.patience);
            snapshot.absorb(parts);
            let settled = match waiting.get_mut(count) {
                Some(slot) => {
                    slot.hangs = true;
                    snapshot.sources.push(slot.hung());
                    count + 1
                }
                None => count,
            };
            waiting = &mut waiting[settled..];
        }
        self.btf = None;
        snapshot.sort();
        snapshot
    }
}

fn all_sources() -> impl Iterator<Item = Box<dyn Source>> {
    let subsystems = [
        crate::processor::sources(),
        crate::memory::sources(),
        crate::block::sources(),
        crate::net::sources(),
        crate::cgroup::sources(),
        crate::task::sources(),
        crate::kernel::sources(),
        crate::inventory::sources(),
    ];
    subsystems.into_iter().flatten()
}

/// Reads a captured tree once, at the time in its /proc/uptime; without that file, [`Snapshot::boot_ns`] is 0.
pub fn read_captured(path: &Path) -> Snapshot {
    let root = Root::captured(path);
    let uptime = root.word("proc/uptime");
    let seconds: Option<f64> = uptime.as_deref().and_then(|text| text.split(' ').next()?.parse().ok());
    Sampler::new(root).sample_at(0, (seconds.unwrap_or(0.0) * 1e9) as u64)
}

/// A source and the lock that its reading thread holds.
struct SharedSource {
    source: Mutex<Box<dyn Source>>,
    started: Mutex<Option<Instant>>,
}

impl SharedSource {
    fn lock(&self) -> MutexGuard<'_, Box<dyn Source>> {
        lock(&self.source)
    }

    fn is_being_read(&self) -> bool {
        matches!(self.source.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Returns the time since the last read began.
    fn age(&self) -> Option<Duration> {
        lock(&self.started).map(|started| started.elapsed())
    }
}

#[derive(Clone)]
struct SourceSlot {
    info: SourceInfo,
    source: Arc<SharedSource>,
    enabled: bool,
    hangs: bool,
}

enum SlotStatus {
    Due,
    NotDue,
    Hung,
}

impl SourceSlot {
    fn new(source: Box<dyn Source>) -> Self {
        let info = source.info();
        let source = Arc::new(SharedSource { source: Mutex::new(source), started: Mutex::default() });
        Self { info, source, enabled: !matches!(info.schedule, Schedule::OnDemand | Schedule::Recorded), hangs: false }
    }

    /// Returns whether the source is due. A source that hung and has returned is due at once, because the result of that read was
    /// lost.
    fn status(&mut self, slow: Duration) -> SlotStatus {
        // A sampler that took over from a stuck thread has not seen the source hang.
        if self.source.is_being_read() {
            self.hangs = true;
            return SlotStatus::Hung;
        }
        if std::mem::take(&mut self.hangs) {
            return SlotStatus::Due;
        }
        match (self.info.schedule, self.source.age()) {
            _ if !self.enabled => SlotStatus::NotDue,
            (Schedule::Slow, Some(age)) if age < slow => SlotStatus::NotDue,
            _ => SlotStatus::Due,
        }
    }

    fn hung(&self) -> SourceReport {
        let waited = self.source.age().unwrap_or_default();
        let outcome = ReadOutcome::Hung(format!("has not answered for {:.1} s", waited.as_secs_f64()));
        report(self.info, outcome, 0, os::nanoseconds(waited))
    }
}

fn report(info: SourceInfo, outcome: ReadOutcome, cpu_ns: u64, wall_ns: u64) -> SourceReport {
    SourceReport {
        source: info.name.into(),
        tells: info.description.into(),
        outcome,
        asked: info.schedule == Schedule::OnDemand,
        cpu_ns,
        wall_ns,
    }
}

/// Reads the sources in turn in a separate thread.
///
/// If no thread can be started (for example at a process limit, which may be the problem to diagnose), it reads before it
/// returns: a possible hang is better than no data.
fn start_reading(root: Root, sources: Vec<Arc<SharedSource>>) -> Arc<Collector> {
    let collector = Arc::new(Collector::new());
    let run = {
        let collector = collector.clone();
        Arc::new(move || {
            let mut meter = CostMeter::start();
            let all = sources.iter().all(|source| {
                let mut part = Snapshot::default();
                read(&root, source, &mut meter, &mut part);
                collector.add(part)
            });
            if all {
                collector.finish();
            }
        })
    };
    let there = run.clone();
    if thread::Builder::new().name("sources".into()).spawn(move || there()).is_err() {
        run();
    }
    collector
}

/// Collects the results of the reading thread. It wakes the sampler once, when all sources are read: a wake-up per source would
/// cost more than reading most sources.
struct Collector {
    state: Mutex<Collected>,
    finished: Condvar,
}

struct Collected {
    parts: Snapshot,
    count: usize,
    /// Time when the last part was added, or when the reading began.
    last: Instant,
    finished: bool,
    abandoned: bool,
}

impl Collector {
    fn new() -> Self {
        let (parts, last) = (Snapshot::default(), Instant::now());
        let state = Collected { parts, count: 0, last, finished: false, abandoned: false };
        Self { state: Mutex::new(state), finished: Condvar::new() }
    }

    /// Adds a part. Returns false if the sampler no longer waits.
    fn add(&self, part: Snapshot) -> bool {
        let mut state = lock(&self.state);
        if !state.abandoned {
            state.parts.absorb(part);
            state.count += 1;
            state.last = Instant::now();
        }
        !state.abandoned
    }

    fn finish(&self) {
        lock(&self.state).finished = true;
        self.finished.notify_one();
    }

    /// Waits until the reading has finished, or no part arrived within `patience`. Returns the parts and their number; if some
    /// are missing, the next one hangs. Parts added later are lost.
    fn wait(&self, patience: Duration) -> (Snapshot, usize) {
        let mut state = lock(&self.state);
        while !state.finished && state.last.elapsed() < patience {
            let left = patience.saturating_sub(state.last.elapsed());
            state = self.finished.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.abandoned = true;
        (std::mem::take(&mut state.parts), state.count)
    }
}

/// Reads one source and reports its outcome and cost. A panic fails this source alone.
fn read(root: &Root, shared: &SharedSource, meter: &mut CostMeter, out: &mut Snapshot) {
    let mut source = shared.lock();
    *lock(&shared.started) = Some(meter.at);
    let outcome = match catch_unwind(AssertUnwindSafe(|| source.read(root, out))) {
        Ok(Ok(())) => ReadOutcome::Read,
        Ok(Err(error)) => error.into(),
        Err(panic) => ReadOutcome::Failed(format!("panicked: {}", panic_message(&*panic))),
    };
    let (cpu_ns, wall_ns) = meter.lap();
    out.sources.push(report(source.info(), outcome, cpu_ns, wall_ns));
}

/// Measures the cost of one source after the other: the end of one is the start of the next.
struct CostMeter {
    at: Instant,
    cpu_ns: u64,
}

impl CostMeter {
    fn start() -> Self {
        Self { at: Instant::now(), cpu_ns: os::process_cpu_ns() }
    }

    /// Returns CPU time and wall time since the last lap, nanoseconds.
    fn lap(&mut self) -> (u64, u64) {
        let before = std::mem::replace(self, Self::start());
        (self.cpu_ns.saturating_sub(before.cpu_ns), os::nanoseconds(self.at.duration_since(before.at)))
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "without a message",
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_of_stacks_exists() {
        let sampler = Sampler::of_stacks(Root::captured("/nonexistent"));
        let mut names: Vec<&str> = sampler.sources().map(|source| source.name).collect();
        names.sort_unstable();
        assert_eq!(names, OF_STACKS);
    }

    #[test]
    fn what_is_read_once_in_a_while_is_read_last() {
        let sampler = Sampler::with_sources(Root::captured("/nonexistent"), all_sources().collect());
        let is_slow: Vec<bool> = sampler.sources().map(|source| source.schedule == Schedule::Slow).collect();
        assert!(is_slow.contains(&true) && is_slow.is_sorted(), "{is_slow:?}");
    }
}
