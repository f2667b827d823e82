//! Raw counters of one instant.

use crate::catalogue::{
    BlockTables, CgroupTables, Family, KernelTables, MeasureTables, MemoryTables, NetTables, Processor, TaskTables,
};
use crate::value::Name;
use serde::{Deserialize, Serialize};

/// Everything read at one instant, family by family, a row per entity. Raw, so that any interval can be computed later
/// and nothing is averaged away.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Wall clock at the start of the reading, nanoseconds since 1970; 0 where it is not known. Never used to compute
    /// rates.
    pub wall_ns: i64,
    /// Time since boot, suspend included (CLOCK_BOOTTIME), nanoseconds. Rates are computed with this.
    pub boot_ns: u64,
    /// Processors.
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
    /// The kernel's books.
    pub kernel: KernelTables,
    /// What others measured; never read live.
    pub measure: MeasureTables,
    /// How each source fared.
    pub sources: Vec<SourceReport>,
}

impl Snapshot {
    /// Takes over the rows of a part that one source has read.
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

    /// Leaves out the families that `known` has rows of: two accounts of one thing, each with a clock and a beginning of
    /// its own, make no rate.
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

/// How one source fared in one Snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceReport {
    /// The source's name, such as `proc/stat`.
    pub source: Name,
    /// What it tells, in words, for blind spots.
    pub tells: Name,
    /// How it fared.
    pub outcome: Outcome,
    /// Whether it is one that looks closer and is read only where a finding asks for it.
    #[serde(default)]
    pub asked: bool,
    /// Processor time it took, nanoseconds.
    pub cpu_ns: u64,
    /// Wall time it took, nanoseconds.
    pub wall_ns: u64,
}

/// How a source fared. Absent, not permitted and failed are three different things.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Read in full.
    #[default]
    Read,
    /// This kernel or machine does not have it.
    Absent(String),
    /// It is there, but we may not read it, or not all of it.
    NotPermitted {
        /// What was refused.
        why: String,
        /// What would allow it.
        remedy: String,
    },
    /// It is there, and reading it failed or it made no sense.
    Failed(String),
    /// It did not answer in time.
    Hung(String),
    /// Read, but not all of it, or not with certainty.
    Partly {
        /// What is not certain.
        why: String,
        /// What would make it certain.
        remedy: String,
    },
}
