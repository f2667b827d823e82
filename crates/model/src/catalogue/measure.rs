//! Measurements made by other programs: single transfers, and a database's own reports. Never read live.

use super::*;
use crate::value::Name;

family_group! {
    /// Measurements that are not counters over time.
    measure: MeasureTables

    /// A timed transfer: a copy by dd, a stream of iperf.
    transfer: Transfer by transfer: Name of label, from "output of dd, fio, iperf" only captures {
        tool: state word "whyslow.transfer.tool" "what measured it";
        what: state label "whyslow.transfer.what" "the file or the other end";
        options: state label "whyslow.transfer.options" "options that decide what was measured: direct=1, iodepth=32";
        settings: state label "whyslow.transfer.settings" "settings that the text around it states: title=MTU 9000, vm.dirty_ratio=10";
        ends: state label "whyslow.transfer.ends" "addresses and ports of both ends of its connection, the same for client and server";
        bytes: gauge bytes "whyslow.transfer.bytes" "bytes moved";
        time: gauge ns "whyslow.transfer.time" "how long it took";
        rate: gauge bytes "whyslow.transfer.rate" "bytes a second, as measured";
        operations: gauge count "whyslow.transfer.operations" "operations a second, as measured";
        stalled: gauge ratio "whyslow.transfer.stalled" "share of its time in which nothing was moved";
        retransmits: gauge count "whyslow.transfer.retransmits" "TCP segments that were retransmitted";
        cpu_share: gauge ratio "whyslow.transfer.cpu_share" "CPU time it took, as a share of one CPU";
        block: gauge bytes "whyslow.transfer.block" "bytes asked for at a time";
        window: gauge bytes "whyslow.transfer.window" "socket buffer, the smaller one if both ends' are known";
        segment: gauge bytes "whyslow.transfer.segment" "largest TCP segment";
        syncs: gauge count "whyslow.transfer.syncs" "calls that made its writes durable: fsync, fdatasync";
        sync_wait: gauge ns "whyslow.transfer.sync_wait" "mean time of such a call";
        sync_share: gauge ratio "whyslow.transfer.sync_share" "share of its time spent in such calls";
    }

    /// Echoes that ping sent to a host. Those of a size that was chosen have it in their key: `192.0.2.1 (1500 bytes)`.
    ping: Ping by peer: Name of host, from "output of ping and mtr" only captures {
        sent: gauge count "whyslow.ping.sent" "echoes requested";
        received: gauge count "whyslow.ping.received" "echoes that came back";
        rtt_min: gauge ns "whyslow.ping.rtt_min" "shortest round trip";
        rtt_mean: gauge ns "whyslow.ping.rtt_mean" "mean round trip";
        rtt_max: gauge ns "whyslow.ping.rtt_max" "longest round trip";
        rtt_spread: gauge ns "whyslow.ping.rtt_spread" "standard deviation of the round trips";
        host: state host "whyslow.ping.host" "the other end, without a size";
        lost_from: state host "whyslow.ping.lost_from" "the first hop on the way from which on echoes are lost (mtr)";
        too_large: gauge count "whyslow.ping.too_large" "1 if an ICMP error or this machine said that the packets are too large";
        size: gauge bytes "whyslow.ping.size" "size of a packet with its headers, if it is printed";
    }

    /// How long something took each time, as tools that trace the kernel counted it.
    latency: Latency by what: Name of label, from "histograms of bcc and bpftrace, runqslower, ext4slower, fileslower" only captures {
        kind: state word "whyslow.latency.kind" "run queue, block request or file operation";
        operation: state word "whyslow.latency.operation" "read, write, open, fsync, ...; absent if it is all of them together";
        subject: state label "whyslow.latency.subject" "the process or file system; absent if it is all of them together";
        slower_than: gauge ns "whyslow.latency.slower_than" "only what took longer than this was counted; absent if everything was";
        time: histogram ns "whyslow.latency.time" "the time it took, each time";
    }

    /// A lock of a Java program that threads of it wait for, at one instant.
    monitor: Monitor by class: Name of label, from "jstack" only captures {
        waiters: gauge count "thread.monitor.waiters" "threads that wait for it";
        holder: state label "thread.monitor.holder" "the thread that holds it";
        place: state word "thread.monitor.place" "the method that this thread is in";
    }

    /// The heap of a Java program, and how it is collected.
    heap: Heap by program: Name of process, from "output of jstat, logs of collections" only captures {
        uptime: gauge ns "jvm.uptime" "time since the program started; absent if that is not printed";
        young_collections: counter count "jvm.gc.young.count" "collections of the young generation";
        young_time: counter ns "jvm.gc.young.time" "time that these stopped the program";
        full_collections: counter count "jvm.gc.full.count" "collections of the whole heap";
        full_time: counter ns "jvm.gc.full.time" "time that these took";
        collection_time: counter ns "jvm.gc.time" "time that collections of any kind took, where a log prints only that";
        old_fill: gauge ratio "jvm.memory.old.fill" "used part of the old generation";
        old_used: gauge bytes "jvm.memory.old.used" "used memory of the old generation; absent if only its share is printed";
    }

    /// Where a program was stopped while it did not run: the same stack of functions of the kernel, of all its threads together.
    off_cpu: OffCpu by stack: Name of label, from "output of offcputime" only captures {
        program: state process "process.command" "the program";
        pid: gauge count "process.pid" "its process number";
        functions: state word "whyslow.off_cpu.functions" "functions of the kernel, the innermost first, separated by spaces";
        time: gauge ns "whyslow.off_cpu.time" "time spent there";
        period: gauge ns "whyslow.off_cpu.period" "how long was traced; absent if that is not printed";
    }

    /// A program in a profile of CPU time: shares of all samples.
    profile: Profile by program: Name of process, from "perf report, perf top" only captures {
        share: gauge ratio "whyslow.profile.share" "samples of the program";
        unlisted: gauge ratio "whyslow.profile.unlisted" "samples that the list does not show, of any program";
        kernel: gauge ratio "whyslow.profile.kernel" "samples of the program in the kernel";
        spinning: gauge ratio "whyslow.profile.spinning" "samples in which it spun for a lock of the kernel";
        spinning_in: state word "whyslow.profile.spinning_in" "the function that takes the lock that it spun for most";
        reclaim: gauge ratio "whyslow.profile.reclaim" "samples in which it reclaimed memory";
        reclaim_for: state word "whyslow.profile.reclaim_for" "whose memory was short: its control group's, or the machine's";
        compaction: gauge ratio "whyslow.profile.compaction" "samples in which it compacted memory";
        slow_clock: gauge ratio "whyslow.profile.slow_clock" "samples in which it read a slow clock source";
        function: state word "whyslow.profile.function" "the kernel function with the most samples of its own";
        function_share: gauge ratio "whyslow.profile.function_share" "samples in that function";
    }

    /// What a database instance reports about itself. Waiting sessions and transactions are those of one instant.
    database: Database by instance: Name of label, from "statspack report, redis-cli INFO, SHOW ENGINE INNODB STATUS, pg_stat_* of PostgreSQL" only captures {
        product: state word "db.system" "Oracle, Redis, InnoDB or PostgreSQL";
        uptime: gauge ns "db.uptime" "time since the server started";
        buffer_hit: gauge ratio "db.buffer_cache.hit_ratio" "reads served from the buffer cache";
        latch_hit: gauge ratio "db.latch.hit_ratio" "latches acquired at the first attempt";
        physical_reads: gauge count "db.physical_reads" "blocks read from storage a second";
        physical_writes: gauge count "db.physical_writes" "blocks written to storage a second";
        log_sync_share: gauge ratio "db.log_sync.share" "share of the database's time spent waiting for the log to be synced";
        log_sync_wait: gauge ns "db.log_sync.wait" "mean wait for the log to be synced";
        latch_share: gauge ratio "db.latch.share" "share of the database's time spent waiting for latches";
        read_share: gauge ratio "db.read.share" "share of the database's time spent waiting for single blocks";
        read_wait: gauge ns "db.read.wait" "mean wait for a single block";
        block_size: gauge bytes "db.block_size" "bytes of a block";
        lock_share: gauge ratio "db.lock.share" "share of the database's time spent waiting for locks of rows and tables";
        checkpoint_share: gauge ratio "db.checkpoint.share" "share of the database's time in which changes waited for a checkpoint to free the log";
        temp_share: gauge ratio "db.temp.share" "temporary files as a share of what is read and written: of the time in Oracle, of the bytes read in PostgreSQL";
        temp_bytes: gauge bytes "db.temp.io" "bytes written to temporary files since the counts were reset";
        blocks_read: gauge count "db.blocks_read" "blocks requested from the system since the counts were reset";
        sessions: gauge count "db.sessions.active" "sessions that execute a statement, or open transactions";
        lock_waiters: gauge count "db.sessions.lock" "of these, waiting for a lock of a row or table";
        exclusive_waiters: gauge count "db.sessions.lock.exclusive" "1 if one waits for a lock that excludes all others from a table";
        exclusive_of: state label "db.table.locked" "the tables that it waits for";
        lock_longest: gauge ns "db.lock.longest" "longest of these waits so far";
        lock_holder: state label "db.lock.holder" "the session that may hold the lock: of those that do not wait, the one that has run longest";
        io_waiters: gauge count "db.sessions.io" "of these, waiting for reads or writes of data";
        log_waiters: gauge count "db.sessions.log" "of these, waiting for the log to be written or synced";
        latch_waiters: gauge count "db.sessions.latch" "threads waiting for a latch, semaphore or lightweight lock";
        latch_longest: gauge ns "db.latch.longest" "longest of these waits so far";
        oldest_transaction: gauge ns "db.transaction.oldest" "age of the oldest open transaction";
        idle_transactions: gauge count "db.transaction.idle" "sessions that keep a transaction open and do nothing";
        oldest_idle: gauge ns "db.transaction.oldest_idle" "longest time that one of these has done nothing";
        idle_session: state label "db.transaction.idle_session" "that session, by its process and what it is called";
        undo_entries: gauge count "db.undo.entries" "transactions whose old row versions are not yet purged (history list length)";
        log_age: gauge bytes "db.log.age" "log written since the last checkpoint";
        log_capacity: gauge bytes "db.log.capacity" "most log that may be written before a checkpoint must end";
        log_pending: gauge count "db.log.pending" "writes and syncs of the log in progress";
        io_pending: gauge count "db.io.pending" "reads and writes of data in progress";
        checkpoints: gauge count "db.checkpoints" "checkpoints since the counts were reset";
        checkpoints_requested: gauge ratio "db.checkpoints.requested" "share of the checkpoints that began because the log reached its size, not because of the time";
        backend_writes: gauge ratio "db.backend_writes" "share of the buffers written by the sessions themselves";
        memory_used: gauge bytes "db.memory.used" "memory of the data";
        memory_max: gauge bytes "db.memory.limit" "most memory of the data; absent if unlimited";
        memory_resident: gauge bytes "db.memory.resident" "memory of the process that is in RAM";
        policy: state word "db.memory.policy" "what happens when the memory is full";
        evicted: gauge count "db.evicted" "entries evicted since the start because memory was full";
        connections: gauge count "db.connections" "clients connected";
        connections_max: gauge count "db.connections.limit" "maximum number of clients";
        accept_pauses: gauge count "db.accept_pauses" "times it stopped accepting connections since the start, because the limit was reached";
        refused: gauge count "db.connections.refused" "connections refused since the start because there were too many";
        fork_time: gauge ns "db.fork_time" "time that the latest fork stopped the server";
        delayed_syncs: gauge count "db.delayed_syncs" "writes since the start that were delayed because the sync before them had not ended";
    }
}
