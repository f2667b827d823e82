//! Samples and diagnoses of the live machine kept in memory, for stepping back.

use crate::app::Step;
use crate::history::History;
use std::collections::VecDeque;
use std::sync::Arc;
use whyslow_documents::diagnosis::Diagnosis;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;

/// Maximum number of samples.
const KEPT: usize = 120;
/// A minute, in nanoseconds.
const MINUTE: i64 = 60_000_000_000;

/// What the screen shows at one point in time.
#[derive(Clone, Default)]
pub(crate) struct Moment {
    /// The preceding seconds.
    pub(crate) window: Window,
    /// The preceding minutes.
    pub(crate) history: History,
    /// The newest diagnosis at that time.
    pub(crate) diagnosis: Option<Arc<Diagnosis>>,
}

impl Moment {
    /// Advances to a sample. Keeps `averaged` seconds in the window.
    pub(crate) fn add(&mut self, sample: Snapshot, averaged: f64) {
        self.window.push(sample);
        self.window.keep_last(averaged);
        self.history.add_newest(&self.window);
    }
}

/// The most recent samples and diagnoses of the live machine.
#[derive(Clone, Default)]
pub(crate) struct Past {
    samples: VecDeque<Arc<Snapshot>>,
    /// Diagnoses, each with the time since boot of the newest sample when it arrived.
    diagnoses: VecDeque<(u64, Arc<Diagnosis>)>,
}

impl Past {
    pub(crate) fn add(&mut self, sample: Snapshot) {
        if self.samples.len() == KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back(Arc::new(sample));
        self.forget_diagnoses();
    }

    pub(crate) fn add_diagnosis(&mut self, diagnosis: Arc<Diagnosis>) {
        let at = self.samples.back().map_or(0, |sample| sample.boot_ns);
        self.diagnoses.push_back((at, diagnosis));
        self.forget_diagnoses();
    }

    /// Drops the samples, because counters do not continue from them.
    pub(crate) fn begin_anew(&mut self) {
        self.samples.clear();
    }

    /// Drops diagnoses that are older than the one that was current at the oldest sample.
    fn forget_diagnoses(&mut self) {
        let oldest = self.samples.front().map_or(u64::MAX, |sample| sample.boot_ns);
        while self.diagnoses.get(1).is_some_and(|(at, _)| *at <= oldest) {
            self.diagnoses.pop_front();
        }
    }

    /// Returns the index of the sample that a step leads to from the sample at `from` (time since boot). `None` if there is no
    /// other sample.
    pub(crate) fn place(&self, from: u64, step: Step) -> Option<usize> {
        let at = self.newest_until(from)?;
        let place = match step {
            Step::Sample(by) => at.checked_add_signed(isize::try_from(by).ok()?)?,
            Step::Minute(by) => self.newest_until(from.saturating_add_signed(i64::from(by) * MINUTE)).unwrap_or(0),
            Step::Episode(_) => return None,
        };
        (place != at && place < self.samples.len()).then_some(place)
    }

    fn newest_until(&self, boot_ns: u64) -> Option<usize> {
        self.samples.iter().rposition(|sample| sample.boot_ns <= boot_ns)
    }

    /// Reconstructs what was shown at one of the samples, with numbers averaged over `averaged` seconds.
    pub(crate) fn moment(&self, place: usize, averaged: f64) -> Moment {
        let samples = self.samples.iter().take(place + 1);
        let mut window = Window::new(samples.map(|sample| Snapshot::clone(sample)).collect());
        let history = History::from_window(&window);
        window.keep_last(averaged);
        let end = window.last().map_or(0, |newest| newest.boot_ns);
        let diagnosis = self.diagnoses.iter().rev().find(|(at, _)| *at <= end);
        Moment { window, history, diagnosis: diagnosis.map(|(_, diagnosis)| diagnosis.clone()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::diagnosis;

    const SECOND: u64 = 1_000_000_000;

    fn past(seconds: impl Iterator<Item = u64>) -> Past {
        let mut past = Past::default();
        for second in seconds {
            past.add(Snapshot { boot_ns: second * SECOND, ..Snapshot::default() });
        }
        past
    }

    #[test]
    fn steps_lead_to_samples_and_not_beyond_them() {
        let past = past((1000..1100).step_by(2));
        let place = |second: u64, step| past.place(second * SECOND, step);
        assert_eq!(place(1098, Step::Sample(-1)), Some(48));
        assert_eq!(place(1098, Step::Sample(1)), None);
        assert_eq!(place(1000, Step::Sample(-1)), None);
        assert_eq!((place(1098, Step::Minute(-1)), place(1038, Step::Minute(1))), (Some(19), Some(49)));
        assert_eq!(place(1010, Step::Minute(-1)), Some(0), "less than a minute is kept");
        assert_eq!(place(1090, Step::Minute(1)), Some(49));
        assert_eq!((place(1000, Step::Minute(-1)), place(1098, Step::Minute(1))), (None, None));
        assert_eq!(place(1050, Step::Episode(1)), None);
        assert_eq!(Past::default().place(1, Step::Sample(-1)), None);
    }

    #[test]
    fn the_last_samples_and_their_diagnoses_are_kept() {
        let mut past = Past::default();
        for second in 0..300 {
            past.add(Snapshot { boot_ns: second * SECOND, ..Snapshot::default() });
            if second % 50 == 10 {
                past.add_diagnosis(Arc::new(diagnosis(&second.to_string())));
            }
        }
        assert_eq!(past.samples.len(), KEPT);
        assert_eq!(past.samples[0].boot_ns, 180 * SECOND);
        // Those at 160, 210 and 260 s.
        assert_eq!(past.diagnoses.len(), 3);
        let moment = past.moment(0, 10.0);
        assert_eq!(moment.window.snapshots().len(), 1);
        let seen = |place| past.moment(place, 10.0).diagnosis.map(|seen| seen.not_cleared[0].because.clone());
        assert_eq!([0, 29, 30, 119].map(seen), ["160", "160", "210", "260"].map(|second| Some(second.to_owned())));
        assert_eq!(past.moment(119, 10.0).window.seconds(), 10.0);
    }
}
