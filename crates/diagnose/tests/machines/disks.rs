//! Disks under loads that look alike: saturated ones, and ones that could do more.

use crate::{RULES, SECOND, disk, found, key, machine, pressure, two_cpus, window};
use whyslow_diagnose::diagnose;
use whyslow_documents::diagnosis::{Confidence, Diagnosis, Finding, Gain, Origin, Reading, Verdict};
use whyslow_model::catalogue::*;
use whyslow_model::histogram::Histogram;
use whyslow_model::key::{DepthKey, LinkKey, MachineKey, OperationKey, RequesterKey, ResponseKey, TaskKey};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Counter, Name};

/// Reads per second, few enough to be listed one by one.
const RATE: u64 = 200;

/// A program of several threads that reads from a disk.
#[derive(Clone, Copy)]
struct Load {
    threads: u32,
    /// Whether each thread pauses for as long before it requests the next block, instead of requesting it at once.
    paced: bool,
    /// Maximum number of requests in the disk at once; all numbers up to it are equally frequent.
    depth: u64,
    /// Reads per second.
    rate: u64,
    /// Whether the disk serves them one after the other, or all at once.
    serial: bool,
    size: u64,
    sequential: bool,
    /// Requests in a hundred that were split off a larger one.
    splits: u64,
    /// Machine-wide pressure in per cent.
    pressure: u64,
}

const CLOSED: Load = Load {
    threads: 8,
    paced: false,
    depth: 8,
    rate: RATE,
    serial: true,
    size: 4096,
    sequential: false,
    splits: 0,
    pressure: 99,
};

impl Load {
    /// Returns the seconds that requests spend in the disk, per second: their mean number in flight.
    fn in_flight(self) -> f64 {
        (self.depth + 1) as f64 / 2.0
    }

    fn fill(self, t: u64, s: &mut Snapshot) {
        let waited: u64 = (t as f64 * SECOND as f64 * self.in_flight()) as u64;
        two_cpus(t, s, 5, 0);
        pressure(t, s, 0, 0, self.pressure);
        let disk = disk(t, "sda", self.rate, self.size, self.in_flight());
        s.block.disk.push(Disk { reads_merged: 0.into(), writes_merged: 0.into(), ..disk });
        let queue = Queue { max_request: (1280u64 << 10).into(), rotational: 0.0.into(), ..Queue::new("sda".into()) };
        s.block.queue.push(queue);
        s.block.request.push(self.requests(t));
        s.block.requester.push(Requester {
            command: "reader".into(),
            requests: (t * self.rate).into(),
            bytes: (t * self.rate * self.size).into(),
            queue_time: 0.into(),
            device_time: waited.into(),
            ..Requester::new(RequesterKey { on: on(), task: key(20), cgroup: Name::default() })
        });
        self.process(t, s);
    }

    fn requests(self, t: u64) -> Request {
        let count = t * self.rate;
        let wait = self.in_flight() / self.rate as f64 * 1e9;
        let depths: Vec<f64> = (1..=self.depth).map(|depth| depth as f64).collect();
        // With one at a time the time of a request is proportional to the number in flight.
        let time = |depth: f64| if self.serial { wait * depth / self.in_flight() } else { wait };
        let mean = |of: &dyn Fn(f64) -> f64| depths.iter().map(|d| of(*d)).sum::<f64>() / depths.len() as f64;
        let sum = |of: &dyn Fn(f64) -> f64| ((count as f64 * mean(of)) as u64).into();
        Request {
            requests: count.into(),
            bytes: (count * self.size).into(),
            queue_time: Histogram::from_values(vec![1000; count as usize]),
            device_time: Histogram::from_values(vec![wait as u64; count as usize]),
            size: Histogram::from_values(vec![self.size; count as usize]),
            sequential: (if self.sequential { count } else { 0 }).into(),
            read_ahead: 0.into(),
            forced: 0.into(),
            splits: (count * self.splits / 100).into(),
            depth_requests: count.into(),
            depth: sum(&|d| d),
            depth_squared: sum(&|d| d * d),
            depth_device_time: sum(&time),
            depth_x_device_time: sum(&|d| d * time(d) / 1e3),
            ..Request::new(on())
        }
    }

    fn process(self, t: u64, s: &mut Snapshot) {
        let asleep = |tid: u32| if self.paced && (t + u64::from(tid)).is_multiple_of(2) { "S" } else { "D" };
        s.task.process.push(Process::from(ProcessRow {
            command: "reader".into(),
            state: asleep(20).into(),
            user: (t * SECOND / 50).into(),
            system: 0.into(),
            run_delay: 0.into(),
            read_bytes: (t * self.rate * self.size).into(),
            write_bytes: 0.into(),
            threads: f64::from(self.threads).into(),
            kernel_thread: 0.0.into(),
            cgroup: "/db".into(),
            ..ProcessRow::new(key(20))
        }));
        if self.threads > 1 {
            let thread = |tid| Thread {
                state: asleep(tid).into(),
                user: (t * SECOND / 50 / u64::from(self.threads)).into(),
                system: 0.into(),
                run_delay: 0.into(),
                ..Thread::new(TaskKey { tid, ..key(20) })
            };
            s.task.thread.extend((20..20 + self.threads).map(thread));
        }
    }

    fn diagnosis(self) -> Diagnosis {
        machine(|t, s| self.fill(t, s))
    }
}

