//! NFS mounts, as the client counts their operations.

use crate::signal::{Entity, over, ratio, signals};
use whyslow_model::catalogue::NfsMount;
use whyslow_model::diagnosis::Subject;
use whyslow_model::value::Counter;
use whyslow_model::window::{Change, Window};

/// A mount over the window.
pub struct NfsUse<'w>(&'w Change<'w, NfsMount>);

impl NfsUse<'_> {
    fn operations(&self) -> Option<f64> {
        self.0.rate(|n| n.operations)
    }

    /// Seconds of a summed time for each operation.
    fn each(&self, time: impl Fn(&NfsMount) -> Counter + Copy) -> Option<f64> {
        over(ratio(self.0.rate(time)), self.operations())
    }

    fn in_flight(&self) -> Option<f64> {
        ratio(self.0.rate(|n| n.execute_time))
    }
}

signals! { n: &NfsUse<'_>;
    "nfs.server" "text" "server and path", "as mounted", "/proc/self/mountstats" => n.0.last().server.get();
    "nfs.operations" "1/s" "operations done; of nfsiostat reads and writes only", "Δoperations / Δt", "/proc/self/mountstats" => n.operations();
    "nfs.wait" "s" "mean time of an operation, from being made until done", "Δexecute time / Δoperations", "/proc/self/mountstats" => n.each(|n| n.execute_time);
    "nfs.round_trip" "s" "of that from being sent until the server's answer: the server, and the way to it", "Δround-trip time / Δoperations", "/proc/self/mountstats" => n.each(|n| n.round_trip_time);
    "nfs.queue_wait" "s" "of that waiting here to be sent: for a slot of the session, or for the connection", "Δqueue time / Δoperations", "/proc/self/mountstats" => n.each(|n| n.queue_time);
    "nfs.in_flight" "count" "operations under way, mean", "Δexecute time / Δt", "/proc/self/mountstats" => n.in_flight();
    "nfs.stall" "ratio" "share of the time in which operations were under way, as far as their mean number tells", "min(Δexecute time / Δt, 1)", "/proc/self/mountstats" => n.in_flight().map(|n| n.min(1.0));
    "nfs.sent_again" "1/s" "times an operation was sent again", "Δretransmissions / Δt", "/proc/self/mountstats" => n.0.rate(|n| n.sent_again);
}

/// Every NFS mount.
pub fn entities(window: &Window) -> Vec<Entity> {
    let changes = window.changes::<NfsMount>();
    changes.iter().map(|n| Entity::new(Subject::new("mount", n.key().to_string()), read(&NfsUse(n)))).collect()
}
