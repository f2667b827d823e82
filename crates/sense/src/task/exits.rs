//! Processes that ended since the last sample, and their resource usage (tracepoints `sched_process_exit`, `signal_generate` and
//! `sched_process_free`).

use super::cputime;
use super::process::put_used;
use super::record::{ExitRecord, FinalRecord};
use crate::bpf::{Object, from_bytes, include_object};
use crate::root::Root;
use crate::source_error::SourceError;
use aya::maps::{MapData, RingBuf};
use std::collections::{BTreeMap, HashMap};
use whyslow_model::catalogue::{ExitedChildren, Process};
use whyslow_model::key::{Offspring, TaskKey};
use whyslow_model::value::Gauge;

pub(super) struct Exits {
    /// `None` until recording starts: mapped, the ring takes four megabytes, and while programs are loaded the BTF is in memory
    /// too.
    ring: Option<RingBuf<MapData>>,
    /// Ended processes, by PID in the initial pid namespace and start time. They stay until their task_struct is freed, or for
    /// one sample, because their parent may not wait for them.
    pending: BTreeMap<(u64, u64), ExitRecord>,
    lost_before: u64,
    /// Keeps the programs attached.
    object: Object,
}

impl Exits {
    pub(super) fn load(root: &Root) -> Result<Self, SourceError> {
        let object = Object::load("exit", include_object!("exit"), root)?;
        Ok(Self { ring: None, pending: BTreeMap::new(), lost_before: 0, object })
    }

    /// Starts recording. `level` is the depth of the observer's pid namespace.
    pub(super) fn begin(&mut self, level: u64) -> Result<(), SourceError> {
        self.object.set_element("level", 0, u32::try_from(level).unwrap_or(0))?;
        let ring = RingBuf::try_from(self.object.take_map("exits")?).map_err(|e| self.object.failed(&e))?;
        self.ring = Some(ring);
        self.take(|_| true);
        self.pending.clear();
        self.lost().map(drop)
    }

    /// Returns the processes that have ended. If there are two records of a process, the later one wins. Processes that a sample
    /// saw alive are returned before their task_struct is freed: the last tick is a small part of their usage.
    pub(super) fn take(&mut self, seen_alive: impl Fn(&ExitRecord) -> bool) -> Vec<ExitRecord> {
        let Some(ring) = &mut self.ring else { return Vec::new() };
        let mut late = std::mem::take(&mut self.pending);
        let mut ended = Vec::new();
        while let Some(item) = ring.next() {
            // The longer record arrives first.
            if let Some(exit) = from_bytes::<ExitRecord>(&item) {
                let key = (exit.global_pid, exit.start);
                late.remove(&key);
                self.pending.insert(key, exit);
            } else if let Some(last) = from_bytes::<FinalRecord>(&item) {
                let key = (last.global_pid, last.start);
                if let Some(mut exit) = self.pending.remove(&key).or_else(|| late.remove(&key)) {
                    exit.used.cpu.runtime = last.runtime.max(exit.used.cpu.runtime);
                    ended.push(exit);
                }
            }
        }
        ended.extend(late.into_values());
        ended.extend(self.pending.extract_if(.., |_, exit| seen_alive(exit)).map(|(_, exit)| exit));
        // A process outside of the observer's pid namespace has PID 0.
        ended.retain(|exit| exit.pid != 0);
        ended
    }

    /// Iterates over processes that have ended but are not reported yet, each with its parent.
    pub(super) fn pending_parents(&self) -> impl Iterator<Item = (TaskKey, TaskKey)> {
        self.pending.values().map(|exit| (exit.key(), exit.parent_key()))
    }

    /// Returns the number of records lost since the last call.
    pub(super) fn lost(&mut self) -> Result<u64, SourceError> {
        let now = self.object.element::<u64>("lost", 0)?;
        Ok(now.saturating_sub(std::mem::replace(&mut self.lost_before, now)))
    }
}

