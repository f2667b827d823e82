//! Reports by programs and drives about themselves: transfers that a tool timed, databases, SMART health.

use crate::signal::{Entity, over, ratio, signals};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::{Condition, Database, Drive, Heap, Latency, Monitor, Ping, Profile, Transfer, Zone};
use whyslow_model::settings::{SCHEDULER, Settings, TITLE, in_text};
use whyslow_model::value::Counter;
use whyslow_model::window::{Change, Window};

/// Inputs of a transfer's signals.
pub struct Timed<'w> {
    transfer: &'w Transfer,
    /// The fastest transfer of the same tool from the same place.
    best: &'w Transfer,
    /// The fastest transfer that differs only in its I/O scheduler.
    rival: Option<&'w Transfer>,
    /// Settings that the text around it states.
    settings: Option<String>,
}

impl Timed<'_> {
    /// Returns the share of the time that the fastest transfer's rate would have saved.
    fn lost(&self) -> Option<f64> {
        over(self.transfer.rate.get(), self.best.rate.get()).map(|part| 1.0 - part)
    }

    /// Returns the transfer's duration in seconds.
    fn seconds(&self) -> Option<f64> {
        self.transfer.time.get().map(|ns| ns / 1e9)
    }
}

signals! { t: Timed<'_>;
    "timed.tool" "text" "what measured it", "the command", "output of dd, iperf" => t.transfer.tool.get();
    "timed.peer" "text" "the file or the other end", "as printed", "output of dd, iperf" => t.transfer.what.get();
    "timed.options" "text" "options that decide what was measured", "command line, and what the tool prints of them", "output of dd, fio, iperf" => t.transfer.options.get();
    "timed.ends" "text" "both ends of its connection, the same for client and server", "addresses and ports, sorted", "output of iperf" => t.transfer.ends.get();
    "timed.settings" "text" "settings that the text around it states", "commands and titles above it", "output of dd, fio, iperf" => t.settings.as_deref();
    "timed.rate" "bytes/s" "bytes a second", "bytes / time", "output of dd, iperf" => t.transfer.rate.get();
    "timed.bits" "bit/s" "the same in bits", "bytes x 8 / time", "output of dd, iperf" => t.transfer.rate.get().map(|r| r * 8.0);
    "timed.operations" "1/s" "operations a second", "as printed", "output of fio, bonnie++" => t.transfer.operations.get();
    "timed.stalled" "ratio" "share of its time in which nothing was moved", "intervals without a byte / all", "output of iperf3", normal (near 0.0) => t.transfer.stalled.get();
    "timed.retransmits" "count" "TCP segments that were retransmitted", "sum of Retr", "output of iperf3", normal "below one in a hundred" => t.transfer.retransmits.get();
    "timed.cpu_share" "ratio" "CPU time it took, as a share of one CPU; near 1 it says nothing about the disk", "%CP", "output of bonnie++" => t.transfer.cpu_share.get();
    "timed.bytes" "bytes" "bytes moved", "as printed, or records x block size", "output of dd, iperf" => t.transfer.bytes.get();
    "timed.seconds" "s" "how long it took", "as printed", "output of dd, iperf" => t.seconds();
    "timed.block" "bytes" "bytes asked for at a time", "bs=", "output of dd, iperf" => t.transfer.block.get();
    "timed.window" "bytes" "socket buffer of the smaller end", "TCP window size", "output of dd, iperf", normal "above bandwidth x delay" => t.transfer.window.get();
    "timed.segment" "bytes" "largest segment; 8948 says jumbo frames on both ends", "MSS size", "output of dd, iperf", normal "1448 with an MTU of 1500, 8948 with jumbo frames on both ends" => t.transfer.segment.get();
    "timed.delay" "s" "the round trip at which this buffer allows just this rate", "buffer / rate", "output of dd, iperf", normal "a round trip longer than this makes the buffer the limit" => over(t.transfer.window.get(), t.transfer.rate.get());
    "timed.scheduler" "text" "I/O scheduler in use, as the text says", "scheduler=", "output of dd" => scheduler(t.transfer);
    "timed.rival_scheduler" "text" "that of the fastest transfer that differs in nothing else", "scheduler=", "output of dd" => t.rival.and_then(scheduler);
    "timed.rival_rate" "bytes/s" "bytes a second of that one", "bytes / time", "output of dd", normal "about the same" => t.rival.and_then(|rival| rival.rate.get());
    "timed.best_rate" "bytes/s" "the fastest transfer of the same kind", "max(bytes / time)", "output of dd, iperf", normal "the same transfer with larger blocks" => t.best.rate.get();
    "timed.best_block" "bytes" "bytes that one asked for at a time", "bs=", "output of dd, iperf", normal "what it asked for at a time" => t.best.block.get();
    "timed.syncs" "count" "calls of fsync or fdatasync", "as printed", "output of fio", normal "one for many writes" => t.transfer.syncs.get();
    "timed.sync_wait" "s" "mean time of such a call", "as printed", "output of fio", normal (below 0.02 as "near 0 with a protected write cache; below 2 ms on flash") => ratio(t.transfer.sync_wait.get());
    "timed.sync_share" "ratio" "share of its time spent in such calls", "calls x mean time / time", "output of fio", normal (below 0.1) => t.transfer.sync_share.get();
    "timed.lost" "ratio" "share of its time that the fastest one's rate would have saved", "1 - rate / fastest rate", "output of dd, iperf" => t.lost();
}

