//! A database, by its report on itself.

use crate::signal::{Entity, ratio, signals};
use whyslow_model::catalogue::Database;
use whyslow_model::diagnosis::Subject;
use whyslow_model::window::Window;

signals! { d: &Database;
    "db.buffer_hit" "ratio" "reads served from the buffer cache", "Buffer Hit %", "statspack" => d.buffer_hit.get();
    "db.latch_hit" "ratio" "latches had at the first try", "Latch Hit %", "statspack" => d.latch_hit.get();
    "db.latch_share" "ratio" "share of its time spent waiting for latches", "Top 5 Timed Events: latch", "statspack" => d.latch_share.get();
    "db.physical_reads" "1/s" "blocks read from storage", "Physical reads per second", "statspack" => d.physical_reads.get();
    "db.physical_writes" "1/s" "blocks written to storage", "Physical writes per second", "statspack" => d.physical_writes.get();
    "db.log_sync_share" "ratio" "share of its time spent waiting for the log to be synced", "Top 5 Timed Events: log file sync", "statspack" => d.log_sync_share.get();
    "db.log_sync_wait" "s" "mean wait for the log to be synced", "time / waits", "statspack" => ratio(d.log_sync_wait.get());
    "db.read_share" "ratio" "share of its time spent waiting for single blocks", "Top 5 Timed Events: db file sequential read", "statspack" => d.read_share.get();
    "db.read_wait" "s" "mean wait for a single block", "time / waits", "statspack" => ratio(d.read_wait.get());
}

/// Every instance.
pub fn entities(window: &Window) -> Vec<Entity> {
    let instances = window.newest::<Database>();
    instances.values().map(|d| Entity::new(Subject::new("database", d.instance.to_string()), read(d))).collect()
}
