//! Whole block devices: their requests, how long these took, and how many were queued.

use super::blocked::Blocked;
use super::curve::{Curve, alone_time};
use super::depth;
use super::io::IoUse;
use super::size_slope::{SizeSlope, Stream};
use super::volume;
use crate::kernel_log::has_smart;
use crate::signal::{Entity, over, ratio, share_of_true, signals, sum};
use std::collections::{BTreeMap, BTreeSet};
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::{Array, Disk, MappedDevice, Path, Queue, Request, Response, ScsiDisk, Throughput};
use whyslow_model::histogram::Histogram;
use whyslow_model::human;
use whyslow_model::key::LinkKey;
use whyslow_model::topology::Topology;
use whyslow_model::value::{Counter, Name};
use whyslow_model::window::{Change, Window};
use whyslow_quantities::disk;

/// Minimum gain that is worth promising.
const LEAST_GAIN: f64 = 1.1;
/// Minimum mean number of requests in flight for a device on top of another to count as one of its users.
const SHARER_QUEUE: f64 = 0.2;
/// A device with less than this share of the requests of the largest one does not contend with it.
const LEAST_SHARE: f64 = 0.1;

/// Minimum share of a device's bytes that must come through the devices on top of it for it to count as their member: below 1,
/// as a layer may read and write more than was requested (parity, a journal).
const CARRIED: f64 = 0.3;

/// Bytes per second that any healthy disk or card streams: a memory card of speed class 10.
const SLOW_STREAM: f64 = 10e6;
/// Minimum requests per second for a disk's wait to be compared with others'.
const PEER_REQUESTS: f64 = 0.1;
/// Maximum ratio of two disks' request rates and sizes, and maximum difference of their shares of reads, for their load to count
/// as the same. Members of one mirror or stripe are within a few per cent.
const SAME_LOAD: f64 = 1.25;
const SAME_READ_SHARE: f64 = 0.1;

/// Typical limit figures, times a power of ten, and the maximum relative distance of a rate from one.
const ROUND_LIMITS: [f64; 3] = [1.0, 2.0, 5.0];
const ROUND_WITHIN: f64 = 0.02;

/// Minimum share that counts as most of what a device did.
const MOST: f64 = 0.5;

/// Inputs of a disk's signals.
pub struct DiskUse<'w> {
    change: &'w Change<'w, Disk>,
    queue: Option<&'w Queue>,
    scsi: Option<&'w Change<'w, ScsiDisk>>,
    stall: Option<f64>,
    users: Option<Users>,
    reader: Option<&'w IoUse<'w>>,
    requests: Vec<&'w Change<'w, Request>>,
    curve: Curve,
    alone_time: Option<f64>,
    size_slope: Option<SizeSlope>,
    sharers: usize,
    other_paths: usize,
    below: String,
    beneath: Beneath,
    chunk: Option<f64>,
    member: bool,
    /// Whether an array on top of it is being checked or rebuilt.
    synced: bool,
    peers_wait: Option<f64>,
    alike: Vec<f64>,
    /// Waits of the other disks that did more and were less busy.
    better: Vec<f64>,
}

