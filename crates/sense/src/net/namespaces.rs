//! The network namespaces of the machine (network_namespaces(7)): containers and `ip netns` have their own interfaces, sockets
//! and counters, which only a thread within the namespace can read.
//!
//! A thread enters them again for each sample (setns(2) takes microseconds): an open socket or file would keep the namespace and
//! its interfaces alive after their owner has removed them.

use super::netlink::Netlink;
use super::process_namespaces::{ProcessNamespace, ProcessNamespaces, SETTLED_TTL, YOUNG, inode_of, ns_file};
use super::rtnetlink;
use crate::Root;
use crate::os::is_root;
use crate::source::{Source, SourceInfo};
use crate::source_error::SourceError;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use whyslow_model::catalogue::NetworkNamespaces;
use whyslow_model::human;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Name;

/// Maximum number of namespaces read, in addition to our own.
const LIMIT: usize = 64;
/// Interval between scans while namespaces may appear or disappear: even if no process is new, each scan lists all of them.
const RESCAN: Duration = Duration::from_secs(2);
/// Directory in which ip-netns(8) mounts named namespaces.
const NAMED: &str = "/run/netns";
/// The kernel's count of uevents. A new namespace causes some, for its loopback device.
const EVENTS: &str = "sys/kernel/uevent_seqnum";
/// The sources of one sample follow one another within milliseconds and share one check.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// A network namespace other than the observer's own.
#[derive(Clone, Debug)]
pub(super) struct NetNamespace {
    /// Its name under /run/netns, or `net:[inode]`.
    pub(super) name: Name,
    inode: u64,
    file: PathBuf,
}

impl NetNamespace {
    /// Opens the namespace. Fails if it no longer exists, or if the path now leads to another one.
    pub(super) fn open(&self) -> io::Result<File> {
        let file = File::open(&self.file)?;
        if file.metadata()?.ino() == self.inode { Ok(file) } else { Err(io::ErrorKind::NotFound.into()) }
    }
}

