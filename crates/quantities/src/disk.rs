//! Quantities of block devices, from the kernel's counters (Documentation/admin-guide/iostats.rst).

use crate::declare::quantities;
use whyslow_model::catalogue::Disk;

quantities! { Disk;
    READS = "disk.reads" "1/s" "reads completed", "/proc/diskstats field 1 (iostats.rst)", baseline true = rate(reads);
    WRITES = "disk.writes" "1/s" "writes completed", "/proc/diskstats field 5", baseline true = rate(writes);
    REQUESTS = "disk.requests" "1/s" "requests completed, discards included", "/proc/diskstats"
        = rate([reads] + [writes] + [discards] | transfers + [discards]);
    /// Without discards, as they carry no bytes.
    TRANSFERS = "disk.transfers" "1/s" "reads and writes completed", "/proc/diskstats" = rate([reads] + [writes] | transfers);
    /// Of those whose time is counted, summed over requests that overlap.
    REQUEST_TIME = "disk.request_time" "count" "mean number of reads and writes in flight, by the time that completed ones took", "/proc/diskstats fields 4, 8"
        = rate([read_time] + [write_time] | transfer_time);
    DISCARD_TIME = "disk.discard_time" "count" "mean number of discards in flight, by the time that completed ones took", "/proc/diskstats field 15"
        = rate(discard_time);
    MERGE_SHARE = "disk.merge_share" "ratio" "share of the requests that were merged into larger ones", "/proc/diskstats", normal "neighbours are merged where no limit forbids it", baseline true
        = each(reads_merged + writes_merged / reads_merged + writes_merged + reads + writes | reads_merged + writes_merged + transfers);
    READ_RATE = "disk.read_rate" "bytes/s" "bytes read", "/proc/diskstats field 3", normal "what the device gives to large requests", baseline true = rate(read_bytes);
    WRITE_RATE = "disk.write_rate" "bytes/s" "bytes written", "/proc/diskstats field 7", baseline true = rate(write_bytes);
    RATE = "disk.rate" "bytes/s" "bytes read and written", "/proc/diskstats", normal "far below what larger requests would move" = rate([read_bytes] + [write_bytes]);
    REQUEST_SIZE = "disk.request_size" "bytes" "mean size of a read or write at the device", "/proc/diskstats", baseline true
        = each(read_bytes / reads, write_bytes / writes; else read_bytes + write_bytes / reads + writes | transfers);
    WRITE_SIZE = "disk.write_size" "bytes" "mean size of a write at the device", "/proc/diskstats fields 5, 7", normal "writes in the background are merged into larger ones"
        = each(write_bytes / writes);
    READ_SHARE = "disk.read_share" "ratio" "share of the reads and writes that are reads", "/proc/diskstats"
        = each(reads / reads + writes | transfers);
    /// Little's law makes the mean time from it and the number that completed.
    QUEUE = "disk.queue" "count" "mean number of requests in flight", "/proc/diskstats field 11", normal (below 64.0, 4.0 on rotational disks, "less than what the device serves at once"), baseline true = rate(weighted_time);
    BUSY = "disk.busy" "ratio" "share of the time in which any request was in flight; says nothing about how many more it could take", "/proc/diskstats field 10", normal "proves nothing by itself on a device with parallel queues", baseline true
        = rate(busy_time) at most 1.0;
    QUEUE_BUSY = "disk.queue_busy" "count" "mean number in flight while there were any", "/proc/diskstats fields 10, 11", normal "1 for one caller: the pieces of a request queue behind each other"
        = each(weighted_time / busy_time);
    INTERVAL = "disk.interval" "s" "busy time per request: the service time, if it serves one at a time", "/proc/diskstats field 10", normal "what one request takes, if it serves one at a time"
        = each(busy_time / reads + writes + [discards] | transfers);
    SERVICE_RATE = "disk.service_rate" "1/s" "requests completed per second of busy time: its ceiling for this load, if its queue never empties", "/proc/diskstats field 10"
        = each(reads + writes + [discards] | transfers / busy_time);
    WAIT = "disk.wait" "s" "mean time a read or write took, queue included", "/proc/diskstats fields 4, 8", normal (below 0.005, 0.025 on rotational disks, "near the time of one request alone"), better lower, baseline true
        = each(read_time / reads, write_time / writes; else read_time + write_time | transfer_time / reads + writes | transfers);
    READ_WAIT = "disk.read_wait" "s" "mean time a read took", "/proc/diskstats", better lower, baseline true = each(read_time / reads);
    WRITE_WAIT = "disk.write_wait" "s" "mean time a write took", "/proc/diskstats", better lower, baseline true = each(write_time / writes);
    FLUSHES = "disk.flushes" "1/s" "flush requests", "/proc/diskstats field 16", normal "a few a second", baseline true = rate(flushes);
    FLUSH_SHARE = "disk.flush_share" "ratio" "flushes in flight, mean", "/proc/diskstats field 17", normal "below 10 % of the time" = rate(flush_time);
    FLUSH_WAIT = "disk.flush_wait" "s" "mean time a flush took", "/proc/diskstats", normal (below 0.03 as "near 0 with a protected write cache"), better lower, baseline true = each(flush_time / flushes);
    READ_SIZE = "disk.read_size" "bytes" "mean size of a read at the device", "/proc/diskstats fields 1, 3" = each(read_bytes / reads);
    UNDIVIDED = "disk.undivided" "1/s" "reads and writes completed, where they are only counted together", "sar -d: tps" = rate(transfers);
    UNDIVIDED_SIZE = "disk.undivided_size" "bytes" "mean size of those", "sar -d: areq-sz" = each(read_bytes + write_bytes / transfers);
    WAIT_UNDIVIDED = "disk.undivided_wait" "s" "mean time of a read or write, where their time is only counted together", "sar -d: await"
        = each(transfer_time / transfers | reads + writes);
    READS_MERGED = "disk.reads_merged" "1/s" "reads merged into others", "/proc/diskstats field 2" = rate(reads_merged);
    WRITES_MERGED = "disk.writes_merged" "1/s" "writes merged into others", "/proc/diskstats field 6" = rate(writes_merged);
    DISCARD_RATE = "disk.discard_rate" "bytes/s" "bytes discarded", "/proc/diskstats field 14" = rate(discard_bytes);
}