fn on() -> OperationKey {
    OperationKey { device: "sda".into(), operation: "read".into() }
}

#[track_caller]
fn accused(d: &Diagnosis, id: &str) -> Finding {
    found(d, id).unwrap_or_else(|| panic!("no {id} in {:?}", d.findings)).clone()
}

#[test]
fn a_paced_program_that_its_disk_keeps_up_with_is_well() {
    for size in [4096, 64 << 10] {
        let d = Load { paced: true, serial: false, size, ..CLOSED }.diagnosis();
        assert!(d.findings.is_empty(), "{:?}", d.findings);
    }
}

#[test]
fn a_disk_that_serves_in_parallel_is_not_saturated_though_all_its_users_wait() {
    let d = Load { serial: false, ..CLOSED }.diagnosis();
    assert!(found(&d, "disk.saturated").is_none() && found(&d, "disk.small_io").is_none(), "{:?}", d.findings);
    assert!(d.ruled_out.iter().any(|r| r.id == "disk.saturated@sda" && r.because.contains("in parallel")));
}

#[test]
fn a_disk_whose_requests_wait_for_each_other_is_saturated() {
    let d = Load { size: 64 << 10, ..CLOSED }.diagnosis();
    assert_eq!(accused(&d, "disk.saturated").confidence, Confidence::High);
    // Pacing does not help if there is more work than the disk can do.
    let d = Load { size: 64 << 10, paced: true, ..CLOSED }.diagnosis();
    assert_eq!(accused(&d, "disk.saturated").confidence, Confidence::High);
}

/// Returns the recommended scheduler for a disk that cannot keep up with random reads.
fn scheduler_for(rotational: f64, scheduler: &str, name: &str) -> Option<String> {
    let load = Load { size: 64 << 10, depth: 12, threads: 12, ..CLOSED };
    let d = machine(|t, s| {
        load.fill(t, s);
        let queue = &mut s.block.queue[0];
        (queue.rotational, queue.scheduler) = (rotational.into(), scheduler.into());
    });
    let finding = accused(&d, "disk.saturated");
    assert_eq!(finding.subject.name, name);
    finding.actions.iter().find_map(|action| action.set.get(&format!("disk.scheduler@{name}")).cloned())
}

#[test]
fn a_spinning_disk_whose_requests_nobody_orders_gets_a_scheduler() {
    assert_eq!(scheduler_for(1.0, "none", "sda").as_deref(), Some("mq-deadline"));
    for (rotational, scheduler) in [(1.0, "mq-deadline"), (1.0, "bfq"), (0.0, "none"), (0.0, "bfq")] {
        assert_eq!(scheduler_for(rotational, scheduler, "sda"), None, "{rotational} {scheduler}");
    }
}

#[test]
fn two_in_flight_is_few_and_not_a_full_queue() {
    let load = Load { threads: 2, depth: 2, size: 64 << 10, serial: false, ..CLOSED };
    let mut d = load.diagnosis();
    d.findings.retain(|f| f.explained_by.is_none());
    assert!(found(&d, "disk.saturated").is_none(), "{:?}", d.findings);
    let found = accused(&d, "disk.depth_one");
    assert_eq!(found.culprits[0].pid, Some(20));
}

/// Random reads of 4 KiB on a fast device, which four readers do not saturate: each waits for its own request.
#[test]
fn a_few_synchronous_readers_of_a_fast_disk_are_what_limits_it() {
    let load = Load { threads: 4, depth: 5, rate: 30_000, serial: false, pressure: 46, ..CLOSED };
    let d = load.diagnosis();
    let found = accused(&d, "disk.depth_one");
    assert_eq!((found.confidence, found.culprits[0].pid), (Confidence::Medium, Some(20)));
    assert!(
        found.summary.starts_with("sda has only 3 requests in flight at a time: reader (20) waits 100 µs for each"),
        "{}",
        found.summary
    );
    assert_eq!(d.verdict, Verdict::Bottleneck);
    // A disk that serves them one after the other could not do more with more of them.
    let d = Load { serial: true, ..load }.diagnosis();
    assert!(crate::found(&d, "disk.depth_one").is_none(), "{:?}", d.findings);
}

/// A queue too deep for a few synchronous readers, on a device that it does not saturate: nothing is found.
#[test]
fn a_disk_that_was_waited_for_is_not_healthy_though_nothing_was_found() {
    let load = Load { threads: 20, depth: 31, rate: 100_000, serial: false, pressure: 46, size: 64 << 10, ..CLOSED };
    let d = load.diagnosis();
    assert!(d.findings.is_empty(), "{:?}", d.findings);
    assert_eq!(d.verdict, Verdict::Undetermined);
    let open: Vec<_> = d.not_cleared.iter().map(|entry| (&*entry.id, &*entry.because)).collect();
    assert_eq!(
        open,
        [("disk", "tasks waited for I/O 46 % of the time, for one device 100 %; none was found saturated or slow")]
    );
    // Its users get all that they request if they pause between requests.
    let d = Load { paced: true, ..load }.diagnosis();
    assert_eq!((d.verdict, d.not_cleared.len()), (Verdict::Healthy, 0), "{:?}", d.not_cleared);
    let cleared = d.ruled_out.iter().find(|entry| entry.id == "disk").map(|entry| &*entry.because);
    let expected = "tasks waited for I/O 46 % of the time, with pauses between requests: the devices keep up";
    assert_eq!(cleared, Some(expected));
}

