//! Measurements of other programs: single transfers, and the reports of a database. Never read live.

use super::*;
use crate::value::Name;

family_group! {
    /// Measurements that are not counters over time.
    measure: MeasureTables

    /// A timed transfer: a copy by dd, a stream of iperf.
    transfer: Transfer by transfer: Name, from "output of dd, fio, iperf" {
        tool: state text "whyslow.transfer.tool" "what measured it";
        what: state text "whyslow.transfer.what" "the file or the other end";
        bytes: gauge bytes "whyslow.transfer.bytes" "bytes moved";
        time: gauge ns "whyslow.transfer.time" "how long it took";
        rate: gauge bytes "whyslow.transfer.rate" "bytes a second, as measured";
        operations: gauge count "whyslow.transfer.operations" "operations a second, as measured";
        cpu_share: gauge ratio "whyslow.transfer.cpu_share" "CPU time it took, as a share of one CPU";
        block: gauge bytes "whyslow.transfer.block" "bytes asked for at a time";
        window: gauge bytes "whyslow.transfer.window" "socket buffer, the smaller one if both ends' are known";
        segment: gauge bytes "whyslow.transfer.segment" "largest TCP segment";
        syncs: gauge count "whyslow.transfer.syncs" "calls that made its writes durable: fsync, fdatasync";
        sync_wait: gauge ns "whyslow.transfer.sync_wait" "mean time of such a call";
        sync_share: gauge ratio "whyslow.transfer.sync_share" "share of its time spent in such calls";
    }

    /// A program in a profile of CPU time: shares of all samples.
    profile: Profile by program: Name, from "perf report, perf top" {
        share: gauge ratio "whyslow.profile.share" "samples of the program";
        unlisted: gauge ratio "whyslow.profile.unlisted" "samples that the list does not show, of any program";
        kernel: gauge ratio "whyslow.profile.kernel" "samples of the program in the kernel";
        spinning: gauge ratio "whyslow.profile.spinning" "samples in which it spun for a lock of the kernel";
        spinning_in: state text "whyslow.profile.spinning_in" "the function that takes the lock that it spun for most";
        reclaim: gauge ratio "whyslow.profile.reclaim" "samples in which it reclaimed memory";
        reclaim_for: state text "whyslow.profile.reclaim_for" "whose memory was short: its control group's, or the machine's";
        compaction: gauge ratio "whyslow.profile.compaction" "samples in which it compacted memory";
        slow_clock: gauge ratio "whyslow.profile.slow_clock" "samples in which it read a slow clock source";
        function: state text "whyslow.profile.function" "the kernel function with the most samples of its own";
        function_share: gauge ratio "whyslow.profile.function_share" "samples in that function";
    }

    /// A report of a database instance (Oracle Statspack or AWR).
    database: Database by instance: Name, from "statspack report" {
        buffer_hit: gauge ratio "db.buffer_cache.hit_ratio" "reads served from the buffer cache";
        latch_hit: gauge ratio "db.latch.hit_ratio" "latches had at the first try";
        physical_reads: gauge count "db.physical_reads" "blocks read from storage a second";
        physical_writes: gauge count "db.physical_writes" "blocks written to storage a second";
        log_sync_share: gauge ratio "db.log_sync.share" "share of the database's time spent waiting for the log to be synced";
        log_sync_wait: gauge ns "db.log_sync.wait" "mean wait for the log to be synced";
        latch_share: gauge ratio "db.latch.share" "share of the database's time spent waiting for latches";
        read_share: gauge ratio "db.read.share" "share of the database's time spent waiting for single blocks";
        read_wait: gauge ns "db.read.wait" "mean wait for a single block";
        block_size: gauge bytes "db.block_size" "bytes of a block";
    }
}
