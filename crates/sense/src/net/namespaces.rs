//! The network namespaces of the machine (network_namespaces(7)): containers and `ip netns` have their own interfaces,
//! sockets and counters, which only a thread within the namespace can read.
//!
//! They are entered anew for each reading (setns(2) takes microseconds): a socket or file kept open in a namespace would
//! keep the namespace and its interfaces alive after their owner has let go of them.

use super::process_namespaces::{Home, Residents, SETTLED, YOUNG, inode_of, way_in};
use crate::Root;
use crate::source::{Miss, Source, Tempo};
use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Name;

/// How many namespaces other than the own are read at most.
const LIMIT: usize = 64;
/// Time between two scans while namespaces may come and go: even where no process is new, all have to be listed.
const RESCAN: Duration = Duration::from_secs(2);
/// The kernel's count of device events. A new namespace makes some, for it has a loopback device of its own.
const EVENTS: &str = "sys/kernel/uevent_seqnum";
/// The sources of one sample, which follow one another within milliseconds, look at it once.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A network namespace that is not the observer's own.
#[derive(Clone, Debug)]
pub(crate) struct Namespace {
    /// Its name under /run/netns, or `net:[inode]`.
    pub name: Name,
    inode: u64,
    way_in: PathBuf,
}

impl Namespace {
    /// Opens it.
    ///
    /// # Errors
    /// Where it is gone, or a process of another namespace goes by that number now.
    pub fn open(&self) -> io::Result<File> {
        let file = File::open(&self.way_in)?;
        if file.metadata()?.ino() == self.inode { Ok(file) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn enter(&self) -> io::Result<()> {
        enter(&self.open()?)
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
    /// Whether this thread went into another namespace and could not come back.
    static ASTRAY: Cell<bool> = const { Cell::new(false) };
}

/// What is known of the machine's namespaces.
#[derive(Clone, Default)]
struct Found {
    /// Those that can be entered.
    others: Arc<[Namespace]>,
    /// How many there are that may not be entered.
    refused: usize,
    /// How many processes there are whose namespace may not even be known.
    unknown: usize,
    /// How many there are beyond the limit.
    beyond: usize,
    /// The own one, where a thread that went into the others can come back. It cannot where the own belongs to a user
    /// namespace above ours.
    home: Option<Arc<File>>,
}

/// The network namespaces, shared by all sources of this wing.
#[derive(Default)]
pub(crate) struct Namespaces {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    residents: Residents,
    found: Found,
    scanned: Option<Instant>,
    events: Option<u64>,
    /// When that was looked at.
    looked: Option<Instant>,
    /// When namespaces last may have come or gone.
    stirred: Option<Instant>,
}

impl Known {
    fn is_due(&mut self, root: &Root) -> bool {
        if self.looked.is_some_and(|at| at.elapsed() < LOOK_AGAIN) {
            return false;
        }
        self.looked = Some(Instant::now());
        let events = root.kept_number(EVENTS);
        // At the first look there is nothing to compare with, and everything is looked at anyhow.
        if events.is_none() || (self.events.is_some() && events != self.events) {
            self.stirred = Some(Instant::now());
        }
        self.events = events;
        let pause = if self.stirred.is_some_and(|at| at.elapsed() < YOUNG) { RESCAN } else { SETTLED };
        self.scanned.is_none_or(|at| at.elapsed() >= pause)
    }
}

impl Namespaces {
    /// Calls `read` within each namespace, the own (named "") first. Sockets that `read` opens belong to the namespace,
    /// and so do the files under /proc/thread-self/net.
    ///
    /// # Errors
    /// The first that `read` gives. A namespace that has just gone is passed over.
    pub fn each(&self, root: &Root, mut read: impl FnMut(&Name) -> Result<(), Miss> + Send) -> Result<(), Miss> {
        if ASTRAY.get() {
            return Err(Miss::Failed("this thread could not return from another network namespace".into()));
        }
        let own = read(&Name::default());
        let Found { others, home, .. } = self.found(root);
        let mut entered = 0;
        let read = |namespace: &Namespace| {
            entered += 1;
            read(&namespace.name)
        };
        let outcome = match home {
            Some(home) => visit_and_return(&others, &home, read),
            None => visit_by_thread(&others, read),
        };
        if entered < others.len() {
            // It is gone, or only the process that led into it is.
            self.lock().stirred = Some(Instant::now());
        }
        own.and(outcome)
    }

    /// The namespaces other than the own that can be entered.
    pub fn others(&self, root: &Root) -> Arc<[Namespace]> {
        self.found(root).others
    }

    /// What a namespace is called that is known by its inode: empty for the own.
    pub fn name_of(&self, root: &Root, inode: u64) -> Name {
        if inode_behind(&root.at("proc/self/ns/net")) == Some(inode) {
            return Name::default();
        }
        let known = self.others(root).iter().find(|n| n.inode == inode).map(|n| n.name.clone());
        known.unwrap_or_else(|| format!("net:[{inode}]").into())
    }

    fn found(&self, root: &Root) -> Found {
        if !root.is_live() {
            return Found::default();
        }
        let mut known = self.lock();
        if known.is_due(root) {
            let stirred = known.stirred;
            known.residents.refresh(Path::new("/proc"), stirred);
            known.found = scan(&known.residents);
            known.scanned = Some(Instant::now());
        }
        known.found.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls `read` within each of `namespaces`. The calling thread ends in the last of them.
fn visit(namespaces: &[Namespace], mut read: impl FnMut(&Namespace) -> Result<(), Miss>) -> Result<(), Miss> {
    let mut outcome = Ok(());
    for namespace in namespaces {
        if namespace.enter().is_ok() {
            outcome = outcome.and(read(namespace));
        }
    }
    outcome
}

fn visit_and_return(
    namespaces: &[Namespace],
    home: &File,
    read: impl FnMut(&Namespace) -> Result<(), Miss>,
) -> Result<(), Miss> {
    if namespaces.is_empty() {
        return Ok(());
    }
    let _return = Return(home);
    visit(namespaces, read)
}

/// Brings the calling thread home when dropped, so also after a panic.
struct Return<'h>(&'h File);

impl Drop for Return<'_> {
    fn drop(&mut self) {
        ASTRAY.set(enter(self.0).is_err());
    }
}

/// The same for a thread that could not return; it costs a tenth of a millisecond more.
fn visit_by_thread(
    namespaces: &[Namespace],
    read: impl FnMut(&Namespace) -> Result<(), Miss> + Send,
) -> Result<(), Miss> {
    if namespaces.is_empty() {
        return Ok(());
    }
    thread::scope(|scope| scope.spawn(|| visit(namespaces, read)).join()).unwrap_or_else(|panic| resume_unwind(panic))
}

/// Looks for every namespace and finds out which can be entered, and whether there is a way back.
fn scan(residents: &Residents) -> Found {
    let (namespaces, unknown) = discover(residents, Path::new("/proc"), Path::new("/run/netns"));
    let beyond = namespaces.len().saturating_sub(LIMIT);
    let tried = namespaces.len() - beyond;
    let home = File::open("/proc/self/ns/net").ok();
    let (mut open, mut returned) = (HashSet::new(), false);
    // A visit that reads nothing; it gives no error.
    let _ = visit_by_thread(&namespaces[..tried], |namespace| {
        open.insert(namespace.inode);
        returned = home.as_ref().is_some_and(|home| enter(home).is_ok());
        Ok(())
    });
    // Root is refused only by a process that has capabilities which it lacks itself, such as the init of a sandbox.
    let unknown = if is_root() { 0 } else { unknown };
    let others: Arc<[Namespace]> = namespaces.into_iter().take(tried).filter(|n| open.contains(&n.inode)).collect();
    Found { refused: tried - others.len(), others, unknown, beyond, home: home.filter(|_| returned).map(Arc::new) }
}

fn is_root() -> bool {
    // SAFETY: a system call without arguments.
    unsafe { libc::geteuid() == 0 }
}

/// Every namespace but the own, by name, with the number of processes whose namespace may not be known. A namespace is
/// known by its inode; several processes and names can lead to one.
fn discover(residents: &Residents, proc: &Path, named: &Path) -> (Vec<Namespace>, usize) {
    let Some(own) = inode_behind(&proc.join("self/ns/net")) else { return (Vec::new(), 0) };
    let mut found = BTreeMap::new();
    // A name whose namespace has been unmounted is a plain file, of another file system.
    let device = fs::metadata(proc.join("self/ns/net")).map(|m| m.dev()).ok();
    for entry in entries(named) {
        if let Ok(file) = fs::metadata(&entry)
            && Some(file.dev()) == device
            && let Some(name) = entry.file_name()
        {
            let name = Name::from(name.to_string_lossy().into_owned());
            found.insert(file.ino(), Namespace { name, inode: file.ino(), way_in: entry });
        }
    }
    let mut unknown = 0;
    for (pid, resident) in &residents.by_pid {
        match resident.home {
            Home::Namespace(inode) => {
                found.entry(inode).or_insert_with(|| Namespace {
                    name: format!("net:[{inode}]").into(),
                    inode,
                    way_in: way_in(proc, *pid),
                });
            }
            Home::Refused => unknown += 1,
            Home::Nowhere => {}
        }
    }
    found.remove(&own);
    let mut namespaces: Vec<Namespace> = found.into_values().collect();
    namespaces.sort_by(|a, b| a.name.cmp(&b.name));
    (namespaces, unknown)
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|e| Some(e.ok()?.path()))
}

fn inode_behind(link: &Path) -> Option<u64> {
    inode_of(&fs::read_link(link).ok()?)
}

/// Tells which namespaces are not seen. It reads no rows; the other sources of this wing do, in all that are.
pub(crate) struct Visibility(pub Arc<Namespaces>);

impl Source for Visibility {
    fn name(&self) -> &'static str {
        "network namespaces"
    }

    fn tells(&self) -> &'static str {
        "the network of containers"
    }

