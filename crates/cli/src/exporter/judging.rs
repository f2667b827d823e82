//! Diagnoses the exported samples in a thread of low priority.

use super::state::ExporterState;
use crate::baseline;
use crate::output::Failure;
use crate::user_rules;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use whyslow_diagnose::diagnose;
use whyslow_documents::diagnosis::Origin;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;
use whyslow_store::{WindowCutter, lower_priority};

/// Maximum number of windows waiting on a machine that is too busy to judge them; further ones are skipped.
const MOST_WAITING: usize = 3;

/// Passes samples to the judging thread.
pub struct Judging {
    batch: Mutex<Batch>,
    window_ns: u64,
    to_thread: SyncSender<Vec<Snapshot>>,
}

/// Samples since the last window was passed on.
#[derive(Default)]
struct Batch {
    samples: Vec<Snapshot>,
    /// Time since boot at the last sample that was passed on.
    passed_on: u64,
}

impl Judging {
    /// Starts the thread, which ends when this is dropped.
    ///
    /// # Errors
    /// Fails if the thread cannot be started.
    pub fn start(window: Duration, state: Arc<ExporterState>) -> Result<Self, Failure> {
        let window_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
        let (to_thread, samples) = sync_channel(MOST_WAITING);
        let thread = std::thread::Builder::new().name("judging".into());
        let started = thread.spawn(move || judge(window_ns, &samples, &state));
        started.map_err(|e| Failure::usage(format!("cannot start judging: {e}")))?;
        Ok(Self { batch: Mutex::default(), window_ns, to_thread })
    }

    /// Adds a sample, and wakes the thread once per window.
    pub fn add(&self, sample: &Snapshot) {
        let mut batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
        batch.samples.push(sample.clone());
        if sample.boot_ns.saturating_sub(batch.passed_on) >= self.window_ns {
            batch.passed_on = sample.boot_ns;
            // A window that does not fit in the queue is not judged: metrics continue without a verdict.
            let _ = self.to_thread.try_send(std::mem::take(&mut batch.samples));
        }
    }
}

fn judge(window_ns: u64, samples: &Receiver<Vec<Snapshot>>, state: &ExporterState) {
    lower_priority();
    let book = user_rules::load().book;
    let usual = baseline::default();
    let signals = usual.as_ref().map(whyslow_compare::usual).unwrap_or_default();
    let mut windows = WindowCutter::new(window_ns, |window: Window| {
        let window = window.with_usual(signals.clone());
        let mut diagnosis = diagnose(&window, Origin::Live, &book);
        if let Some(usual) = &usual {
            whyslow_compare::remember(&mut diagnosis, usual);
        }
        state.judged(&diagnosis, window.last().map_or(0, |sample| sample.wall_ns));
        true
    });
    for batch in samples {
        batch.into_iter().for_each(|sample| windows.add(sample));
    }
}
