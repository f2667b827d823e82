//! Waits of threads, on run queues and off the CPU, with their reasons and the threads that block them
//! (crates/sense/bpf/sched.bpf.c).
//!
//! Every context switch is traced, which costs a busy machine a few percent, so this is on demand. A wait counts when it ends, if
//! it began while tracing was on.

#[cfg(test)]
mod live_tests;
pub(crate) mod reason;

use crate::bpf::{Object, c_struct, include_object};
use crate::os::ns_to_ticks;
use crate::root::Root;
use crate::source::SourceInfo;
use crate::source_error::SourceError;
use aya::maps::StackTraceMap;
use reason::WaitFunctions;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use whyslow_documents::time_breakdown::TimeKind;
use whyslow_model::catalogue::{Family, LockHolder, MetricKind, RunQueue, Sleep};
use whyslow_model::histogram::Histogram;
use whyslow_model::key::TaskKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Counter;

/// Number of buckets of a latency, up to 2^37 ns.
const LATENCIES: usize = (37 - 4) * 32;

c_struct! {
    /// `struct task_id`: a process or thread.
    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct TaskId {
        /// Nanoseconds since boot.
        start: u64,
        pid: u32,
        tid: u32,
    }

    /// `struct wait_site`: where threads of a process wait.
    struct WaitSite {
        process: TaskId,
        /// Number of the stack; negative if it could not be stored.
        stack: i32,
        /// 1 if futex(2) was called for a lock.
        lock: u32,
    }

    /// `struct latency_key`: run queue waits of a process of about the same length.
    struct LatencyKey {
        process: TaskId,
        bucket: u64,
    }

    /// `struct waited`.
    struct Waited {
        ns: u64,
        times: u64,
    }

    /// `struct migrations`: migrations between CPUs.
    struct Migrations {
        waking: u64,
        running: u64,
        queued: u64,
    }

    /// `struct latency`: of one CPU.
    struct LatencyBuckets {
        count: [u64; LATENCIES],
    }
}

impl TaskId {
    fn key(self) -> TaskKey {
        TaskKey { pid: self.pid, tid: self.tid, start: ns_to_ticks(self.start) }
    }
}

pub(super) const INFO: SourceInfo =
    SourceInfo::new("bpf/sched", "what threads wait for, how long, and which threads hold them up").on_demand();

pub(super) struct SleepTracer {
    object: Object,
    functions: WaitFunctions,
    /// By stack.
    reasons: BTreeMap<i32, Option<TimeKind>>,
}

impl SleepTracer {
    pub(super) fn load(root: &Root) -> Result<Self, SourceError> {
        let object = Object::load("sched", include_object!("sched"), root)?;
        Ok(Self { object, functions: WaitFunctions::read(root)?, reasons: BTreeMap::new() })
    }

    pub(super) fn read(&mut self, _: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        for (cpu, latency) in (0..).zip(self.object.per_cpu_element::<LatencyBuckets>("latency", 0)?.iter()) {
            let latency = Histogram::from_counts((0..).zip(latency.count));
            out.processor.run_queue.push(RunQueue { latency, ..RunQueue::new(cpu) });
        }
        let mut rows: BTreeMap<TaskKey, Sleep> = BTreeMap::new();
        for (process, waited) in self.object.entries::<TaskId, Waited>("run_queue_waits")? {
            let row = row_of(&mut rows, process);
            row.run_queue = waited.ns.into();
            row.run_queue_waits = waited.times.into();
        }
        for (process, latency) in self.latencies_by_process()? {
            row_of(&mut rows, process).run_queue_latency = latency;
        }
        for (site, waited) in self.object.entries::<WaitSite, Waited>("wait_sites")? {
            let reason = self.reason(&site)?;
            add_wait(row_of(&mut rows, site.process), reason, &waited);
        }
        for (process, migrations) in self.object.entries::<TaskId, Migrations>("migrations")? {
            let row = row_of(&mut rows, process);
            row.moved_waking = migrations.waking.into();
            row.moved_running = migrations.running.into();
            row.moved_queued = migrations.queued.into();
        }
        out.task.sleep.extend(rows.into_values());
        for (holder, waited) in self.object.entries::<TaskId, Waited>("lock_holders")? {
            out.task.lock_holder.push(LockHolder {
                kept_waiting: waited.ns.into(),
                handed_on: waited.times.into(),
                ..LockHolder::new(holder.key())
            });
        }
        match self.object.element::<u64>("lost", 0)? {
            0 => Ok(()),
            lost => Err(SourceError::Failed(format!("BPF sched: {lost} waits were not counted: too many threads"))),
        }
    }

