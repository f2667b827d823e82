//! Drops processes that have issued no request for a while.
//!
//! The BPF map holds thousands of processes, most of them long gone on a machine that has run for days: reading and recording
//! them at every sample would cost more than all the rest.

use super::layout::User;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Longer than any window.
const IDLE_TTL: Duration = Duration::from_secs(120);

#[derive(Default)]
pub(super) struct IdleUsers {
    /// Number of requests, and since when it has been the same.
    since: HashMap<User, (u64, Instant)>,
}

impl IdleUsers {
    /// Takes the number of requests of each process and returns those to drop.
    pub(super) fn update(&mut self, users: impl Iterator<Item = (User, u64)>, now: Instant) -> Vec<User> {
        let before = std::mem::take(&mut self.since);
        let mut dropped = Vec::new();
        for (user, requests) in users {
            let since = match before.get(&user) {
                Some((as_many, since)) if *as_many == requests => *since,
                _ => now,
            };
            if now.duration_since(since) > IDLE_TTL {
                dropped.push(user);
            }
            self.since.insert(user, (requests, since));
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(pid: u64) -> User {
        User { slot: 1, start: 7, cgroup: 0, pid }
    }

    #[test]
    fn idle_processes_are_dropped_and_active_ones_are_not() {
        let (mut idle, start) = (IdleUsers::default(), Instant::now());
        let mut update = |seconds: u64, users: &[(u64, u64)]| -> Vec<u64> {
            let users = users.iter().map(|(pid, requests)| (user(*pid), *requests));
            idle.update(users, start + Duration::from_secs(seconds)).into_iter().map(|user| user.pid).collect()
        };
        assert!(update(0, &[(1, 10), (2, 10)]).is_empty());
        assert!(update(100, &[(1, 10), (2, 11), (3, 1)]).is_empty());
        assert_eq!(update(121, &[(1, 10), (2, 11), (3, 1)]), [1]);
        assert_eq!(update(122, &[(1, 10), (2, 11), (3, 1)]), [1], "until the map entry is gone");
        assert_eq!(update(221, &[(1, 12), (2, 11), (3, 2)]), [2], "a process that is active again is kept");
    }
}
