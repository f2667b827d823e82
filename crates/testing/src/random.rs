//! Random readings for tests, reproducible from a seed.

use whyslow_model::catalogue::{Family, MetricKind};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Value;
use whyslow_model::window::Window;

/// Pseudorandom numbers (SplitMix64).
pub struct Random(u64);

impl Random {
    /// Creates a generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number, below a limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// Creates readings of one entity. Its counters grow, stand still, are reset, are missing at times, or are never read.
pub fn window_of<F: Family>(key: &F::Key, random: &mut Random) -> Window {
    let counters: Vec<usize> =
        (0..F::INFO.metrics.len()).filter(|at| F::INFO.metrics[*at].kind == MetricKind::Counter).collect();
    let mut values: Vec<Option<u64>> =
        counters.iter().map(|_| (random.below(5) > 0).then(|| random.below(1_000_000))).collect();
    let mut now = 1_000_000_000;
    let sample = |_| {
        now += 500_000_000 + random.below(2_000_000_000);
        let mut row = F::keyed(key.clone());
        for (column, value) in counters.iter().zip(&mut values) {
            let Some(value) = value else { continue };
            match random.below(20) {
                0 => *value = 0,
                1 => continue,
                2..6 => {}
                _ => *value += random.below(1_000_000_000),
            }
            row.put(*column, Value::Counter((*value).into()));
        }
        let mut sample = Snapshot { boot_ns: now, wall_ns: now as i64, ..Snapshot::default() };
        F::rows_mut(&mut sample).push(row);
        sample
    };
    Window::new((0..6).map(sample).collect())
}
