//! A sweep over sizes (queue depth, socket buffers): doubles the size until there is no more gain, then bisects to find
//! where the plateau begins.

/// Minimum relative increase for a gain.
const GAIN: f64 = 0.05;
/// Number of consecutive doublings without gain that end the sweep: a single one may be bad luck.
const FLAT_DOUBLINGS: usize = 2;

/// Result at one size.
pub(crate) trait PlateauSample {
    fn size(&self) -> u32;
    fn value(&self) -> f64;
}

#[derive(Clone, Debug)]
pub(crate) struct PlateauSweep<S> {
    /// Samples in order of size.
    pub(crate) samples: Vec<S>,
    first: u32,
    max: u32,
    /// Share of the best value that is enough.
    enough: f64,
    /// Whether the values stopped rising; `None` while sizes are doubled.
    reached: Option<bool>,
}

impl<S: PlateauSample> PlateauSweep<S> {
    pub(crate) fn new(first: u32, max: u32, enough: f64) -> Self {
        Self { samples: Vec::new(), first, max: max.max(first), enough, reached: None }
    }

    /// Returns the next size to measure; `None` when done.
    pub(crate) fn next(&mut self) -> Option<u32> {
        let Some(last) = self.samples.last().map(PlateauSample::size) else { return Some(self.first) };
        if self.reached.is_none() {
            let rising = self.is_rising();
            if rising && last < self.max {
                return Some(last.saturating_mul(2).min(self.max));
            }
            self.reached = Some(!rising);
        }
        let at = self.samples.iter().position(|sample| self.is_enough(sample))?;
        let below = self.samples[at.checked_sub(1)?].size();
        let gap = self.samples[at].size() - below;
        (gap > 1.max(below / 4)).then_some(below + gap / 2)
    }

    pub(crate) fn add(&mut self, sample: S) {
        let at = self.samples.partition_point(|other| other.size() < sample.size());
        self.samples.insert(at, sample);
    }

    /// Limits the sweep to the last size, because larger ones are not available.
    pub(crate) fn cap(&mut self) {
        self.max = self.samples.last().map_or(self.max, PlateauSample::size);
    }

    /// Returns whether values stopped rising, so that larger sizes would gain nothing.
    pub(crate) fn is_reached(&self) -> bool {
        self.reached.unwrap_or_else(|| !self.is_rising())
    }

    pub(crate) fn best(&self) -> f64 {
        best(&self.samples)
    }

    pub(crate) fn is_enough(&self, sample: &S) -> bool {
        sample.value() >= self.enough * self.best()
    }

    fn is_rising(&self) -> bool {
        let Some(before) = self.samples.len().checked_sub(FLAT_DOUBLINGS).filter(|&before| before > 0) else {
            return true;
        };
        let (before, last) = self.samples.split_at(before);
        last.iter().any(|sample| is_gain(best(before), sample.value()))
    }
}

/// Returns whether a value is more than noise above another.
pub(crate) fn is_gain(from: f64, to: f64) -> bool {
    to > from * (1.0 + GAIN)
}

fn best<S: PlateauSample>(samples: &[S]) -> f64 {
    samples.iter().map(PlateauSample::value).fold(0.0, f64::max)
}