    fn latencies_by_process(&self) -> Result<BTreeMap<TaskId, Histogram>, SourceError> {
        let mut counts: BTreeMap<TaskId, Vec<(u32, u64)>> = BTreeMap::new();
        for (key, count) in self.object.entries::<LatencyKey, u64>("latencies")? {
            counts
                .entry(key.process)
                .or_default()
                .extend(key.bucket.try_into().ok().map(|bucket: u32| (bucket, count)));
        }
        Ok(counts.into_iter().map(|(process, counts)| (process, Histogram::from_counts(counts))).collect())
    }

    /// Returns the reason why threads wait there; `None` if the stack is missing or matches no reason.
    fn reason(&mut self, site: &WaitSite) -> Result<Option<TimeKind>, SourceError> {
        let reason = match self.reasons.get(&site.stack) {
            Some(reason) => *reason,
            None => {
                let stacks = StackTraceMap::try_from(self.object.map("stacks")?).map_err(|e| self.object.failed(&e))?;
                let stack = u32::try_from(site.stack).ok().and_then(|id| stacks.get(&id, 0).ok());
                let reason = stack.and_then(|s| self.functions.reason(s.frames().iter().map(|frame| frame.ip)));
                self.reasons.insert(site.stack, reason);
                reason
            }
        };
        let lock = reason == Some(TimeKind::Futex) && site.lock != 0;
        Ok(if lock { Some(TimeKind::Lock) } else { reason })
    }
}

/// A row of zeros, because the program traces all waits of a process.
static ZEROS: LazyLock<Sleep> = LazyLock::new(|| {
    let mut row = Sleep { run_queue_latency: Histogram::from_counts([]), ..Sleep::default() };
    for metric in Sleep::INFO.metrics.iter().filter(|metric| metric.kind == MetricKind::Counter) {
        row.set(metric.name, 0);
    }
    row
});

fn row_of(rows: &mut BTreeMap<TaskKey, Sleep>, process: TaskId) -> &mut Sleep {
    rows.entry(process.key()).or_insert_with_key(|key| Sleep { task: *key, ..ZEROS.clone() })
}

fn add_wait(row: &mut Sleep, reason: Option<TimeKind>, waited: &Waited) {
    let add = |counter: &mut Counter, more: u64| *counter = counter.get().unwrap_or(0).saturating_add(more).into();
    if reason == Some(TimeKind::Lock) {
        add(&mut row.lock_waits, waited.times);
    }
    if reason == Some(TimeKind::Writeback) {
        add(&mut row.dirty_throttle, waited.ns);
    }
    let slot = match reason {
        Some(TimeKind::Lock) => &mut row.lock,
        Some(TimeKind::Futex) => &mut row.futex,
        Some(TimeKind::PageFault | TimeKind::Reclaim | TimeKind::Writeback) => &mut row.memory,
        Some(kind) if kind.is_disk() => &mut row.block_io,
        Some(TimeKind::Receive | TimeKind::Send | TimeKind::Connect | TimeKind::Nfs) => &mut row.network,
        Some(TimeKind::Pipe) => &mut row.pipe,
        Some(TimeKind::Poll) => &mut row.poll,
        Some(TimeKind::Sleep) => &mut row.timer,
        Some(TimeKind::KernelLock) => &mut row.kernel_lock,
        _ => &mut row.other,
    };
    add(slot, waited.ns);
}
