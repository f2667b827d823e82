//! Recordings of other versions: fields are found by name.

use super::Recording;
use crate::bytes::{put_number, put_step, put_text};
use crate::recorder::{Recorder, Retention};
use crate::schema::{KeyField, MetricField, Table};
use crate::tail::{TailHeader, TailWriter};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use whyslow_model::catalogue::{Cpu, Family, MetricKind, Sample, Unit};
use whyslow_model::key::KeyPartKind;
use whyslow_model::snapshot::Snapshot;

fn counter(name: &str) -> MetricField {
    MetricField { name: name.into(), kind: MetricKind::Counter, unit: Unit::Count }
}

/// Writes a tail as another version might: columns in another order, unknown ones, some of another kind, most missing,
/// and an unknown table.
fn tail_of_another_version(path: &Path) {
    let key = |name: &str, kind| KeyField { name: name.into(), kind };
    let state = MetricField { name: "idle".into(), kind: MetricKind::State, unit: Unit::Text };
    let cpu = vec![counter("qubits"), counter("system"), state, counter("user")];
    let tables = vec![
        Table { name: "qubit".into(), keys: vec![key("name", KeyPartKind::Text)], metrics: vec![counter("flips")] },
        Table { name: "cpu".into(), keys: vec![key("cpu", KeyPartKind::Number)], metrics: cpu },
        Table { name: "sample".into(), keys: vec![], metrics: vec![counter("clock")] },
    ];
    let mut tail = TailWriter::create(path, &TailHeader { boot: "b00t".into(), tables }).unwrap();
    let mut frame = Vec::new();
    put_step(&mut frame, 0, 1_795_279_400_000_000_000);
    put_step(&mut frame, 0, 77_000_000_000);
    put_number(&mut frame, 1);
    put_text(&mut frame, "q0");
    // Each table: 1 + index, one row inserted, its key, the columns that are present, their steps from absent, the end.
    let absent = u64::MAX;
    frame.extend([1, 3, 0, 0b1]);
    put_step(&mut frame, absent, 5);
    frame.extend([0, 2, 3, 4, 0b1111]);
    put_step(&mut frame, absent, 1);
    put_step(&mut frame, absent, 20);
    frame.push(1);
    put_step(&mut frame, absent, 30);
    frame.extend([0, 3, 3, 0b1]);
    put_step(&mut frame, absent, 77_000_000_000);
    frame.extend([0, 0]);
    tail.append(&frame).unwrap();
}

/// Checks that the known fields were read, and nothing else.
fn assert_known_fields(dir: &Path) {
    let recording = Recording::open(dir).unwrap();
    let samples = recording.snapshots(&recording.span(), &|_: &str| true).unwrap();
    let [sample] = &samples[..] else { panic!("{} samples", samples.len()) };
    let mut expected = Snapshot { wall_ns: 1_795_279_400_000_000_000, boot_ns: 77_000_000_000, ..Snapshot::default() };
    expected.processor.cpu.push(Cpu { system: 20.into(), user: 30.into(), ..Cpu::new(4) });
    expected.kernel.sample.push(Sample { clock: 77_000_000_000.into(), ..Sample::default() });
    assert_eq!(*sample, expected);
    assert_eq!(Cpu::rows(sample)[0].idle.get(), None, "a field of another kind is another field");
}

#[test]
fn known_fields_of_an_unknown_version_are_read_from_tail_and_segment() {
    let dir = whyslow_testing::folder();
    tail_of_another_version(&dir.path().join("1795279400000000000.tail"));
    assert_known_fields(dir.path());
    let recorder =
        Recorder::begin(dir.path(), Duration::from_secs(1), Retention::default(), Arc::new(|line| panic!("{line}")));
    recorder.unwrap().finish().unwrap();
    assert!(dir.path().join("qubit/day=2026-11-21/16.parquet").exists(), "unknown tables are preserved");
    assert_known_fields(dir.path());
}