impl DiskUse<'_> {
    fn requests(&self) -> Option<f64> {
        disk::REQUESTS.over(self.change)
    }

    fn bytes(&self) -> Option<f64> {
        disk::RATE.over(self.change)
    }

    fn busy(&self) -> Option<f64> {
        disk::BUSY.over(self.change)
    }

    fn service_excess(&self) -> Option<f64> {
        Some(disk::INTERVAL.over(self.change)? - disk::REQUEST_SIZE.over(self.change)? / SLOW_STREAM)
    }

    fn in_flight(&self) -> Option<f64> {
        disk::QUEUE.over(self.change)
    }

    /// Returns the requests in flight of a stacked device that makes none itself: those of the devices below, as BPF sees them.
    /// A bio that waits for a request to carry it is in flight for md, but not below.
    fn requests_in_flight(&self) -> Option<f64> {
        // Requests that such a device splits count as its own.
        let makes_none = self.requests.iter().all(|r| r.rate(|r| r.requests) == Some(0.0));
        self.beneath.queue.filter(|queue| makes_none && *queue > 0.0).or_else(|| self.in_flight())
    }

    /// Returns the requests that were in flight all the time while none completed. A row whose counter underflowed has billions.
    fn held(&self) -> Option<f64> {
        const LONG: f64 = 5.0;
        const MOST: f64 = 1e6;
        let counts: Vec<f64> = self.change.readings(|d| d.in_flight).collect();
        let is_frozen = counts.len() > 1 && self.change.seconds() >= LONG && self.requests()? == 0.0;
        counts.into_iter().reduce(f64::min).filter(|fewest| is_frozen && *fewest < MOST)
    }

    fn flush_share(&self) -> Option<f64> {
        disk::FLUSH_SHARE.over(self.change)
    }

    /// Returns the share of the time in flight that belongs to requests that did not complete. By Little's law the time in
    /// flight is that of the completed requests, if as many complete as are issued. Kernels since 5.7 count only completed ones:
    /// there nothing is left.
    fn unfinished(&self) -> Option<f64> {
        let others = [disk::DISCARD_TIME.over(self.change), self.flush_share()];
        let completed = disk::REQUEST_TIME.over(self.change)? + others.into_iter().flatten().sum::<f64>();
        Some((1.0 - over(Some(completed), self.in_flight())?).max(0.0))
    }

    /// Returns the time in which a task waited for this device. Where BPF attributed its requests, that is the time in which
    /// their processes were blocked, but no longer than their requests, or flushes, were in flight. Otherwise it is the
    /// machine's pressure, which work on other CPUs dilutes, or the time in which its likely users were blocked, if that is
    /// more. Where waiting tasks were not counted, the time in which requests were in flight stands for it: it is never less,
    /// but includes requests that no task waits for.
    fn waited_for(&self) -> Option<f64> {
        let busy = self.busy()?;
        let flushes = self.flush_share().unwrap_or(0.0);
        let users = self.users.as_ref().filter(|users| self.made_most(users));
        let blocked = users.map(|users| {
            let own = users.in_flight.map_or(1.0, |own| own + if users.write { flushes } else { 0.0 });
            users.blocked.min(own).min(busy + flushes).min(1.0)
        });
        if users.is_some_and(|users| users.in_flight.is_some()) {
            return blocked;
        }
        let pressure = self.stall.or_else(|| self.in_flight())?.min(busy);
        Some(pressure.max(blocked.unwrap_or(0.0)))
    }

    /// Returns true if most of what the device did was done for these users: false where another process issued requests on
    /// behalf of those that wait.
    fn made_most(&self, users: &Users) -> bool {
        let share = match users.in_flight {
            Some(own) => over(Some(own), self.in_flight()),
            None => over(Some(users.bytes), self.bytes()),
        };
        share.is_some_and(|share| share > MOST)
    }

    /// Returns its users, unless only their bytes are known and another process moved most: then their waiting is not what
    /// matters.
    fn seen_users(&self) -> Option<&Users> {
        self.users.as_ref().filter(|users| users.in_flight.is_some() || self.made_most(users))
    }

    /// Returns the access pattern of its requests.
    fn access(&self) -> &'static str {
        match self.share(&["read", "write"], |r| r.sequential) {
            Some(sequential) if sequential > MOST => "adjacent",
            Some(_) => "random",
            None => "unknown",
        }
    }

    /// Returns the share of the steps in which requests were in flight for most of the step.
    fn busy_steps(&self) -> Option<f64> {
        share_of_true(self.change.steps(|d| d.busy_time).filter_map(|(dt, b)| Some(b? / 1e9 > 0.5 * dt)))
    }

    /// Returns the share of the steps in which hardly anything was in flight.
    fn idle_steps(&self) -> Option<f64> {
        share_of_true(self.change.steps(|d| d.busy_time).filter_map(|(dt, b)| Some(b? / 1e9 < 0.1 * dt)))
    }

    /// Returns the spread of the steps' request sizes, or rates, around their mean: half of max - min over mean. Skips steps
    /// with hardly any requests.
    fn swing(&self, of: impl Fn(f64, f64, f64) -> f64) -> Option<f64> {
        let count = |d: &Disk| d.transfers.get().or_else(|| Some(d.reads.get()? + d.writes.get()?)).map(Counter::from);
        let bytes = |d: &Disk| Some(Counter::from(d.read_bytes.get()? + d.write_bytes.get()?));
        let counts = self.change.steps(|d| count(d).unwrap_or_default());
        let values: Vec<f64> = counts
            .zip(self.change.steps(|d| bytes(d).unwrap_or_default()))
            .filter_map(|((dt, n), (_, b))| n.filter(|n| *n / dt > 10.0).zip(b).map(|(n, b)| of(dt, n, b)))
            .collect();
        Some(half_range(&values)? / (values.iter().sum::<f64>() / values.len() as f64))
    }

    /// Returns half of the range of the shares of reads.
    fn mix_spread(&self) -> Option<f64> {
        let writes = self.change.steps(|d| d.writes);
        let shares: Vec<f64> = self
            .change
            .steps(|d| d.reads)
            .zip(writes)
            .filter_map(|((dt, reads), (_, writes))| Some((dt, reads?, writes?)))
            .filter(|(dt, reads, writes)| (reads + writes) / dt > 10.0)
            .map(|(_, reads, writes)| reads / (reads + writes))
            .collect();
        half_range(&shares)
    }

    /// Returns the median of the bytes per second over the steps with traffic: the rate while the device had work.
    fn usual_rate(&self) -> Option<f64> {
        let bytes = |d: &Disk| Some(Counter::from(d.read_bytes.get()? + d.write_bytes.get()?));
        let steps = self.change.steps(|d| bytes(d).unwrap_or_default());
        let mut rates: Vec<f64> =
            steps.filter_map(|(dt, bytes)| Some(bytes? / dt)).filter(|rate| *rate > 0.0).collect();
        rates.sort_by(f64::total_cmp);
        middle(&rates)
    }

    /// Returns the distribution of a time or size of its reads and writes, as BPF saw it.
    fn spread(&self, of: impl Fn(&Request) -> &Histogram) -> Option<Histogram> {
        let transfers = self.requests.iter().filter(|r| matches!(&*r.key().operation, "read" | "write" | "transfer"));
        transfers.filter_map(|r| r.histogram(&of)).reduce(|a, b| a.merged(&b))
    }

    /// Returns a percentile of a time of its reads and writes, in seconds.
    fn percentile(&self, of: impl Fn(&Request) -> &Histogram, share: f64) -> Option<f64> {
        ratio(self.spread(of)?.quantile(share))
    }

    /// Returns the share of its requests that BPF saw to be of a kind.
    fn share(&self, operations: &[&str], of: fn(&Request) -> Counter) -> Option<f64> {
        share(self.requests.iter().copied(), operations, of)
    }

    /// Returns true if its bytes per second are a typical limit: 10, 20 or 50 MB or MiB, and their tenfold.
    fn is_round_rate(&self) -> Option<bool> {
        let rate = self.bytes().filter(|rate| *rate > 0.0)?;
        let is_round = |unit: f64| {
            let count = rate / unit;
            let power = 10_f64.powf(count.log10().round());
            ROUND_LIMITS
                .iter()
                .flat_map(|limit| [limit * power, limit * power / 10.0])
                .any(|limit| (count / limit - 1.0).abs() < ROUND_WITHIN)
        };
        Some([1e6, 1_048_576.0].into_iter().any(is_round))
    }

    /// Returns the size of a requested read. The device mapper counts a read once (drivers/md/dm.c), md each of its pieces
    /// (drivers/md/raid0.c: md_account_bio).
    fn asked_size(&self) -> Option<f64> {
        let size = disk::READ_SIZE.over(self.change)?;
        let call = || self.reader.and_then(IoUse::call_size);
        if size > self.chunk? { Some(size) } else { call().map(|call| call.max(size)) }
    }

    fn members_taken(&self) -> Option<f64> {
        let pieces = over(Some(self.asked_size()? * (1.0 - self.beneath.sequential?)), self.beneath.read_size)?;
        // Of more pieces than members, one member holds several.
        Some(self.beneath.members.filter(|members| *members > 0.0).map_or(pieces, |members| pieces.min(members)))
    }

    /// Returns the kind of requests that no task waits for.
    fn unwaited(&self) -> Option<&'static str> {
        match disk::READ_SHARE.over(self.change)? {
            share if share < 0.5 => Some("write-back"),
            _ => Some("read-ahead, or asynchronous reads"),
        }
    }

    /// Describes the maximum gain from a second request in flight: no more than the ceiling, where that was measured.
    fn depth_gain(&self) -> Option<String> {
        let ceiling = self.curve.ceiling().map(|ceiling| ceiling.requests);
        match ceiling.map(|ceiling| over(Some(ceiling), self.requests())) {
            None => Some("up to twice".to_owned()),
            Some(factor) => match factor? {
                2.0.. => Some("up to twice".to_owned()),
                factor if factor >= LEAST_GAIN => Some(format!("up to {} times", human::factor(factor))),
                _ => None,
            },
        }
    }

    /// Returns the mean size of the traced discards.
    fn discard_size(&self) -> Option<f64> {
        let traced = || self.requests.iter().filter(|r| &*r.key().operation == "discard");
        let total = |of: fn(&Request) -> Counter| traced().filter_map(|r| r.rate(of)).reduce(|a, b| a + b);
        over(total(|r| r.bytes), total(|r| r.requests))
    }

    /// Returns the bytes per second that reads of the largest size would reach, with the slope larger by this many standard
    /// errors.
    fn stream_rate(&self, errors: f64) -> Option<f64> {
        let rate = disk::READ_RATE.over(self.change)?;
        let size = disk::READ_SIZE.over(self.change)?;
        let now = Stream { size, seconds: read_time(&self.requests)?, rate };
        Some(self.size_slope?.rate(self.queue?.max_request.get()?, now, errors)).filter(|rate| rate.is_finite())
    }

    fn peak_write_rate(&self) -> Option<f64> {
        self.change.steps(|d| d.write_bytes).filter_map(|(dt, b)| Some(b? / dt)).reduce(f64::max)
    }
}

