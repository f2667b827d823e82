//! Quantities of NFS mounts (include/linux/sunrpc/metrics.h).

use crate::declare::quantities;
use whyslow_model::catalogue::NfsMount;

quantities! { NfsMount;
    OPERATIONS = "nfs.operations" "1/s" "operations done; of nfsiostat reads and writes only", "/proc/self/mountstats", normal "what the workload requests"
        = rate(operations);
    WAIT = "nfs.wait" "s" "mean time of an operation, from being made until done", "/proc/self/mountstats", normal (below 0.02 as "a few ms on a local network")
        = each(execute_time / operations);
    ROUND_TRIP = "nfs.round_trip" "s" "of that from being sent until the server's answer: the server, and the path to it", "/proc/self/mountstats", normal "the network round trip plus the server's disk time"
        = each(round_trip_time / operations);
    QUEUE_WAIT = "nfs.queue_wait" "s" "of that waiting here to be sent: for a slot of the session, or for the connection", "/proc/self/mountstats", normal (near 0.001, "if above the round trip, there are too few slots, or the connection is full")
        = each(queue_time / operations);
    IN_FLIGHT = "nfs.in_flight" "count" "operations in flight, mean", "/proc/self/mountstats", normal "below 1 for one caller" = rate(execute_time);
    SENT_AGAIN_SHARE = "nfs.sent_again_share" "ratio" "retransmissions for each operation", "/proc/self/mountstats"
        = each(sent_again / operations);
    SENT_AGAIN = "nfs.sent_again" "1/s" "operations retransmitted", "/proc/self/mountstats", normal (near 0.0, "otherwise the network loses packets, or the server is down")
        = rate(sent_again);
}
