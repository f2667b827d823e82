//! Tests on the live kernel: a known load on a loop device, compared with /proc/diskstats.

use super::*;
use crate::block::diskstats;
use crate::testing::{LoopDevice, has_bpf, wait_until};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use whyslow_model::catalogue::Disk;

const BLOCK: usize = 4096;
const READS: u64 = 500;
const WRITES: u64 = 200;
const FLUSHES: u64 = 20;

/// A block that O_DIRECT accepts.
#[repr(align(4096))]
struct Aligned([u8; BLOCK]);

/// Returns `None` and skips the test without BPF or loop devices.
fn tracer_and_device() -> Option<(BlockTracer, LoopDevice)> {
    let device = if has_bpf() { LoopDevice::new("/tmp", 64 << 20)? } else { return None };
    Some((BlockTracer::load(&Root::live()).unwrap(), device))
}

/// Takes a sample, and samples every request from then on, however busy the machine is.
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

/// Returns the row of an operation; an empty row if there is none yet.
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

/// Returns requests and bytes of our process, over all cgroups.
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
    for (counted, all) in [
        (grown(reads.requests, reads_then.requests), grown(stats.reads, then.reads)),
        (grown(writes.requests, writes_then.requests), grown(stats.writes, then.writes)),
        (grown(flushes.requests, flushes_then.requests), grown(stats.flushes, then.flushes)),
    ] {
        assert!(are_nearly_all(counted, all), "{counted} of {all}");
    }
    assert_eq!(grown(reads.bytes, reads_then.bytes), grown(reads.requests, reads_then.requests) * BLOCK as u64);
    assert!(grown(writes.bytes, writes_then.bytes) <= grown(stats.write_bytes, then.write_bytes));
    assert!(grown(stats.reads, then.reads) >= READS && grown(stats.flushes, then.flushes) >= FLUSHES);

    assert!(are_nearly_all(grown(reads.sequential, reads_then.sequential), READS));
    assert!(grown(writes.sequential, writes_then.sequential) < WRITES / 10);
    let sizes = reads.size.since(&reads_then.size).unwrap();
    assert!((sizes.quantile(0.5).unwrap() / BLOCK as f64 - 1.0).abs() < 0.02, "{sizes:?}");
    let device_time = reads.device_time.since(&reads_then.device_time).unwrap();
    assert!(device_time.quantile(0.5).unwrap() > 1000.0 && device_time.quantile(0.5).unwrap() < 1e9, "{device_time:?}");
    assert_eq!(device_time.count(), reads.queue_time.since(&reads_then.queue_time).unwrap().count());

    let (reads_of_ours, bytes_of_ours) = ours(&after, &name, "read");
    assert!(are_nearly_all(reads_of_ours, READS), "{reads_of_ours} of {READS}");
    assert_eq!(bytes_of_ours, reads_of_ours * BLOCK as u64);
}

/// Whether all were counted except for events that the kernel drops while programs are being attached.
fn are_nearly_all(counted: u64, all: u64) -> bool {
    counted <= all && all - counted <= 3 + all * 3 / 100
}

