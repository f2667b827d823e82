//! State of the exporter.

use super::receivers::Receivers;
use crate::options::next_multiple;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use whyslow_documents::diagnosis::Diagnosis;
use whyslow_exporters::{Collector, FindingSeries, MetricFamily, exporter_families, reserved_series};
use whyslow_model::snapshot::Snapshot;

/// Maximum age of an exported verdict: after that, the machine's condition may have changed.
const VALID: Duration = Duration::from_secs(60);
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Newest sample and verdict, and the receivers that they are pushed to.
pub struct ExporterState {
    collector: Mutex<Collector>,
    findings: Mutex<FindingSeries>,
    judged: Mutex<Option<Judged>>,
    receivers: Mutex<Receivers>,
    started: Instant,
    /// Interval of batches, and the time of the next one.
    interval: Duration,
    due: Mutex<Instant>,
    reserved: usize,
}

/// A verdict as series.
struct Judged {
    at: Instant,
    families: Vec<MetricFamily>,
    omitted: usize,
}

impl ExporterState {
    /// Creates a state with a batch per interval, the first one after the first interval.
    pub fn new(collector: Collector, receivers: Receivers, interval: Duration) -> Self {
        let started = Instant::now();
        Self {
            reserved: reserved_series(receivers.count()),
            collector: Mutex::new(collector),
            findings: Mutex::default(),
            judged: Mutex::default(),
            receivers: Mutex::new(receivers),
            started,
            interval,
            due: Mutex::new(started + interval),
        }
    }

    /// Adds a sample, and pushes if a batch is due.
    pub fn add(&self, sample: Snapshot) {
        lock(&self.collector).add(sample);
        let is_due = {
            let mut due = lock(&self.due);
            let is_due = Instant::now() >= *due;
            if is_due {
                *due = self.started + next_multiple(self.interval, self.started.elapsed());
            }
            is_due
        };
        if is_due {
            self.push();
        }
    }

    /// Adds the verdict on a window that ended at `end_ns`, in nanoseconds since 1970.
    pub fn judged(&self, diagnosis: &Diagnosis, end_ns: i64) {
        let (families, omitted) = lock(&self.findings).families(diagnosis, end_ns as f64 / 1e9);
        *lock(&self.judged) = Some(Judged { at: Instant::now(), families, omitted });
        lock(&self.receivers).judged(diagnosis, end_ns);
    }

    /// Returns all current series.
    pub fn families(&self) -> Vec<MetricFamily> {
        let (mut families, mut omitted) = lock(&self.collector).collect(self.reserved);
        if let Some(judged) = lock(&self.judged).as_ref().filter(|judged| judged.at.elapsed() < VALID) {
            families.extend(judged.families.iter().cloned());
            omitted += judged.omitted;
        }
        let series = families.iter().map(MetricFamily::series_count).sum();
        let figures = lock(&self.receivers).figures();
        families.extend(exporter_families(VERSION, &figures, series, omitted));
        families
    }

    /// Pushes the last sample, and waits briefly for receivers to accept it.
    pub fn end(&self) {
        self.push();
        *lock(&self.receivers) = Receivers::default();
    }

    fn push(&self) {
        let families = self.families();
        let (wall_ns, boot_ns) = {
            let collector = lock(&self.collector);
            (collector.wall_ns(), collector.boot_wall_ns())
        };
        lock(&self.receivers).push(&families, wall_ns, boot_ns);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
