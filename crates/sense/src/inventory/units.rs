//! Restarts of systemd services. The kernel never reuses the number of a control group (its inode), and systemd removes a
//! service's group when it ends. Querying systemd (D-Bus) would wake it up.

use crate::os;
use crate::root::Root;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::DirEntryExt;
use whyslow_model::value::Name;

/// Control group folders of systemd: with cgroup version 2, with both versions, with version 1.
const FOLDERS: [&str; 3] = ["sys/fs/cgroup", "sys/fs/cgroup/unified", "sys/fs/cgroup/systemd"];
/// Number of rounds in which a service must have been seen before it counts as restarted; others, such as timer jobs, are
/// transient.
const ESTABLISHED: u32 = 3;
/// Number of rounds for which a service may be missing meanwhile.
const GONE: u32 = 3;
/// Maximum depth of slices.
const DEEPEST: usize = 4;

/// A service that has a control group.
pub(super) struct Service {
    pub(super) name: String,
    /// Its control group.
    pub(super) path: String,
    inode: u64,
}

struct Seen {
    inode: u64,
    rounds: u32,
    gone: u32,
}

#[derive(Default)]
pub(super) struct Units(BTreeMap<String, Seen>);

impl Units {
    /// Returns the services that were restarted since the last round, with the time if it is known, nanoseconds since 1970.
    pub(super) fn restarted(&mut self, root: &Root) -> Vec<(Name, Option<u64>)> {
        let now = services(root);
        let restarted = self.compare(now.iter().map(|service| (service.name.as_str(), service.inode)));
        let began = |name: &String| now.iter().find(|service| service.name == *name).and_then(|s| began(root, &s.path));
        restarted.iter().map(|name| (name.as_str().into(), began(name))).collect()
    }

    /// Returns the names of services whose groups have changed.
    fn compare<'a>(&mut self, now: impl Iterator<Item = (&'a str, u64)>) -> Vec<String> {
        self.0.values_mut().for_each(|seen| seen.gone += 1);
        let mut restarted = Vec::new();
        for (name, inode) in now {
            let Some(seen) = self.0.get_mut(name) else {
                self.0.insert(name.to_owned(), Seen { inode, rounds: 1, gone: 0 });
                continue;
            };
            let is_same = seen.inode == inode;
            if !is_same && seen.rounds >= ESTABLISHED {
                restarted.push(name.to_owned());
            }
            *seen = Seen { inode, rounds: if is_same { seen.rounds.saturating_add(1) } else { 1 }, gone: 0 };
        }
        self.0.retain(|_, seen| seen.gone <= GONE);
        restarted
    }
}

/// Lists the services in system slices; services of users are not included.
pub(super) fn services(root: &Root) -> Vec<Service> {
    let mut all = Vec::new();
    for folder in FOLDERS {
        read_slice(root, folder, DEEPEST, &mut all);
        if !all.is_empty() {
            break;
        }
    }
    all
}

fn read_slice(root: &Root, folder: &str, depth: usize, all: &mut Vec<Service>) {
    for entry in fs::read_dir(root.at(folder)).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = format!("{folder}/{name}");
        if name.ends_with(".service") {
            all.push(Service { name, path, inode: entry.ino() });
        } else if name.ends_with(".slice") && name != "user.slice" && depth > 0 {
            read_slice(root, &path, depth - 1, all);
        }
    }
}

/// Returns the start time of a group's first process, nanoseconds since 1970.
fn began(root: &Root, group: &str) -> Option<u64> {
    let processes = root.maybe(&format!("{group}/cgroup.procs"))?;
    let start = |pid: &str| -> Option<u64> {
        let stat = root.maybe(&format!("proc/{pid}/stat"))?;
        // The name, in parentheses, may contain any character (proc(5), field 22).
        stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
    };
    let since_boot = os::ticks_to_ns(processes.lines().filter_map(start).min()?);
    let boot = u64::try_from(os::wall_ns()).ok()?.checked_sub(os::boot_ns())?;
    boot.checked_add(since_boot).filter(|_| root.is_live())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{CapturedTree, is_root, skip, wait_until};
    use std::path::PathBuf;

    #[test]
    fn a_service_that_was_there_for_a_while_and_has_another_group_was_restarted() {
        let mut units = Units::default();
        let mut round = |now: &[(&str, u64)]| units.compare(now.iter().copied());
        for _ in 0..3 {
            assert_eq!(round(&[("db.service", 1), ("web.service", 2)]), [""; 0]);
        }
        assert_eq!(round(&[("db.service", 7), ("web.service", 2)]), ["db.service"]);
        // A job that runs for a moment now and then.
        assert_eq!(round(&[("db.service", 7), ("job.service", 8)]), [""; 0]);
        // A service that takes a while to stop.
        assert_eq!(round(&[("db.service", 7), ("web.service", 9)]), ["web.service"]);
        assert_eq!(round(&[("job.service", 10)]), [""; 0]);
        for _ in 0..4 {
            assert_eq!(round(&[]), [""; 0]);
        }
        assert_eq!(round(&[("db.service", 11)]), [""; 0], "stopped, and started much later");
    }

    /// A control group of the test's own, in which it can create others; removed when dropped.
    struct OwnGroup(PathBuf);

    impl OwnGroup {
        /// Returns `None` and skips the test if none can be created.
        fn new() -> Option<Self> {
            if !is_root() {
                return None;
            }
            let name = whyslow_testing::name("units");
            let hierarchies = ["", "unified", "systemd", "pids", "freezer"];
            let folders = hierarchies.map(|folder| PathBuf::from("/sys/fs/cgroup").join(folder));
            let usable = folders.iter().filter(|folder| folder.join("cgroup.procs").exists());
            let made = usable.map(|folder| folder.join(&name)).find(|group| fs::create_dir(group).is_ok());
            if made.is_none() {
                skip("no control group can be made");
            }
            made.map(Self)
        }

        fn make(&self, path: &str) {
            fs::create_dir(self.0.join(path)).unwrap();
        }

        fn remove(&self, path: &str) {
            wait_until("the group is removed", || fs::remove_dir(self.0.join(path)).is_ok());
        }
    }

    impl Drop for OwnGroup {
        fn drop(&mut self) {
            for path in ["system.slice/db.service", "system.slice", ""] {
                let _ = fs::remove_dir(self.0.join(path));
            }
        }
    }

    #[test]
    fn the_kernel_gives_a_service_that_starts_again_another_group() {
        let Some(group) = OwnGroup::new() else { return };
        let tree = CapturedTree::with_files(&[]);
        tree.link("sys/fs/cgroup", group.0.to_str().unwrap());
        group.make("system.slice");
        group.make("system.slice/db.service");
        let mut units = Units::default();
        for _ in 0..ESTABLISHED {
            assert_eq!(units.restarted(&tree.root()), []);
        }
        group.remove("system.slice/db.service");
        group.make("system.slice/db.service");
        assert_eq!(units.restarted(&tree.root()), [("db.service".into(), None)]);
        assert_eq!(units.restarted(&tree.root()), []);
    }
}