/// A program that copies alternately reads, computes and writes.
#[test]
fn a_fifth_of_the_time_waited_for_a_disk_is_healthy() {
    let load = Load { threads: 20, depth: 31, rate: 100_000, serial: false, pressure: 18, size: 64 << 10, ..CLOSED };
    let d = load.diagnosis();
    assert_eq!((d.verdict, d.not_cleared.len()), (Verdict::Healthy, 0), "{:?} {:?}", d.findings, d.not_cleared);
}

/// The waiting for a network or FUSE file system belongs to no device.
#[test]
fn waiting_for_io_that_no_device_shows_is_not_healthy() {
    let d = machine(|t, s| {
        two_cpus(t, s, 5, 0);
        pressure(t, s, 0, 0, 90);
        s.block.disk.push(Disk { busy_time: (t * SECOND / 100).into(), ..disk(t, "sda", 10, 4096, 0.01) });
    });
    assert_eq!(d.verdict, Verdict::Undetermined);
    assert!(d.not_cleared.iter().any(|entry| entry.because.contains("network or FUSE")), "{:?}", d.not_cleared);
    assert!(d.ruled_out.iter().all(|entry| entry.id != "disk"), "{:?}", d.ruled_out);
}

/// Diagnoses a partition, and a loop device on it that does this part of the disk's I/O, in per cent.
fn stacked(percent: u64) -> Diagnosis {
    let load = Load { threads: 1, depth: 1, rate: 5000, serial: false, ..CLOSED };
    machine(|t, s| {
        load.fill(t, s);
        for (upper, lower, kind) in [("sda1", "sda", "partition"), ("loop0", "sda1", "loop")] {
            let link = LinkKey { upper: upper.into(), lower: lower.into() };
            s.block.layer.push(Layer { kind: kind.into(), ..Layer::new(link) });
        }
        s.block.disk.push(disk(t, "sda1", load.rate, load.size, 1.0));
        s.block.disk.push(disk(t, "loop0", load.rate * percent / 100, load.size, 0.01));
    })
}

#[test]
fn a_disk_with_partitions_and_idle_volumes_is_judged_by_what_it_does_itself() {
    for idle in [0, 10] {
        let d = stacked(idle);
        assert!(d.findings.iter().any(|f| f.key() == "disk.depth_one@sda"), "{:?}", d.findings);
    }
    let d = stacked(100);
    assert!(d.findings.iter().all(|f| f.key() != "disk.depth_one@sda"), "{:?}", d.findings);
}

#[test]
fn larger_blocks_are_advised_only_where_requests_are_adjacent() {
    let advice = |sequential, id| {
        let d = Load { sequential, ..CLOSED }.diagnosis();
        assert_eq!(d.findings[0].id, id);
        let found = accused(&d, id);
        assert!(found.confidence == Confidence::High, "{id} {:?}", found.confidence);
        assert_eq!(found.actions.len(), 1, "{:?}", found.actions);
        (found.actions[0].text.clone(), d)
    };
    let (larger, _) = advice(true, "disk.small_io");
    assert!(larger.contains("larger blocks or buffers"), "{larger}");
    let (cache, d) = advice(false, "disk.saturated");
    assert!(cache.contains("in memory") && cache.contains("random"), "{cache}");
    assert!(found(&d, "disk.small_io").is_none(), "{:?}", d.findings);
    let random = d.ruled_out.iter().find(|r| r.id == "disk.small_io@sda");
    assert!(random.is_some_and(|r| r.because.contains("random")), "{:?}", d.ruled_out);
}

/// Returns the throughput of a disk with this many channels at these depths, between which the seconds alternate.
fn levels(t: u64, channels: u64, depths: [u32; 2]) -> Vec<Throughput> {
    let row = |depth: u32| {
        let (busy, requests) = (t * SECOND / 2, u64::from(depth).min(channels) * t * RATE / 2);
        Throughput {
            busy_time: busy.into(),
            in_flight_time: (busy * u64::from(depth)).into(),
            requests: requests.into(),
            bytes: (requests * 4096).into(),
            ..Throughput::new(DepthKey { device: "sda".into(), depth })
        }
    };
    depths.map(row).to_vec()
}

/// One channel of 5 ms serves 200 requests per second, whether two or eight are in flight.
#[test]
fn the_ceiling_of_a_saturated_disk_is_a_number() {
    let with = |channels| {
        machine(move |t, s| {
            Load { ..CLOSED }.fill(t, s);
            s.block.request.iter_mut().for_each(|r| r.depth_requests = Counter::default());
            s.block.throughput = levels(t, channels, [2, 8]);
        })
    };
    let d = with(1);
    let saturated = accused(&d, "disk.saturated");
    assert_eq!(saturated.confidence, Confidence::High, "throughput is flat");
    let number = |metric: &str| match saturated.evidence.iter().find(|e| e.metric == metric).map(|e| &e.value) {
        Some(Reading::Number(number)) => *number,
        other => panic!("{metric}: {other:?}"),
    };
    assert!((number("disk.ceiling") - 200.0).abs() < 0.01, "{}", number("disk.ceiling"));
    assert!((number("disk.ceiling_rate") - 200.0 * 4096.0).abs() < 1.0);
    assert!((number("disk.ceiling_depth") - 2.0).abs() < 0.01);
    assert!(saturated.summary.ends_with("It serves at most 200 requests/s."), "{}", saturated.summary);
    assert_eq!(d.response_curves.len(), 1);
    let curve: Vec<(f64, f64)> =
        d.response_curves[0].throughput.iter().map(|l| (l.in_flight, l.requests_per_second.round())).collect();
    assert_eq!(curve, [(2.0, 200.0), (8.0, 200.0)]);
    // Eight channels serve four times as many with eight in flight as with two.
    let d = with(8);
    assert!(found(&d, "disk.saturated").is_none(), "{:?}", d.findings);
    assert!(d.ruled_out.iter().any(|r| r.id == "disk.saturated@sda" && r.because.contains("in parallel")));
}

