//! On the live kernel: a known load on a loop device, compared with /proc/diskstats.

use super::*;
use crate::block::diskstats;
use crate::testing::{LoopDevice, has_bpf, wait_until};
use std::os::unix::fs::FileExt;
use std::time::Duration;
use whyslow_model::catalogue::Disk;

const BLOCK: usize = 4096;
const READS: u64 = 500;
const WRITES: u64 = 200;
const FLUSHES: u64 = 20;

/// A block that O_DIRECT accepts.
#[repr(align(4096))]
struct Aligned([u8; BLOCK]);

/// `None`, with the test skipped, without BPF or loop devices.
fn tracer_and_device() -> Option<(BlockTracer, LoopDevice)> {
    let device = if has_bpf() { LoopDevice::new("/tmp", 64 << 20)? } else { return None };
    Some((BlockTracer::load(&Root::live()).unwrap(), device))
}

/// Samples, and has every request sampled from then on, however busy the machine is.
fn sample(source: &mut BlockTracer, device: &LoopDevice) -> Snapshot {
    let mut s = Snapshot::default();
    // The process may continue before diskstats has counted its last request.
    wait_until("no request is in flight", || {
        let inflight = std::fs::read_to_string(format!("/sys/block/{}/inflight", device.name())).unwrap();
        inflight.split_ascii_whitespace().all(|count| count == "0")
    });
    source.read(&Root::live(), &mut s).unwrap();
    sample_all(source);
    diskstats::read(&Root::live(), &mut s).unwrap();
    s
}

fn sample_all(tracer: &mut BlockTracer) {
    wait_until("the span has ended", || tracer.sampler.sample_all());
}

fn disk(s: &Snapshot, name: &str) -> Disk {
    s.block.disk.iter().find(|d| &*d.device == name).unwrap().clone()
}

/// The row of an operation; an empty row if there is none yet.
fn request(s: &Snapshot, name: &str, operation: &str) -> Request {
    let row = s.block.request.iter().find(|r| &*r.operation.device == name && &*r.operation.operation == operation);
    let nothing = || Histogram::from_counts([]);
    row.cloned().unwrap_or_else(|| Request {
        requests: 0.into(),
        bytes: 0.into(),
        sequential: 0.into(),
        depth_requests: 0.into(),
        depth: 0.into(),
        depth_squared: 0.into(),
        queue_time: nothing(),
        device_time: nothing(),
        size: nothing(),
        ..Request::default()
    })
}

fn grown(after: Counter, before: Counter) -> u64 {
    after.get().unwrap() - before.get().unwrap()
}

/// Requests and bytes of our process, over all cgroups.
fn ours(s: &Snapshot, name: &str, operation: &str) -> (u64, u64) {
    let mine = |r: &&Requester| {
        (&*r.user.on.device, &*r.user.on.operation, r.user.task.pid) == (name, operation, std::process::id())
    };
    s.block
        .requester
        .iter()
        .filter(mine)
        .fold((0, 0), |(requests, bytes), r| (requests + r.requests.get().unwrap(), bytes + r.bytes.get().unwrap()))
}

