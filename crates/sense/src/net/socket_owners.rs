//! The process that holds a socket, found by the links under /proc/PID/fd (proc_pid_fd(5)).
//!
//! The kernel has no link from a socket to its holders, so every descriptor of every process has to be read. As that is expensive
//! (a system call each), it is done only for active sockets without a known holder, in scans that are spread over samples. A scan
//! starts with the processes that most likely hold a socket.

use crate::Root;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fs::{self, ReadDir};
use std::time::{Duration, Instant};

/// Time spent scanning per sample.
const BUDGET: Duration = Duration::from_millis(10);
/// Minimum and maximum time between the starts of two scans.
const INTERVALS: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(30));
/// Scans take at most one part in 1000 of all time: on a server that keeps opening sockets there is always another one to find.
const MIN_PAUSE_FACTOR: u32 = 1000;

#[derive(Default)]
pub(super) struct SocketOwners {
    /// Holders by inode; `None` if a complete scan found none.
    holders: HashMap<u64, Option<u32>>,
    /// Processes that existed when the last scan began.
    seen: HashSet<u32>,
    scan: Option<Scan>,
    last_start: Option<Instant>,
    /// Duration of the last or current scan.
    spent: Duration,
}

/// A walk through all processes, which may take several samples.
struct Scan {
    wanted: HashSet<u64>,
    /// Processes still to be scanned, the next one last.
    processes: Vec<u32>,
    /// The process being scanned, and its remaining descriptors.
    current: Option<(u32, ReadDir)>,
}

impl SocketOwners {
    pub(super) fn get(&self, inode: u64) -> Option<u32> {
        self.holders.get(&inode).copied().flatten()
    }

    /// Forgets sockets that are not among `all`, and scans for the holders of `active` ones within the time budget.
    pub(super) fn update(&mut self, root: &Root, all: &HashSet<u64>, active: &HashSet<u64>) {
        let gone: HashSet<u32> =
            self.processes().into_iter().filter(|pid| !root.at(format!("proc/{pid}")).exists()).collect();
        self.holders.retain(|inode, pid| all.contains(inode) && pid.is_none_or(|pid| !gone.contains(&pid)));
        let pause = self.spent.saturating_mul(MIN_PAUSE_FACTOR).clamp(INTERVALS.0, INTERVALS.1);
        if self.scan.is_none() && self.last_start.is_none_or(|at| at.elapsed() >= pause) {
            self.start(root, active);
        }
        let Some(mut scan) = self.scan.take() else { return };
        let began = Instant::now();
        let is_over = scan.advance(root, began + BUDGET, &mut self.holders);
        self.spent += began.elapsed();
        if is_over {
            self.holders.extend(scan.wanted.into_iter().map(|inode| (inode, None)));
        } else {
            self.scan = Some(scan);
        }
    }

    fn start(&mut self, root: &Root, sockets: &HashSet<u64>) {
        let wanted: HashSet<u64> = sockets.iter().filter(|i| !self.holders.contains_key(i)).copied().collect();
        if wanted.is_empty() {
            return;
        }
        let holders = self.processes();
        let mut processes: Vec<u32> = root.list("proc").iter().filter_map(|name| name.parse().ok()).collect();
        let seen = std::mem::replace(&mut self.seen, processes.iter().copied().collect());
        // A new socket most likely belongs to a process that already had some, or to a new process: those come first. If there
        // are several holders, the server is reported, not a child that has inherited the socket for the moment.
        processes.sort_by_key(|pid| (holders.contains(pid), !seen.contains(pid), Reverse(*pid)));
        self.scan = Some(Scan { wanted, processes, current: None });
        (self.last_start, self.spent) = (Some(Instant::now()), Duration::ZERO);
    }

    fn processes(&self) -> HashSet<u32> {
        self.holders.values().copied().flatten().collect()
    }
}

impl Scan {
    /// Continues until all holders are found, no process is left, or the deadline has passed. Returns whether the scan is
    /// complete.
    fn advance(&mut self, root: &Root, deadline: Instant, found: &mut HashMap<u64, Option<u32>>) -> bool {
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

/// Parses the inode in `socket:[4711]`.
fn socket_inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    fn tree(descriptors: &[(u32, &str)]) -> CapturedTree {
        let tree = CapturedTree::with_files(&[]);
        for (fd, (pid, link)) in descriptors.iter().enumerate() {
            tree.link(&format!("proc/{pid}/fd/{fd}"), link);
        }
        tree
    }

    #[test]
    fn a_holder_is_found_once_and_forgotten_when_it_ends() {
        let tree = tree(&[(7, "/dev/null"), (7, "socket:[100]"), (8, "socket:[malformed]")]);
        let sockets = HashSet::from([100, 101]);
        let mut owners = SocketOwners::default();
        owners.update(&tree.root(), &sockets, &sockets);
        assert_eq!((owners.get(100), owners.get(101)), (Some(7), None));
        assert!(owners.holders.contains_key(&101), "a socket without a holder is not looked for again");
        tree.remove("proc/7");
        owners.update(&tree.root(), &sockets, &sockets);
        assert_eq!(owners.get(100), None);
    }

    #[test]
    fn the_oldest_holder_is_reported() {
        let tree = tree(&[(8, "socket:[100]"), (7, "socket:[100]"), (9, "socket:[100]")]);
        let mut owners = SocketOwners::default();
        let sockets = HashSet::from([100]);
        owners.update(&tree.root(), &sockets, &sockets);
        assert_eq!(owners.get(100), Some(7));
    }

    #[test]
    fn the_holder_of_an_idle_socket_is_not_looked_for() {
        let mut owners = SocketOwners::default();
        owners.update(&tree(&[(7, "socket:[100]")]).root(), &HashSet::from([100]), &HashSet::new());
        assert!(owners.holders.is_empty() && owners.scan.is_none());
    }

    #[test]
    fn an_interrupted_scan_continues_where_it_stopped() {
        let tree = tree(&[(7, "socket:[100]")]);
        let mut found = HashMap::new();
        let mut scan = Scan { wanted: HashSet::from([100]), processes: vec![7], current: None };
        assert!(!scan.advance(&tree.root(), Instant::now(), &mut found));
        assert!(found.is_empty());
        assert!(scan.advance(&tree.root(), Instant::now() + Duration::from_secs(60), &mut found));
        assert_eq!(found, HashMap::from([(100, Some(7))]));
    }
}