/// Iterates over its options and the settings around it, except those that have signals of their own. A title may only say
/// what the options are.
fn other_options(transfer: &Transfer) -> impl Iterator<Item = (&str, &str)> {
    let all = [&transfer.options, &transfer.settings];
    let all = all.into_iter().flat_map(|all| in_text(all.get().unwrap_or_default()));
    all.filter(|(name, _)| !["window", TITLE].contains(name))
}

/// Returns the settings that the text around a transfer states. A title above all of them distinguishes none.
fn stated(transfer: &Transfer, are_titled_apart: bool) -> Option<String> {
    let all = in_text(transfer.settings.get()?).filter(|(name, _)| are_titled_apart || *name != TITLE);
    let all: Settings = all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    all.to_state().get().map(str::to_owned)
}

fn title(transfer: &Transfer) -> Option<&str> {
    setting(transfer, TITLE)
}

/// Returns the I/O scheduler among the settings around it.
fn scheduler(transfer: &Transfer) -> Option<&str> {
    setting(transfer, SCHEDULER)
}

fn setting<'t>(transfer: &'t Transfer, name: &str) -> Option<&'t str> {
    in_text(transfer.settings.get()?).find_map(|(known, value)| (known == name).then_some(value))
}

/// Common properties of comparable transfers: the tool, where it read or wrote, and the options that matter.
type TransferKind<'w> = (Option<&'w str>, Option<&'w str>, Vec<(&'w str, &'w str)>);

/// Common properties of transfers that differ only in the I/O scheduler: also the block size and the bytes, as bits of numbers.
type SchedulerTrial<'w> = (TransferKind<'w>, Option<u64>, Option<u64>);

fn kind_of(transfer: &Transfer) -> TransferKind<'_> {
    (transfer.tool.get(), transfer.what.get(), other_options(transfer).collect())
}

/// Returns the trial of a scheduler, and the scheduler.
fn trial_of(transfer: &Transfer) -> Option<(SchedulerTrial<'_>, &str)> {
    let scheduler = scheduler(transfer)?;
    let (tool, what, mut options) = kind_of(transfer);
    options.retain(|(name, _)| *name != SCHEDULER);
    let bits = |number: Option<f64>| number.map(f64::to_bits);
    Some((((tool, what, options), bits(transfer.block.get()), bits(transfer.bytes.get())), scheduler))
}

/// Returns the faster of two transfers with a known rate.
fn faster<'w>(best: Option<&'w Transfer>, other: &'w Transfer) -> Option<&'w Transfer> {
    let rate = |transfer: &Transfer| transfer.rate.get().unwrap_or(0.0);
    other.rate.get()?;
    Some(best.filter(|best| rate(best) > rate(other)).unwrap_or(other))
}

/// Returns every transfer.
pub fn transfers(window: &Window) -> Vec<Entity> {
    let all = window.newest::<Transfer>();
    // A transfer that differs in more than its blocks or its buffer is not slower because of them.
    let mut best_of: HashMap<TransferKind<'_>, &Transfer> = HashMap::new();
    let mut trials: HashMap<SchedulerTrial<'_>, BTreeMap<&str, &Transfer>> = HashMap::new();
    for transfer in all.values().copied().filter(|transfer| transfer.rate.get().is_some()) {
        let best = best_of.entry(kind_of(transfer)).or_insert(transfer);
        *best = faster(Some(*best), transfer).unwrap_or(transfer);
        if let Some((trial, scheduler)) = trial_of(transfer) {
            let best = trials.entry(trial).or_default().entry(scheduler).or_insert(transfer);
            *best = faster(Some(*best), transfer).unwrap_or(transfer);
        }
    }
    let are_titled_apart = all.values().map(|transfer| title(transfer)).collect::<BTreeSet<_>>().len() > 1;
    all.values()
        .map(|transfer| {
            // A transfer that has not run yet already shows its buffer.
            let best = best_of.get(&kind_of(transfer)).copied().unwrap_or(transfer);
            let kind = if transfer.tool.get().is_some_and(|tool| tool.starts_with("iperf")) {
                "connection"
            } else {
                "process"
            };
            let rival = trial_of(transfer).and_then(|(trial, own)| {
                let others = trials.get(&trial)?.iter().filter(|(scheduler, _)| **scheduler != own);
                others.fold(None, |best, (_, other)| faster(best, other))
            });
            Entity::from_subject(
                Subject::new(kind, transfer.transfer.to_string()),
                &Timed { transfer, best, rival, settings: stated(transfer, are_titled_apart) },
            )
        })
        .collect()
}