    fn tempo(&self) -> Tempo {
        Tempo::Slow
    }

    fn read(&mut self, root: &Root, _out: &mut Snapshot) -> Result<(), Miss> {
        let found = self.0.found(root);
        let why = match (found.refused, found.unknown) {
            (0, 0) if found.beyond == 0 => return Ok(()),
            (0, 0) => {
                let why = format!("{} network namespaces beyond the first {LIMIT} are not read", found.beyond);
                return Err(Miss::Failed(why));
            }
            (0, unknown) => format!("the network namespaces of {unknown} processes"),
            (refused, _) => format!("{refused} other network namespaces"),
        };
        Err(Miss::NotPermitted { why, remedy: "run as root (CAP_SYS_ADMIN)".into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn process(proc: &Path, pid: &str, link: &str) {
        fs::create_dir_all(proc.join(pid).join("ns")).unwrap();
        symlink(link, proc.join(pid).join("ns/net")).unwrap();
    }

    #[test]
    fn each_namespace_is_found_once_and_the_own_is_not_another() {
        let tree = tempfile::tempdir().unwrap();
        process(tree.path(), "self", "net:[1]");
        process(tree.path(), "10", "net:[1]");
        process(tree.path(), "11", "net:[7]");
        process(tree.path(), "12", "net:[7]");
        process(tree.path(), "13", "gibberish");
        let mut residents = Residents::default();
        residents.refresh(tree.path(), None);
        let (found, unknown) = discover(&residents, tree.path(), &tree.path().join("no such folder"));
        assert_eq!(found.iter().map(|n| n.name.to_string()).collect::<Vec<_>>(), ["net:[7]"]);
        assert_eq!(unknown, 0);
    }

    #[test]
    fn a_captured_tree_has_only_its_own() {
        let mut seen = Vec::new();
        let namespaces = Namespaces::default();
        let read = namespaces.each(&Root::captured("/nowhere"), |name| {
            seen.push(name.to_string());
            Ok(())
        });
        assert_eq!((read, seen), (Ok(()), vec![String::new()]));
    }
}