/// 5 ms for a request alone on the device, which took 1 ms when the baseline was recorded.
#[test]
fn a_disk_that_is_slower_than_its_baseline_with_nothing_else_in_flight_is_slow() {
    let with = |usual: f64, size: f64| {
        let window = window(|t, s| {
            Load { threads: 1, depth: 1, ..CLOSED }.fill(t, s);
            let class = ResponseKey { on: on(), size: 4096, access: "random".into(), depth: 1 };
            let (requests, device_time) = ((t * RATE).into(), (t * SECOND).into());
            s.block.response.push(Response { requests, device_time, ..Response::new(class) });
        });
        let usual = [("disk.alone_time", usual), ("disk.request_size", size), ("disk.read_share", 1.0)];
        let key = |metric: &str| ("device".to_owned(), "sda".to_owned(), metric.to_owned());
        let usual = usual.map(|(metric, value)| (key(metric), value));
        diagnose(&window.with_usual(usual.into()), Origin::Live, &RULES)
    };
    let d = with(0.001, 4096.0);
    let slow = &d.findings[0];
    assert_eq!((slow.id.as_str(), slow.subject.name.as_str()), ("disk.slow_device", "sda"));
    assert_eq!(slow.confidence, Confidence::Medium, "five times as slow, not more");
    assert!(slow.summary.contains("takes 5 ms") && slow.summary.contains("and 1 ms"), "{}", slow.summary);
    let gain = slow.actions[0].gain.as_ref().expect("a gain");
    assert!(
        (gain.factor - 5.0).abs() < 0.01 && (gain.low - 3.5).abs() < 0.01 && (gain.high.unwrap() - 6.5).abs() < 0.01
    );
    assert_eq!(slow.actions[0].expect.as_deref(), Some("requests 5.0 times as fast, 3.5 to 6.5"));
    assert!(found(&with(0.004, 4096.0), "disk.slow_device").is_none());
    assert!(found(&with(0.001, 65536.0), "disk.slow_device").is_none(), "other requests than in the baseline");
    let whole = machine(|t, s| Load { threads: 1, depth: 1, ..CLOSED }.fill(t, s));
    assert!(found(&whole, "disk.slow_device").is_none(), "no baseline");
}

/// Most tools do not show whether requests are adjacent.
#[test]
fn small_requests_whose_place_was_not_seen_are_only_a_suspicion() {
    let d = machine(|t, s| {
        Load { sequential: true, ..CLOSED }.fill(t, s);
        s.block.request.clear();
    });
    assert!(found(&d, "disk.small_io").is_none_or(|f| f.confidence == Confidence::Low), "{:?}", d.findings);
    assert_eq!(d.findings[0].id, "disk.saturated");
}

/// Larger blocks save the cost of each request; if that is no more than the cost of a system call, there is nothing to save.
#[test]
fn small_adjacent_requests_are_accused_only_where_each_takes_time() {
    let of = |rate| Load { threads: 1, depth: 1, sequential: true, rate, ..CLOSED }.diagnosis();
    assert!(found(&of(200), "disk.small_io").is_some(), "5 ms each");
    assert!(found(&of(50_000), "disk.small_io").is_none(), "20 µs each");
}

#[test]
fn only_what_was_cut_is_reported_as_split() {
    let of = |splits| Load { size: 64 << 10, sequential: true, splits, ..CLOSED }.diagnosis();
    assert!(found(&of(0), "disk.request_split").is_none(), "all of one round size, and as asked for");
    assert!(accused(&of(87), "disk.request_split").confidence > Confidence::Low);
}

/// One reader of large blocks that are split into eight pieces.
const SPLIT: Load = Load { threads: 1, size: 64 << 10, splits: 87, ..CLOSED };

#[test]
fn pieces_that_a_disk_serves_side_by_side_cost_nothing() {
    let d = Load { serial: false, ..SPLIT }.diagnosis();
    assert!(found(&d, "disk.request_split").is_none(), "{:?}", d.findings);
    let mut split = d.ruled_out.iter().filter(|r| r.id == "disk.request_split@sda");
    assert!(split.any(|r| r.because.contains("side by side")), "{:?}", d.ruled_out);
    // The remaining cause is a caller that waits for each of its requests.
    assert!(accused(&d, "disk.depth_one").confidence > Confidence::Low);
}