/// Echoes of one size to a host, and the largest smaller size that the host answered.
pub struct PingUse<'w> {
    ping: &'w Ping,
    passed: Option<f64>,
}

signals! { p: PingUse<'_>;
    "ping.sent" "count" "echoes requested", "packets transmitted", "output of ping" => p.ping.sent.get();
    "ping.lost" "count" "echoes that did not come back", "transmitted - received", "output of ping", normal (near 1.0 as "0; one alone means nothing") => p.ping.sent.get().zip(p.ping.received.get()).map(|(sent, received)| sent - received);
    "ping.loss" "ratio" "share of the echoes that did not come back", "1 - received / transmitted", "output of ping" => over(p.ping.received.get(), p.ping.sent.get()).map(|part| 1.0 - part);
    "ping.rtt_min" "s" "shortest round trip", "min", "output of ping" => ratio(p.ping.rtt_min.get());
    "ping.rtt" "s" "mean round trip", "avg", "output of ping", normal "what the distance takes" => ratio(p.ping.rtt_mean.get());
    "ping.rtt_max" "s" "longest round trip", "max", "output of ping" => ratio(p.ping.rtt_max.get());
    "ping.rtt_spread" "s" "standard deviation of the round trips", "mdev, stddev", "output of ping", normal "a small part of the mean" => ratio(p.ping.rtt_spread.get());
    "ping.host" "text" "the other end", "as printed", "output of ping" => p.ping.host.get();
    "ping.lost_from" "text" "the first hop on the way from which on echoes are lost", "hops up to the last one that lose more than half as much", "output of mtr", normal "absent: no hop loses packets" => p.ping.lost_from.get();
    "ping.too_large" "flag" "1 where an ICMP error or this machine said that the packets are too large", "Frag needed, message too long", "output of ping" => p.ping.too_large.get();
    "ping.size" "count" "size of the packets with their headers, in bytes", "as printed", "output of ping", normal "up to the MTU of this machine's interface" => p.ping.size.get();
    "ping.passed_size" "count" "the largest smaller size that came back from the same host", "max(size)", "output of ping" => p.passed;
}

/// Returns every host that was pinged, for each size.
pub fn pings(window: &Window) -> Vec<Entity> {
    let all = window.newest::<Ping>();
    // Sizes are whole numbers of bytes.
    let mut came_back: HashMap<Option<&str>, BTreeSet<u64>> = HashMap::new();
    for ping in all.values().filter(|ping| ping.received.get().is_some_and(|count| count > 0.0)) {
        came_back.entry(ping.host.get()).or_default().extend(ping.size.get().map(|size| size as u64));
    }
    let of = |ping: &&Ping| {
        let smaller = |size: f64| came_back.get(&ping.host.get())?.range(..size as u64).next_back().copied();
        let passed = ping.size.get().and_then(smaller).map(|size| size as f64);
        let subject = Subject::new("connection", ping.host.get().unwrap_or(&ping.peer).to_string());
        Entity::from_subject(subject, &PingUse { ping, passed })
    };
    all.values().map(of).collect()
}

signals! { l: Latency;
    "latency.kind" "text" "what was timed", "by the tool's name", "bcc, bpftrace" => l.kind.get();
    "latency.operation" "text" "the operation", "as printed", "bcc, bpftrace" => l.operation.get();
    "latency.count" "count" "how often it was timed", "sum over buckets", "bcc, bpftrace", normal "a hundred or more, to be typical" => l.time.count().map(|n| n as f64);
    "latency.median" "s" "half of them took no longer, within a factor of two", "50th percentile", "bcc, bpftrace" => latency(l, 0.5);
    "latency.p90" "s" "nine in ten took no longer, within a factor of two", "90th percentile", "bcc, bpftrace", normal "a few times the median" => latency(l, 0.9);
    "latency.p99" "s" "all but one in a hundred took no longer, within a factor of two", "99th percentile", "bcc, bpftrace" => latency(l, 0.99);
    "latency.longest" "s" "the longest, within a factor of two", "the last bucket", "bcc, bpftrace" => latency(l, 1.0);
    "latency.complete" "flag" "1 if everything was counted, not only what took long", "no limit is printed", "bcc, bpftrace" => !l.slower_than.get().is_some_and(|limit| limit > 0.0);
    "latency.slower_than" "s" "only what took longer was counted", "the tool's argument", "bcc, bpftrace", normal "faster calls were not counted" => ratio(l.slower_than.get());
}

fn latency(row: &Latency, quantile: f64) -> Option<f64> {
    ratio(row.time.quantile(quantile))
}