/// Builds the last row of a process that a sample saw alive.
pub(super) fn last_row(before: &Process, exit: &ExitRecord) -> Process {
    let mut last = before.clone();
    let row = &mut *last;
    put_used(row, &exit.used);
    row.children_user = exit.children_user.into();
    row.children_system = exit.children_system.into();
    // Complete only for a single-threaded process.
    if row.threads.get() == Some(1.0) {
        row.run_delay = exit.run_delay.max(row.run_delay.get().unwrap_or(0)).into();
    }
    row.state = "X".into();
    row.open_files = Gauge::ABSENT;
    last
}

/// Builds rows for processes that no sample saw, by the nearest ancestor that still runs; `pending` are the parents of other
/// ended processes.
pub(super) fn exited_children(
    unseen: &[ExitRecord],
    pending: impl Iterator<Item = (TaskKey, TaskKey)>,
) -> Vec<ExitedChildren> {
    let unseen_parents = unseen.iter().map(|exit| (exit.key(), exit.parent_key()));
    let parents: HashMap<TaskKey, TaskKey> = unseen_parents.chain(pending).collect();
    let mut rows: BTreeMap<Offspring, ExitedChildren> = BTreeMap::new();
    for exit in unseen {
        let parent = survivor(exit.parent_key(), &parents);
        let offspring = Offspring { parent, name: String::from_utf8_lossy(exit.name()).as_ref().into() };
        let row = rows.entry(offspring).or_insert_with_key(|key| ExitedChildren::new(key.clone()));
        let (user, system) = cputime::adjusted(&exit.used.cpu, None, None);
        let parts = [
            (&mut row.ended, 1),
            (&mut row.user, user),
            (&mut row.system, system),
            (&mut row.run_delay, exit.run_delay),
            (&mut row.read_bytes, exit.used.io.read_bytes),
            (&mut row.write_bytes, exit.used.io.write_bytes),
        ];
        for (sum, part) in parts {
            *sum = (sum.get().unwrap_or(0.0) + part as f64).into();
        }
    }
    rows.into_values().collect()
}

/// Returns the nearest ancestor that still runs.
fn survivor(mut parent: TaskKey, parents: &HashMap<TaskKey, TaskKey>) -> TaskKey {
    // Ancestors are older than their children, so there is no cycle. The bound guards against malformed records.
    for _ in 0..parents.len() {
        match parents.get(&parent) {
            Some(next) => parent = *next,
            None => break,
        }
    }
    parent
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::tick_ns;

    fn exit(pid: u64, parent: u64, runtime: u64) -> ExitRecord {
        let mut exit =
            ExitRecord { pid, parent, start: 50 * tick_ns(), parent_start: 50 * tick_ns(), ..Default::default() };
        exit.used.cpu.user = 1;
        exit.used.cpu.runtime = runtime;
        exit
    }

    #[test]
    fn grandchildren_are_counted_for_their_surviving_ancestor() {
        let rows = exited_children(&[exit(12, 11, 5), exit(11, 10, 7), exit(13, 10, 1)], [].into_iter());
        let reported: Vec<_> = rows.iter().map(|r| (r.offspring.parent.pid, r.ended.get(), r.user.get())).collect();
        assert_eq!(reported, [(10, Some(3.0), Some(13.0))]);
    }

    #[test]
    fn a_process_that_has_ended_but_is_not_reported_yet_is_no_surviving_ancestor() {
        let parent = exit(11, 10, 7);
        let rows = exited_children(&[exit(12, 11, 5)], [(parent.key(), parent.parent_key())].into_iter());
        assert_eq!(rows[0].offspring.parent.pid, 10);
    }

    #[test]
    fn a_cycle_of_parents_ends() {
        assert_eq!(exited_children(&[exit(1, 2, 5), exit(2, 1, 7)], [].into_iter()).len(), 2);
    }
}
