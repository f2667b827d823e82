//! Who waits, on run queues and off the processor, for what and for whom: crates/sense/bpf/sched.bpf.c.
//!
//! Every switch of every thread is looked at, which costs a busy machine some percent: it is done only when asked for.
//! A wait counts when it ends, if it began while this was on.

mod layout;
#[cfg(test)]
mod live_tests;
mod reason;

use crate::bpf::{Object, entries, include_object};
use crate::root::Root;
use crate::source::{Miss, Source, Tempo};
use aya::Pod;
use aya::maps::{Array, HashMap, MapData, MapError, PerCpuArray, StackTraceMap};
use layout::{Latency, Moves, Owner, Place, WaitOf, Waited};
use reason::{Functions, Reason};
use std::collections::BTreeMap;
use whyslow_model::catalogue::{LockHolder, RunQueue, Sleep};
use whyslow_model::histogram::Histogram;
use whyslow_model::key::TaskKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Counter;

const NAME: &str = "sched";

/// The source of families `run_queue`, `sleep` and `lock_holder`.
#[derive(Default)]
pub(super) struct Sleeps {
    probe: Option<Result<Probe, Miss>>,
}

impl Source for Sleeps {
    fn name(&self) -> &'static str {
        "bpf/sched"
    }

    fn tells(&self) -> &'static str {
        "what threads wait for, how long, and who keeps them waiting"
    }

    fn tempo(&self) -> Tempo {
        Tempo::Asked
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        match self.probe.get_or_insert_with(|| Probe::load(root)) {
            Ok(probe) => probe.read(out),
            Err(miss) => Err(miss.clone()),
        }
    }
}

/// The programs, attached.
struct Probe {
    object: Object,
    functions: Functions,
    /// What the stacks met so far tell.
    reasons: BTreeMap<i32, Option<Reason>>,
}

impl Probe {
    fn load(root: &Root) -> Result<Self, Miss> {
        let object = Object::load(NAME, include_object!("sched"), root)?;
        Ok(Self { object, functions: Functions::read(root)?, reasons: BTreeMap::new() })
    }

    fn read(&mut self, out: &mut Snapshot) -> Result<(), Miss> {
        self.latencies(out)?;
        let mut rows: BTreeMap<TaskKey, Sleep> = BTreeMap::new();
        for (owner, waited) in self.all::<Owner, Waited>("queues")? {
            let row = row_of(&mut rows, owner);
            row.run_queue = waited.ns.into();
            row.run_queue_waits = waited.times.into();
        }
        for (owner, latency) in self.latencies_by_process()? {
            row_of(&mut rows, owner).run_queue_latency = latency;
        }
        for (place, waited) in self.all::<Place, Waited>("places")? {
            let reason = self.reason(&place)?;
            put(row_of(&mut rows, place.owner), reason, &waited);
        }
        for (owner, moves) in self.all::<Owner, Moves>("moved")? {
            let row = row_of(&mut rows, owner);
            row.moved_waking = moves.waking.into();
            row.moved_running = moves.running.into();
            row.moved_queued = moves.queued.into();
        }
        out.task.sleep.extend(rows.into_values());
        for (owner, waited) in self.all::<Owner, Waited>("holders")? {
            out.task.lock_holder.push(LockHolder {
                kept_waiting: waited.ns.into(),
                handed_on: waited.times.into(),
                ..LockHolder::new(owner.key())
            });
        }
        self.complete()
    }

    /// Says so where there were more threads, processes or places than room.
    fn complete(&self) -> Result<(), Miss> {
        let lost: Array<_, u64> = Array::try_from(self.object.map("lost")?).map_err(failed)?;
        match lost.get(&0, 0).map_err(failed)? {
            0 => Ok(()),
            lost => Err(Miss::Failed(format!("BPF {NAME}: {lost} waits went uncounted: too many threads"))),
        }
    }