#[test]
fn requests_are_counted_as_in_diskstats_timed_and_attributed_to_us() {
    let Some((mut source, device)) = tracer_and_device() else { return };
    let name = device.name().to_owned();
    sample(&mut source, &device);
    let file = device.open_direct();
    let before = sample(&mut source, &device);
    let mut block = Aligned([7; BLOCK]);
    for n in 0..READS {
        file.read_exact_at(&mut block.0, n * BLOCK as u64).unwrap();
    }
    for n in 0..WRITES {
        // Every second block, backwards: not sequential, not mergeable.
        file.write_all_at(&block.0, (8000 - 2 * n) * BLOCK as u64).unwrap();
        if n % (WRITES / FLUSHES) == 0 {
            file.sync_all().unwrap();
        }
    }
    let after = sample(&mut source, &device);

    let (stats, then) = (disk(&after, &name), disk(&before, &name));
    let step = |operation| (request(&after, &name, operation), request(&before, &name, operation));
    let ((reads, reads_then), (writes, writes_then), (flushes, flushes_then)) =
        (step("read"), step("write"), step("flush"));
    assert_eq!(grown(reads.requests, reads_then.requests), grown(stats.reads, then.reads));
    assert_eq!(grown(reads.bytes, reads_then.bytes), grown(stats.read_bytes, then.read_bytes));
    assert_eq!(grown(writes.requests, writes_then.requests), grown(stats.writes, then.writes));
    assert_eq!(grown(writes.bytes, writes_then.bytes), grown(stats.write_bytes, then.write_bytes));
    assert_eq!(grown(flushes.requests, flushes_then.requests), grown(stats.flushes, then.flushes));
    assert!(grown(stats.reads, then.reads) >= READS && grown(stats.flushes, then.flushes) >= FLUSHES);

    assert!(grown(reads.sequential, reads_then.sequential) >= READS - 1);
    assert!(grown(writes.sequential, writes_then.sequential) < WRITES / 10);
    let sizes = reads.size.since(&reads_then.size).unwrap();
    assert!((sizes.quantile(0.5).unwrap() / BLOCK as f64 - 1.0).abs() < 0.02, "{sizes:?}");
    let device_time = reads.device_time.since(&reads_then.device_time).unwrap();
    assert!(device_time.quantile(0.5).unwrap() > 1000.0 && device_time.quantile(0.5).unwrap() < 1e9, "{device_time:?}");
    assert_eq!(device_time.count(), reads.queue_time.since(&reads_then.queue_time).unwrap().count());

    let (reads_of_ours, bytes_of_ours) = ours(&after, &name, "read");
    assert_eq!((reads_of_ours, bytes_of_ours), (READS, READS * BLOCK as u64));
}

/// After a burst every request is counted again.
#[test]
fn at_high_rates_the_requests_of_a_span_stand_for_all() {
    // Long enough to get over a moment in which another test has the CPU.
    const BETWEEN: Duration = Duration::from_millis(2400);
    const PACE: Duration = Duration::from_micros(250);
    let Some((mut source, device)) = tracer_and_device() else { return };
    let name = device.name().to_owned();
    let before = sample(&mut source, &device);
    source.sampler.adapt(20_001.0, BETWEEN).unwrap();
    let file = device.open_direct();
    let mut block = Aligned([0; BLOCK]);
    let mut read = |go_on: &mut dyn FnMut() -> bool| {
        while go_on() {
            file.read_exact_at(&mut block.0, 0).unwrap();
        }
    };
    let (start, mut last) = (Instant::now(), Instant::now());
    // A steady rate, without catching up: a span must see the same rate as the rest.
    read(&mut || {
        while last.elapsed() < PACE {
            std::thread::yield_now();
        }
        last = Instant::now();
        start.elapsed() < BETWEEN
    });
    let burst = sample(&mut source, &device);
    let reads = |after: &Snapshot, before: &Snapshot| {
        let seen = grown(request(after, &name, "read").requests, request(before, &name, "read").requests);
        (seen, grown(disk(after, &name).reads, disk(before, &name).reads))
    };
    let (seen, made) = reads(&burst, &before);
    let ratio = seen as f64 / made as f64;
    assert!((0.2..5.0).contains(&ratio), "{seen} seen of {made}");

    let mut left = READS;
    read(&mut || {
        left -= 1;
        left > 0
    });
    let (seen, made) = reads(&sample(&mut source, &device), &burst);
    assert_eq!(seen, made);
}

/// Reads for a while, one request at a time, while only one in four moments is sampled; returns the counters before and after.
fn read_thinned_out(source: &mut BlockTracer, device: &LoopDevice) -> (Request, Request) {
    let file = device.open_direct();
    let before = sample(source, device);
    source.sampler.sample_one_in(4);
    let mut block = Aligned([0; BLOCK]);
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(2500) {
        file.read_exact_at(&mut block.0, 0).unwrap();
    }
    let after = sample(source, device);
    (request(&before, device.name(), "read"), request(&after, device.name(), "read"))
}

#[test]
fn histograms_weigh_each_request_as_the_counters_do() {
    let Some((mut source, device)) = tracer_and_device() else { return };
    let (before, after) = read_thinned_out(&mut source, &device);
    let counted = grown(after.requests, before.requests);
    assert!(counted > 0 && counted.is_multiple_of(4), "{counted}");
    let histograms: [fn(&Request) -> &Histogram; 3] = [|r| &r.size, |r| &r.queue_time, |r| &r.device_time];
    for of in histograms {
        assert_eq!(of(&after).since(of(&before)).unwrap().count(), Some(counted));
    }
}

