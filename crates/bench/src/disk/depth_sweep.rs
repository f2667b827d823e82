//! Throughput by queue depth, up to its maximum and back to the knee.

use crate::plateau::{PlateauSample, PlateauSweep, is_gain};
use whyslow_documents::bench::{Ceiling, DiskRun, Knee, Limit, RequestStats};

/// Maximum depth: no disk gains from a deeper queue.
const MAX_DEPTH: u32 = 256;
/// Maximum number of depths in a sweep: nine doublings from 1 to 256, and the bisection below the knee.
pub(super) const MOST_RUNS: usize = 12;
/// The knee is the lowest depth that reaches this share of the maximum.
const KNEE: f64 = 0.9;

/// Result at one queue depth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DepthPoint {
    pub(super) depth: u32,
    pub(super) rate: f64,
    pub(super) bandwidth: f64,
    pub(super) latency: f64,
    pub(super) cpu_bound: bool,
}

impl DepthPoint {
    pub(super) fn from_run(depth: u32, run: &DiskRun) -> Option<Self> {
        let flow: &RequestStats = run.read.as_ref().or(run.write.as_ref()).filter(|flow| flow.operations > 0)?;
        let (rate, bandwidth, latency) = (flow.rate, flow.bandwidth, flow.latency.mean);
        Some(Self { depth, rate, bandwidth, latency, cpu_bound: run.generator.was_limit })
    }
}

impl PlateauSample for DepthPoint {
    fn size(&self) -> u32 {
        self.depth
    }

    fn value(&self) -> f64 {
        self.rate
    }
}

pub(super) struct DepthSweep {
    sweep: PlateauSweep<DepthPoint>,
    /// Points at which several jobs shared the queue depth.
    shared: Vec<DepthPoint>,
}

impl DepthSweep {
    pub(super) fn new() -> Self {
        Self { sweep: PlateauSweep::new(1, MAX_DEPTH, KNEE), shared: Vec::new() }
    }

    /// Returns the next depth to measure; `None` when done.
    pub(super) fn next(&mut self) -> Option<u32> {
        self.sweep.next()
    }

    pub(super) fn add(&mut self, point: DepthPoint) {
        self.sweep.add(point);
    }

    /// Adds a point at which more jobs shared the depth. Returns whether throughput rose.
    pub(super) fn add_shared(&mut self, point: DepthPoint) -> bool {
        let best = self.best().map_or(0.0, |best| best.rate);
        self.shared.push(point);
        is_gain(best, point.rate)
    }

    pub(super) fn best(&self) -> Option<DepthPoint> {
        self.sweep.samples.iter().chain(&self.shared).copied().max_by(|a, b| a.rate.total_cmp(&b.rate))
    }

    pub(super) fn knee(&self) -> Option<DepthPoint> {
        let maximum = self.best()?.rate;
        self.sweep.samples.iter().copied().find(|point| point.rate >= KNEE * maximum)
    }

    /// Returns whether the CPU generating the load limited the best point.
    pub(super) fn is_cpu_bound(&self) -> bool {
        self.best().is_some_and(|best| best.cpu_bound)
    }

    pub(super) fn ceiling(&self, requests: &str, of: Limit, block: u32) -> Option<Ceiling> {
        let best = self.best()?;
        let alone = self.sweep.samples.first().filter(|point| point.depth == 1).map(|point| point.latency);
        let knee = self.knee().zip(alone).map(|(knee, alone)| Knee {
            depth: knee.depth,
            rate: knee.rate,
            latency: knee.latency,
            latency_alone: alone,
            parallelism: best.rate * alone,
        });
        Some(Ceiling {
            of,
            requests: requests.to_owned(),
            block,
            rate: best.rate,
            bandwidth: best.bandwidth,
            knee,
            reached: self.sweep.is_reached(),
            generator: self.is_cpu_bound(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a device that works on `channels` requests at once, for a millisecond each.
    fn device(channels: u32, depth: u32) -> DepthPoint {
        let rate = f64::from(depth.min(channels)) * 1000.0;
        DepthPoint { depth, rate, bandwidth: rate * 4096.0, latency: f64::from(depth) / rate, cpu_bound: false }
    }

    fn sweep(channels: u32) -> (DepthSweep, Vec<u32>) {
        let (mut sweep, mut tried) = (DepthSweep::new(), Vec::new());
        while let Some(depth) = sweep.next() {
            tried.push(depth);
            sweep.add(device(channels, depth));
        }
        (sweep, tried)
    }

    #[test]
    fn the_knee_is_where_all_channels_are_busy() {
        for (channels, knee) in [(1, 1), (2, 2), (4, 4), (6, 6), (32, 32)] {
            let (sweep, tried) = sweep(channels);
            let ceiling = sweep.ceiling("random read", Limit::Requests, 4096).unwrap();
            let found = ceiling.knee.unwrap();
            assert_eq!(found.depth, knee, "{channels} channels, tried {tried:?}");
            assert_eq!((ceiling.rate, ceiling.reached), (f64::from(channels) * 1000.0, true));
            assert!((found.parallelism - f64::from(channels)).abs() < 1e-9);
        }
    }

    #[test]
    fn the_sweep_ends_when_further_depths_tell_nothing() {
        assert_eq!(sweep(1).1, [1, 2, 4]);
        assert_eq!(sweep(4).1, [1, 2, 4, 8, 16, 3]);
        let most = (1..=2 * MAX_DEPTH).map(|channels| sweep(channels).1.len()).max();
        assert!(most.is_some_and(|most| most <= MOST_RUNS), "{most:?}");
    }

    #[test]
    fn a_rate_that_still_rises_at_the_deepest_queue_is_not_the_maximum() {
        let (sweep, tried) = sweep(100_000);
        assert_eq!(tried.iter().max(), Some(&MAX_DEPTH));
        assert!(!sweep.ceiling("random read", Limit::Requests, 4096).unwrap().reached);
    }

    #[test]
    fn more_jobs_count_if_they_bring_more() {
        let (mut sweep, _) = sweep(4);
        assert!(sweep.add_shared(DepthPoint { rate: 6000.0, ..device(4, 16) }));
        assert!(!sweep.add_shared(DepthPoint { rate: 6100.0, ..device(4, 16) }));
        assert_eq!(sweep.best().unwrap().rate, 6100.0);
    }
}