/// Returns every traced latency.
pub fn latencies(window: &Window) -> Vec<Entity> {
    let subject = |row: &Latency| match row.subject.get() {
        Some(_) => Subject::new("process", row.what.to_string()),
        None => Subject::host(),
    };
    window.newest::<Latency>().into_values().map(|row| Entity::from_subject(subject(row), row)).collect()
}

signals! { d: Database;
    "db.product" "text" "the database's product", "the report's kind", "statspack, INFO, INNODB STATUS, pg_stat_*" => d.product.get();
    "db.buffer_hit" "ratio" "reads served from the buffer cache", "Buffer Hit %, Buffer pool hit rate, blks_hit / (blks_hit + blks_read)", "statspack, INNODB STATUS, pg_stat_database" => d.buffer_hit.get();
    "db.latch_hit" "ratio" "latches acquired at the first attempt", "Latch Hit %", "statspack", normal "99.5 % and more" => d.latch_hit.get();
    "db.latch_share" "ratio" "share of its time spent waiting for latches", "Top 5 Timed Events: latch", "statspack" => d.latch_share.get();
    "db.physical_reads" "1/s" "blocks read from storage", "Physical reads per second, reads/s of the buffer pool", "statspack, INNODB STATUS", normal "what storage serves without queueing" => d.physical_reads.get();
    "db.physical_writes" "1/s" "blocks written to storage", "Physical writes per second, writes/s of the buffer pool", "statspack, INNODB STATUS" => d.physical_writes.get();
    "db.blocks_read" "count" "blocks requested from the system since the counts were reset", "blks_read", "pg_stat_database", normal "few, after the server has warmed up" => d.blocks_read.get();
    "db.log_sync_share" "ratio" "share of its time spent waiting for the log to be synced", "Top 5 Timed Events: log file sync", "statspack", normal (below 0.1) => d.log_sync_share.get();
    "db.log_sync_wait" "s" "mean wait for the log to be synced", "time / waits", "statspack" => ratio(d.log_sync_wait.get());
    "db.read_share" "ratio" "share of its time spent waiting for single blocks", "Top 5 Timed Events: db file sequential read; blk_read_time / active_time", "statspack, pg_stat_database" => d.read_share.get();
    "db.read_wait" "s" "mean wait for a single block", "time / waits, blk_read_time / blks_read", "statspack, pg_stat_database" => ratio(d.read_wait.get());
    "db.read_event" "text" "the database's name for such a wait", "as the product names it", "statspack" => (d.product.get() == Some("Oracle")).then_some("db file sequential read");
    "db.lock_share" "ratio" "share of its time spent waiting for locks of rows and tables", "Top Timed Events: enq: TX, enq: TM", "statspack", normal "below 10 % of its time" => d.lock_share.get();
    "db.checkpoint_share" "ratio" "share of its time in which changes waited for a checkpoint to free the log", "Top Timed Events: log file switch", "statspack", normal (near 0.0) => d.checkpoint_share.get();
    "db.temp_share" "ratio" "share of the reads and writes that is for temporary files", "time of direct path reads and writes of temp; temp_bytes / (temp_bytes + blks_read x 8 KiB)", "statspack, pg_stat_database" => d.temp_share.get();
    "db.temp_bytes" "bytes" "written to temporary files since the counts were reset", "temp_bytes", "pg_stat_database", normal "little against what is read" => d.temp_bytes.get();
    "db.sessions" "count" "sessions that execute a statement, or open transactions", "state = active; ACTIVE", "pg_stat_activity, INNODB STATUS" => d.sessions.get();
    "db.lock_waiters" "count" "sessions waiting for a lock of a row or table", "wait_event_type = Lock; LOCK WAIT", "pg_stat_activity, INNODB STATUS", normal (near 0.0) => d.lock_waiters.get();
    "db.exclusive_waiters" "flag" "1 where a session waits for a lock that excludes all others from a table: later ones queue behind it", "mode = AccessExclusiveLock, not granted", "pg_locks", normal "0" => d.exclusive_waiters.get();
    "db.exclusive_of" "text" "the tables that it waits for", "relation", "pg_locks" => d.exclusive_of.get();
    "db.lock_wait_share" "ratio" "share of the active sessions that wait for locks", "lock waiters / sessions", "pg_stat_activity, INNODB STATUS" => over(d.lock_waiters.get(), d.sessions.get());
    "db.lock_longest" "s" "how long one of them has waited, at least", "TRX HAS BEEN WAITING; time since query_start", "pg_stat_activity, INNODB STATUS", normal (below 1.0) => ratio(d.lock_longest.get());
    "db.lock_holder" "text" "the session that may hold the lock", "the longest-running one that does not wait itself", "SHOW PROCESSLIST", normal "none" => d.lock_holder.get();
    "db.io_waiters" "count" "sessions waiting for reads or writes of data", "wait_event_type = IO, except of the log", "pg_stat_activity" => d.io_waiters.get();
    "db.io_wait_share" "ratio" "share of the active sessions that wait for reads or writes of data", "waiters / sessions", "pg_stat_activity" => over(d.io_waiters.get(), d.sessions.get());
    "db.log_waiters" "count" "sessions waiting for the log to be written or synced", "wait_event = WALSync, WALWrite; waiting for handler commit", "pg_stat_activity, INNODB STATUS", normal (near 1.0 as "0, or one") => d.log_waiters.get();
    "db.log_waiter_share" "ratio" "share of the active sessions that wait for the log", "waiters / sessions", "pg_stat_activity, INNODB STATUS", normal (below 0.1) => over(d.log_waiters.get(), d.sessions.get());
    "db.latch_waiters" "count" "threads waiting for a latch, semaphore or lightweight lock", "wait_event_type = LWLock; has waited at", "pg_stat_activity, INNODB STATUS", normal (near 10.0 as "0, or a few for less than a millisecond") => d.latch_waiters.get();
    "db.latch_waiter_share" "ratio" "the same, of the active sessions", "waiters / sessions", "pg_stat_activity, INNODB STATUS" => over(d.latch_waiters.get(), d.sessions.get());
    "db.latch_longest" "s" "how long one of them has waited", "has waited at FILE for N seconds", "INNODB STATUS", normal "below 1 s; InnoDB ends the server after 600 s" => ratio(d.latch_longest.get());
    "db.oldest_transaction" "s" "age of the oldest open transaction, at least", "ACTIVE N sec; time since xact_start", "pg_stat_activity, INNODB STATUS", normal "as short as the work needs" => ratio(d.oldest_transaction.get());
    "db.idle_transactions" "count" "sessions that keep a transaction open and do nothing", "state = idle in transaction", "pg_stat_activity", normal "0, or each for less than a second" => d.idle_transactions.get();
    "db.oldest_idle" "s" "how long one of them has done nothing, at least", "time since state_change", "pg_stat_activity", normal (below 1.0) => ratio(d.oldest_idle.get());
    "db.idle_session" "text" "that session", "pid and application_name, usename or client_addr", "pg_stat_activity", normal "none" => d.idle_session.get();
    "db.undo_entries" "count" "transactions whose old row versions are not yet purged", "History list length", "INNODB STATUS", normal "a few thousand" => d.undo_entries.get();
    "db.log_age" "bytes" "log written since the last checkpoint", "Log sequence number - Last checkpoint at", "INNODB STATUS", normal "well below the capacity" => d.log_age.get();
    "db.log_capacity" "bytes" "most log that may be written before a checkpoint must end", "Max checkpoint age", "INNODB STATUS", normal "an hour's worth of changes" => d.log_capacity.get();
    "db.log_fill" "ratio" "log since the last checkpoint against its maximum", "age / capacity", "INNODB STATUS", normal (below 0.75) => over(d.log_age.get(), d.log_capacity.get());
    "db.log_pending" "count" "writes and syncs of the log in progress", "pending log flushes, log writes", "INNODB STATUS", normal "0 or 1" => d.log_pending.get();
    "db.io_pending" "count" "reads and writes of data in progress", "pending reads and writes", "INNODB STATUS" => d.io_pending.get();
    "db.checkpoints" "count" "checkpoints since the counts were reset", "timed + requested", "pg_stat_bgwriter, pg_stat_checkpointer", normal "enough to judge" => d.checkpoints.get();
    "db.checkpoints_requested" "ratio" "share of the checkpoints that began because the log reached its size", "requested / (timed + requested)", "pg_stat_bgwriter, pg_stat_checkpointer", normal (below 0.1, "most begin after checkpoint_timeout") => d.checkpoints_requested.get();
    "db.backend_writes" "ratio" "share of the buffers that sessions wrote themselves", "buffers_backend / (checkpoint + clean + backend)", "pg_stat_bgwriter", normal (below 0.2) => d.backend_writes.get();
    "db.memory_used" "bytes" "memory of the data", "used_memory", "INFO", normal "what fits into RAM beside everything else" => d.memory_used.get();
    "db.memory_max" "bytes" "maximum memory of the data", "maxmemory", "INFO" => d.memory_max.get();
    "db.memory_fill" "ratio" "memory of the data against its maximum", "used_memory / maxmemory", "INFO", normal (below 0.95) => over(d.memory_used.get(), d.memory_max.get());
    "db.memory_resident" "bytes" "memory of the process that is in RAM", "used_memory_rss", "INFO", normal "the more memory, the longer the fork" => d.memory_resident.get();
    "db.resident_share" "ratio" "part of the data's memory that can be in RAM", "used_memory_rss / used_memory", "INFO", normal "above 1" => over(d.memory_resident.get(), d.memory_used.get());
    "db.policy" "text" "what happens when the memory is full", "maxmemory_policy", "INFO", normal "noeviction for data, allkeys-lru or allkeys-lfu for a cache" => d.policy.get();
    "db.evicted" "count" "entries evicted since the start because memory was full", "evicted_keys", "INFO", normal "0, unless it is a cache" => d.evicted.get();
    "db.evicted_rate" "1/s" "the same as a mean since the start", "evicted_keys / uptime_in_seconds", "INFO", normal (near 0.0) => over(d.evicted.get(), ratio(d.uptime.get()));
    "db.connections" "count" "clients connected", "connected_clients", "INFO", normal "well below the limit" => d.connections.get();
    "db.connections_max" "count" "maximum number of clients", "maxclients", "INFO" => d.connections_max.get();
    "db.connections_fill" "ratio" "clients against their maximum number", "connected_clients / maxclients", "INFO" => over(d.connections.get(), d.connections_max.get());
    "db.accept_pauses" "count" "times it stopped accepting connections since the start, because the limit was reached", "listen_disabled_num", "memcached stats", normal (near 0.0) => d.accept_pauses.get();
    "db.refused" "count" "connections refused since the start because there were too many", "rejected_connections", "INFO", normal (near 0.0) => d.refused.get();
    "db.refused_rate" "1/s" "the same as a mean since the start", "rejected_connections / uptime_in_seconds", "INFO" => over(d.refused.get(), ratio(d.uptime.get()));
    "db.fork_time" "s" "time that the latest fork stopped the server", "latest_fork_usec", "INFO", normal "about 10 ms for each GiB" => ratio(d.fork_time.get());
    "db.delayed_syncs" "count" "writes since the start that were delayed because the sync before them had not ended", "aof_delayed_fsync", "INFO", normal (near 0.0) => d.delayed_syncs.get();
    "db.delayed_rate" "1/s" "the same as a mean since the start", "aof_delayed_fsync / uptime_in_seconds", "INFO", normal (near 0.0) => over(d.delayed_syncs.get(), ratio(d.uptime.get()));
}

