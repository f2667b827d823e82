//! Which network namespace each process is in.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long after its start a process is looked at in each scan, and how long after an event scans go on: the process may
/// yet be moved into its namespace.
pub(super) const YOUNG: Duration = Duration::from_secs(5);
/// How long a process that has settled is taken to stay where it is, and the list of namespaces to stand.
pub(super) const SETTLED: Duration = Duration::from_secs(60);
/// The same of the process where no namespace may have come since: it can only have moved into one that was there before, and
/// most likely was known.
const STILL: Duration = Duration::from_secs(600);

/// Where a process leads into its namespace.
pub(super) fn way_in(proc: &Path, pid: u32) -> PathBuf {
    proc.join(format!("{pid}/ns/net"))
}

/// Which namespace each process is in, remembered: to look costs far more than to list the processes.
#[derive(Default)]
pub(super) struct Residents {
    /// By process.
    pub(super) by_pid: BTreeMap<u32, Resident>,
}

/// A process.
#[derive(Clone, Copy)]
pub(super) struct Resident {
    /// Inode of the process's folder: another one is another process.
    folder: u64,
    /// The namespace it is in.
    pub(super) home: Home,
    /// When it was first seen.
    since: Instant,
    /// When it was last looked at.
    looked: Instant,
}

/// The network namespace of a process.
#[derive(Clone, Copy)]
pub(super) enum Home {
    /// That with this inode.
    Namespace(u64),
    /// It may not be known.
    Refused,
    /// The process has ended, or the link makes no sense.
    Nowhere,
}

impl Residents {
    /// Lists all processes, and looks at those that are new, young, or were last looked at long ago. `stirred` is when
    /// namespaces last may have come.
    pub(super) fn refresh(&mut self, proc: &Path, stirred: Option<Instant>) {
        let now = Instant::now();
        let mut before = std::mem::take(&mut self.by_pid);
        // Those that were there before us are not young.
        let new_since = if before.is_empty() { now.checked_sub(2 * YOUNG).unwrap_or(now) } else { now };
        for entry in fs::read_dir(proc).into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let known = before.remove(&pid).filter(|r| r.folder == entry.ino());
            let resident = match known {
                Some(r) if now - r.since > YOUNG && now - r.looked < r.stays(stirred) => r,
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

impl Resident {
    /// How long it is taken to stay where it was found.
    fn stays(&self, stirred: Option<Instant>) -> Duration {
        if stirred.is_some_and(|at| at >= self.looked) { SETTLED } else { STILL }
    }
}

fn home(way_in: &Path) -> Home {
    match fs::read_link(way_in) {
        Ok(link) => inode_of(&link).map_or(Home::Nowhere, Home::Namespace),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Home::Refused,
        Err(_) => Home::Nowhere,
    }
}

/// The inode in `net:[4026531840]`.
pub(super) fn inode_of(link: &Path) -> Option<u64> {
    link.to_str()?.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_process_that_has_settled_is_not_looked_at_again_but_another_of_its_number_is() {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir_all(tree.path().join("10/ns")).unwrap();
        symlink("net:[1]", tree.path().join("10/ns/net")).unwrap();
        let mut residents = Residents::default();
        residents.refresh(tree.path(), None);
        let home = |residents: &Residents| match residents.by_pid[&10].home {
            Home::Namespace(inode) => inode,
            Home::Refused | Home::Nowhere => panic!("it is in a namespace"),
        };
        let link = tree.path().join("10/ns/net");
        let moves_to = |to: &str| {
            fs::remove_file(&link).unwrap();
            symlink(to, &link).unwrap();
        };
        let made_earlier = |residents: &mut Residents, since: Duration, looked: Duration| {
            let resident = residents.by_pid.get_mut(&10).unwrap();
            resident.since -= since;
            resident.looked -= looked;
        };
        residents.by_pid.get_mut(&10).unwrap().since = Instant::now();
        moves_to("net:[2]");
        residents.refresh(tree.path(), None);
        assert_eq!(home(&residents), 2, "a young one may still be moved");
        made_earlier(&mut residents, 2 * YOUNG, Duration::ZERO);
        moves_to("net:[3]");
        let stirred = Some(Instant::now());
        residents.refresh(tree.path(), stirred);
        assert_eq!(home(&residents), 2, "taken to stay");
        made_earlier(&mut residents, Duration::ZERO, SETTLED);
        residents.refresh(tree.path(), None);
        assert_eq!(home(&residents), 2, "it can have moved to no new one");
        residents.refresh(tree.path(), stirred);
        assert_eq!(home(&residents), 3);
        moves_to("net:[4]");
        made_earlier(&mut residents, Duration::ZERO, STILL);
        residents.refresh(tree.path(), None);
        assert_eq!(home(&residents), 4, "to one that was there before");
        moves_to("net:[5]");
        residents.by_pid.get_mut(&10).unwrap().folder += 1;
        residents.refresh(tree.path(), None);
        assert_eq!(home(&residents), 5);
    }
}
