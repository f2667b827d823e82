//! A control group's I/O limit on one device, and the performance of the group without the limit.
//!
//! A thread that waits for each read in turn spends its time on its work between reads, and on waiting. Without the limit it
//! waits for the device alone (the interactive response time law of a closed system: Denning and Buzen, The Operational Analysis
//! of Queueing Network Models, 1978).

use super::depth;
use super::group::{BlockedMembers, stalled_lately};
use crate::signal::{Entity, over, ratio, signals};
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::{Disk, Group, GroupIo, Request};
use whyslow_model::value::{Counter, Gauge, Name};
use whyslow_model::window::{Change, Window};

/// Minimum share of reads in a group's I/O for the result for reads to hold for the group.
const NEARLY_ALL: f64 = 0.9;
/// Share of readahead from which a waiting thread can have more than one read in flight.
const AHEAD: f64 = 0.1;
/// A thread that was blocked for less of the time does not count.
const LEAST_WAIT: f64 = 0.1;

/// Inputs of a limit's signals.
pub struct QuotaUse<'w> {
    io: &'w Change<'w, GroupIo>,
    device: Option<&'w Change<'w, Disk>>,
    group: Option<&'w Change<'w, Group>>,
    blocked: Option<f64>,
    readers: Option<Readers>,
}

/// The group's threads that wait for reads, and the device time of a read.
struct Readers {
    /// For each thread the share of the time in which it waits.
    waits: Vec<f64>,
    /// Reads per second of all of them.
    rate: f64,
    /// Seconds that the device takes for a read.
    device_time: f64,
    /// Mean number of reads in flight in the device when one is issued, if known.
    depth: Option<f64>,
    /// Growth of the device time with the number in flight, if known.
    scaling: Option<f64>,
}

impl Readers {
    fn from_io(io: &Change<'_, GroupIo>, waits: Vec<f64>, reads: &Change<'_, Request>) -> Option<Self> {
        let (rate, writes) = (io.rate(|g| g.reads)?, io.rate(|g| g.writes)?);
        let ahead = over(reads.rate(|r| r.read_ahead), reads.rate(|r| r.requests))?;
        let waits: Vec<f64> = waits.into_iter().filter(|wait| *wait > LEAST_WAIT).collect();
        (rate > NEARLY_ALL * (rate + writes) && ahead < AHEAD).then_some(())?;
        Some(Self {
            waits,
            rate,
            device_time: ratio(reads.histogram(|r| &r.device_time)?.mean())?,
            depth: over(reads.rate(|r| r.depth), reads.rate(|r| r.depth_requests)),
            scaling: depth::scaling(&[reads]),
        })
    }

    /// Returns the reads per second without the limit, where the device time grows with the reads in flight to the power of
    /// `scaling`.
    fn attainable(&self, scaling: f64) -> Option<f64> {
        let deeper = (self.waits.len() as f64 / self.depth?.max(1.0)).max(1.0);
        let device_time = self.device_time * deeper.powf(scaling);
        let waiters: f64 = self.waits.iter().sum();
        let own = |wait: f64| {
            let between = (1.0 - wait) * waiters / (self.rate * wait);
            1.0 / (between + device_time)
        };
        self.waits.iter().map(|wait| own(*wait)).reduce(|a, b| a + b)
    }
}