#[test]
fn pieces_that_wait_for_each_other_saturate_a_disk_that_takes_long_for_each() {
    // 64 KiB in 10 ms each; no disk needs more than 6.6 ms to transfer them.
    let d = Load { rate: 100, ..SPLIT }.diagnosis();
    let split = &d.findings[0];
    assert_eq!((&*split.id, split.confidence), ("disk.request_split", Confidence::High), "{:?}", d.findings);
    assert_eq!(accused(&d, "disk.saturated").explained_by, Some(split.key()));
    // In 5 ms a disk may have been transferring all the time, and larger requests would gain nothing.
    let d = SPLIT.diagnosis();
    assert_eq!(accused(&d, "disk.request_split").confidence, Confidence::Medium);
    assert_eq!(accused(&d, "disk.saturated").explained_by, None);
}

/// A program writes and flushes 30 MB twice within ten seconds, which takes the disk a second each time.
#[test]
fn bursts_are_found_wherever_they_fall_among_the_samples() {
    let of = |first: f64, second: f64| {
        machine(move |t, s| {
            let done: f64 = [first, second].iter().map(|start| (t as f64 - start).clamp(0.0, 1.0)).sum();
            let is_at_work = [first, second].iter().any(|start| (0.0..1.0).contains(&(t as f64 - start)));
            let ns = |seconds: f64| Counter::from((seconds * 1e9) as u64);
            two_cpus(t, s, 5, 0);
            s.processor.pressure.push(Pressure {
                cpu_some: 0.into(),
                memory_some: 0.into(),
                io_some: ns(done),
                ..Pressure::new(MachineKey)
            });
            s.block.disk.push(Disk {
                reads: 0.into(),
                read_bytes: 0.into(),
                read_time: 0.into(),
                writes: ((done * 120.0) as u64).into(),
                write_bytes: ((done * 30e6) as u64).into(),
                write_time: ns(done * 60.0),
                weighted_time: ns(done * 60.0),
                busy_time: ns(done),
                ..Disk::new("sda".into())
            });
            s.task.process.push(Process::from(ProcessRow {
                command: "writer".into(),
                state: (if is_at_work { "D" } else { "S" }).into(),
                user: (t * SECOND / 100).into(),
                system: 0.into(),
                read_bytes: 0.into(),
                write_bytes: ((done * 30e6) as u64).into(),
                kernel_thread: 0.0.into(),
                ..ProcessRow::new(key(20))
            }));
        })
    };
    for d in [of(1.5, 5.5), of(1.0, 5.0), of(2.2, 6.7)] {
        assert!(accused(&d, "disk.write_burst").confidence > Confidence::Low, "{:?}", d.findings);
        assert_eq!(d.verdict, Verdict::Bottleneck);
    }
}

/// Returns the advice if three quarters of a saturated disk's requests belong to one program, which reads directly or writes
/// through the page cache; the rest belong to another program, or there is no rest.
fn most_are_of_one(is_buffered: bool, has_other: bool) -> String {
    let load = Load { size: 64 << 10, ..CLOSED };
    let share = if has_other { 0.75 } else { 1.0 };
    let d = machine(|t, s| {
        load.fill(t, s);
        let time = |part: f64| ((t * SECOND) as f64 * load.in_flight() * part) as u64;
        let requester = |pid: u32, operation: &str, part: f64| Requester {
            command: "x".into(),
            requests: (t * RATE / 2).into(),
            bytes: (t * RATE / 2 * load.size).into(),
            queue_time: 0.into(),
            device_time: time(part).into(),
            ..Requester::new(RequesterKey {
                on: OperationKey { operation: operation.into(), ..on() },
                task: key(pid),
                cgroup: Name::default(),
            })
        };
        let mut kernel = ProcessRow { command: "kworker/u8:1".into(), state: "S".into(), ..ProcessRow::new(key(5)) };
        (kernel.user, kernel.system, kernel.kernel_thread) = (0.into(), 0.into(), 1.0.into());
        let mut other = ProcessRow { command: "other".into(), state: "D".into(), ..ProcessRow::new(key(30)) };
        (other.user, other.system, other.kernel_thread) = (0.into(), 0.into(), 0.0.into());
        (other.read_bytes, other.write_bytes) = ((t * RATE * 4096).into(), 0.into());
        s.task.process.extend([Process::from(kernel), Process::from(other)]);
        s.block.requester.clear();
        if is_buffered {
            s.task.process[0].write_bytes = (t * RATE * load.size).into();
            s.block.requester.push(requester(5, "write", share));
        } else {
            s.block.requester.push(requester(20, "read", share));
        }
        if has_other {
            s.block.requester.push(requester(30, "read", 1.0 - share));
        }
    });
    let saturated = accused(&d, "disk.saturated");
    assert_eq!(saturated.culprits[0].pid, Some(20), "{saturated:?}");
    saturated.actions[0].text.clone()
}

/// An I/O priority helps requests that wait behind the culprit, and does not affect what the kernel writes back for it.
#[test]
fn an_io_priority_is_advised_only_where_it_applies() {
    let text = most_are_of_one(false, true);
    assert!(text.starts_with("Lower the I/O priority of reader (20)"), "{text}");
    let text = most_are_of_one(true, true);
    assert!(text.starts_with("Limit the write bandwidth of the unit of reader (20)"), "{text}");
    let text = most_are_of_one(false, false);
    assert!(text.starts_with("Reduce what reader (20) reads and writes"), "{text}");
}