/// Returns true if the disk has QEMU's model name and sits behind an emulated controller of real hardware.
fn is_emulated(queue: &Queue) -> bool {
    let is_qemu = queue.model.get().is_some_and(|model| model.contains("QEMU HARDDISK"));
    is_qemu && matches!(queue.driver.get(), Some("ata_piix" | "ahci"))
}

signals! { d: DiskUse<'_>;
    quantities of d.change => disk::REQUESTS, disk::RATE, disk::REQUEST_SIZE, disk::WAIT, disk::QUEUE, disk::INTERVAL, disk::BUSY, disk::READS, disk::WRITES, disk::READ_RATE, disk::WRITE_RATE, disk::READ_SHARE, disk::MERGE_SHARE, disk::READ_WAIT, disk::WRITE_WAIT, disk::WRITE_SIZE, disk::SERVICE_RATE, disk::QUEUE_BUSY, disk::FLUSHES, disk::FLUSH_SHARE, disk::FLUSH_WAIT;
    "disk.transferred" "count" "reads and writes completed in the window", "Δ(reads + writes)", "/proc/diskstats" => sum([d.change.grown(|d| d.reads), d.change.grown(|d| d.writes)]);
    "disk.service" "s" "service time per request, as iostat computed it: busy time over requests, which means nothing for devices with queues of their own", "svctm", "/proc/diskstats" => d.change.mean(|d| d.service_time).map(|ns| ns / 1e9);
    "disk.usual_rate" "bytes/s" "bytes read and written per second, median of the samples with any", "median(Δsectors x 512 / Δt)", "/proc/diskstats" => d.usual_rate();
    "disk.unwaited" "text" "what its requests are if no task waits for them", "by disk.read_share", "/proc/diskstats" => d.unwaited();
    "disk.peers_wait" "s" "the same for the other disks with requests, median", "median of Δtime / Δ(reads + writes) over other whole disks", "/proc/diskstats" => d.peers_wait;
    "disk.alike" "count" "other disks with the same load: as many reads and writes of the same size, as of members of one mirror or stripe, or as many writes and more reads", "disks whose rates and sizes are within 25 %, and whose read shares are within 10 %; or whose writes are, and whose reads are more", "/proc/diskstats" => d.alike.len() as f64;
    "disk.better" "count" "other disks that did at least as many requests of this size, and were far less busy", "disks of the same kind with Δrequests no smaller, sizes within 25 %, and Δbusy time < 0.6 x this one's", "/proc/diskstats" => d.better.len() as f64;
    "disk.better_wait" "s" "mean time a read or write took on those, median", "median of Δtime / Δ(reads + writes) over them", "/proc/diskstats" => middle(&d.better);
    "disk.alike_wait" "s" "mean time a read or write took on those, median", "median of Δtime / Δ(reads + writes) over them", "/proc/diskstats" => middle(&d.alike);
    "disk.service_excess" "s" "busy time per request beyond what a slow disk takes to move its bytes", "Δbusy time / Δrequests - request size / 10 MB/s", "/proc/diskstats" => d.service_excess();
    "disk.queue_time" "s" "mean time a read or write waited before the device got it", "mean(issue - allocation)", "BPF: block_rq_issue", normal (near 0.001, "the device takes a request at once") => ratio(d.spread(|r| &r.queue_time).and_then(|h| h.mean()));
    "disk.queue_time_p99" "s" "time within which 99 of 100 reads and writes were with the device", "99th percentile of issue - allocation", "BPF: block_rq_issue", better lower, baseline true => d.percentile(|r| &r.queue_time, 0.99);
    "disk.device_time" "s" "mean time the device took for a read or write", "mean(completion - issue)", "BPF: block_rq_issue, block_rq_complete", normal "what one request takes alone" => ratio(d.spread(|r| &r.device_time).and_then(|h| h.mean()));
    "disk.device_time_p50" "s" "time within which the device did half of the reads and writes", "median of completion - issue", "BPF: block_rq_issue, block_rq_complete", better lower, baseline true => d.percentile(|r| &r.device_time, 0.5);
    "disk.device_time_p99" "s" "time within which the device did 99 of 100 reads and writes", "99th percentile of completion - issue", "BPF: block_rq_issue, block_rq_complete", normal "near the mean", better lower, baseline true => d.percentile(|r| &r.device_time, 0.99);
    "disk.request_size_p50" "bytes" "median size of a read or write at the device", "median of bytes", "BPF: block_rq_complete" => d.spread(|r| &r.size).and_then(|h| h.quantile(0.5));
    "disk.sequential" "ratio" "share of the reads and writes that begin where one of the last few ended", "Δsequential / Δrequests", "BPF: block_rq_issue", normal "near 1: one read after the other", baseline true => d.share(&["read", "write"], |r| r.sequential);
    "disk.ahead_share" "ratio" "share of the reads that read-ahead made", "ΔREQ_RAHEAD / Δreads", "BPF: block_rq_issue" => d.share(&["read"], |r| r.read_ahead);
    "disk.forced_share" "ratio" "share of the writes that must reach the medium, not only the device's cache", "ΔREQ_FUA / Δwrites", "BPF: block_rq_issue" => d.share(&["write"], |r| r.forced);
    "disk.access" "text" "how its requests lie: adjacent where most begin where another ended, else random; unknown if not traced", "Δsequential / Δrequests > 0.5", "BPF: block_rq_issue" => d.access();
    "disk.split_share" "ratio" "share of its reads and writes that were cut off a larger one", "Δsplits / Δ(reads + writes)", "BPF: block_split, block_rq_complete", normal (near 0.02, "what is asked for reaches the device in one piece") => d.share(&["read", "write"], |r| r.splits);
    "disk.discard_split_share" "ratio" "share of its discards that were cut off a larger one", "Δsplits / Δdiscards", "BPF: block_split, block_rq_complete; blkparse", normal (near 0.02) => d.share(&["discard"], |r| r.splits);
    "disk.discard_size" "bytes" "mean size of a discard at the device", "Δbytes / Δdiscards", "BPF: block_rq_complete; blkparse", normal "many MiB: a device discards a large range as fast as a small one" => d.discard_size();
    "disk.wait_scaling" "ratio" "how the time of a request grows with those in flight: 0 where the device serves them in parallel, 1 where each waits for all before it; absent where their number hardly varies", "(Δtime / time) / (Δdepth / depth) of the line through all requests", "BPF: block_rq_issue, block_rq_complete", normal (near 0.02, "as long with many in flight as with few") => depth::scaling(&d.requests);
    "disk.wait_scaling_sampled" "ratio" "the same of the samples' means: near 0 it is as good, but near 1 it can also be a device whose latency varies under a steady load", "(Δtime / time) / (Δqueue / queue) of the line through all samples", "/proc/diskstats", normal (near 0.02, "as long with many in flight as with few") => depth::scaling_by_steps(d.change);
    "disk.throughput_growth" "ratio" "how throughput grows with the requests in flight, as an exponent: 1 in proportion, 0 not at all; absent where their number hardly varies", "Δln(requests / busy time) / Δln(depth) between the deepest level and one at most 1 / 1.8 as deep", "BPF: block_rq_issue, block_rq_complete", normal "near 1: throughput in proportion to the requests in flight" => d.curve.growth();
    "disk.flattens" "flag" "1 where more requests in flight add no throughput, 0 where they still do; absent where the difference can be chance", "growth + 2 standard errors < 0.3; growth - 2 standard errors > 0.7", "BPF: block_rq_issue, block_rq_complete" => d.curve.is_flat();
    "disk.ceiling" "1/s" "requests completed per second where more in flight add none: its ceiling for this load", "Δrequests / Δbusy time where throughput is flat", "BPF: block_rq_issue, block_rq_complete", normal "above what it does: more requests in flight add no throughput" => d.curve.ceiling().map(|c| c.requests);
    "disk.ceiling_rate" "bytes/s" "bytes completed per second there", "Δbytes / Δbusy time where throughput is flat", "BPF: block_rq_issue, block_rq_complete" => d.curve.ceiling().map(|c| c.bytes);
    "disk.ceiling_depth" "count" "requests in flight from which more add no throughput, as far as was seen", "the shallower one of the levels compared", "BPF: block_rq_issue, block_rq_complete", normal "as many as are in flight, or more" => d.curve.ceiling().map(|c| c.depth);
    "disk.alone_time" "s" "mean time the device took for a read or write with nothing else in flight", "mean(completion - issue) where one is in flight at both", "BPF: block_rq_issue, block_rq_complete" => d.alone_time;
    "disk.users_blocked" "ratio" "how much of their sleep the threads that wait for it are blocked: 1 where they ask for the next thing as soon as they got the last, less where they pace themselves", "samples blocked (state D, or in io_getevents or io_uring_enter) / samples asleep, of the threads of its users that were found blocked", "/proc/PID/task/TID/stat, syscall" => d.seen_users().and_then(|u| u.persistence);
    "disk.splits" "1/s" "times a request was cut because the device takes none as large, or for a stripe's end", "Δsplits / Δt", "BPF: block_split", normal (near 0.0) => d.requests.iter().filter_map(|r| r.rate(|r| r.splits)).reduce(|a, b| a + b);
    "disk.stream_rate" "bytes/s" "bytes a second that reads of the largest size would bring, with as many in flight; absent where only reads of one size were seen", "in flight x largest request / (time of a read + Δtime / Δsize x (largest request - size of a read)), at most Δsize / Δtime; of sizes with as many requests in flight", "BPF: block_rq_issue, block_rq_complete; queue/max_sectors_kb" => d.stream_rate(0.0);
    "disk.stream_rate_least" "bytes/s" "the same at the lower end of its 95 % interval", "with Δtime / Δsize two standard errors larger", "BPF: block_rq_issue, block_rq_complete; queue/max_sectors_kb" => d.stream_rate(2.0);
    "disk.stream_rate_most" "bytes/s" "the same at the upper end", "with Δtime / Δsize two standard errors smaller", "BPF: block_rq_issue, block_rq_complete; queue/max_sectors_kb" => d.stream_rate(-2.0);
    "disk.held" "count" "requests in flight at every reading, over at least five seconds, if none completed: the fewest", "min(requests in flight)", "/proc/diskstats field 9", normal "0, or as many as complete within milliseconds" => d.held();
    "disk.in_flight" "count" "mean number of requests in flight; of a device that makes none of its own (dm, md), those of the devices below that make them", "Δ(requests x time) / Δt", "/sys/block, /proc/diskstats field 11; BPF: block_rq_issue" => d.requests_in_flight();
    "disk.unfinished" "ratio" "share of the time in flight that belongs to requests that did not complete", "1 - Δ(time of completed requests) / Δ(requests x time)", "/proc/diskstats fields 4, 8, 11, 15, 17 (Little's law)", normal (near 0.2, "as many complete as are issued") => d.unfinished();
    "disk.busy_steps" "ratio" "share of the samples in which it was busy more than half the time", "steps with Δbusy > Δt / 2", "/proc/diskstats" => d.busy_steps();
    "disk.stall" "ratio" "share of the time in which a task waited for this device", "share of the time in which its users were blocked (state D, or in io_getevents or io_uring_enter), at most that with requests of theirs in flight; where they are not known min(stall.io, disk.busy); where no waiting was counted, min(disk.queue, disk.busy)", "/proc/PID/stat, /proc/pressure/io, /proc/diskstats", normal "below 10 %", better lower, baseline true => d.waited_for();
    "disk.held_back" "ratio" "share of the time in which a process that writes to it was held back because too much memory was dirty", "share of the time asleep in balance_dirty_pages, of its users that write", "BPF: sched_switch, sched_waking; /proc/PID/task/TID/stat, wchan (mm/page-writeback.c)", normal (near 0.0, "write-back keeps up, and bursts fit into memory") => d.users.as_ref().map(|users| users.held_back);
    "disk.peak_write_rate" "bytes/s" "bytes written in the fastest sample", "max(Δbytes / Δt)", "/proc/diskstats" => d.peak_write_rate();
    "disk.idle_steps" "ratio" "share of the samples in which it was busy less than a tenth of the time", "steps with Δbusy < Δt / 10", "/proc/diskstats", normal "the device works evenly" => d.idle_steps();
    "disk.size_spread" "ratio" "how far the samples' mean request sizes are from their mean; near 0 where a limit cuts them", "(max - min) / 2 / mean over samples", "/proc/diskstats" => d.swing(|_, n, b| b / n);
    "disk.rate_spread" "ratio" "how far the samples' request rates are from their mean; near 0 at a ceiling", "(max - min) / 2 / mean over samples", "/proc/diskstats" => d.swing(|dt, n, _| n / dt);
    "disk.bytes_spread" "ratio" "how far the samples' bytes a second are from their mean; near 0 at a limit", "(max - min) / 2 / mean over samples", "/proc/diskstats", normal "above 5 %" => d.swing(|dt, _, b| b / dt);
    "disk.mix_spread" "ratio" "how far the samples' shares of reads among the requests are apart, halved", "(max - min) / 2 of Δreads / Δ(reads + writes) over samples", "/proc/diskstats", normal "near 0 where the same work is done all the time" => d.mix_spread();
    "disk.round_rate" "flag" "1 where the bytes a second are 1, 2 or 5 times a power of ten of MB or MiB, within 2 %: a configured limit, or chance", "|rate / limit - 1| < 0.02", "/proc/diskstats" => d.is_round_rate();
    "disk.round_size" "flag" "1 where the mean request is a power of two, within 3 %: a limit, not chance", "|log2(size) - round| < 0.04", "/proc/diskstats" => disk::REQUEST_SIZE.over(d.change).map(|s| (s.log2() - s.log2().round()).abs() < 0.04);
    "disk.sharers" "count" "devices on top of this one that had requests in flight", "leaves above with Δ(requests x time) / Δt > 0.2 and > 10 % of the largest", "/sys/block, /proc/diskstats", normal "1: one user at a time" => d.sharers as f64;
    "disk.chunk" "bytes" "bytes on one of the devices it is striped over before the next one follows", "chunk_size; the table of the device mapper", "/sys/block/md*/md; DM_TABLE_STATUS", normal "several times what is read at a time, where reads are random" => d.chunk;
    "disk.asked_size" "bytes" "mean size of a read that it is asked for, before it is cut at the ends of chunks", "mean read; where none is larger than a chunk, mean read call of the process that read most from it", "/sys/block, /proc/diskstats, /proc/PID/io", normal "below the chunk" => d.asked_size();
    "disk.members_taken" "count" "how many of the devices that it is striped over such a read takes", "asked for / mean read of the devices directly below x (1 - share of adjacent ones), at most as many as there are", "/sys/block, /proc/diskstats, /proc/PID/io; BPF: block_rq_issue" => d.members_taken();
    "disk.chunk_gain" "count" "how many times as many reads members without time left serve at most where hardly any read takes more than one of them", "disk.members_taken / 1.25", "/sys/block, /proc/diskstats, /proc/PID/io; BPF: block_rq_issue" => d.members_taken().map(|members| members / 1.25);
    "disk.depth_gain" "text" "how many times as many requests two in flight bring at most; absent where the ceiling that was measured leaves no room", "2, or disk.ceiling / disk.requests if that is less", "BPF: block_rq_issue, block_rq_complete" => d.depth_gain().as_deref();
    "disk.below_size" "bytes" "mean size of a read of the devices that it rests on", "Δbytes read / Δreads of the devices directly below", "/sys/block, /proc/diskstats", normal "what is read at a time" => d.beneath.read_size;
    "disk.below_busy" "ratio" "share of the time in which requests were in flight on the devices that it rests on, mean", "mean(Δbusy time / Δt) of the devices directly below", "/sys/block, /proc/diskstats" => d.beneath.busy;
    "disk.member" "flag" "1 where what it does is done for devices on top of it; a loop device or volume without I/O does not count", "Δbytes of the loop, dm and md devices above / Δbytes > 0.3; 1 where their bytes are unknown", "/sys/block, /proc/diskstats" => d.member;
    "disk.synced" "flag" "1 where an array on top of it is being checked or rebuilt", "sync_action of the arrays above", "/sys/block/md*/md" => d.synced;
    "disk.below" "text" "the devices it rests on", "slaves, backing files, partitions", "/sys/block" => d.below.as_str();
    "disk.call_size" "bytes" "mean size of the read calls of the process that read most from it", "Δrchar / Δsyscr", "/proc/PID/io", normal "smaller than the requests: the kernel chose the request size" => d.reader.and_then(IoUse::call_size);
    "disk.cache_wait" "ratio" "share of the samples in which the process that read most from it waited for the page cache to be read", "samples in state D with a wait channel of mm/filemap.c / samples", "/proc/PID/wchan", normal (near 0.02, "the next read is already in the page cache") => d.reader.and_then(IoUse::cache_wait);
    "disk.commands" "count" "SCSI commands completed in the window", "Δiodone_cnt", "/sys/block/*/device/iodone_cnt", normal "as many as requests, and a few of its own" => d.scsi.and_then(|scsi| scsi.grown(|s| s.completed));
    "disk.failed_commands" "count" "SCSI commands that the device failed or refused in the window; also those that ask for what it does not have", "Δioerr_cnt", "/sys/block/*/device/ioerr_cnt" => d.scsi.and_then(|scsi| scsi.grown(|s| s.failed));
    "disk.timeouts" "count" "SCSI commands that the device did not answer in time in the window", "Δiotmo_cnt", "/sys/block/*/device/iotmo_cnt", normal (near 0.0) => d.scsi.and_then(|scsi| scsi.grown(|s| s.timeouts));
    "disk.commands_in_flight" "count" "SCSI commands that were sent to the device and are not finished, mean: also those that wait for the error handler", "mean(device_busy)", "/sys/block/*/device/device_busy", normal "0 when it has no requests" => d.scsi.and_then(|scsi| scsi.mean(|s| s.in_flight));
    "disk.recovering" "ratio" "share of the samples in which the kernel's error handler was busy with its adapter", "samples in state recovery / samples", "/sys/class/scsi_host/*/state", normal (near 0.0, "no command waits for the error handler") => d.scsi.and_then(|scsi| scsi.mean(|s| s.recovering));
    "disk.command_failures" "1/s" "the same per second", "Δioerr_cnt / Δt", "/sys/block/*/device/ioerr_cnt" => d.scsi.and_then(|scsi| scsi.rate(|s| s.failed));
    "disk.failed_command_share" "ratio" "share of its SCSI commands that the device failed or refused", "Δioerr_cnt / Δiodone_cnt", "/sys/block/*/device" => d.scsi.and_then(|scsi| over(scsi.rate(|s| s.failed), scsi.rate(|s| s.completed)));
    "disk.smart" "text" "its name, if it is of a kind that answers SMART commands", "sd*, hd*, nvme*", "/proc/diskstats" => Some(d.change.key().to_string()).filter(|name| has_smart(name)).as_deref();
    "disk.driver" "text" "driver of the adapter", "device/driver", "/sys/block/*/queue", normal "virtio_blk, virtio_scsi or nvme" => d.queue.and_then(|q| q.driver.get());
    "disk.state" "text" "state of the SCSI device or NVMe controller", "device/state", "/sys/block/*/device/state", normal "running (SCSI) or live (NVMe)" => d.queue.and_then(|q| q.state.get());
    "disk.other_paths" "count" "if it is a path, the others to the same device that can carry its requests", "paths of the device in state active or available, beside this one", "/dev/mapper/control, /sys/block/nvme*" => d.other_paths as f64;
    "disk.transport" "text" "how the device is attached", "the class of its adapter", "/sys/block/*/device", normal "where to look: a network, a fabric or a slot" => d.queue.and_then(|q| q.transport.get());
    "disk.emulated" "flag" "1 if it is known to be an IDE or SATA disk that QEMU emulates", "model and driver", "/sys/block/*/queue" => d.queue.is_some_and(is_emulated);
    "disk.scheduler" "text" "I/O scheduler in force", "queue/scheduler", "/sys/block/*/queue" => d.queue.and_then(|q| q.scheduler.get());
    "disk.rotational" "flag" "1 for a spinning disk", "queue/rotational", "/sys/block/*/queue" => d.queue.and_then(|q| q.rotational.get());
    "disk.max_request" "bytes" "largest request the stack allows", "max_sectors_kb", "/sys/block/*/queue", normal "what the stack allows" => d.queue.and_then(|q| q.max_request.get());
    "disk.max_hw_request" "bytes" "largest request the device takes", "max_hw_sectors_kb", "/sys/block/*/queue" => d.queue.and_then(|q| q.max_hw_request.get());
    "disk.read_ahead" "bytes" "read-ahead", "read_ahead_kb", "/sys/block/*/queue", normal "some requests of the largest size" => d.queue.and_then(|q| q.read_ahead.get());
    "disk.write_cache" "text" "write back or write through", "queue/write_cache", "/sys/block/*/queue" => d.queue.and_then(|q| q.write_cache.get());
}

