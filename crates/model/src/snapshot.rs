//! Raw counters at one instant.

use crate::catalogue::{
    BlockTables, CgroupTables, EachFamily, Family, KernelTables, MeasureTables, MemoryTables, NetTables, Processor,
    TaskTables,
};
pub use crate::report::{ReadOutcome, SourceReport};
use serde::{Deserialize, Serialize};

/// Everything read at one instant: families with a row per entity. Raw, so that any interval can be computed later and nothing
/// is averaged away.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Wall-clock time at the start of reading, nanoseconds since 1970; 0 if unknown. Never used to compute rates.
    pub wall_ns: i64,
    /// Time since boot including suspend (CLOCK_BOOTTIME), nanoseconds. Rates are computed from it.
    pub boot_ns: u64,
    /// CPUs.
    pub processor: Processor,
    /// Memory.
    pub memory: MemoryTables,
    /// Storage.
    pub block: BlockTables,
    /// Network.
    pub net: NetTables,
    /// Control groups.
    pub cgroup: CgroupTables,
    /// Processes and threads.
    pub task: TaskTables,
    /// The kernel as a whole.
    pub kernel: KernelTables,
    /// Measurements of other programs; never read live.
    pub measure: MeasureTables,
    /// The outcome of each source.
    pub sources: Vec<SourceReport>,
}

impl Snapshot {
    /// Adds the rows that one source has read.
    pub fn absorb(&mut self, part: Self) {
        self.processor.absorb(part.processor);
        self.memory.absorb(part.memory);
        self.block.absorb(part.block);
        self.net.absorb(part.net);
        self.cgroup.absorb(part.cgroup);
        self.task.absorb(part.task);
        self.kernel.absorb(part.kernel);
        self.measure.absorb(part.measure);
        self.sources.extend(part.sources);
    }

    /// Clears the families that `known` has rows of: two accounts of the same thing, each with its own clock and start, do not
    /// make a rate.
    pub fn forget(&mut self, known: &Self) {
        self.processor.forget(&known.processor);
        self.memory.forget(&known.memory);
        self.block.forget(&known.block);
        self.net.forget(&known.net);
        self.cgroup.forget(&known.cgroup);
        self.task.forget(&known.task);
        self.kernel.forget(&known.kernel);
        self.measure.forget(&known.measure);
    }

    /// Sorts every table by key, as [`row`](Self::row) and the Window expect.
    pub fn sort(&mut self) {
        self.processor.sort();
        self.memory.sort();
        self.block.sort();
        self.net.sort();
        self.cgroup.sort();
        self.task.sort();
        self.kernel.sort();
        self.measure.sort();
    }

    /// Passes the rows of every family to `each`, in the catalogue's order, followed by the reports of the sources.
    pub fn each_family(&mut self, each: &mut impl EachFamily) {
        self.processor.each_family(each);
        self.memory.each_family(each);
        self.block.each_family(each);
        self.net.each_family(each);
        self.cgroup.each_family(each);
        self.task.each_family(each);
        self.kernel.each_family(each);
        self.measure.each_family(each);
        each.family(&mut self.sources);
    }

    /// Leaves out events: what happened before it.
    pub fn clear_events(&mut self) {
        self.each_family(&mut ClearEvents);
    }

    /// Takes over the rows of families that it lacks, as far as they stay valid: all but events.
    pub fn carry_over(&mut self, mut earlier: Self) {
        earlier.each_family(&mut CarryOver(self));
    }

    /// The row of a family with this key.
    pub fn row<F: Family>(&self, key: &F::Key) -> Option<&F> {
        let rows = F::rows(self);
        rows.binary_search_by(|r| r.key().cmp(key)).ok().map(|i| &rows[i])
    }

    /// The row of a family that has only one.
    pub fn the<F: Family>(&self) -> Option<&F> {
        F::rows(self).first()
    }
}

struct ClearEvents;

impl EachFamily for ClearEvents {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        if F::INFO.events {
            rows.clear();
        }
    }
}

struct CarryOver<'s>(&'s mut Snapshot);

impl EachFamily for CarryOver<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        if !F::INFO.events && F::rows(self.0).is_empty() {
            *F::rows_mut(self.0) = std::mem::take(rows);
        }
    }
}