/// Returns every database instance.
pub fn databases(window: &Window) -> Vec<Entity> {
    let instances = window.newest::<Database>();
    instances.into_values().map(|d| Entity::from_subject(Subject::new("database", d.instance.to_string()), d)).collect()
}

signals! { c: Condition;
    "condition.reason" "text" "OOMKilled, Evicted, MemoryPressure, DiskPressure, PIDPressure", "Reason, Conditions", "kubectl describe", normal "no pressure" => c.reason.get();
    "condition.message" "text" "the message in the report", "as printed", "kubectl describe", normal "none" => c.message.get();
    "condition.restarts" "count" "restarts of the container", "Restart Count", "kubectl describe", normal (near 0.0) => c.restarts.get();
    "condition.memory_limit" "bytes" "memory limit of the container", "Limits: memory", "kubectl describe", normal "above what the container needs" => c.memory_max.get();
}

/// Returns every condition of a node, pod or container.
pub fn conditions(window: &Window) -> Vec<Entity> {
    let subject = |c: &Condition| {
        let name = c.object.get().unwrap_or(&c.name).to_owned();
        Subject::new(c.kind.get().unwrap_or("container"), name)
    };
    window.newest::<Condition>().into_values().map(|c| Entity::from_subject(subject(c), c)).collect()
}