impl QuotaUse<'_> {
    /// Returns the group's own pressure. Version 1 has none: there the states of its threads decide.
    fn stall(&self) -> Option<f64> {
        let pressure = self.group.and_then(|g| stalled_lately(g, |g| g.psi_io_some, |g| g.psi_io_avg60));
        pressure.or(self.blocked)
    }

    /// Returns the usage of the most used of the group's four limits, as a mean over the window.
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
    "quota.fill" "ratio" "what the group did against its limit, the nearest of the four", "Δ(bytes or operations) / Δt / limit", "blkio.throttle.*, io.stat and io.max (cgroup-v2.rst)", normal (below 0.8) => q.fill();
    "quota.read_rate" "bytes/s" "bytes it read", "Δbytes / Δt", "blkio.throttle.io_service_bytes, io.stat", normal "below the limit" => q.io.rate(|g| g.read_bytes);
    "quota.write_rate" "bytes/s" "bytes it wrote", "Δbytes / Δt", "blkio.throttle.io_service_bytes, io.stat", normal "below the limit" => q.io.rate(|g| g.write_bytes);
    "quota.reads" "1/s" "reads it did", "Δreads / Δt", "blkio.throttle.io_serviced, io.stat", normal "below the limit" => q.io.rate(|g| g.reads);
    "quota.writes" "1/s" "writes it did", "Δwrites / Δt", "blkio.throttle.io_serviced, io.stat", normal "below the limit" => q.io.rate(|g| g.writes);
    "quota.read_rate_limit" "bytes/s" "bytes it may read", "rbps", "io.max, blkio.throttle.read_bps_device", normal "no limit, or one above the need" => q.io.last().read_bytes_limit.get();
    "quota.write_rate_limit" "bytes/s" "bytes it may write", "wbps", "io.max, blkio.throttle.write_bps_device", normal "no limit, or one above the need" => q.io.last().write_bytes_limit.get();
    "quota.reads_limit" "1/s" "reads it may do", "riops", "io.max, blkio.throttle.read_iops_device", normal "no limit, or one above the need" => q.io.last().reads_limit.get();
    "quota.writes_limit" "1/s" "writes it may do", "wiops", "io.max, blkio.throttle.write_iops_device", normal "no limit, or one above the need" => q.io.last().writes_limit.get();
    "quota.device" "text" "the device the limit is on", "major:minor", "/proc/diskstats" => q.io.key().lower.as_ref() as &str;
    "quota.version" "text" "version of the group's controllers", "v1, v2 or v1+v2", "/proc/self/mountinfo" => q.group.and_then(|g| g.last().version.get());
    "quota.attainable" "1/s" "reads the device would do for it without the limit, if its threads went on as before; absent if it also writes, reads ahead, or reads asynchronously", "Σ over its threads 1 / (time between reads + time in the device)", "/proc/PID/stat; BPF: block_rq_issue, block_rq_complete" => q.readers.as_ref().and_then(|r| r.attainable(r.scaling.unwrap_or(0.0)));
    "quota.attainable_least" "1/s" "the same if the device served one read at a time, where it is not known how many it can", "Σ over its threads 1 / (time between reads + time in the device x threads / reads in flight)", "/proc/PID/stat; BPF: block_rq_issue, block_rq_complete" => q.readers.as_ref().and_then(|r| r.attainable(r.scaling.unwrap_or(1.0)));
    "quota.device_busy" "ratio" "share of the time in which the device had requests in flight", "Δbusy time / Δt", "/proc/diskstats field 10", normal "the device is not the bottleneck" => q.device.and_then(|d| ratio(d.rate(|d| d.busy_time))).map(|b| b.min(1.0));
    "quota.stall" "ratio" "share of the time in which a task of the group waited for I/O", "Δio some total / Δt of the group; without it, the share of the samples in which a thread of it was blocked", "io.pressure, /proc/PID/stat", normal (below 0.1) => q.stall();
}

/// Returns every group with an I/O limit, device by device.
pub fn entities(window: &Window, members: &BlockedMembers<'_>) -> Vec<Entity> {
    let devices = window.changes::<Disk>();
    let groups = window.changes::<Group>();
    let requests = window.changes::<Request>();
    let reads = |device: &Name| requests.iter().find(|r| r.key().device == *device && &*r.key().operation == "read");
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
                readers: reads(&link.lower)
                    .and_then(|reads| Readers::from_io(io, members.synchronous_waits(&link.upper)?, reads)),
            };
            let name = link.upper.to_string();
            Entity::from_subject(Subject::new("cgroup", name.clone()), &quota).within(Some(name))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readers(waits: &[f64], rate: f64, depth: f64) -> Readers {
        Readers { waits: waits.to_vec(), rate, device_time: 0.001, depth: Some(depth), scaling: None }
    }

    #[test]
    fn a_thread_that_only_waits_reads_as_fast_as_the_device() {
        assert!((readers(&[1.0], 50.0, 1.0).attainable(0.0).unwrap() - 1000.0).abs() < 1e-9);
        // 50 reads per second in a tenth of the time: 2 ms each, plus 1 ms in the device.
        assert!((readers(&[0.9], 50.0, 1.0).attainable(0.0).unwrap() - 1000.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn several_threads_read_side_by_side_only_if_the_device_serves_them_so() {
        let four = readers(&[1.0; 4], 50.0, 1.0);
        assert!((four.attainable(0.0).unwrap() - 4000.0).abs() < 1e-9);
        assert!((four.attainable(1.0).unwrap() - 1000.0).abs() < 1e-9);
        // With two already in flight, four take twice as long.
        assert!((readers(&[1.0; 4], 50.0, 2.0).attainable(1.0).unwrap() - 2000.0).abs() < 1e-9);
    }

    #[test]
    fn a_thread_that_waits_less_does_more_between_reads() {
        // 90 reads per second, in proportion to the waiting: 60 of the first, 30 of the second, which does something else for (1
        // - 0.5) / 30 s between two of them.
        let both = readers(&[1.0, 0.5], 90.0, 1.0).attainable(0.0).unwrap();
        assert!((both - (1000.0 + 1.0 / (0.5 / 30.0 + 0.001))).abs() < 1e-6, "{both}");
    }
}
