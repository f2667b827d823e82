//! Who has not asked for anything for a while is forgotten.
//!
//! The kernel's map holds thousands of processes, most of them long gone on a machine that has run for days: to read and to
//! record them at every sample would cost more than all the rest.

use super::layout::User;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long who is silent is still told of: longer than any window is looked at.
const TOLD_OF: Duration = Duration::from_secs(120);

/// Since when each has been silent.
#[derive(Default)]
pub(super) struct Silence {
    /// How many requests it had made, and since when they have been as many.
    since: HashMap<User, (u64, Instant)>,
}

impl Silence {
    /// Takes what each has asked for so far; those that are to be forgotten.
    pub(super) fn judge(&mut self, users: impl Iterator<Item = (User, u64)>, now: Instant) -> Vec<User> {
        let before = std::mem::take(&mut self.since);
        let mut forgotten = Vec::new();
        for (user, requests) in users {
            let since = match before.get(&user) {
                Some((as_many, since)) if *as_many == requests => *since,
                _ => now,
            };
            if now.duration_since(since) > TOLD_OF {
                forgotten.push(user);
            }
            self.since.insert(user, (requests, since));
        }
        forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(pid: u64) -> User {
        User { slot: 1, start: 7, cgroup: 0, pid }
    }

    #[test]
    fn the_silent_are_forgotten_and_those_at_work_are_not() {
        let (mut silence, start) = (Silence::default(), Instant::now());
        let mut judge = |seconds: u64, users: &[(u64, u64)]| -> Vec<u64> {
            let users = users.iter().map(|(pid, requests)| (user(*pid), *requests));
            silence.judge(users, start + Duration::from_secs(seconds)).into_iter().map(|user| user.pid).collect()
        };
        assert!(judge(0, &[(1, 10), (2, 10)]).is_empty());
        assert!(judge(100, &[(1, 10), (2, 11), (3, 1)]).is_empty());
        assert_eq!(judge(121, &[(1, 10), (2, 11), (3, 1)]), [1]);
        assert_eq!(judge(122, &[(1, 10), (2, 11), (3, 1)]), [1], "until it is gone");
        assert_eq!(judge(221, &[(1, 12), (2, 11), (3, 2)]), [2], "who asks again is told of again");
    }
}