    fn latencies(&self, out: &mut Snapshot) -> Result<(), Miss> {
        let latency: PerCpuArray<_, Latency> = PerCpuArray::try_from(self.object.map("latency")?).map_err(failed)?;
        for (cpu, latency) in (0..).zip(latency.get(&0, 0).map_err(failed)?.iter()) {
            out.processor.run_queue.push(RunQueue { latency: latency.histogram(), ..RunQueue::new(cpu) });
        }
        Ok(())
    }

    fn latencies_by_process(&self) -> Result<BTreeMap<Owner, Histogram>, Miss> {
        let mut counts: BTreeMap<Owner, Vec<(u32, u64)>> = BTreeMap::new();
        for (wait, count) in self.all::<WaitOf, u64>("latencies")? {
            counts.entry(wait.owner).or_default().extend(wait.bucket().map(|bucket| (bucket, count)));
        }
        Ok(counts.into_iter().map(|(owner, counts)| (owner, Histogram::from_counts(counts))).collect())
    }

    /// A map's entries.
    fn all<K: Pod, V: Pod>(&self, map: &str) -> Result<Vec<(K, V)>, Miss> {
        let map: HashMap<&MapData, K, V> = HashMap::try_from(self.object.map(map)?).map_err(failed)?;
        entries(&map).map_err(failed)
    }

    /// For what threads wait in a place; `None` where the stack does not tell or could not be kept.
    fn reason(&mut self, place: &Place) -> Result<Option<Reason>, Miss> {
        let reason = match self.reasons.get(&place.stack) {
            Some(reason) => *reason,
            None => {
                let stacks = StackTraceMap::try_from(self.object.map("stacks")?).map_err(failed)?;
                let stack = u32::try_from(place.stack).ok().and_then(|id| stacks.get(&id, 0).ok());
                let reason = stack.and_then(|s| self.functions.reason(s.frames().iter().map(|frame| frame.ip)));
                self.reasons.insert(place.stack, reason);
                reason
            }
        };
        let lock = reason == Some(Reason::Futex) && place.lock != 0;
        Ok(if lock { Some(Reason::Lock) } else { reason })
    }
}

/// A process' row, in which what has not happened yet is 0: the programs see all of it.
fn row_of(rows: &mut BTreeMap<TaskKey, Sleep>, owner: Owner) -> &mut Sleep {
    rows.entry(owner.key()).or_insert_with_key(|key| {
        let none = Counter::from(0);
        Sleep {
            run_queue: none,
            run_queue_waits: none,
            lock: none,
            lock_waits: none,
            futex: none,
            memory: none,
            block_io: none,
            network: none,
            pipe: none,
            poll: none,
            timer: none,
            kernel_lock: none,
            other: none,
            moved_waking: none,
            moved_running: none,
            moved_queued: none,
            run_queue_latency: Histogram::from_counts([]),
            ..Sleep::new(*key)
        }
    })
}

fn put(row: &mut Sleep, reason: Option<Reason>, waited: &Waited) {
    if reason == Some(Reason::Lock) {
        row.lock_waits = plus(row.lock_waits, waited.times);
    }
    let slot = match reason {
        Some(Reason::Lock) => &mut row.lock,
        Some(Reason::Futex) => &mut row.futex,
        Some(Reason::Memory) => &mut row.memory,
        Some(Reason::BlockIo) => &mut row.block_io,
        Some(Reason::Network) => &mut row.network,
        Some(Reason::Pipe) => &mut row.pipe,
        Some(Reason::Poll) => &mut row.poll,
        Some(Reason::Timer) => &mut row.timer,
        Some(Reason::KernelLock) => &mut row.kernel_lock,
        None => &mut row.other,
    };
    *slot = plus(*slot, waited.ns);
}

fn plus(counter: Counter, more: u64) -> Counter {
    counter.get().unwrap_or(0).saturating_add(more).into()
}

fn failed(error: MapError) -> Miss {
    Miss::Failed(format!("BPF {NAME}: {error}"))
}