/// A stream has large requests; small writes that each wait for a flush are limited by the flushes, however fast these are.
#[test]
fn many_small_flushed_writes_are_no_stream_of_data() {
    let d = machine(|t, s| {
        pressure(t, s, 0, 0, 40);
        s.block.disk.push(Disk {
            reads: 0.into(),
            read_bytes: 0.into(),
            read_time: 0.into(),
            writes: (t * 5000).into(),
            write_bytes: (t * 5000 * 8192).into(),
            write_time: (t * SECOND * 30 / 100).into(),
            flushes: (t * 5000).into(),
            flush_time: (t * SECOND * 18 / 100).into(),
            weighted_time: (t * SECOND * 48 / 100).into(),
            busy_time: (t * SECOND * 48 / 100).into(),
            ..Disk::new("sda".into())
        });
    });
    assert!(accused(&d, "disk.flush_bound").confidence > Confidence::Low);
}

#[test]
fn who_is_blocked_all_the_time_is_so_beside_work_on_other_processors() {
    let impact = |pressure| {
        let d = Load { threads: 1, depth: 1, pressure, ..CLOSED }.diagnosis();
        accused(&d, "disk.depth_one").impact
    };
    assert!((impact(98) - 0.98).abs() < 0.01, "{}", impact(98));
    assert!((impact(45) - 0.98).abs() < 0.01, "{}", impact(45));
}

#[test]
fn nobody_waits_for_what_is_asked_for_in_the_background() {
    // Another disk causes the machine's pressure: this one's user never sleeps uninterruptibly.
    let d = machine(|t, s| {
        Load { threads: 1, depth: 1, ..CLOSED }.fill(t, s);
        let asynchronous = |row: &Process| ProcessRow { state: "S".into(), ..ProcessRow::clone(row) };
        s.task.process = s.task.process.iter().map(|row| Process::from(asynchronous(row))).collect();
    });
    assert!(found(&d, "disk.depth_one").is_none(), "{:?}", d.findings);
}

/// Diagnoses a process that waits in this kernel function all the time, and reads or writes.
fn held_back(place: &str, read: u64, written: u64) -> Diagnosis {
    machine(|t, s| {
        two_cpus(t, s, 2, 1);
        pressure(t, s, 0, 0, 95);
        s.block.disk.push(disk(t, "sda", 100, 16384, 0.2));
        let process = ProcessRow {
            command: "backup".into(),
            state: "D".into(),
            wait_channel: place.into(),
            threads: 1.into(),
            user: 0.into(),
            system: 0.into(),
            kernel_thread: 0.into(),
            read_bytes: (t * read).into(),
            write_bytes: (t * written).into(),
            ..ProcessRow::new(key(9))
        };
        s.task.process.push(process.into());
    })
}

#[test]
fn who_is_held_back_for_its_share_of_a_disk_is_not_slowed_by_the_disk() {
    for d in [held_back("ioc_rqos_throttle", 100_000, 0), held_back("rq_qos_wait", 100_000, 0)] {
        let first = &d.findings[0];
        assert_eq!((first.id.as_str(), first.subject.name.as_str()), ("disk.throttled", "backup"), "{:#?}", d.findings);
        assert_eq!(first.confidence, Confidence::High);
    }
    // Write-back throttling waits there, too.
    for d in [held_back("rq_qos_wait", 0, 100_000), held_back("io_schedule", 100_000, 0)] {
        assert!(found(&d, "disk.throttled").is_none(), "{:#?}", d.findings);
    }
}

#[test]
fn a_group_at_its_limit_is_weighed_by_its_own_waiting() {
    let d = machine(|t, s| {
        Load { threads: 1, depth: 1, pressure: 40, ..CLOSED }.fill(t, s);
        s.cgroup.group.push(Group::new("/db".into()));
        s.cgroup.group_io.push(GroupIo {
            read_bytes: (t * RATE * 4096).into(),
            reads: (t * RATE).into(),
            reads_limit: (RATE as f64).into(),
            ..GroupIo::new(LinkKey { upper: "/db".into(), lower: "sda".into() })
        });
    });
    let throttled = accused(&d, "disk.throttled");
    assert!((throttled.impact - 0.98).abs() < 0.01, "{}", throttled.impact);
}

/// Returns the expected gain for reads of 1 ms in the device, limited to 200 per second, by threads that only wait for them and
/// use a fiftieth of a CPU.
fn gain_without_the_limit(threads: u32, depth: f64) -> Gain {
    let d = machine(|t, s| {
        Load { threads, depth: 1, ..CLOSED }.fill(t, s);
        let count = (t * RATE) as usize;
        s.block.request[0].device_time = Histogram::from_values(vec![1_000_000; count]);
        s.block.request[0].depth = ((count as f64 * depth) as u64).into();
        s.cgroup.group.push(Group { version: "v1".into(), ..Group::new("/db".into()) });
        s.cgroup.group_io.push(GroupIo {
            read_bytes: (t * RATE * 4096).into(),
            reads: (t * RATE).into(),
            writes: 0.into(),
            reads_limit: (RATE as f64).into(),
            ..GroupIo::new(LinkKey { upper: "/db".into(), lower: "sda".into() })
        });
    });
    let throttled = accused(&d, "disk.throttled");
    assert_eq!(throttled.actions[0].set["cgroup.blkio.throttle.read_iops_device@sda/db"], "0");
    throttled.actions[0].gain.clone().expect("a gain")
}

