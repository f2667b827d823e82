//! A short recording of the real kernel.

use std::path::Path;
use whyslow_model::catalogue::Vmstat;
use whyslow_model::snapshot::Snapshot;
use whyslow_store::{Recording, StoreError};

/// Consecutive samples of one machine and boot. The first only says where the counters of the others began.
#[derive(Clone, Debug)]
pub struct Clip {
    samples: Vec<Snapshot>,
}

impl Clip {
    /// These samples.
    ///
    /// # Panics
    /// Where there are fewer than two.
    pub fn new(mut samples: Vec<Snapshot>) -> Self {
        assert!(samples.len() > 1, "one sample is no clip");
        let (first, rest) = samples.split_at_mut(1);
        // What is read at the beginning and then once a minute belongs to the clip, too.
        rest[0].carry_over(first[0].clone());
        Self { samples }
    }

    /// All of a recording, which is to be a short one.
    pub fn read(folder: &Path) -> Result<Self, StoreError> {
        let recording = Recording::open(folder)?;
        Ok(Self::new(recording.snapshots(&recording.span(), &|_: &str| true)?))
    }

    /// The sample before those that are played.
    pub fn before(&self) -> &Snapshot {
        &self.samples[0]
    }

    /// The samples that are played.
    pub fn played(&self) -> &[Snapshot] {
        &self.samples[1..]
    }

    /// By which of the samples that are played somebody had been killed for want of memory: the first and the last.
    pub fn kills(&self) -> Option<(usize, usize)> {
        let killed = |sample: &Snapshot| sample.the::<Vmstat>().and_then(|vmstat| vmstat.oom_kill.get());
        let kills = self.samples.windows(2).enumerate().filter(|(_, two)| killed(&two[1]) > killed(&two[0]));
        let mut kills = kills.map(|(at, _)| at);
        kills.next().map(|first| (first, kills.next_back().unwrap_or(first)))
    }

    /// The clip from this sample that is played on, so many.
    pub fn part(&self, from: usize, count: usize) -> Self {
        Self::new(self.samples[from..=from + count].to_vec())
    }
}
