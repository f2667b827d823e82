//! Which process holds a socket: the links under /proc/PID/fd (proc_pid_fd(5)).
//!
//! The kernel keeps no way from a socket to its holders, so every descriptor of every process has to be looked at. That is
//! dear (a system call each), so it is done only for sockets that are at work and not yet known, in rounds that are spread
//! over samples, and first where a socket most likely is.

use crate::Root;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fs::{self, ReadDir};
use std::time::{Duration, Instant};

/// Time that one sample may spend on looking.
const BUDGET: Duration = Duration::from_millis(10);
/// Least and most time from the start of a round to that of the next.
const PAUSES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(30));
/// The part of all time that may be spent on looking is one in so many: where a server opens sockets all the time, there is
/// always one more to look for.
const SHARE: u32 = 1000;

/// Holders of sockets, remembered.
#[derive(Default)]
pub(crate) struct Owners {
    /// By inode; `None` for a socket whose holder a whole round did not find.
    known: HashMap<u64, Option<u32>>,
    /// Processes there were when the last round began.
    seen: HashSet<u32>,
    round: Option<Round>,
    last_start: Option<Instant>,
    /// How long the last round, or the one under way, has looked.
    spent: Duration,
}

/// A walk through all processes, which may take several samples.
struct Round {
    wanted: HashSet<u64>,
    /// Processes yet to be looked at, the next one last.
    processes: Vec<u32>,
    /// The process being looked at, and what is left of its descriptors.
    current: Option<(u32, ReadDir)>,
}

impl Owners {
    /// A process that holds the socket, where one is known.
    pub fn get(&self, inode: u64) -> Option<u32> {
        self.known.get(&inode).copied().flatten()
    }

    /// Forgets sockets that are not among `all`, and looks for the holders of those at work within the time allowed.
    pub fn update(&mut self, root: &Root, all: &HashSet<u64>, at_work: &HashSet<u64>) {
        let gone: HashSet<u32> =
            self.holders().into_iter().filter(|pid| !root.at(format!("proc/{pid}")).exists()).collect();
        self.known.retain(|inode, pid| all.contains(inode) && pid.is_none_or(|pid| !gone.contains(&pid)));
        let pause = self.spent.saturating_mul(SHARE).clamp(PAUSES.0, PAUSES.1);
        if self.round.is_none() && self.last_start.is_none_or(|at| at.elapsed() >= pause) {
            self.start(root, at_work);
        }
        let Some(mut round) = self.round.take() else { return };
        let began = Instant::now();
        let is_over = round.go_on(root, began + BUDGET, &mut self.known);
        self.spent += began.elapsed();
        if is_over {
            self.known.extend(round.wanted.into_iter().map(|inode| (inode, None)));
        } else {
            self.round = Some(round);
        }
    }

    fn start(&mut self, root: &Root, sockets: &HashSet<u64>) {
        let wanted: HashSet<u64> = sockets.iter().filter(|i| !self.known.contains_key(i)).copied().collect();
        if wanted.is_empty() {
            return;
        }
        let holders = self.holders();
        let mut processes: Vec<u32> = root.list("proc").iter().filter_map(|name| name.parse().ok()).collect();
        let seen = std::mem::replace(&mut self.seen, processes.iter().copied().collect());
        // A new socket most likely belongs to a process that had some before, or that is new itself: those are looked at
        // first. Where several hold a socket, the one to be named is the server, not a child that has inherited it for the
        // moment.
        processes.sort_by_key(|pid| (holders.contains(pid), !seen.contains(pid), Reverse(*pid)));
        self.round = Some(Round { wanted, processes, current: None });
        (self.last_start, self.spent) = (Some(Instant::now()), Duration::ZERO);
    }

    fn holders(&self) -> HashSet<u32> {
        self.known.values().copied().flatten().collect()
    }
}

impl Round {
    /// Looks on until all is found, nothing is left to look at, or the time is up. Whether the round is over.
    fn go_on(&mut self, root: &Root, deadline: Instant, found: &mut HashMap<u64, Option<u32>>) -> bool {
        while !self.wanted.is_empty() {
            if Instant::now() >= deadline {
                return false;
            }
            let Some((pid, descriptors)) = &mut self.current else {
                let Some(pid) = self.processes.pop() else { return true };
                self.current = fs::read_dir(root.at(format!("proc/{pid}/fd"))).ok().map(|open| (pid, open));
                continue;
            };
            match descriptors.next() {
                Some(Ok(descriptor)) => {
                    if let Ok(link) = fs::read_link(descriptor.path())
                        && let Some(inode) = link.to_str().and_then(socket_inode)
                        && self.wanted.remove(&inode)
                    {
                        found.insert(inode, Some(*pid));
                    }
                }
                Some(Err(_)) | None => self.current = None,
            }
        }
        true
    }
}

/// The inode in `socket:[4711]`.
fn socket_inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    fn descriptor(tree: &Path, pid: u32, fd: u32, link: &str) {
        let folder = tree.join(format!("proc/{pid}/fd"));
        fs::create_dir_all(&folder).unwrap();
        symlink(link, folder.join(fd.to_string())).unwrap();
    }

    #[test]
    fn a_holder_is_found_once_and_forgotten_when_it_ends() {
        let tree = tempfile::tempdir().unwrap();
        descriptor(tree.path(), 7, 0, "/dev/null");
        descriptor(tree.path(), 7, 3, "socket:[100]");
        descriptor(tree.path(), 8, 3, "socket:[gibberish]");
        let root = Root::captured(tree.path());
        let sockets = HashSet::from([100, 101]);
        let mut owners = Owners::default();
        owners.update(&root, &sockets, &sockets);
        assert_eq!((owners.get(100), owners.get(101)), (Some(7), None));
        assert!(owners.known.contains_key(&101), "one that is held by nobody is not looked for again");
        fs::remove_dir_all(tree.path().join("proc/7")).unwrap();
        owners.update(&root, &sockets, &sockets);
        assert_eq!(owners.get(100), None);
    }

    #[test]
    fn the_eldest_holder_is_named() {
        let tree = tempfile::tempdir().unwrap();
        for pid in [8, 7, 9] {
            descriptor(tree.path(), pid, 3, "socket:[100]");
        }
        let mut owners = Owners::default();
        let sockets = HashSet::from([100]);
        owners.update(&Root::captured(tree.path()), &sockets, &sockets);
        assert_eq!(owners.get(100), Some(7));
    }

    #[test]
    fn nobody_asks_whose_an_idle_socket_is() {
        let tree = tempfile::tempdir().unwrap();
        descriptor(tree.path(), 7, 3, "socket:[100]");
        let mut owners = Owners::default();
        owners.update(&Root::captured(tree.path()), &HashSet::from([100]), &HashSet::new());
        assert!(owners.known.is_empty() && owners.round.is_none());
    }

    #[test]
    fn a_round_cut_short_goes_on_where_it_stopped() {
        let tree = tempfile::tempdir().unwrap();
        descriptor(tree.path(), 7, 3, "socket:[100]");
        let root = Root::captured(tree.path());
        let mut found = HashMap::new();
        let mut round = Round { wanted: HashSet::from([100]), processes: vec![7], current: None };
        assert!(!round.go_on(&root, Instant::now(), &mut found));
        assert!(found.is_empty());
        assert!(round.go_on(&root, Instant::now() + BUDGET, &mut found));
        assert_eq!(found, HashMap::from([(100, Some(7))]));
    }
}