#[test]
fn without_its_limit_a_group_reads_as_fast_as_the_device_serves_its_threads() {
    // 0.1 ms of CPU time and 1 ms in the device for each read: 909 per second instead of 200.
    let one = gain_without_the_limit(1, 1.0);
    assert!((one.factor - 4.545).abs() < 0.15, "{one:?}");
    assert!((one.low - 0.7 * one.factor).abs() < 0.01 && (one.high.unwrap() - 1.3 * one.factor).abs() < 0.01);
    assert!(one.to_string().starts_with("reads 4."), "{one}");
    // Four at once never occurred: at least as many as one after the other, which is 4 ms each and 0.1 ms between: 976 per
    // second.
    let four = gain_without_the_limit(4, 1.0);
    assert!((four.factor - 4.88).abs() < 0.2 && four.high.is_none(), "{four:?}");
    assert!(four.to_string().starts_with("reads at least 4."), "{four}");
}

/// Diagnoses disks that serve 20 reads of 64 KiB per second, each with these requests in flight.
fn with_the_same_load(disks: &[(&str, f64)]) -> Diagnosis {
    machine(|t, s| {
        let disk = |(name, in_flight): &(&str, f64)| Disk {
            busy_time: (t * SECOND * 9 / 10).into(),
            ..disk(t, name, 20, 65536, *in_flight)
        };
        s.block.disk.extend(disks.iter().map(disk));
    })
}

#[test]
fn a_disk_that_takes_many_times_as_long_as_its_mirror_is_slow() {
    // 0.9 s and 5 ms per request.
    let d = with_the_same_load(&[("sda", 18.0), ("sdb", 0.1)]);
    let slow = accused(&d, "disk.slow_device");
    assert_eq!((slow.subject.name.as_str(), slow.confidence), ("sda", Confidence::High));
    assert!(d.findings.iter().all(|f| f.subject.name != "sdb"), "{:?}", d.findings);
}

#[test]
fn disks_of_one_mirror_that_differ_as_kinds_of_disk_do_are_not_slow() {
    // 15 ms and 0.5 ms per request.
    let d = with_the_same_load(&[("sda", 0.3), ("sdb", 0.01)]);
    assert_eq!(found(&d, "disk.slow_device"), None);
}

#[test]
fn a_device_that_completes_nothing_hangs_and_is_not_slow() {
    let held = |completed: u64, in_flight: u64| {
        machine(|t, s| {
            s.block.disk.push(Disk {
                read_time: 0.into(),
                weighted_time: (t * SECOND * in_flight).into(),
                ..disk(t, "bcache0", completed, 4096, 0.0)
            });
        })
    };
    let d = held(1, 40);
    assert_eq!(accused(&d, "disk.hung").confidence, Confidence::Medium);
    assert_eq!(found(&d, "disk.slow_device"), None);
    // If no process waits, the kernel may have lost count.
    assert_eq!(accused(&held(0, 3), "disk.hung").confidence, Confidence::Low);
    // 40 requests in flight that take a second each.
    let slow = machine(|t, s| s.block.disk.push(disk(t, "sda", 4, 4096, 40.0)));
    assert_eq!(found(&slow, "disk.hung"), None);
}

/// Diagnoses a SCSI disk with 200 reads per second, and this many commands in ten seconds that fail or time out.
fn scsi_disk(failed: u64, timeouts: u64) -> Diagnosis {
    machine(|t, s| {
        pressure(t, s, 0, 0, 40);
        s.block.disk.push(disk(t, "sda", 200, 4096, 0.5));
        s.block.scsi.push(ScsiDisk {
            completed: (t * 200).into(),
            failed: (t * failed / 10).into(),
            timeouts: (t * timeouts / 10).into(),
            ..ScsiDisk::new("sda".into())
        });
    })
}

#[test]
fn what_a_disk_does_not_answer_or_repeats_is_counted_though_nothing_is_logged() {
    let d = scsi_disk(0, 5);
    assert_eq!(
        (accused(&d, "disk.errors").confidence, &*accused(&d, "disk.errors").subject.name),
        (Confidence::High, "sda")
    );
    let d = scsi_disk(60, 0);
    assert_eq!(accused(&d, "disk.errors").confidence, Confidence::Medium);
    // A program that now and then requests something that the disk does not have.
    assert_eq!(found(&scsi_disk(5, 0), "disk.errors"), None);
}

/// Diagnoses a disk without requests whose adapter is in this state, with this many commands in flight.
fn in_recovery(recovering: f64, in_flight: f64) -> Diagnosis {
    machine(|t, s| {
        pressure(t, s, 0, 0, 90);
        s.block.disk.push(disk(0, "sda", 0, 4096, 0.0));
        s.block.scsi.push(ScsiDisk {
            in_flight: in_flight.into(),
            recovering: recovering.into(),
            ..ScsiDisk::new("sda".into())
        });
    })
}

#[test]
fn a_disk_that_the_error_handler_is_at_work_on_hangs() {
    assert_eq!(accused(&in_recovery(1.0, 1.0), "disk.hung").confidence, Confidence::High);
    assert_eq!(found(&in_recovery(1.0, 0.0), "disk.hung"), None, "another disk of the adapter is to blame");
    assert_eq!(found(&in_recovery(0.0, 1.0), "disk.hung"), None, "a command that takes its time");
}

