//! Charts of disks and file systems.

use super::declare::chart_table;
use whyslow_model::catalogue::{Disk, Mount, NfsMount, Request};
use whyslow_quantities::{disk, nfs};

chart_table! {
    "disk.latency" "Latency of requests" in "s" "Time per request, from being made until done.";
    Lines; shows "disk.wait" "disk.read_wait" "disk.write_wait" "disk.peers_wait" "disk.alike_wait" "disk.alone_time" "array.member_wait";
    Disk, TopWhole(6) {
        "reads": of(disk::READ_WAIT);
        "writes": of(disk::WRITE_WAIT);
        "requests": of(disk::WAIT_UNDIVIDED);
    }

    "disk.queue" "Requests in flight" in "count" "Mean number of requests in the queue and in the device.";
    Lines; shows "disk.queue" "disk.queue_busy" "disk.most_waited" "disk.ceiling_depth" "io.in_flight";
    Disk, TopWhole(6) { "": of(disk::QUEUE); }

    "disk.busy" "Busy time of disks" in "1" "Share of the time with at least one request in flight; a parallel device can do more even at 100 %.";
    Lines; shows "disk.busy" "disk.stall" "disk.steady_stall" "disk.longest_stall" "disk.busy_steps" "disk.idle_steps" "quota.device_busy" "array.member_busy";
    Disk, TopWhole(6) { "": of(disk::BUSY); }

    "disk.throughput" "Disk throughput" in "By/s" "Bytes read and written.";
    Lines; shows "disk.rate" "disk.read_rate" "disk.write_rate" "disk.usual_rate" "disk.peak_write_rate" "disk.ceiling_rate" "disk.rate_spread" "disk.stream_rate" "disk.bytes_spread";
    Disk, TopWhole(6) { "reads": of(disk::READ_RATE); "writes": of(disk::WRITE_RATE); }

    "disk.requests" "Disk requests" in "1/s" "Requests completed.";
    Lines; shows "disk.requests" "disk.reads" "disk.writes" "disk.service_rate" "disk.ceiling" "disk.read_share" "disk.interval" "array.member_requests";
    Disk, TopWhole(6) { "reads": of(disk::READS); "writes": of(disk::WRITES); "requests": of(disk::UNDIVIDED); }

    "disk.request_size" "Request size" in "By" "Mean size of requests.";
    Lines; shows "disk.request_size" "disk.write_size" "disk.request_size_p50" "disk.size_spread" "disk.max_request" "array.member_request_size";
    Disk, TopWhole(6) {
        "reads": of(disk::READ_SIZE);
        "writes": of(disk::WRITE_SIZE);
        "requests": of(disk::UNDIVIDED_SIZE);
    }

    "disk.merges" "Merged requests" in "1/s" "Requests that were merged into another before they were issued.";
    Lines "only if any"; shows "disk.merge_share";
    Disk, TopWhole(6) { "reads": of(disk::READS_MERGED); "writes": of(disk::WRITES_MERGED); }

    "disk.service" "Service time as reported" in "s" "Service time per request as a tool computed it (iostat's svctm).";
    Lines; shows "disk.service" "disk.service_excess";
    Disk, TopWhole(6) { "": level(service_time); }

    "disk.flushes" "Flushes" in "1/s" "Flushes of the device's write cache: fsync and the journal wait for them.";
    Lines "only if any"; shows "disk.flushes";
    Disk, TopWhole(6) { "": of(disk::FLUSHES); }

    "disk.flush_latency" "Latency of flushes" in "s" "Time per flush.";
    Lines "only if any"; shows "disk.flush_wait" "disk.flush_share";
    Disk, TopWhole(6) { "": of(disk::FLUSH_WAIT); }

    "disk.discards" "Discards" in "By/s" "Bytes discarded (TRIM).";
    Lines "only if any"; shows "disk.discard_size" "disk.discard_split_share";
    Disk, TopWhole(6) { "": of(disk::DISCARD_RATE); }

    "disk.device_time" "Time in the device" in "s" "How long requests took in the device, each of them.";
    Heat; shows "disk.device_time" "disk.device_time_p50" "disk.device_time_p99" "io.device_time" "disk.wait_scaling";
    Request, Top(4) { "": values(device_time); }

    "disk.queue_time" "Time in the queue" in "s" "How long requests waited before the device got them, each of them.";
    Heat; shows "disk.queue_time" "disk.queue_time_p99" "io.queue_time";
    Request, Top(4) { "": values(queue_time); }

    "filesystem.used" "Space used" in "1" "Share of the space that is not available to ordinary users; the fullest file systems, each by its shortest mount point.";
    Lines; shows "mount.available" "mount.available_share" "mount.free" "mount.size" "mount.full_in" "mount.shrink_rate" "mount.shrunk";
    Mount, TopFileSystems(6 by number) { "": part(size - available); }

    "filesystem.inodes" "Inodes used" in "1" "Share of the inodes that are used.";
    Lines; shows "mount.inodes" "mount.inodes_free" "mount.inodes_free_share";
    Mount, TopFileSystems(6 by number) { "": part(inodes - inodes_free); }

    "filesystem.nfs_latency" "Latency of NFS operations" in "s" "Time per operation: waiting in the client, and from being sent until the server's answer.";
    Lines "only if any"; shows "nfs.wait" "nfs.round_trip" "nfs.queue_wait" "nfs.stall" "nfs.in_flight";
    NfsMount, Top(4) {
        "queue": of(nfs::QUEUE_WAIT);
        "round trip": of(nfs::ROUND_TRIP);
        "in all": of(nfs::WAIT);
    }

    "filesystem.nfs_operations" "NFS operations" in "1/s" "Operations completed, and those retransmitted.";
    Lines "only if any"; shows "nfs.operations" "nfs.sent_again" "nfs.sent_again_share" "nfs.done";
    NfsMount, Top(4) { "completed": of(nfs::OPERATIONS); "retransmitted": of(nfs::SENT_AGAIN); }
}
