//! A control group's I/O limit on one device.

use super::group::BlockedMembers;
use crate::signal::{Entity, over, ratio, signals};
use whyslow_model::catalogue::{Disk, Group, GroupIo};
use whyslow_model::diagnosis::Subject;
use whyslow_model::value::{Counter, Gauge};
use whyslow_model::window::{Change, Window};

/// What a limit's signals are computed from.
pub struct QuotaUse<'w> {
    io: &'w Change<'w, GroupIo>,
    device: Option<&'w Change<'w, Disk>>,
    group: Option<&'w Change<'w, Group>>,
    blocked: Option<f64>,
}

impl QuotaUse<'_> {
    /// The group's own pressure, which version 1 does not have: there by the states of its threads.
    fn stall(&self) -> Option<f64> {
        let pressure = self.group.and_then(|g| ratio(g.rate(|g| g.psi_io_some))).map(|s| s.min(1.0));
        pressure.or(self.blocked)
    }

    /// The nearest the group came to one of its four limits, as a mean over the window.
    fn fill(&self) -> Option<f64> {
        let part = |rate: fn(&GroupIo) -> Counter, limit: fn(&GroupIo) -> Gauge| {
            over(self.io.rate(rate), limit(self.io.last()).get())
        };
        [
            part(|g| g.read_bytes, |g| g.read_bytes_limit),
            part(|g| g.write_bytes, |g| g.write_bytes_limit),
            part(|g| g.reads, |g| g.reads_limit),
            part(|g| g.writes, |g| g.writes_limit),
        ]
        .into_iter()
        .flatten()
        .reduce(f64::max)
    }
}

signals! { q: QuotaUse<'_>;
    "quota.fill" "ratio" "what the group did against its limit, the nearest of the four", "Δ(bytes or operations) / Δt / limit", "blkio.throttle.*, io.stat and io.max (cgroup-v2.rst)" => q.fill();
    "quota.read_rate" "bytes/s" "bytes it read", "Δbytes / Δt", "blkio.throttle.io_service_bytes, io.stat" => q.io.rate(|g| g.read_bytes);
    "quota.write_rate" "bytes/s" "bytes it wrote", "Δbytes / Δt", "blkio.throttle.io_service_bytes, io.stat" => q.io.rate(|g| g.write_bytes);
    "quota.reads" "1/s" "reads it did", "Δreads / Δt", "blkio.throttle.io_serviced, io.stat" => q.io.rate(|g| g.reads);
    "quota.writes" "1/s" "writes it did", "Δwrites / Δt", "blkio.throttle.io_serviced, io.stat" => q.io.rate(|g| g.writes);
    "quota.read_rate_limit" "bytes/s" "bytes it may read", "rbps", "io.max, blkio.throttle.read_bps_device" => q.io.last().read_bytes_limit.get();
    "quota.write_rate_limit" "bytes/s" "bytes it may write", "wbps", "io.max, blkio.throttle.write_bps_device" => q.io.last().write_bytes_limit.get();
    "quota.reads_limit" "1/s" "reads it may do", "riops", "io.max, blkio.throttle.read_iops_device" => q.io.last().reads_limit.get();
    "quota.writes_limit" "1/s" "writes it may do", "wiops", "io.max, blkio.throttle.write_iops_device" => q.io.last().writes_limit.get();
    "quota.device" "text" "the device the limit is on", "major:minor", "/proc/diskstats" => q.io.key().lower.as_ref() as &str;
    "quota.version" "text" "version of the group's controllers", "v1, v2 or v1+v2", "/proc/self/mountinfo" => q.group.and_then(|g| g.last().version.get());
    "quota.device_busy" "ratio" "share of the time in which the device had requests in flight", "Δbusy time / Δt", "/proc/diskstats field 10" => q.device.and_then(|d| ratio(d.rate(|d| d.busy_time))).map(|b| b.min(1.0));
    "quota.stall" "ratio" "share of the time in which a task of the group waited for I/O", "Δio some total / Δt of the group; without it, the share of the samples in which a thread of it was blocked", "io.pressure, /proc/PID/stat" => q.stall();
}

/// Every group with an I/O limit, device by device.
pub fn entities(window: &Window, members: &BlockedMembers<'_>) -> Vec<Entity> {
    let devices = window.changes::<Disk>();
    let groups = window.changes::<Group>();
    window
        .changes::<GroupIo>()
        .iter()
        .filter(|io| {
            let l = io.last();
            [l.read_bytes_limit, l.write_bytes_limit, l.reads_limit, l.writes_limit].iter().any(|x| x.get().is_some())
        })
        .map(|io| {
            let link = io.key();
            let quota = QuotaUse {
                io,
                device: devices.iter().find(|d| *d.key() == link.lower),
                group: groups.iter().find(|g| *g.key() == link.upper),
                blocked: members.blocked_share(&link.upper),
            };
            let name = link.upper.to_string();
            Entity::of(Subject::new("cgroup", name.clone()), &quota).within(Some(name))
        })
        .collect()
}