/// Moves the calling thread, and no other, into a namespace.
fn enter(namespace: &File) -> io::Result<()> {
    // SAFETY: a system call that takes no pointer; the file is open.
    if unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

thread_local! {
    /// Whether this thread entered another namespace and could not return.
    static ASTRAY: Cell<bool> = const { Cell::new(false) };
}

#[derive(Clone, Default)]
struct NamespaceScan {
    /// Namespaces that can be entered.
    others: Arc<[NetNamespace]>,
    /// Number of namespaces that may not be entered.
    refused: usize,
    /// Number of those that have a name. Unnamed ones can be empty, such as those that a browser creates for its sandbox.
    refused_named: usize,
    /// Number of processes whose namespace may not be read.
    unknown: usize,
    /// Number of namespaces beyond the limit.
    beyond: usize,
    /// Our own namespace, if a thread that entered another one can return. It cannot if our own belongs to a parent user
    /// namespace.
    home: Option<Arc<File>>,
}

/// The namespaces and their cached scan, shared by all network sources.
#[derive(Default)]
pub(super) struct Namespaces {
    state: Mutex<ScanState>,
}

#[derive(Default)]
struct ScanState {
    processes: ProcessNamespaces,
    found: NamespaceScan,
    scanned: Option<Instant>,
    events: Option<u64>,
    events_checked: Option<Instant>,
    /// Time when namespaces may last have appeared or disappeared.
    last_event: Option<Instant>,
}

impl ScanState {
    fn is_scan_due(&mut self, root: &Root) -> bool {
        if self.events_checked.is_some_and(|at| at.elapsed() < CHECK_INTERVAL) {
            return false;
        }
        self.events_checked = Some(Instant::now());
        let events = root.polled_number(EVENTS);
        // The first call has nothing to compare with, and scans everything anyway.
        if events.is_none() || (self.events.is_some() && events != self.events) {
            self.last_event = Some(Instant::now());
        }
        self.events = events;
        let pause = if self.last_event.is_some_and(|at| at.elapsed() < YOUNG) { RESCAN } else { SETTLED_TTL };
        self.scanned.is_none_or(|at| at.elapsed() >= pause)
    }
}

impl Namespaces {
    /// Calls `read` within each namespace, our own (named "") first. Sockets that `read` opens belong to the namespace, and so do
    /// the files under /proc/thread-self/net. Returns the first error of `read`; skips namespaces that no longer exist.
    pub(super) fn each(
        &self,
        root: &Root,
        mut read: impl FnMut(&Name) -> Result<(), SourceError> + Send,
    ) -> Result<(), SourceError> {
        if ASTRAY.get() {
            return Err(SourceError::Failed("this thread could not return from another network namespace".into()));
        }
        let own = read(&Name::default());
        let NamespaceScan { others, home, .. } = self.found(root);
        let mut entered = 0;
        let read = |namespace: &NetNamespace| {
            entered += 1;
            read(&namespace.name)
        };
        let outcome = match home {
            Some(home) => visit_and_return(&others, &home, read),
            None => visit_by_thread(&others, read),
        };
        if entered < others.len() {
            // A namespace disappeared, or only the process through which it was entered.
            self.lock().last_event = Some(Instant::now());
        }
        own.and(outcome)
    }

    /// Lists the namespaces other than our own that can be entered.
    pub(super) fn others(&self, root: &Root) -> Arc<[NetNamespace]> {
        self.found(root).others
    }

    /// Returns the name of the namespace with this inode: empty for our own.
    pub(super) fn name_of(&self, root: &Root, inode: u64) -> Name {
        if inode_behind(&root.at("proc/self/ns/net")) == Some(inode) {
            return Name::default();
        }
        let name = self.others(root).iter().find(|n| n.inode == inode).map(|n| n.name.clone());
        name.unwrap_or_else(|| format!("net:[{inode}]").into())
    }

    fn found(&self, root: &Root) -> NamespaceScan {
        if !root.is_live() {
            return NamespaceScan::default();
        }
        let mut state = self.lock();
        if state.is_scan_due(root) {
            let last_event = state.last_event;
            state.processes.refresh(Path::new("/proc"), last_event);
            state.found = scan(&state.processes);
            state.scanned = Some(Instant::now());
        }
        state.found.clone()
    }

    fn lock(&self) -> MutexGuard<'_, ScanState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls `read` within each of `namespaces`. The calling thread is in the last of them afterwards.
fn visit(
    namespaces: &[NetNamespace],
    mut read: impl FnMut(&NetNamespace) -> Result<(), SourceError>,
) -> Result<(), SourceError> {
    let mut outcome = Ok(());
    for namespace in namespaces {
        if namespace.open().and_then(|file| enter(&file)).is_ok() {
            outcome = outcome.and(read(namespace));
        }
    }
    outcome
}

fn visit_and_return(
    namespaces: &[NetNamespace],
    home: &File,
    read: impl FnMut(&NetNamespace) -> Result<(), SourceError>,
) -> Result<(), SourceError> {
    if namespaces.is_empty() {
        return Ok(());
    }
    let _return = Return(home);
    visit(namespaces, read)
}

/// Returns the calling thread home when dropped, also after a panic.
struct Return<'h>(&'h File);

impl Drop for Return<'_> {
    fn drop(&mut self) {
        ASTRAY.set(enter(self.0).is_err());
    }
}

/// Visits the namespaces in another thread, for a thread that could not return; costs a tenth of a millisecond more.
fn visit_by_thread(
    namespaces: &[NetNamespace],
    read: impl FnMut(&NetNamespace) -> Result<(), SourceError> + Send,
) -> Result<(), SourceError> {
    if namespaces.is_empty() {
        return Ok(());
    }
    in_thread(|| visit(namespaces, read)).map_err(|e| SourceError::Failed(human::no_thread(&e)))?
}