/// Returns every whole device; partitions are judged by the device they lie on.
pub fn entities(
    window: &Window,
    topology: &Topology,
    stall: Option<f64>,
    uses: &[IoUse<'_>],
    blocked: Option<&Blocked>,
) -> Vec<Entity> {
    let changes = window.changes::<Disk>();
    let queues = window.newest::<Queue>();
    let scsi_disks = window.changes::<ScsiDisk>();
    let all_requests = window.changes::<Request>();
    let levels = window.changes::<Throughput>();
    let responses = window.changes::<Response>();
    let chunks = chunks(window);
    let paths = window.newest::<Path>();
    let synced = volume::synced(window, topology);
    let in_flight: BTreeMap<&Name, f64> =
        changes.iter().filter_map(|c| Some((c.key(), disk::QUEUE.over(c)?))).collect();
    let moved: BTreeMap<&Name, f64> = changes.iter().filter_map(|c| Some((c.key(), disk::RATE.over(c)?))).collect();
    let lowest = || changes.iter().filter(|c| !topology.is_partition(c.key()) && topology.under(c.key()).is_empty());
    let waits = Waits::from_disks(lowest());
    let loads: Vec<(Load, &Name)> = lowest().filter_map(|c| Some((Load::from_change(c)?, c.key()))).collect();
    changes
        .iter()
        .filter(|c| !topology.is_partition(c.key()))
        .map(|change| {
            let name = change.key();
            let requests: Vec<_> = all_requests.iter().filter(|r| r.key().device == *name).collect();
            let classes = || responses.iter().filter(|r| r.key().on.device == *name);
            let queues_above: Vec<f64> =
                topology.leaves_over(name).filter_map(|leaf| in_flight.get(&leaf).copied()).collect();
            let longest = queues_above.iter().copied().fold(0.0, f64::max);
            let sharers = queues_above.iter().filter(|q| **q > SHARER_QUEUE.max(LEAST_SHARE * longest)).count();
            let below: Vec<String> = topology.under(name).iter().map(|n| format!(" {n} ")).collect();
            let disk = DiskUse {
                change,
                queue: queues.get(name).copied(),
                scsi: scsi_disks.iter().find(|scsi| scsi.key() == name),
                stall,
                users: blocked.and_then(|blocked| Users::from_device(name, topology, uses, blocked)),
                reader: largest_reader(name, uses),
                size_slope: read_times(&requests).and_then(|times| SizeSlope::from_classes(classes(), &times)),
                requests,
                curve: Curve::from_levels(levels.iter().filter(|level| level.key().device == *name)),
                alone_time: alone_time(classes()),
                sharers,
                other_paths: other_paths(name, &paths),
                below: below.concat(),
                beneath: Beneath::from_name(name, topology, &changes, &all_requests),
                chunk: chunks.get(name).copied(),
                member: is_member(name, topology, &moved),
                synced: synced.contains(name),
                peers_wait: waits.of_peers(name),
                alike: waits_of_others(name, &loads, |own, other, _| own.is_same(other) || own.is_at_most(other)),
                better: waits_of_others(name, &loads, |own, other, disk| {
                    own.is_bettered_by(other) && is_named_alike(name, disk)
                }),
            };
            Entity::from_subject(Subject::new("device", name.to_string()), &disk)
        })
        .collect()
}

/// Returns the device time of reads, in nanoseconds.
fn read_times(requests: &[&Change<'_, Request>]) -> Option<Histogram> {
    requests.iter().find(|r| &*r.key().operation == "read")?.histogram(|r| &r.device_time)
}

fn read_time(requests: &[&Change<'_, Request>]) -> Option<f64> {
    ratio(read_times(requests)?.mean())
}

/// Returns the share of a kind among the requests of these operations.
fn share<'r>(
    requests: impl Iterator<Item = &'r Change<'r, Request>> + Clone,
    operations: &[&str],
    of: fn(&Request) -> Counter,
) -> Option<f64> {
    let among = || requests.clone().filter(|r| operations.contains(&&*r.key().operation));
    let total = |f: fn(&Request) -> Counter| among().filter_map(|r| r.rate(f)).reduce(|a, b| a + b);
    over(total(of), total(|r| r.requests)).map(|share| share.min(1.0))
}

/// Activity of the devices that one rests on; all `None` for a device that rests on none.
#[derive(Default)]
struct Beneath {
    /// Number of devices directly below.
    members: Option<f64>,
    /// Mean size of a read of the devices directly below.
    read_size: Option<f64>,
    /// Mean number of requests in flight on all devices below whose requests BPF saw.
    queue: Option<f64>,
    /// Mean share of the time in which those were busy.
    busy: Option<f64>,
    /// Share of adjacent reads on all devices below whose requests were seen.
    sequential: Option<f64>,
}

impl Beneath {
    fn from_name(
        name: &Name,
        topology: &Topology,
        disks: &[Change<'_, Disk>],
        requests: &[Change<'_, Request>],
    ) -> Self {
        let direct = || disks.iter().filter(|disk| topology.below(name).any(|below| below == disk.key()));
        let all = topology.under(name);
        let count = direct().count();
        if count == 0 {
            return Self::default();
        }
        let total = |of: fn(&Disk) -> Counter| direct().map(|disk| disk.rate(of)).sum::<Option<f64>>();
        let makes_requests = |disk: &&Change<'_, Disk>| {
            let own = |r: &&Change<'_, Request>| r.key().device == *disk.key();
            all.contains(disk.key()) && requests.iter().filter(own).any(|r| r.rate(|r| r.requests) > Some(0.0))
        };
        Self {
            members: Some(count as f64),
            read_size: over(total(|d| d.read_bytes), total(|d| d.reads)),
            queue: ratio(disks.iter().filter(makes_requests).map(|disk| disk.rate(|d| d.weighted_time)).sum()),
            busy: ratio(total(|d| d.busy_time)).map(|busy| (busy / count as f64).min(1.0)),
            sequential: share(requests.iter().filter(|r| all.contains(&r.key().device)), &["read"], |r| r.sequential),
        }
    }
}

/// Returns the number of other usable paths to the device that this is a path to.
fn other_paths(name: &Name, paths: &BTreeMap<LinkKey, &Path>) -> usize {
    let carries = |path: &Path| path.state.get().is_some_and(|state| matches!(state, "active" | "available"));
    let to = paths.keys().find(|key| key.lower == *name).map(|key| &key.upper);
    paths.iter().filter(|(key, path)| Some(&key.upper) == to && key.lower != *name && carries(path)).count()
}

/// Returns the chunk sizes of the striped devices.
fn chunks(window: &Window) -> BTreeMap<Name, f64> {
    let arrays = window.newest::<Array>().into_iter().filter_map(|(name, array)| Some((name, array.chunk.get()?)));
    let mapped =
        window.newest::<MappedDevice>().into_iter().filter_map(|(name, mapped)| Some((name, mapped.chunk.get()?)));
    arrays.chain(mapped).filter(|(_, chunk)| *chunk > 0.0).collect()
}

/// Processes that use a device, or one that rests on it.
struct Users {
    /// Share of the time in which one of them was blocked.
    blocked: f64,
    persistence: Option<f64>,
    /// Mean number of their requests in flight, where those were seen.
    in_flight: Option<f64>,
    /// Bytes they moved, per second.
    bytes: f64,
    write: bool,
    /// Share of the time in which one of them was throttled because too much memory was dirty.
    held_back: f64,
}

impl Users {
    fn from_device(device: &Name, topology: &Topology, uses: &[IoUse<'_>], blocked: &Blocked) -> Option<Self> {
        let is_user = |u: &&IoUse<'_>| {
            !u.kernel() && (u.is_of(device) || u.device().is_some_and(|used| topology.rests_on(used, device)))
        };
        let users: Vec<&IoUse<'_>> = uses.iter().filter(is_user).collect();
        let pids: BTreeSet<u32> = users.iter().filter_map(|u| u.pid()).collect();
        (!pids.is_empty()).then(|| Self {
            blocked: blocked.share(&pids),
            persistence: blocked.persistence(&pids),
            in_flight: users.iter().filter_map(|u| u.in_flight()).reduce(|a, b| a + b),
            bytes: users.iter().filter_map(|u| u.storage()).sum(),
            write: users.iter().any(|u| u.writes()),
            held_back: held_back(&users, blocked),
        })
    }
}

/// Returns the share of the time in which one of these processes was throttled while it wrote.
fn held_back(users: &[&IoUse<'_>], blocked: &Blocked) -> f64 {
    let writers = || users.iter().filter(|u| u.writes());
    // Samples may have missed it.
    let longest = writers().filter_map(|u| u.held_back()).fold(0.0, f64::max);
    longest.max(blocked.dirty_wait_share(writers().filter_map(|u| u.pid())))
}

/// Returns true if the device works for those on top of it. Each of its bytes counts on the lowest of them, so that a volume and
/// a loop device on it do not count twice.
fn is_member(device: &Name, topology: &Topology, moved: &BTreeMap<&Name, f64>) -> bool {
    let carried = carried(topology, device);
    let through: Option<f64> = carried.iter().filter_map(|upper| moved.get(upper)).copied().reduce(|a, b| a + b);
    match (through, moved.get(device)) {
        (Some(through), Some(own)) => through > CARRIED * own,
        _ => !carried.is_empty(),
    }
}

/// Returns the lowest devices on top of this one, except its partitions.
fn carried(topology: &Topology, device: &str) -> BTreeSet<Name> {
    let all: BTreeSet<Name> = topology.over(device).into_iter().filter(|upper| !topology.is_partition(upper)).collect();
    all.iter().filter(|upper| topology.under(upper).is_disjoint(&all)).cloned().collect()
}

/// Returns the mean time of a request, where there were enough.
fn wait_of(change: &Change<'_, Disk>) -> Option<f64> {
    disk::TRANSFERS.over(change).filter(|n| *n > PEER_REQUESTS)?;
    disk::WAIT.over(change)
}

/// Waits of disks at the bottom of the stack, shortest first.
struct Waits<'w>(Vec<(f64, &'w Name)>);

impl<'w> Waits<'w> {
    fn from_disks(disks: impl Iterator<Item = &'w Change<'w, Disk>>) -> Self {
        let mut waits: Vec<_> = disks.filter_map(|c| Some((wait_of(c)?, c.key()))).collect();
        waits.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self(waits)
    }

    /// Returns the median of all waits but this disk's.
    fn of_peers(&self, name: &Name) -> Option<f64> {
        let own = self.0.iter().position(|(_, disk)| *disk == name);
        let middle = (self.0.len() - usize::from(own.is_some())) / 2;
        let skipped = usize::from(own.is_some_and(|own| own <= middle));
        self.0.get(middle + skipped).map(|(wait, _)| *wait)
    }
}

/// Returns true if two rates or sizes count as the same load.
fn near(a: f64, b: f64) -> bool {
    a <= b * SAME_LOAD && b <= a * SAME_LOAD
}

/// Load of a disk, and how long its requests took.
struct Load {
    requests: f64,
    size: f64,
    reads: f64,
    writes: f64,
    write_size: f64,
    wait: f64,
    busy: Option<f64>,
}

impl Load {
    fn from_change(change: &Change<'_, Disk>) -> Option<Self> {
        let requests = disk::TRANSFERS.over(change).filter(|n| *n > PEER_REQUESTS)?;
        let (reads, writes) = (disk::READS.over(change)?, disk::WRITES.over(change)?);
        Some(Self {
            requests,
            size: disk::RATE.over(change)? / requests,
            reads,
            writes,
            write_size: disk::WRITE_SIZE.over(change).unwrap_or(0.0),
            wait: wait_of(change)?,
            busy: disk::BUSY.over(change),
        })
    }

    fn read_share(&self) -> f64 {
        self.reads / self.requests
    }

    fn is_same(&self, other: &Self) -> bool {
        near(self.requests, other.requests)
            && near(self.size, other.size)
            && (self.read_share() - other.read_share()).abs() <= SAME_READ_SHARE
    }

    /// Returns true if the other disk does at least as many requests of this size, and is far less busy.
    fn is_bettered_by(&self, other: &Self) -> bool {
        let is_less_busy = self.busy.zip(other.busy).is_some_and(|(own, other)| other < 0.6 * own);
        other.requests >= self.requests && near(self.size, other.size) && is_less_busy
    }

    /// Returns true if the other disk has the same writes and at least as many reads: a mirror reads less from a slow member.
    fn is_at_most(&self, other: &Self) -> bool {
        self.writes > PEER_REQUESTS
            && near(self.writes, other.writes)
            && near(self.write_size, other.write_size)
            && self.reads <= other.reads
    }
}

/// Returns half of the range of the values; `None` if there are fewer than three.
fn half_range(values: &[f64]) -> Option<f64> {
    let (most, least) = (values.iter().copied().reduce(f64::max)?, values.iter().copied().reduce(f64::min)?);
    (values.len() >= 3).then(|| (most - least) / 2.0)
}

/// Returns the middle of sorted values.
fn middle(sorted: &[f64]) -> Option<f64> {
    sorted.get(sorted.len() / 2).copied()
}

/// Returns the waits of the other disks that compare so with this one, shortest first.
fn waits_of_others(name: &Name, loads: &[(Load, &Name)], compares: impl Fn(&Load, &Load, &Name) -> bool) -> Vec<f64> {
    let Some((own, _)) = loads.iter().find(|(_, disk)| *disk == name) else { return Vec::new() };
    let others = loads.iter().filter(|(load, disk)| *disk != name && compares(own, load, disk));
    let mut waits: Vec<f64> = others.map(|(load, _)| load.wait).collect();
    waits.sort_by(f64::total_cmp);
    waits
}

/// Returns true if both names begin with the same two letters, such as `sd` or `nv`: most disks with the same prefix are of one
/// kind.
fn is_named_alike(a: &Name, b: &Name) -> bool {
    a.get(..2) == b.get(..2)
}

/// Returns the process that read most from a device, among those whose device is known.
fn largest_reader<'u>(device: &Name, uses: &'u [IoUse<'u>]) -> Option<&'u IoUse<'u>> {
    let rate = |u: &IoUse<'_>| u.read_rate().unwrap_or(0.0);
    uses.iter().filter(|u| u.is_of(device)).max_by(|a, b| rate(a).total_cmp(&rate(b)))
}
