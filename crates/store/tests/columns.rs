//! Columns read one by one have the values of the samples.

mod common;

use common::{EVERY, add, made, recorder};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use whyslow_model::catalogue::{EachFamily, Family, FamilyInfo, families};
use whyslow_model::key::{Key, KeyPart};
use whyslow_model::row::ColumnSelection;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Value;
use whyslow_store::Recording;

/// Values by family, sample and key.
type Rows = BTreeMap<(&'static str, usize, Vec<KeyPart>), Vec<Value>>;

fn columns(family: &FamilyInfo) -> Vec<usize> {
    // Every second column, which shows whether names and positions fit.
    (0..family.metrics.len()).filter(|column| column % 2 == 0).collect()
}

struct Collect<'r> {
    sample: usize,
    rows: &'r mut Rows,
}

impl EachFamily for Collect<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        for row in rows {
            let mut key = Vec::new();
            row.key().take_apart(&mut key);
            let values = columns(&F::INFO).into_iter().filter_map(|column| row.value(column)).collect();
            self.rows.insert((F::INFO.name, self.sample, key), values);
        }
    }
}

fn selections(samples: Option<Vec<bool>>) -> Vec<ColumnSelection> {
    let selection = |family: &FamilyInfo| ColumnSelection {
        family: family.name,
        metrics: columns(family),
        samples: samples.clone(),
    };
    families().iter().map(selection).collect()
}

/// The rows of a folder, from columns and from samples.
fn both(dir: &Path, samples: Option<Vec<bool>>) -> (Rows, Rows) {
    let recording = Recording::open(dir).unwrap();
    let span = recording.span();
    let times = recording.sample_times(&span).unwrap();
    let selections = selections(samples.clone());
    let mut from_columns = Rows::new();
    recording
        .each_reading(&times, &selections, |number, reading| {
            for reading in reading.of_each_sample() {
                let at = (selections[number].family, reading.sample, reading.key.to_vec());
                assert!(from_columns.insert(at, reading.values.to_vec()).is_none());
            }
        })
        .unwrap();
    let mut from_samples = Rows::new();
    let all: Vec<Snapshot> = recording.snapshots(&span, &EVERY).unwrap();
    assert_eq!(
        times.times.iter().map(|time| (time.at, time.clock)).collect::<Vec<_>>(),
        all.iter().map(|sample| (sample.wall_ns, sample.boot_ns)).collect::<Vec<_>>()
    );
    for (sample, mut snapshot) in all.into_iter().enumerate() {
        if samples.as_ref().is_none_or(|wanted| wanted[sample]) {
            snapshot.sources.clear();
            snapshot.each_family(&mut Collect { sample, rows: &mut from_samples });
        }
    }
    if samples.is_none() {
        let with_rows = from_samples.keys().map(|(family, ..)| *family).collect();
        assert_eq!(recording.families_in(&span).unwrap(), with_rows);
    }
    (from_columns, from_samples)
}

#[test]
fn columns_of_closed_segments_are_those_of_the_samples() {
    let dir = common::folder();
    // Three segments, the last in another hour.
    let mut recorder = recorder(dir.path());
    let begun = Instant::now();
    for second in (0..1100).step_by(20) {
        add(&mut recorder, made(second), begun + Duration::from_secs(second));
    }
    recorder.finish().unwrap();
    let (from_columns, from_samples) = both(dir.path(), None);
    assert!(from_samples.len() > 1000);
    assert!(from_columns == from_samples);
    let some = (0..55).map(|sample| sample % 10 == 3).collect();
    let (from_columns, from_samples) = both(dir.path(), Some(some));
    assert!(from_columns == from_samples && !from_samples.is_empty());
}

#[test]
fn columns_of_a_tail_are_those_of_the_samples() {
    let dir = common::folder();
    let mut recorder = recorder(dir.path());
    let begun = Instant::now();
    // A segment ends at 400 seconds.
    for second in (0..380).step_by(10) {
        add(&mut recorder, made(second), begun + Duration::from_secs(second));
    }
    common::wait_until_written(&recorder);
    assert_eq!(common::tails(dir.path()).len(), 1);
    let (from_columns, from_samples) = both(dir.path(), None);
    assert!(from_samples.len() > 1000);
    assert!(from_columns == from_samples);
    recorder.finish().unwrap();
}
