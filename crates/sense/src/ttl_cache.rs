//! A value that hardly changes and is expensive to find out: which CPUs, NUMA nodes or huge page pools there are.

use std::time::{Duration, Instant};

const TTL: Duration = Duration::from_secs(10);

/// A value that is computed again once it is ten seconds old.
#[derive(Debug)]
pub(crate) struct TtlCache<T> {
    cached: Option<(Instant, T)>,
}

impl<T> Default for TtlCache<T> {
    fn default() -> Self {
        Self { cached: None }
    }
}

impl<T> TtlCache<T> {
    pub(crate) fn get(&mut self, compute: impl FnOnce() -> T) -> &T {
        let cached = match self.cached.take() {
            Some(cached) if cached.0.elapsed() < TTL => cached,
            _ => (Instant::now(), compute()),
        };
        &self.cached.insert(cached).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_computed_once_and_again_when_it_has_expired() {
        let mut cache = TtlCache::default();
        assert_eq!(*cache.get(|| 1), 1);
        assert_eq!(*cache.get(|| 2), 1);
        cache.cached = cache.cached.map(|(at, value)| (at - TTL, value));
        assert_eq!(*cache.get(|| 3), 3);
    }
}