signals! { z: Zone;
    "zone.managed" "count" "pages of the zone", "managed", "/proc/zoneinfo" => z.managed.get();
    "zone.free" "count" "free pages", "free; sum of blocks x 2^order", "/proc/zoneinfo, /proc/buddyinfo" => z.free.get();
    "zone.min" "count" "below this, allocations reclaim memory themselves", "min", "/proc/zoneinfo", normal "below what is free" => z.min.get();
    "zone.low" "count" "below this, kswapd reclaims", "low", "/proc/zoneinfo" => z.low.get();
    "zone.high" "count" "kswapd reclaims up to this", "high", "/proc/zoneinfo", normal "what kswapd reclaims up to" => z.high.get();
    "zone.largest_order" "count" "order of the largest free block: 2 to this power pages", "largest order with a free block", "/proc/buddyinfo", normal "9 and more, if huge pages are used" => z.largest_order.get();
    "zone.huge_share" "ratio" "share of the free pages in blocks of order 9 and more", "pages in such blocks / free pages", "/proc/buddyinfo", normal "above 0" => z.huge_share.get();
}

/// Returns every zone of the machine's memory.
pub fn zones(window: &Window) -> Vec<Entity> {
    window
        .newest::<Zone>()
        .into_values()
        .map(|z| Entity::from_subject(Subject::new("zone", z.name.to_string()), z))
        .collect()
}