#[test]
fn the_paths_of_a_multipath_device_that_failed_explain_the_errors_of_their_disks() {
    let d = machine(|t, s| {
        s.block.mapped.push(MappedDevice { name: "mp".into(), ..MappedDevice::new("dm-0".into()) });
        for (lower, state) in [("sda", "active"), ("sdb", "failed")] {
            let path = LinkKey { upper: "mp".into(), lower: lower.into() };
            s.block.path.push(Path { state: state.into(), ..Path::new(path) });
        }
        s.block.disk.push(disk(t, "sdb", 200, 4096, 0.5));
        s.block.scsi.push(ScsiDisk {
            completed: (t * 200).into(),
            failed: (t * 100).into(),
            timeouts: 0.into(),
            ..ScsiDisk::new("sdb".into())
        });
    });
    assert_eq!(d.findings[0].id, "disk.path_degraded");
    assert_eq!(accused(&d, "disk.errors").explained_by, Some(d.findings[0].key()));
}

#[test]
fn what_the_kernel_logged_of_a_disk_explains_what_it_counted() {
    let d = machine(|t, s| {
        s.block.disk.push(disk(t, "sda", 200, 4096, 0.5));
        s.block.scsi.push(ScsiDisk {
            completed: (t * 200).into(),
            failed: (t * 20).into(),
            timeouts: 0.into(),
            ..ScsiDisk::new("sda".into())
        });
        let queue = Queue { address: "2:0:0:0".into(), ..Queue::new("sda".into()) };
        s.block.queue.push(queue);
        let text = "sd 2:0:0:0: [sda] tag#0 FAILED Result: hostbyte=DID_OK driverbyte=DRIVER_OK cmd_age=0s\n\
            sd 2:0:0:0: [sda] tag#0 Sense Key : Medium Error [current]\n\
            blk_update_request: critical medium error, dev sda, sector 4660 op 0x0:(READ) flags 0x0";
        for (number, line) in (0u64..).zip(text.lines()) {
            s.kernel.log.push(LogLine { text: line.into(), ..LogLine::new(number) });
        }
    });
    let errors: Vec<_> = d.findings.iter().filter(|f| f.id == "disk.errors").collect();
    let [logged, counted] = errors[..] else { panic!("{errors:?}") };
    assert_eq!((&*logged.subject.name, &*counted.subject.name), ("2:0:0:0", "sda"));
    assert_eq!(counted.explained_by, Some(logged.key()));
}

#[test]
fn a_disk_that_the_kernel_gave_up_is_found_unless_it_is_a_path_of_several() {
    let of = |state: &str, other_path: bool| {
        machine(|t, s| {
            two_cpus(t, s, 5, 0);
            s.block.disk.extend(["sda", "sdb"].map(|name| disk(0, name, 0, 0, 0.0)));
            s.block.queue.push(Queue { state: state.into(), ..Queue::new("sda".into()) });
            if other_path {
                s.block.path.extend([("sda", "failed"), ("sdb", "active")].map(|(lower, state)| {
                    let key = LinkKey { upper: "mpatha".into(), lower: lower.into() };
                    Path { state: state.into(), ..Path::new(key) }
                }));
            }
            pressure(t, s, 0, 0, 0);
        })
    };
    for state in ["offline", "transport-offline", "dead"] {
        assert_eq!(found(&of(state, false), "disk.errors").map(|found| found.confidence), Some(Confidence::High));
        let d = of(state, true);
        assert!(found(&d, "disk.errors").is_none(), "{:?}", d.findings);
        assert!(found(&d, "disk.path_degraded").is_some());
    }
    assert!(found(&of("running", false), "disk.errors").is_none());
}

/// Diagnoses `sda`, which serves this many reads per second with ten in flight, beside four similar disks that serve 60 and have
/// time to spare.
fn beside_better_ones(rate: u64) -> Diagnosis {
    machine(|t, s| {
        pressure(t, s, 0, 0, 90);
        s.block.disk.push(disk(t, "sda", rate, 8192, 10.0));
        for name in ["sdb", "sdc", "sdd", "sde"] {
            s.block.disk.push(Disk { busy_time: (t * SECOND * 3 / 10).into(), ..disk(t, name, 60, 8192, 0.3) });
        }
    })
}

#[test]
fn a_full_disk_that_does_less_than_others_with_time_to_spare_is_slow() {
    assert_eq!(crate::first(&beside_better_ones(30)), ("disk.slow_device", "sda"));
    assert_eq!(crate::first(&beside_better_ones(200)).0, "disk.saturated", "it does more than they do");
}

/// Diagnoses a disk with 30 requests in flight that serves the same number in every second, with a share of reads that varies by
/// this much.
fn constant(varies: u64) -> Diagnosis {
    machine(|t, s| {
        pressure(t, s, 0, 0, 90);
        let reads = t * 150 + if t % 2 == 1 { varies } else { 0 };
        let waited = t * 30 * SECOND;
        s.block.disk.push(Disk {
            reads: reads.into(),
            writes: (t * 300 - reads).into(),
            read_bytes: (reads * 4096).into(),
            write_bytes: ((t * 300 - reads) * 4096).into(),
            read_time: (waited / 2).into(),
            write_time: (waited / 2).into(),
            ..disk(t, "nvme1n1", 300, 4096, 30.0)
        });
    })
}

#[test]
fn a_number_of_requests_that_does_not_depend_on_what_they_are_is_a_limit() {
    assert_eq!(crate::first(&constant(30)), ("disk.throttled", "nvme1n1"));
    assert_eq!(crate::first(&constant(0)).0, "disk.saturated", "the same work all the time");
}
