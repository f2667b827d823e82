//! The network namespaces of the machine (network_namespaces(7)): containers and `ip netns` have their own interfaces,
//! sockets and counters, which only a thread within the namespace can read.
//!
//! They are entered anew for each reading (setns(2) takes microseconds): a socket or file kept open in a namespace would
//! keep the namespace and its interfaces alive after their owner has let go of them.

use crate::Root;
use crate::source::{Miss, Source, Tempo};
use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Name;

/// How many namespaces other than the own are read at most.
const LIMIT: usize = 64;
/// How long a list of namespaces is good for: even where no process is new, all have to be listed.
const RESCAN: Duration = Duration::from_secs(2);
/// How long after its start a process is looked at each time: it may yet be moved into its own namespace.
const YOUNG: Duration = Duration::from_secs(5);
/// How long a process that has settled is taken to stay where it is.
const SETTLED: Duration = Duration::from_secs(30);

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

    /// Moves the calling thread into it, for good.
    fn enter(&self) -> io::Result<()> {
        let file = self.open()?;
        // SAFETY: a system call that takes no pointer; `file` is open.
        if unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) } == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
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
}

/// The network namespaces, shared by all sources of this wing.
#[derive(Default)]
pub(crate) struct Namespaces {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    residents: Residents,
    found: Option<(Instant, Found)>,
}

impl Namespaces {
    /// Calls `read` within each namespace, the own (named "") first. Sockets that `read` opens belong to the namespace,
    /// and so do the files under /proc/thread-self/net.
    ///
    /// # Errors
    /// The first that `read` gives. A namespace that has just gone is passed over.
    pub fn each(&self, root: &Root, mut read: impl FnMut(&Name) -> Result<(), Miss> + Send) -> Result<(), Miss> {
        let own = read(&Name::default());
        own.and(within_each(&self.others(root), |namespace| read(&namespace.name)))
    }

    /// The namespaces other than the own that can be entered.
    pub fn others(&self, root: &Root) -> Arc<[Namespace]> {
        self.found(root).others
    }