signals! { d: Drive;
    "drive.failing" "flag" "1 where the drive assesses itself as failing", "SMART health, NVMe critical warning", "smartctl, nvme smart-log", normal (near 0.0 as "0") => d.failing.get();
    "drive.unreadable" "count" "sectors it could not read and has not replaced", "pending or uncorrectable sectors", "smartctl", normal (near 0.0) => d.unreadable.get();
    "drive.reallocated" "count" "sectors it has replaced by spare ones", "reallocated sectors, grown defects", "smartctl", normal "few, and not growing" => d.reallocated.get();
    "drive.media_errors" "count" "requests whose data it could not read or write, over its lifetime", "reported uncorrectable, media errors", "smartctl, nvme smart-log", normal (near 0.0) => d.media_errors.get();
    "drive.wear" "ratio" "rated endurance used up", "percentage used", "smartctl, nvme smart-log", normal "below 1" => d.wear.get();
    "drive.io_errors" "count" "reads and writes that failed, as the file system counted", "READ + WRITE", "zpool status", normal (near 0.0) => d.io_errors.get();
    "drive.checksum_errors" "count" "blocks whose checksum was wrong, as the file system counted", "CKSUM", "zpool status", normal (near 0.0) => d.checksum_errors.get();
    "drive.defects" "count" "unreadable sectors and media errors", "unreadable + media errors, as far as reported", "smartctl, nvme smart-log" => defects(d);
    "drive.failed_tests" "count" "self-tests that failed, as the drive's log says", "Self-Test Log error count", "smartd", normal (near 0.0) => d.failed_tests.get();
    "drive.logged_errors" "count" "errors in the drive's own log", "ATA error count", "smartd", normal "0, or old ones" => d.logged_errors.get();
    "drive.blocked_for" "s" "how long the oldest request to the daemon of a Ceph disk has taken", "oldest one blocked for", "ceph status, ceph health", normal (below 0.1) => ratio(d.blocked_for.get());
    "drive.complaint" "text" "what it reports, in words", "the above", "smartctl, nvme smart-log" => complaint(d).as_deref();
}

fn defects(d: &Drive) -> Option<f64> {
    [d.unreadable.get(), d.media_errors.get()].into_iter().flatten().reduce(|a, b| a + b)
}

fn complaint(d: &Drive) -> Option<String> {
    let counted = |count: Option<f64>, before: &str, one: &str| {
        let count = count.filter(|n| *n > 0.0)?;
        Some(format!("{before} {count:.0} {one}{}", if count == 1.0 { "" } else { "s" }))
    };
    let failing = d.failing.get().filter(|failing| *failing > 0.0).map(|_| "reports that it is failing".to_owned());
    let unreadable = counted(d.unreadable.get(), "cannot read", "sector");
    let media = counted(d.media_errors.get(), "has had", "media error");
    let words: Vec<String> = [failing, unreadable, media].into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join(", "))
}

signals! { m: Monitor;
    "monitor.waiters" "count" "threads that wait for it", "waiting to lock", "jstack", normal "0 or a few" => m.waiters.get();
    "monitor.holder" "text" "the thread that holds it", "locked", "jstack", normal "another thread each time" => m.holder.get();
    "monitor.place" "text" "the method that this thread is in", "its innermost frame", "jstack", normal "a short method" => m.place.get();
}

/// Inputs of the signals of a Java program's heap.
pub struct HeapUse<'w> {
    change: Change<'w, Heap>,
    window: &'w Window,
}

impl HeapUse<'_> {
    /// Returns the part of the old generation in use at the end, if that is known for all collections in the window: after one
    /// of the whole heap, what is left is what the program needs.
    fn fill(&self) -> Option<f64> {
        self.change.course(|heap| heap.old_fill.get()).map(|(_, fill)| fill).reduce(f64::min)
    }

    fn share(&self, time: impl Fn(&Heap) -> Counter) -> Option<f64> {
        over(self.change.grown(time).map(|ns| ns / 1e9), Some(self.window.seconds()))
    }

    /// Returns the share of its life that the program spent in collections of the whole heap.
    fn share_of_life(&self) -> Option<f64> {
        let last = self.change.last();
        over(last.full_time.get().map(|ns| ns as f64), last.uptime.get())
    }
}

signals! { h: HeapUse<'_>;
    "heap.full_gc_share" "ratio" "share of the time in which the program was stopped for collections of its whole heap", "ΔFGCT / Δt", "jstat -gc, -gcutil", normal (below 0.02) => h.share(|heap| heap.full_time);
    "heap.gc_share" "ratio" "share of the time spent on collections of any kind", "Δtime of collections / Δt", "logs of garbage collections", normal (below 0.05) => h.share(|heap| heap.collection_time);
    "heap.full_gc_rate" "1/s" "collections of the whole heap", "ΔFGC / Δt", "jstat -gc, -gcutil", normal (below 0.05) => h.change.rate(|heap| heap.full_collections);
    "heap.young_gc_share" "ratio" "share of the time in which it was stopped for collections of its young generation", "ΔYGCT / Δt", "jstat -gc, -gcutil", normal (below 0.05) => h.share(|heap| heap.young_time);
    "heap.full_gc_share_of_life" "ratio" "share of the time since the program started in collections of its whole heap", "FGCT / Timestamp", "jstat -t", normal (below 0.02) => h.share_of_life();
    "heap.old_fill" "ratio" "used part of the old generation: the least in the window, as after a collection", "min(OU / OC)", "jstat -gc, -gcutil", normal "below 80 % after a collection" => h.fill();
    "heap.old_used" "bytes" "used memory of the old generation at the end", "OU", "jstat -gc", normal "what the program keeps" => h.change.last().old_used.get();
}

