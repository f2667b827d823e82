//! Kernel settings: the files under /proc/sys that everyone may read and the owner may write (Documentation/admin-guide/sysctl).
//!
//! A file that nobody may write is a count or a state (`fs.dentry-state`, `kernel.random.boot_id`). A file that not everyone may
//! read can be a secret (`net.ipv4.tcp_fastopen_key`), or has an effect when it is read (`vm.stat_refresh`). A file that differs
//! between two readings at the start changes by itself.

use super::{Section, Things};
use crate::kernel::one_line;
use crate::root::Root;
use crate::source_error::SourceError;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::Duration;

const FOLDER: &str = "proc/sys";
/// Names of the machine, and values that the kernel sets itself.
const NO_SETTINGS: [&str; 4] = ["kernel.hostname", "kernel.domainname", "kernel.ns_last_pid", "kernel.sched_domain"];
/// Permission bits of a setting: readable by everyone, writable by its owner.
const OF_SETTINGS: u32 = 0o204;
/// Maximum depth: a setting can be several folders deep, as in net.ipv4.conf.all.rp_filter.
const DEEPEST: usize = 8;
/// Time between the two readings at the start.
const APART: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(super) struct Settings {
    /// Names that change by themselves; `None` until that is determined.
    moving: Option<BTreeSet<String>>,
}

impl Section for Settings {
    fn pause(&self) -> u32 {
        5
    }

    fn read(&mut self, root: &Root) -> Result<Option<(Things, Option<i64>)>, SourceError> {
        let mut all = read_all(root);
        let moving = self.moving.get_or_insert_with(|| {
            if !root.is_live() {
                return BTreeSet::new();
            }
            thread::sleep(APART);
            let later = read_all(root);
            let moved = changed(&all, &later);
            all = later;
            moved
        });
        let kind = "sysctl".into();
        let mut things = Things::default();
        for (name, value) in all.iter().filter(|(name, _)| !moving.contains(*name)) {
            things.add(&kind, name, value.as_str());
        }
        Ok(Some((things, None)))
    }
}

fn changed(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> BTreeSet<String> {
    before.iter().filter(|(name, value)| after.get(*name) != Some(value)).map(|(name, _)| name.clone()).collect()
}

/// Reads all settings, by name.
fn read_all(root: &Root) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    if let Ok(metadata) = fs::metadata(root.at(FOLDER)) {
        read_folder(root, FOLDER, metadata.dev(), DEEPEST, &mut all);
    }
    all
}

fn read_folder(root: &Root, folder: &str, device: u64, depth: usize, all: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(root.at(folder)).into_iter().flatten().flatten() {
        // Neither call follows links or triggers mounts.
        let (Ok(file), Ok(metadata)) = (entry.file_name().into_string(), entry.metadata()) else { continue };
        let path = format!("{folder}/{file}");
        let name = path[FOLDER.len() + 1..].replace('/', ".");
        // Another file system contains no settings: /proc/sys/fs/binfmt_misc.
        if metadata.dev() != device || NO_SETTINGS.contains(&name.as_str()) || is_of_one_interface(&path) {
            continue;
        }
        if metadata.is_dir() && depth > 0 {
            read_folder(root, &path, device, depth - 1, all);
        } else if metadata.is_file()
            && metadata.mode() & OF_SETTINGS == OF_SETTINGS
            && let Some(text) = root.maybe(&path)
        {
            all.insert(name, one_line(&text));
        }
    }
}

/// Whether a folder has the settings of one interface, `net/ipv4/conf/eth0`: there are as many as containers, and other machines
/// have different ones.
fn is_of_one_interface(path: &str) -> bool {
    let Some((folder, name)) = path.rsplit_once('/') else { return false };
    (folder.ends_with("/conf") || folder.ends_with("/neigh")) && !["all", "default"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_no_setting_is_left_out() {
        let tree = CapturedTree::with_files(&[
            ("proc/sys/vm/swappiness", "60\n"),
            ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
            ("proc/sys/net/ipv4/conf/all/rp_filter", "2\n"),
            ("proc/sys/net/ipv4/conf/eth0.7/rp_filter", "1\n"),
            ("proc/sys/net/ipv6/neigh/veth1/mcast_solicit", "3\n"),
            ("proc/sys/kernel/hostname", "db1\n"),
            ("proc/sys/kernel/ns_last_pid", "77\n"),
            ("proc/sys/kernel/random/boot_id", "1-2-3\n"),
            ("proc/sys/net/ipv4/tcp_fastopen_key", "secret\n"),
        ]);
        let mode =
            |path: &str, mode: u32| fs::set_permissions(tree.path().join(path), Permissions::from_mode(mode)).unwrap();
        mode("proc/sys/kernel/random/boot_id", 0o444);
        mode("proc/sys/net/ipv4/tcp_fastopen_key", 0o600);
        let found = read_all(&tree.root());
        let expected = [
            ("net.ipv4.conf.all.rp_filter", "2"),
            ("net.ipv4.tcp_rmem", "4096 131072 6291456"),
            ("vm.swappiness", "60"),
        ];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    }

    #[test]
    fn what_differs_between_two_readings_changes_by_itself() {
        let reading =
            |last: &str| BTreeMap::from([("a".to_owned(), "1".to_owned()), ("last".to_owned(), last.to_owned())]);
        assert_eq!(changed(&reading("7"), &reading("7")), BTreeSet::new());
        assert_eq!(changed(&reading("7"), &reading("8")), BTreeSet::from(["last".to_owned()]));
    }
}