/// Runs a closure in a separate thread and waits for it.
fn in_thread<T: Send>(run: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let running = thread::Builder::new().name("namespaces".into()).spawn_scoped(scope, run)?;
        Ok(running.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// Finds every namespace, checks which of them can be entered, and whether a thread can return.
fn scan(processes: &ProcessNamespaces) -> NamespaceScan {
    let (namespaces, unknown) = discover(processes, Path::new("/proc"), Path::new(NAMED));
    let beyond = namespaces.len().saturating_sub(LIMIT);
    let home = File::open("/proc/self/ns/net").ok();
    let tried = &namespaces[..namespaces.len() - beyond];
    let visit_each = || tried.iter().map(|namespace| try_to_enter(namespace, home.as_ref())).collect::<Vec<_>>();
    // In a separate thread, which may not be able to return. If no thread can be created, none is entered; the next scan tries
    // again.
    let entries = in_thread(visit_each).unwrap_or_else(|_| vec![Entry::Refused; tried.len()]);
    let is_open = |entry: &Entry| matches!(entry, Entry::Open { .. });
    // Root is refused only by processes with capabilities that it lacks itself, such as the init of a sandbox.
    let unknown = if is_root() { 0 } else { unknown };
    let others: Arc<[NetNamespace]> = tried
        .iter()
        .zip(&entries)
        .filter(|(_, entry)| is_open(entry))
        .map(|(namespace, _)| namespace.clone())
        .collect();
    let refused =
        || tried.iter().zip(&entries).filter(|(_, entry)| **entry == Entry::Refused).map(|(namespace, _)| namespace);
    let has_returned = entries.iter().rfind(|entry| is_open(entry)) == Some(&Entry::Open { returned: true });
    NamespaceScan {
        others,
        refused: refused().count(),
        refused_named: refused().filter(|namespace| namespace.file.starts_with(NAMED)).count(),
        unknown,
        beyond,
        home: home.filter(|_| has_returned).map(Arc::new),
    }
}

/// Result of an attempt to enter a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    /// Entered; `returned` is true if the thread could return home.
    Open {
        returned: bool,
    },
    Refused,
    /// The namespace disappeared between discovery and entry.
    Gone,
}

/// Tries to enter a namespace and to return home.
fn try_to_enter(namespace: &NetNamespace, home: Option<&File>) -> Entry {
    match namespace.open().and_then(|file| enter(&file)) {
        Ok(()) => Entry::Open { returned: home.is_some_and(|home| enter(home).is_ok()) },
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Entry::Refused,
        Err(_) => Entry::Gone,
    }
}

/// Finds every namespace but our own, by name, and counts the processes whose namespace may not be read. A namespace is
/// identified by its inode; several processes and names can lead to it.
fn discover(processes: &ProcessNamespaces, proc: &Path, named: &Path) -> (Vec<NetNamespace>, usize) {
    let Some(own) = inode_behind(&proc.join("self/ns/net")) else { return (Vec::new(), 0) };
    let mut found = BTreeMap::new();
    // The name of an unmounted namespace is a plain file on another file system.
    let device = fs::metadata(proc.join("self/ns/net")).map(|m| m.dev()).ok();
    for entry in entries(named) {
        if let Ok(file) = fs::metadata(&entry)
            && Some(file.dev()) == device
            && let Some(name) = entry.file_name()
        {
            let name = Name::from(name.to_string_lossy().into_owned());
            found.insert(file.ino(), NetNamespace { name, inode: file.ino(), file: entry });
        }
    }
    let mut unknown = 0;
    for (pid, process) in &processes.by_pid {
        match process.namespace {
            ProcessNamespace::Inode(inode) => {
                found.entry(inode).or_insert_with(|| NetNamespace {
                    name: format!("net:[{inode}]").into(),
                    inode,
                    file: ns_file(proc, *pid),
                });
            }
            ProcessNamespace::Refused => unknown += 1,
            ProcessNamespace::Unknown => {}
        }
    }
    found.remove(&own);
    let mut namespaces: Vec<NetNamespace> = found.into_values().collect();
    namespaces.sort_by(|a, b| a.name.cmp(&b.name));
    (namespaces, unknown)
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().filter_map(|e| Some(e.ok()?.path()))
}

fn inode_behind(link: &Path) -> Option<u64> {
    inode_of(&fs::read_link(link).ok()?)
}

/// Source that reports the namespaces that are not read.
pub(super) struct Visibility(pub(super) Arc<Namespaces>);

impl Source for Visibility {
    fn info(&self) -> SourceInfo {
        SourceInfo::new("network namespaces", "the network of containers").slow()
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        let found = self.0.found(root);
        if root.is_live() {
            // An interface whose peer is elsewhere reveals a namespace to which no name leads.
            let linked =
                if found.unknown > 0 { namespaces_behind_links().saturating_sub(found.others.len()) } else { 0 };
            let refused = (found.refused_named.max(linked) as u64).into();
            out.net.network_namespaces.push(NetworkNamespaces { refused, ..NetworkNamespaces::default() });
        }
        let why = match (found.refused, found.unknown) {
            (0, 0) if found.beyond == 0 => return Ok(()),
            (0, 0) => {
                let why = format!("{} network namespaces beyond the first {LIMIT} are not read", found.beyond);
                return Err(SourceError::Failed(why));
            }
            (0, unknown) => format!("the network namespaces of {unknown} processes"),
            (refused, _) => format!("{refused} other network namespaces"),
        };
        Err(SourceError::NotPermitted { why, remedy: "run as root (CAP_SYS_ADMIN)".into() })
    }
}

/// Counts the namespaces that the interfaces of this one are connected to; 0 if that cannot be read.
fn namespaces_behind_links() -> usize {
    let links = Netlink::open(libc::NETLINK_ROUTE).and_then(|mut netlink| rtnetlink::links(&mut netlink));
    let peers: BTreeSet<u32> = links.into_iter().flatten().filter_map(|link| link.peer_namespace).collect();
    peers.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    #[test]
    fn each_other_namespace_is_found_once() {
        let tree = CapturedTree::with_files(&[]);
        let namespaces =
            [("self", "net:[1]"), ("10", "net:[1]"), ("11", "net:[7]"), ("12", "net:[7]"), ("13", "malformed")];
        namespaces.iter().for_each(|(pid, link)| tree.link(&format!("{pid}/ns/net"), link));
        let mut processes = ProcessNamespaces::default();
        processes.refresh(tree.path(), None);
        let (found, unknown) = discover(&processes, tree.path(), &tree.path().join("no such directory"));
        assert_eq!(found.iter().map(|n| n.name.to_string()).collect::<Vec<_>>(), ["net:[7]"]);
        assert_eq!(unknown, 0);
    }

    #[test]
    fn a_namespace_that_goes_while_it_is_looked_for_was_not_refused() {
        // Larger than any PID.
        let tree = CapturedTree::with_files(&[]);
        tree.link("4194999/ns/net", "net:[7]");
        let mut processes = ProcessNamespaces::default();
        processes.refresh(tree.path(), None);
        let (found, _) = discover(&processes, Path::new("/proc"), &tree.path().join("no such directory"));
        assert_eq!(found.iter().map(|n| n.inode).collect::<Vec<_>>(), [7]);
        assert_eq!(try_to_enter(&found[0], None), Entry::Gone);
        let found = scan(&processes);
        assert_eq!((found.refused, found.others.iter().any(|n| n.inode == 7)), (0, false));
    }

    #[test]
    fn a_captured_tree_has_only_its_own() {
        let mut seen = Vec::new();
        let read = Namespaces::default().each(&Root::captured("/nowhere"), |name| {
            seen.push(name.to_string());
            Ok(())
        });
        assert_eq!((read, seen), (Ok(()), vec![String::new()]));
    }
}