    fn found(&self, root: &Root) -> Found {
        if !root.is_live() {
            return Found::default();
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match &known.found {
            Some((at, found)) if at.elapsed() < RESCAN => found.clone(),
            _ => {
                let found = scan(&mut known.residents);
                known.found = Some((Instant::now(), found.clone()));
                found
            }
        }
    }
}

/// Calls `read` within each of `namespaces`, in a thread of its own that ends in the last of them.
fn within_each(
    namespaces: &[Namespace],
    mut read: impl FnMut(&Namespace) -> Result<(), Miss> + Send,
) -> Result<(), Miss> {
    if namespaces.is_empty() {
        return Ok(());
    }
    let visit = || {
        let mut outcome = Ok(());
        for namespace in namespaces {
            if namespace.enter().is_ok() {
                outcome = outcome.and(read(namespace));
            }
        }
        outcome
    };
    thread::scope(|scope| scope.spawn(visit).join()).unwrap_or_else(|panic| resume_unwind(panic))
}

/// Looks for every namespace and finds out which can be entered.
fn scan(residents: &mut Residents) -> Found {
    let (namespaces, unknown) = discover(residents, Path::new("/proc"), Path::new("/run/netns"));
    let beyond = namespaces.len().saturating_sub(LIMIT);
    let mut open = HashSet::new();
    // A visit that reads nothing; it gives no error.
    let _ = within_each(&namespaces[..namespaces.len() - beyond], |n| {
        open.insert(n.inode);
        Ok(())
    });
    let tried = namespaces.len() - beyond;
    // Root is refused only by a process that has capabilities which it lacks itself, such as the init of a sandbox.
    let unknown = if is_root() { 0 } else { unknown };
    let others: Arc<[Namespace]> = namespaces.into_iter().take(tried).filter(|n| open.contains(&n.inode)).collect();
    Found { refused: tried - others.len(), others, unknown, beyond }
}

fn is_root() -> bool {
    // SAFETY: a system call without arguments.
    unsafe { libc::geteuid() == 0 }
}

/// Every namespace but the own, by name, with the number of processes whose namespace may not be known. A namespace is
/// known by its inode; several processes and names can lead to one.
fn discover(residents: &mut Residents, proc: &Path, named: &Path) -> (Vec<Namespace>, usize) {
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
    residents.refresh(proc);
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

/// Where a process leads into its namespace.
fn way_in(proc: &Path, pid: u32) -> PathBuf {
    proc.join(format!("{pid}/ns/net"))
}

/// Which namespace each process is in, remembered: to look costs far more than to list the processes.
#[derive(Default)]
struct Residents {
    by_pid: BTreeMap<u32, Resident>,
}

#[derive(Clone, Copy)]
struct Resident {
    /// Inode of the process's folder: another one is another process.
    folder: u64,
    home: Home,
    /// When it was first seen.
    since: Instant,
    /// When it was last looked at.
    looked: Instant,
}

#[derive(Clone, Copy)]
enum Home {
    Namespace(u64),
    /// It may not be known.
    Refused,
    /// The process has ended, or the link makes no sense.
    Nowhere,
}

impl Residents {
    /// Lists all processes, and looks at those that are new, young, or were last looked at long ago.
    fn refresh(&mut self, proc: &Path) {
        let now = Instant::now();
        let mut before = std::mem::take(&mut self.by_pid);
        // Those that were there before us are not young.
        let new_since = if before.is_empty() { now.checked_sub(2 * YOUNG).unwrap_or(now) } else { now };
        for entry in fs::read_dir(proc).into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let known = before.remove(&pid).filter(|r| r.folder == entry.ino());
            let resident = match known {
                Some(r) if now - r.since > YOUNG && now - r.looked < SETTLED => r,
                _ => Resident {
                    folder: entry.ino(),
                    home: home(&way_in(proc, pid)),
                    since: known.map_or(new_since, |r| r.since),
                    looked: now,
                },
            };
            self.by_pid.insert(pid, resident);
        }
    }
}

fn home(way_in: &Path) -> Home {
    match fs::read_link(way_in) {
        Ok(link) => inode_of(&link).map_or(Home::Nowhere, Home::Namespace),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Home::Refused,
        Err(_) => Home::Nowhere,
    }
}

fn inode_behind(link: &Path) -> Option<u64> {
    inode_of(&fs::read_link(link).ok()?)
}

/// The inode in `net:[4026531840]`.
fn inode_of(link: &Path) -> Option<u64> {
    link.to_str()?.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
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
        let (found, unknown) = discover(&mut Residents::default(), tree.path(), &tree.path().join("no such folder"));
        assert_eq!(found.iter().map(|n| n.name.to_string()).collect::<Vec<_>>(), ["net:[7]"]);
        assert_eq!(unknown, 0);
    }

    #[test]
    fn a_process_that_has_settled_is_not_looked_at_again_but_another_of_its_number_is() {
        let tree = tempfile::tempdir().unwrap();
        process(tree.path(), "10", "net:[1]");
        let mut residents = Residents::default();
        residents.refresh(tree.path());
        let home = |residents: &Residents| match residents.by_pid[&10].home {
            Home::Namespace(inode) => inode,
            Home::Refused | Home::Nowhere => panic!("it is in a namespace"),
        };
        let link = tree.path().join("10/ns/net");
        let moves_to = |to: &str| {
            fs::remove_file(&link).unwrap();
            symlink(to, &link).unwrap();
        };
        residents.by_pid.get_mut(&10).unwrap().since = Instant::now();
        moves_to("net:[2]");
        residents.refresh(tree.path());
        assert_eq!(home(&residents), 2, "a young one may still be moved");
        residents.by_pid.get_mut(&10).unwrap().since -= 2 * YOUNG;
        moves_to("net:[3]");
        residents.refresh(tree.path());
        assert_eq!(home(&residents), 2, "taken to stay");
        residents.by_pid.get_mut(&10).unwrap().folder += 1;
        residents.refresh(tree.path());
        assert_eq!(home(&residents), 3);
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
