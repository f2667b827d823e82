//! A short recording of the real kernel.

use std::path::Path;
use whyslow_model::catalogue::Vmstat;
use whyslow_model::snapshot::Snapshot;
use whyslow_store::{Recording, StoreError};

/// Consecutive samples of one machine and boot. The first one only provides the start of the others' counters.
#[derive(Clone, Debug)]
pub struct Clip {
    samples: Vec<Snapshot>,
}

impl Clip {
    /// Creates a clip from samples.
    ///
    /// # Panics
    /// Panics if there are fewer than two samples.
    pub fn new(mut samples: Vec<Snapshot>) -> Self {
        assert!(samples.len() > 1, "one sample is no clip");
        let (first, rest) = samples.split_at_mut(1);
        // Rows that are read at the beginning and then once a minute belong to the clip, too.
        rest[0].carry_over(first[0].clone());
        Self { samples }
    }

    /// Reads all of a recording, which should be short.
    pub fn read(folder: &Path) -> Result<Self, StoreError> {
        let recording = Recording::open(folder)?;
        Ok(Self::new(recording.snapshots(&recording.span(), &|_: &str| true)?))
    }

    /// Returns the sample before the played ones.
    pub fn before(&self) -> &Snapshot {
        &self.samples[0]
    }

    /// Returns the samples to play.
    pub fn played(&self) -> &[Snapshot] {
        &self.samples[1..]
    }

    /// Returns the indices of the first and last played samples by which an OOM kill had occurred.
    pub fn kills(&self) -> Option<(usize, usize)> {
        let killed = |sample: &Snapshot| sample.the::<Vmstat>().and_then(|vmstat| vmstat.oom_kill.get());
        let kills = self.samples.windows(2).enumerate().filter(|(_, two)| killed(&two[1]) > killed(&two[0]));
        let mut kills = kills.map(|(at, _)| at);
        kills.next().map(|first| (first, kills.next_back().unwrap_or(first)))
    }

    /// Returns the part of the clip with `count` played samples after the sample `from`.
    pub fn part(&self, from: usize, count: usize) -> Self {
        Self::new(self.samples[from..=from + count].to_vec())
    }
}
