//! Levels that a limit bounds. At the limit, something is refused or has to wait: a level and its limit are enough to see that,
//! without any interval.

use whyslow_model::catalogue::{Arc, Family, FamilyInfo, Group, Ipc, Limits};

/// A level of the entities of a family, and the limit beside it.
#[derive(Clone, Copy, Debug)]
pub struct Bounded {
    /// Name of the limit, as the kernel or the tool calls it.
    pub setting: &'static str,
    /// Unit of both.
    pub unit: &'static str,
    /// One phrase on what is limited.
    pub meaning: &'static str,
    /// What happens at the limit.
    pub harm: &'static str,
    /// Family whose columns these are.
    pub family: &'static FamilyInfo,
    /// Column of the level.
    pub level: usize,
    /// Column of the limit.
    pub limit: usize,
    /// Column of the counter of what the limit refused or held back.
    pub refused: Option<usize>,
    /// True if a level at its limit does no harm by itself: memory that page cache fills is reclaimed at once. Then what was
    /// refused says more.
    pub may_be_full: bool,
}

macro_rules! bounded {
    ($( $Family:ident: $setting:literal $unit:literal $meaning:literal, $level:ident limited by $limit:ident $(, refused $refused:ident)? $(, may be full $full:literal)?, $harm:literal; )+) => {
        /// All levels that a limit beside them bounds.
        pub static ALL: &[Bounded] = &[ $( {
            const FAMILY: &FamilyInfo = &<$Family as Family>::INFO;
            Bounded {
                setting: $setting,
                unit: $unit,
                meaning: $meaning,
                harm: $harm,
                family: FAMILY,
                level: $crate::column(FAMILY, stringify!($level)),
                limit: $crate::column(FAMILY, stringify!($limit)),
                refused: refused!(FAMILY $($refused)?),
                may_be_full: $($full ||)? false,
            }
        } ),+ ];
    };
}

macro_rules! refused {
    ($family:ident) => {
        None
    };
    ($family:ident $column:ident) => {
        Some($crate::column($family, stringify!($column)))
    };
}

bounded! {
    Group: "memory.max" "bytes" "memory charged", memory limited by memory_max, refused limit_events, may be full true,
        "its tasks have to reclaim memory before they get more, and are killed where that fails";
    Group: "memory.high" "bytes" "memory charged", memory limited by memory_high, refused high_events, may be full true,
        "its tasks are held back and have to reclaim memory";
    Group: "memory.swap.max" "bytes" "swap charged", swap limited by swap_max,
        "no more of its memory can be swapped out";
    Group: "pids.max" "count" "processes and threads", pids limited by pids_max, refused pids_events,
        "fork and clone fail";
    Limits: "fs.aio-max-nr" "count" "asynchronous requests promised to programs", aio limited by aio_max,
        "io_setup fails, and databases fall back to synchronous I/O or do not start";
    Ipc: "kernel.msgmni" "count" "message queues", msg_queues limited by msg_queues_max,
        "msgget fails";
    Arc: "arc_meta_limit" "bytes" "metadata in the cache of ZFS", metadata limited by metadata_max, refused prunes,
        "the kernel (arc_prune) takes file systems' metadata out of the cache all the time";
    Arc: "arc_dnode_limit" "bytes" "dnodes in the cache of ZFS", dnodes limited by dnodes_max, refused prunes,
        "the kernel (arc_prune) takes dnodes out of the cache all the time";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_and_its_limit_have_one_unit() {
        for bounded in ALL {
            let unit = |column: usize| bounded.family.metrics[column].unit;
            assert_eq!(unit(bounded.level), unit(bounded.limit), "{}", bounded.setting);
        }
    }
}