/// Returns the heap of every Java program.
pub fn heaps(window: &Window) -> Vec<Entity> {
    let all = window.changes::<Heap>().into_iter();
    all.map(|change| {
        let name = change.last().program.to_string();
        Entity::from_subject(Subject::new("process", name), &HeapUse { change, window })
    })
    .collect()
}

/// Returns every lock that threads wait for.
pub fn monitors(window: &Window) -> Vec<Entity> {
    let monitors = window.newest::<Monitor>();
    monitors.into_values().map(|m| Entity::from_subject(Subject::new("lock", m.class.to_string()), m)).collect()
}

/// Returns every drive that reported.
pub fn drives(window: &Window) -> Vec<Entity> {
    let drives = window.newest::<Drive>();
    drives.into_values().map(|d| Entity::from_subject(Subject::new("device", d.device.to_string()), d)).collect()
}

signals! { p: Profile;
    "profile.share" "ratio" "samples of the program, out of all", "the sum of its rows", "perf report, perf top", normal "a small part of all samples would not matter" => p.share.get();
    "profile.kernel_share" "ratio" "part of its CPU time in the kernel, at least", "samples in the kernel / samples of the program and unlisted", "perf report, perf top", normal "below 30 % for most programs" => of_own_time(p, p.kernel.get());
    "profile.spinning_share" "ratio" "part of its CPU time in which it spun for a lock of the kernel, at least", "samples in functions that spin / samples of the program and unlisted", "perf report, perf top", normal "a few per cent" => of_own_time(p, p.spinning.get());
    "profile.spinning_in" "text" "the function that takes the lock that it spins for most", "call graph", "perf report", normal "the call path shows which lock it is" => p.spinning_in.get();
    "profile.reclaim_share" "ratio" "part of its CPU time in which it reclaimed memory, at least", "samples below functions that reclaim / samples of the program and unlisted", "perf report, perf top", normal (near 0.02) => of_own_time(p, p.reclaim.get());
    "profile.reclaim_for" "text" "whose memory was short", "call graph", "perf report", normal "none" => p.reclaim_for.get();
    "profile.compaction_share" "ratio" "part of its CPU time in which it compacted memory, at least", "samples below functions that compact / samples of the program and unlisted", "perf report, perf top", normal (near 0.02) => of_own_time(p, p.compaction.get());
    "profile.slow_clock_share" "ratio" "part of its CPU time in which it read a slow clock source, at least", "samples in read_hpet, acpi_pm_read, xen_clocksource_get_cycles / samples of the program and unlisted", "perf report, perf top", normal (near 0.0, "with the time stamp counter the kernel is not entered") => of_own_time(p, p.slow_clock.get());
    "profile.function" "text" "the kernel function with the most samples of its own", "max of its rows", "perf report, perf top" => p.function.get();
    "profile.function_share" "ratio" "part of its CPU time in that function, at least", "its samples / samples of the program and unlisted", "perf report, perf top", normal (below 0.1, "the time is spread over many functions") => of_own_time(p, p.function_share.get());
}

/// Returns the samples as a share of a program's CPU time. Samples that the list does not show may also be its own.
fn of_own_time(p: &Profile, samples: Option<f64>) -> Option<f64> {
    over(samples, Some((p.share.get()? + p.unlisted.get()?).min(1.0)))
}

/// Returns every program in a profile.
pub fn profiles(window: &Window) -> Vec<Entity> {
    let programs = window.newest::<Profile>();
    programs.into_values().map(|p| Entity::from_subject(Subject::new("process", p.program.to_string()), p)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_that_a_list_does_not_show_may_be_the_program_s_own() {
        let mut program = Profile { share: 0.3.into(), unlisted: 0.3.into(), ..Profile::default() };
        assert_eq!(of_own_time(&program, Some(0.15)), Some(0.25));
        program.unlisted = 0.0.into();
        assert_eq!((of_own_time(&program, Some(0.15)), of_own_time(&program, None)), (Some(0.5), None));
    }

    #[test]
    fn a_drive_says_what_is_wrong_with_it() {
        let mut drive = Drive { failing: 1.0.into(), unreadable: 1.0.into(), ..Drive::default() };
        assert_eq!(complaint(&drive).as_deref(), Some("reports that it is failing, cannot read 1 sector"));
        drive = Drive { failing: 0.0.into(), reallocated: 9.0.into(), media_errors: 12.0.into(), ..Drive::default() };
        assert_eq!((complaint(&drive).as_deref(), defects(&drive)), (Some("has had 12 media errors"), Some(12.0)));
        assert_eq!((complaint(&Drive::default()), defects(&Drive::default())), (None, None));
    }
}
