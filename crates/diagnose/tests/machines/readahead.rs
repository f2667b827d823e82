//! Readahead that does not suit the reads, and look-alikes.

use crate::{SECOND, cpu, disk, found, key, machine, pressure};
use whyslow_documents::diagnosis::Diagnosis;
use whyslow_model::catalogue::*;
use whyslow_model::histogram::Histogram;
use whyslow_model::key::{OperationKey, RequesterKey, ResponseKey};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Name;

const KIB: u64 = 1024;

/// A machine with one reader on one disk, both waiting all the time. Rates are per second.
#[derive(Clone, Copy)]
struct Reading {
    requests: u64,
    size: u64,
    in_flight: f64,
    read_ahead: u64,
    calls: u64,
    call_size: u64,
    major_faults: u64,
    wait_channel: &'static str,
}

/// Four kilobytes per call, 16 KiB per request; one request is waited for while the next is read ahead.
const STREAM: Reading = Reading {
    requests: 400,
    size: 16 * KIB,
    in_flight: 1.97,
    read_ahead: 16 * KIB,
    calls: 1600,
    call_size: 4 * KIB,
    major_faults: 0,
    wait_channel: "folio_wait_bit_common",
};

/// Twelve faults per second, each of which reads 8 MiB.
const MAPPED: Reading = Reading {
    requests: 77,
    size: 1280 * KIB,
    in_flight: 4.3,
    read_ahead: 8192 * KIB,
    calls: 0,
    call_size: 0,
    major_faults: 12,
    wait_channel: "folio_wait_bit_common",
};

fn diagnosis(r: Reading) -> Diagnosis {
    machine(|t, s| fill(t, s, r))
}

fn fill(t: u64, s: &mut Snapshot, r: Reading) {
    s.processor.cpu.push(cpu(t, 0, 0, 0));
    pressure(t, s, 0, 0, 95);
    let busy_time = (t * SECOND * 98 / 100).into();
    s.block.disk.push(Disk { busy_time, ..disk(t, "sda", r.requests, r.size, r.in_flight) });
    s.block.queue.push(Queue {
        max_request: (1280 * KIB).into(),
        read_ahead: r.read_ahead.into(),
        ..Queue::new("sda".into())
    });
    s.task.process.push(Process::from(ProcessRow {
        command: "reader".into(),
        state: "D".into(),
        wait_channel: r.wait_channel.into(),
        user: (t * SECOND / 100).into(),
        system: 0.into(),
        minor_faults: 0.into(),
        major_faults: (t * r.major_faults).into(),
        read_chars: (t * r.calls * r.call_size).into(),
        read_calls: (t * r.calls).into(),
        read_bytes: (t * r.requests * r.size).into(),
        write_bytes: 0.into(),
        kernel_thread: 0.0.into(),
        ..ProcessRow::new(key(20))
    }));
}

fn finds(r: Reading) -> bool {
    found(&diagnosis(r), "disk.readahead").is_some()
}

#[test]
fn a_stream_with_little_read_ahead() {
    let d = diagnosis(STREAM);
    let first = &d.findings[0];
    assert_eq!((&*first.id, &*first.subject.name), ("disk.readahead", "sda"));
    assert_eq!(first.culprits[0].pid, Some(20));
    assert_eq!(first.actions[0].set["disk.read_ahead_kb@sda"], "1280");
    assert!(d.findings[1..].iter().all(|f| f.explained_by.is_some()), "{:?}", d.findings);
}

#[test]
fn random_reads_of_a_mapping_with_much_read_ahead() {
    let d = diagnosis(MAPPED);
    let first = &d.findings[0];
    assert_eq!((&*first.id, first.subject.pid), ("disk.readahead", Some(20)));
    assert_eq!(
        first.actions[0].try_command.as_deref(),
        Some("whyslow try disk.read_ahead_kb@sda=64 --metric +io.asked@20 --moves disk.request_size@sda")
    );
    assert!(d.findings.iter().any(|f| f.id == "disk.saturated" && f.explained_by.is_some()), "{:?}", d.findings);
}

#[test]
fn reads_at_random_places_are_as_large_as_they_were_asked_for() {
    assert!(!finds(Reading { calls: 400, call_size: 16 * KIB, in_flight: 1.0, ..STREAM }));
}

#[test]
fn a_reader_past_the_page_cache_does_not_depend_on_read_ahead() {
    assert!(!finds(Reading { wait_channel: "blkdev_direct_IO", ..STREAM }));
    assert!(!finds(Reading { wait_channel: "read_events", ..MAPPED }));
}

#[test]
fn a_stream_at_the_rate_of_its_device_needs_no_more_read_ahead() {
    let size = 128 * KIB;
    assert!(!finds(Reading { requests: 1200, size, read_ahead: size, calls: 38_400, ..STREAM }));
}

/// A stream whose reads take 5 ms each, beside one of 256 KiB and 6 ms, ten times per second.
#[test]
fn larger_reads_take_longer_as_those_of_other_sizes_did() {
    let d = machine(|t, s| {
        fill(t, s, STREAM);
        let on = || OperationKey { device: "sda".into(), operation: "read".into() };
        s.block.request.push(Request {
            requests: (t * STREAM.requests).into(),
            sequential: (t * STREAM.requests).into(),
            device_time: Histogram::from_values(vec![5_000_000; (t * STREAM.requests) as usize]),
            ..Request::new(on())
        });
        s.block.requester.push(Requester {
            command: "reader".into(),
            requests: (t * STREAM.requests).into(),
            queue_time: 0.into(),
            device_time: (t * 2 * SECOND).into(),
            ..Requester::new(RequesterKey { on: on(), task: key(20), cgroup: Name::default() })
        });
        for (requests, size, class, ms) in [(STREAM.requests, STREAM.size, 16 * KIB, 5), (10, 256 * KIB, 256 * KIB, 6)]
        {
            let class = ResponseKey { on: on(), size: class as u32, access: "sequential".into(), depth: 2 };
            s.block.response.push(Response {
                requests: (t * requests).into(),
                bytes: (t * requests * size).into(),
                device_time: (t * requests * ms * 1_000_000).into(),
                ..Response::new(class)
            });
        }
    });
    let first = &d.findings[0];
    assert_eq!(&*first.id, "disk.readahead", "{:?}", d.findings);
    let action = &first.actions[0];
    let gain = action.gain.as_ref().expect("a gain");
    // Two in flight, of 10.27 ms each, would bring 249 KiB/ms; but 240 KiB take 1 ms, which is 37.5 times the present 6.4
    // KiB/ms.
    assert!((gain.factor - 37.5).abs() < 0.6, "{gain:?}");
    // Ten seconds of them: the squares of the sizes' distance from the mean add up to (2371 KiB)², and a twentieth of 5 ms over
    // that is 0.105 us for each KiB. Two of that more than 4.167 us are 228.4 KiB/ms, two less 252.8.
    assert!((gain.low - 0.8 * 35.7).abs() < 0.5 && (gain.high.unwrap() - 1.2 * 39.5).abs() < 0.8, "{gain:?}");
    assert!(action.try_command.as_ref().unwrap().contains(" --promised 3"), "{action:?}");
}
