//! Waiting time after failures.

use std::time::Duration;

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(600);

/// Doubles the waiting time after each consecutive failure, from a second to ten minutes, randomly reduced by up to a half: hosts
/// that failed together do not retry together.
#[derive(Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Records another failure and returns the time to wait.
    pub fn failed(&mut self) -> Duration {
        let doubled = SHORTEST.saturating_mul(2_u32.saturating_pow(self.failures)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        let random = getrandom::u32().map_or(1.0, |random| f64::from(random) / f64::from(u32::MAX));
        doubled.mul_f64(0.5 + random / 2.0)
    }

    /// Resets the waiting time after a success.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_up_to_ten_minutes_and_begins_anew() {
        let mut backoff = Backoff::default();
        for longest in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600] {
            let wait = backoff.failed().as_secs_f64();
            assert!((f64::from(longest) / 2.0..=f64::from(longest)).contains(&wait), "{wait} of {longest}");
        }
        backoff.succeeded();
        assert!(backoff.failed() <= SHORTEST);
    }
}
