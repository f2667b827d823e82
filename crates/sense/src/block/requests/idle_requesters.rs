//! Drops processes that have issued no request for a while.
//!
//! The BPF map holds thousands of processes, most of which exited long ago on a machine that has run for days: reading and
//! recording them at every sample would cost more than everything else.

use super::layout::RequesterId;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Longer than any window.
const IDLE_TTL: Duration = Duration::from_secs(120);

#[derive(Default)]
pub(super) struct IdleRequesters {
    /// Number of requests of each process, and the time since when it has not changed.
    since: HashMap<RequesterId, (u64, Instant)>,
}

impl IdleRequesters {
    /// Takes the number of requests of each process and returns those to drop.
    pub(super) fn update(
        &mut self,
        requesters: impl Iterator<Item = (RequesterId, u64)>,
        now: Instant,
    ) -> Vec<RequesterId> {
        let before = std::mem::take(&mut self.since);
        let mut dropped = Vec::new();
        for (id, requests) in requesters {
            let since = match before.get(&id) {
                Some((as_many, since)) if *as_many == requests => *since,
                _ => now,
            };
            if now.duration_since(since) > IDLE_TTL {
                dropped.push(id);
            }
            self.since.insert(id, (requests, since));
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(pid: u64) -> RequesterId {
        RequesterId { slot: 1, start: 7, cgroup: 0, pid }
    }

    #[test]
    fn idle_processes_are_dropped_and_active_ones_are_not() {
        let (mut idle, start) = (IdleRequesters::default(), Instant::now());
        let mut update = |seconds: u64, requesters: &[(u64, u64)]| -> Vec<u64> {
            let requesters = requesters.iter().map(|(pid, requests)| (id(*pid), *requests));
            idle.update(requesters, start + Duration::from_secs(seconds)).into_iter().map(|id| id.pid).collect()
        };
        assert!(update(0, &[(1, 10), (2, 10)]).is_empty());
        assert!(update(100, &[(1, 10), (2, 11), (3, 1)]).is_empty());
        assert_eq!(update(121, &[(1, 10), (2, 11), (3, 1)]), [1]);
        assert_eq!(update(122, &[(1, 10), (2, 11), (3, 1)]), [1], "until the map entry is gone");
        assert_eq!(update(221, &[(1, 12), (2, 11), (3, 2)]), [2], "a process that is active again is kept");
    }
}
