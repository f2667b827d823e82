//! The low-priority thread that judges the recording, so that a long recording can be explained without judging it
//! again.

use super::closer::lower_priority;
use super::{MOST_WAITING, SharedState, lock};
use crate::recording::WindowCutter;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use whyslow_model::catalogue::{Judgement, RecordedFinding};
use whyslow_model::key::MachineKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;

/// Length of a judged window: the same as in a live diagnosis.
const WINDOW_NS: u64 = 10 * 1_000_000_000;

/// Function that returns the causes of noticeable lost time in a window.
pub type JudgeFn = Box<dyn Fn(&Window) -> Vec<RecordedFinding> + Send>;

/// Judges windows of a recording.
pub struct Judge {
    /// Fingerprint of the rules: a reader with other rules judges the recording again.
    pub rules: String,
    /// Judges a window.
    pub findings: JudgeFn,
}

/// Passes samples on to the judging thread, and its findings back into the recording.
pub(super) struct Judging {
    to_thread: Sender<Vec<Snapshot>>,
    /// Samples not passed on yet: the thread wakes up once per window.
    batch: Vec<Snapshot>,
    /// Time since boot at the last sample that was passed on.
    passed_on: u64,
    shared: Arc<SharedState>,
}

impl Judging {
    pub(super) fn begin(judge: Judge, shared: Arc<SharedState>) -> io::Result<Self> {
        let (to_thread, samples) = channel();
        let state = shared.clone();
        std::thread::Builder::new().name("judging".into()).spawn(move || run(&judge, &samples, &state))?;
        Ok(Self { to_thread, batch: Vec::new(), passed_on: 0, shared })
    }

    /// Adds a sample to those to be judged, and the result of an earlier window to the sample.
    pub(super) fn add(&mut self, sample: &mut Snapshot) {
        self.batch.push(sample.clone());
        if let Some((judgement, findings)) = lock(&self.shared.judged).pop_front() {
            sample.kernel.judgement = vec![judgement];
            sample.kernel.finding = findings;
        }
        if sample.boot_ns.saturating_sub(self.passed_on) >= WINDOW_NS {
            self.passed_on = sample.boot_ns;
            let batch = std::mem::take(&mut self.batch);
            // If the machine is too busy to judge as fast as it records, readers of the recording judge it.
            if self.shared.unjudged.load(Ordering::Relaxed) < MOST_WAITING {
                self.shared.unjudged.fetch_add(batch.len(), Ordering::Relaxed);
                // The thread ends only after the sender is dropped.
                let _ = self.to_thread.send(batch);
            }
        }
    }
}

fn run(judge: &Judge, samples: &Receiver<Vec<Snapshot>>, shared: &SharedState) {
    lower_priority();
    let mut windows = WindowCutter::new(WINDOW_NS, |window: Window| {
        if let (Some(first), Some(last)) = (window.snapshots().first(), window.last()) {
            let judgement = Judgement {
                start: first.wall_ns.unsigned_abs().into(),
                end: last.wall_ns.unsigned_abs().into(),
                rules: judge.rules.as_str().into(),
                ..Judgement::new(MachineKey)
            };
            lock(&shared.judged).push_back((judgement, (judge.findings)(&window)));
        }
        true
    });
    for batch in samples {
        for sample in batch {
            windows.add(sample);
            shared.unjudged.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
