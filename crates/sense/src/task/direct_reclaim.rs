//! Time in which processes reclaim or compact memory themselves during an allocation: crates/sense/bpf/reclaim.bpf.c.

use crate::bpf::{Object, c_struct, include_object};
use crate::os::ns_to_ticks;
use crate::root::Root;
use crate::source::SourceInfo;
use crate::source_error::SourceError;
use std::collections::BTreeMap;
use whyslow_model::catalogue::DirectReclaim;
use whyslow_model::histogram::Histogram;
use whyslow_model::key::TaskKey;
use whyslow_model::snapshot::Snapshot;

pub(super) const INFO: SourceInfo =
    SourceInfo::new("bpf/reclaim", "how long programs reclaim or compact memory before they get some").on_demand();

/// Kinds of work that have separate latencies, by their numbers in reclaim.bpf.c.
const RECLAIM: u32 = 0;
const COMPACTION: u32 = 3;

c_struct! {
    /// `struct process_id`.
    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct ProcessId {
        /// Nanoseconds since boot.
        start: u64,
        pid: u64,
    }

    /// `struct own_work`: nanoseconds and times by kind.
    struct OwnWork {
        reclaim: u64,
        large_reclaim: u64,
        group_reclaim: u64,
        compaction: u64,
        reclaims: u64,
        large_reclaims: u64,
        group_reclaims: u64,
        compactions: u64,
    }

    /// `struct latency_key`.
    struct LatencyKey {
        process: ProcessId,
        kind: u32,
        bucket: u32,
    }
}

pub(super) fn load(root: &Root) -> Result<Object, SourceError> {
    Object::load("reclaim", include_object!("reclaim"), root)
}

pub(super) fn read(object: &mut Object, _: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let mut latencies: BTreeMap<(ProcessId, u32), Vec<(u32, u64)>> = BTreeMap::new();
    for (key, count) in object.entries::<LatencyKey, u64>("latencies")? {
        latencies.entry((key.process, key.kind)).or_default().push((key.bucket, count));
    }
    let mut latency = |process, kind| Histogram::from_counts(latencies.remove(&(process, kind)).unwrap_or_default());
    for (process, work) in object.entries::<ProcessId, OwnWork>("own_work")? {
        let pid = process.pid as u32;
        out.task.direct_reclaim.push(DirectReclaim {
            task: TaskKey { pid, tid: pid, start: ns_to_ticks(process.start) },
            reclaim: work.reclaim.into(),
            reclaims: work.reclaims.into(),
            reclaim_latency: latency(process, RECLAIM),
            large_reclaim: work.large_reclaim.into(),
            large_reclaims: work.large_reclaims.into(),
            group_reclaim: work.group_reclaim.into(),
            group_reclaims: work.group_reclaims.into(),
            compaction: work.compaction.into(),
            compactions: work.compactions.into(),
            compaction_latency: latency(process, COMPACTION),
        });
    }
    match object.element::<u64>("lost", 0)? {
        0 => Ok(()),
        lost => Err(SourceError::Failed(format!("BPF reclaim: {lost} waits were not counted: too many processes"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::loaded;
    use crate::testing::{attached, read, reclaim_a_group};

    #[test]
    fn reclaim_of_a_group_is_counted_for_the_process_that_does_it() {
        let Some(mut source) = attached(loaded(INFO, load, super::read)) else { return };
        if !reclaim_a_group() {
            return;
        }
        let rows = read(&mut *source).task.direct_reclaim.clone();
        let of_group = rows.iter().filter(|row| row.group_reclaims.get() > Some(0));
        let most = of_group.max_by_key(|row| row.group_reclaim.get()).unwrap();
        assert!(most.group_reclaim.get() > Some(1000), "{most:?}");
        // The process did no other work for its memory.
        assert_eq!((most.reclaims.get(), most.compactions.get()), (Some(0), Some(0)), "{most:?}");
    }
}