/// After a burst every request is counted again.
#[test]
fn at_high_rates_the_requests_of_a_span_stand_for_all() {
    // Long enough to get over a moment in which another test occupies the CPU.
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
    assert!(are_nearly_all(seen, made), "{seen} of {made}");
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

/// Sums requests, their time in the device and their bytes over the classes of a level or of all levels.
fn responses(s: &Snapshot, name: &str, depth: Option<u32>) -> [u64; 3] {
    let of =
        s.block.response.iter().filter(|r| *r.class.on.device == *name && depth.is_none_or(|d| d == r.class.depth));
    let count = |counter: Counter| counter.get().unwrap();
    of.fold([0; 3], |[n, ns, bytes], r| [n + count(r.requests), ns + count(r.device_time), bytes + count(r.bytes)])
}

/// Returns busy time, requests in flight x time, requests and bytes of each level.
fn levels(s: &Snapshot, name: &str) -> [[u64; 4]; LEVELS.len()] {
    LEVELS.map(|depth| {
        let row = s.block.throughput.iter().find(|t| *t.level.device == *name && t.level.depth == depth);
        let count = |of: fn(&Throughput) -> Counter| row.map_or(0, |row| of(row).get().unwrap());
        [count(|t| t.busy_time), count(|t| t.in_flight_time), count(|t| t.requests), count(|t| t.bytes)]
    })
}

fn difference<const N: usize>(after: [u64; N], before: [u64; N]) -> [u64; N] {
    std::array::from_fn(|i| after[i] - before[i])
}

/// Returns the increase of each level's counters between two samples.
fn levels_between(before: &Snapshot, after: &Snapshot, name: &str) -> [[u64; 4]; LEVELS.len()] {
    let (before, after) = (levels(before, name), levels(after, name));
    std::array::from_fn(|i| difference(after[i], before[i]))
}

/// Returns the number of requests that are in flight according to the programs.
fn in_flight(tracer: &BlockTracer, device: &LoopDevice) -> u64 {
    let slots = tracer.object.element::<SlotTable>("slots", 0).unwrap();
    let whole = slots.taken().find(|slot| {
        let name = device::by_number(&Root::live(), &slot.number);
        slot.counts == Counted::Whole && name.is_some_and(|name| name == device.name())
    });
    tracer.object.element::<DepthCounters>("depths", whole.unwrap().index).unwrap().in_flight
}

/// Reads one block at a time while `go_on` returns true.
fn read_while(device: &LoopDevice, number: u64, go_on: impl Fn() -> bool) {
    let (file, mut block) = (device.open_direct(), Aligned([0; BLOCK]));
    while go_on() {
        // Far from the other readers' blocks, because adjacent requests could be merged.
        file.read_exact_at(&mut block.0, number * 1000 * BLOCK as u64).unwrap();
    }
}

/// Reads with several readers, each of which waits for its request, while `meanwhile` runs.
fn read_side_by_side(device: &LoopDevice, readers: u64, meanwhile: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..readers {
            let go_on = || !stop.load(Ordering::Relaxed);
            scope.spawn(move || read_while(device, number, go_on));
        }
        meanwhile();
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_reader_that_waits_for_each_request_is_all_of_the_first_level() {
    let Some((mut source, device)) = tracer_and_device() else { return };
    let name = device.name();
    let start = Instant::now();
    let before = sample(&mut source, &device);
    read_while(&device, 0, || start.elapsed() < Duration::from_millis(2500));
    let after = sample(&mut source, &device);
    let watched = start.elapsed().as_nanos();

    let [first, deeper @ ..] = levels_between(&before, &after, name);
    let [busy, in_flight_time, requests, bytes] = first;
    let reads = grown(disk(&after, name).reads, disk(&before, name).reads);
    // Excludes a request that began unseen and the time between reads.
    assert!(requests > 0 && requests <= reads, "{requests} of {reads}");
    assert!(u128::from(busy) < watched, "{busy} of {watched}");
    assert_eq!(deeper, [[0; 4]; LEVELS.len() - 1]);
    assert_eq!((in_flight_time, bytes), (busy, requests * BLOCK as u64));

    let between = |depth| difference(responses(&after, name, depth), responses(&before, name, depth));
    let ([known, device_time, bytes], [of_any_depth, ..]) = (between(Some(1)), between(None));
    assert_eq!(bytes, known * BLOCK as u64);
    // After a missed completion event, some requests appear to be in flight together.
    assert!(near(known, of_any_depth) && near(known, requests), "{requests}, {known} of {of_any_depth}");
    // The same time, from issue to completion, was measured for each request and between all events.
    assert!(near(device_time / known, busy / requests), "{device_time} for {known}, {busy} for {requests}");
}

/// Whether two values differ by at most three percent.
fn near(a: u64, b: u64) -> bool {
    a.abs_diff(b) * 100 <= 3 * a.max(b)
}

#[test]
fn a_request_alone_on_the_device_has_depth_one_even_if_not_every_request_is_sampled() {
    let Some((mut source, device)) = tracer_and_device() else { return };
    let (before, after) = read_thinned_out(&mut source, &device);
    let known = grown(after.depth_requests, before.depth_requests);
    assert!(known > 0 && known <= grown(after.requests, before.requests));
    let depth = grown(after.depth, before.depth);
    assert!(near(depth, known), "{depth} for {known}");
}

#[test]
fn of_200_000_requests_none_stays_in_flight() {
    const READERS: u64 = 8;
    let Some((mut source, device)) = tracer_and_device() else { return };
    let name = device.name();
    let before = sample(&mut source, &device);
    let reads = || grown(disk_now(name).reads, disk(&before, name).reads);
    let start = Instant::now();
    // The depth is known only after a second.
    let enough = || reads() >= 200_000 && start.elapsed() > Duration::from_secs(4);
    read_side_by_side(&device, READERS, || wait_until("200,000 blocks are read", enough));
    let after = sample(&mut source, &device);

    assert_eq!(in_flight(&source, &device), 0);
    let counted = grown(request(&after, name, "read").requests, request(&before, name, "read").requests);
    assert!(counted <= reads() && near(counted, reads()), "{counted} of {}", reads());
    let between = levels_between(&before, &after, name);
    assert_eq!(between[4..], [[0; 4]; LEVELS.len() - 4], "more than there are readers");
    let [_, in_flight_time, requests, bytes] = total(&between);
    assert!(requests > counted / 2, "{requests} of {counted}");
    // A request that completes just as a slice ends can be counted in one slice and its bytes in the next.
    assert!(near(bytes, requests * BLOCK as u64), "{bytes} bytes of {requests}");
    // Little's law: the number of requests in flight is their arrival rate times the time that each takes.
    let [known, device_time, _] = difference(responses(&after, name, None), responses(&before, name, None));
    assert!(
        near(in_flight_time / requests, device_time / known),
        "{in_flight_time} for {requests}, {device_time} for {known}"
    );
}

#[test]
fn completions_that_were_missed_do_not_stay_in_flight_and_count_for_no_level() {
    let Some((mut source, device)) = tracer_and_device() else { return };
    let name = device.name();
    let start = sample(&mut source, &device);
    read_side_by_side(&device, 4, || {
        thread::sleep(Duration::from_millis(1500));
        source.sampler.miss_completions(|| thread::sleep(Duration::from_millis(50)));
        thread::sleep(Duration::from_millis(500));
    });
    let side_by_side = sample(&mut source, &device);
    source.sampler.miss_completions(|| read_side_by_side(&device, 4, || thread::sleep(Duration::from_millis(50))));
    assert!(in_flight(&source, &device) > 0);
    // Attached again at the last sample, the programs do not know at first how many requests are in flight.
    let end = Instant::now() + Duration::from_millis(1500);
    read_while(&device, 0, || Instant::now() < end);
    let alone = sample(&mut source, &device);

    assert_eq!(in_flight(&source, &device), 0);
    let first = levels_between(&start, &side_by_side, name);
    assert!(total(&first)[2] > 0);
    assert_eq!(first[3..], [[0; 4]; LEVELS.len() - 3], "more than there are readers");
    let [one, deeper @ ..] = levels_between(&side_by_side, &alone, name);
    assert!(one[2] > 0);
    assert_eq!(deeper, [[0; 4]; LEVELS.len() - 1]);
}

fn total(levels: &[[u64; 4]]) -> [u64; 4] {
    levels.iter().fold([0; 4], |sum, level| std::array::from_fn(|i| sum[i] + level[i]))
}

fn disk_now(name: &str) -> Disk {
    let mut s = Snapshot::default();
    diskstats::read(&Root::live(), &mut s).unwrap();
    disk(&s, name)
}
