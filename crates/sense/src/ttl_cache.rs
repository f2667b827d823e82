//! What hardly changes and is dear to find out: which processors, nodes and pools there are.

use std::time::{Duration, Instant};

/// How long it is taken to stand.
const STANDS: Duration = Duration::from_secs(10);

/// Something that is found out anew every ten seconds.
#[derive(Debug)]
pub(crate) struct Seldom<T> {
    known: Option<(Instant, T)>,
}

impl<T> Default for Seldom<T> {
    fn default() -> Self {
        Self { known: None }
    }
}

impl<T> Seldom<T> {
    /// What `find` found at most ten seconds ago.
    pub(crate) fn get(&mut self, find: impl FnOnce() -> T) -> &T {
        let known = match self.known.take() {
            Some(known) if known.0.elapsed() < STANDS => known,
            _ => (Instant::now(), find()),
        };
        &self.known.insert(known).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_once_and_again_when_it_is_old() {
        let mut seldom = Seldom::default();
        assert_eq!(*seldom.get(|| 1), 1);
        assert_eq!(*seldom.get(|| 2), 1);
        seldom.known = seldom.known.map(|(at, value)| (at - STANDS, value));
        assert_eq!(*seldom.get(|| 3), 3);
    }
}