/// Requests of a level, their time in the device and their bytes, over all classes.
fn responses(s: &Snapshot, name: &str, depth: Option<u32>) -> (u64, u64, u64) {
    let of =
        s.block.response.iter().filter(|r| *r.class.on.device == *name && depth.is_none_or(|d| d == r.class.depth));
    let count = |counter: Counter| counter.get().unwrap();
    of.fold((0, 0, 0), |(n, ns, bytes), r| (n + count(r.requests), ns + count(r.device_time), bytes + count(r.bytes)))
}

#[test]
fn a_reader_that_waits_for_each_request_is_all_of_the_first_level() {
    if tracer_and_device().is_none() {
        return;
    }
    let mut block = Aligned([0; BLOCK]);
    // An event can interrupt the program that handles another, and a completion that is missed stays in flight for good: one reading in
    // a few, each with a tracer of its own, has to be exact.
    wait_until("one request at a time is seen as that", || {
        let (mut source, device) = tracer_and_device().expect("a tracer has just been loaded");
        let name = device.name().to_owned();
        let file = device.open_direct();
        let start = Instant::now();
        let before = sample(&mut source, &device);
        while start.elapsed() < Duration::from_millis(2500) {
            file.read_exact_at(&mut block.0, 0).unwrap();
            // The fewer events, the fewer interrupt one another.
            std::thread::sleep(Duration::from_millis(2));
        }
        let after = sample(&mut source, &device);
        let watched = start.elapsed().as_nanos();
        let level = |s: &Snapshot, at: u32| {
            let found = s.block.throughput.iter().find(|t| *t.level.device == *name && t.level.depth == at);
            found.cloned().unwrap_or_else(|| Throughput {
                busy_time: 0.into(),
                in_flight_time: 0.into(),
                requests: 0.into(),
                bytes: 0.into(),
                ..Throughput::default()
            })
        };
        let (one, then) = (level(&after, 1), level(&before, 1));
        let requests = grown(one.requests, then.requests);
        let busy = grown(one.busy_time, then.busy_time);
        let reads = grown(disk(&after, &name).reads, disk(&before, &name).reads);
        // Not a request that began unseen, nor the moments between reads.
        assert!(requests > 0 && requests <= reads, "{requests} of {reads}");
        assert!(u128::from(busy) < watched, "{busy} of {watched}");
        let (alone, alone_then) = (responses(&after, &name, Some(1)), responses(&before, &name, Some(1)));
        let (all, all_then) = (responses(&after, &name, None), responses(&before, &name, None));
        let deeper = [2, 4, 8].map(|at| grown(level(&after, at).requests, level(&before, at).requests));
        let mean = |time: u64| time as f64 / requests as f64;
        deeper == [0, 0, 0]
            && grown(one.bytes, then.bytes) == requests * BLOCK as u64
            && grown(one.in_flight_time, then.in_flight_time) == busy
            && alone.0 - alone_then.0 == all.0 - all_then.0
            && alone.2 - alone_then.2 == (alone.0 - alone_then.0) * BLOCK as u64
            // A request can be in flight as the maps are read.
            && (alone.0 - alone_then.0).abs_diff(requests) <= 1
            // The same time, from issue to completion, was measured for each request and between all events.
            && (mean(alone.1 - alone_then.1) / mean(busy) - 1.0).abs() < 0.1
    });
}

#[test]
fn a_request_alone_on_the_device_has_depth_one_even_if_not_every_request_is_sampled() {
    let Some((mut source, device)) = tracer_and_device() else { return };
    // On a busy machine an event can interrupt the program that handles another, which the kernel then does not run: one reading
    // in a few has to be exact.
    wait_until("every request is known to be alone on the device", || {
        let (before, after) = read_thinned_out(&mut source, &device);
        let known = grown(after.depth_requests, before.depth_requests);
        assert!(known > 0 && known <= grown(after.requests, before.requests));
        grown(after.depth, before.depth) == known && grown(after.depth_squared, before.depth_squared) == known
    });
}
