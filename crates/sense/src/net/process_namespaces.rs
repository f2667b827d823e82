//! The network namespace of each process.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A process younger than this is read in each scan, and scans are frequent for this long after an event, because the process may
/// still be moved into its namespace.
pub(super) const YOUNG: Duration = Duration::from_secs(5);
/// An older process is read again after this time, and so is the list of namespaces.
pub(super) const SETTLED_TTL: Duration = Duration::from_secs(60);
/// An older process is read again after this time if no namespace can have been created since: it can only have moved into an
/// older one, which is most likely known.
const UNCHANGED_TTL: Duration = Duration::from_secs(600);

pub(super) fn ns_file(proc: &Path, pid: u32) -> PathBuf {
    proc.join(format!("{pid}/ns/net"))
}

/// Cached, because reading the namespace of a process costs far more than listing processes.
#[derive(Default)]
pub(super) struct ProcessNamespaces {
    pub(super) by_pid: BTreeMap<u32, ProcessEntry>,
}

#[derive(Clone, Copy)]
pub(super) struct ProcessEntry {
    /// Inode of /proc/PID, which distinguishes processes with the same PID.
    directory: u64,
    pub(super) namespace: ProcessNamespace,
    first_seen: Instant,
    last_read: Instant,
}

#[derive(Clone, Copy)]
pub(super) enum ProcessNamespace {
    Inode(u64),
    /// The observer may not read it.
    Refused,
    /// The process has ended, or the link is malformed.
    Unknown,
}

impl ProcessNamespaces {
    /// Lists all processes and reads those that are new, young, or were last read long ago. `last_event` is the time when a
    /// namespace may last have been created.
    pub(super) fn refresh(&mut self, proc: &Path, last_event: Option<Instant>) {
        let now = Instant::now();
        let mut before = std::mem::take(&mut self.by_pid);
        // Processes of the first scan are not young.
        let first_seen = if before.is_empty() { now.checked_sub(2 * YOUNG).unwrap_or(now) } else { now };
        for entry in fs::read_dir(proc).into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let known = before.remove(&pid).filter(|p| p.directory == entry.ino());
            let process = match known {
                Some(p) if now - p.first_seen > YOUNG && now - p.last_read < p.ttl(last_event) => p,
                _ => ProcessEntry {
                    directory: entry.ino(),
                    namespace: read_namespace(&ns_file(proc, pid)),
                    first_seen: known.map_or(first_seen, |p| p.first_seen),
                    last_read: now,
                },
            };
            self.by_pid.insert(pid, process);
        }
    }
}

impl ProcessEntry {
    fn ttl(&self, last_event: Option<Instant>) -> Duration {
        if last_event.is_some_and(|at| at >= self.last_read) { SETTLED_TTL } else { UNCHANGED_TTL }
    }
}

fn read_namespace(ns_file: &Path) -> ProcessNamespace {
    match fs::read_link(ns_file) {
        Ok(link) => inode_of(&link).map_or(ProcessNamespace::Unknown, ProcessNamespace::Inode),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => ProcessNamespace::Refused,
        Err(_) => ProcessNamespace::Unknown,
    }
}

/// Parses the inode in `net:[4026531840]`.
pub(super) fn inode_of(link: &Path) -> Option<u64> {
    link.to_str()?.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    #[test]
    fn a_settled_process_is_not_read_again_but_another_with_its_number_is() {
        let tree = CapturedTree::with_files(&[]);
        let moves_to = |inode: u64| tree.link("10/ns/net", &format!("net:[{inode}]"));
        moves_to(1);
        let mut processes = ProcessNamespaces::default();
        let mut refresh = |last_event: Option<Instant>, change: &mut dyn FnMut(&mut ProcessEntry)| {
            processes.by_pid.get_mut(&10).into_iter().for_each(change);
            processes.refresh(tree.path(), last_event);
            match processes.by_pid[&10].namespace {
                ProcessNamespace::Inode(inode) => inode,
                ProcessNamespace::Refused | ProcessNamespace::Unknown => panic!("it has a namespace"),
            }
        };
        assert_eq!(refresh(None, &mut |_| ()), 1);
        moves_to(2);
        assert_eq!(refresh(None, &mut |p| p.first_seen = Instant::now()), 2, "a young process may still be moved");
        moves_to(3);
        let event = Some(Instant::now());
        assert_eq!(refresh(event, &mut |p| p.first_seen -= 2 * YOUNG), 2, "settled");
        assert_eq!(refresh(None, &mut |p| p.last_read -= SETTLED_TTL), 2, "no namespace was created");
        assert_eq!(refresh(event, &mut |_| ()), 3);
        moves_to(4);
        assert_eq!(refresh(None, &mut |p| p.last_read -= UNCHANGED_TTL), 4, "into an older namespace");
        moves_to(5);
        assert_eq!(refresh(None, &mut |p| p.directory += 1), 5, "another process");
    }
}
