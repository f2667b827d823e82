//! Targets of the file descriptors of one process (proc_pid_fd(5)), read for a process under inspection, never for all of them.

use super::stat::Stat;
use crate::root::Root;
use crate::source_error::SourceError;
use std::collections::BTreeMap;
use std::fs;
use whyslow_model::key::TaskKey;

/// Maximum number of descriptors read: a process can have a million.
const MOST: usize = 10_000;

/// Counts the descriptors of a process by target, the most frequent first. The numbers of sockets and pipes carry no information,
/// so all sockets are counted together, and so are all pipes.
///
/// # Errors
/// Fails if the process has ended or may not be inspected.
pub fn descriptors(root: &Root, process: &TaskKey) -> Result<Vec<(String, usize)>, SourceError> {
    let path = format!("proc/{}/fd", process.pid);
    let failed = |e: &std::io::Error| SourceError::from_io(&path, e);
    let entries = fs::read_dir(root.at(&path)).map_err(|e| failed(&e))?;
    let mut targets: BTreeMap<String, usize> = BTreeMap::new();
    for entry in entries.flatten().take(MOST) {
        // The descriptor may have been closed.
        let Ok(target) = fs::read_link(entry.path()) else { continue };
        let target = target.to_string_lossy();
        let kind = ["socket", "pipe"].into_iter().find(|kind| target.starts_with(&format!("{kind}:[")));
        *targets.entry(kind.map_or_else(|| target.to_string(), str::to_owned)).or_default() += 1;
    }
    // The kernel reuses PIDs; the start time distinguishes such processes.
    let stat = fs::read(root.at(format!("proc/{}/stat", process.pid))).map_err(|e| failed(&e))?;
    if Stat::parse(&stat).is_none_or(|(stat, _)| stat.start != process.start) {
        return Err(SourceError::Absent("the process has ended".into()));
    }
    let mut all: Vec<(String, usize)> = targets.into_iter().collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const STAT: &str =
        "7 (db) S 1 7 7 0 -1 4194560 1 0 0 0 1 1 0 0 20 0 1 0 4711 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 17 1 0 0 0 0 0\n";

    #[test]
    fn sockets_are_counted_together_and_files_by_name() {
        let tree = whyslow_testing::folder();
        let fd = tree.path().join("proc/7/fd");
        fs::create_dir_all(&fd).unwrap();
        fs::write(tree.path().join("proc/7/stat"), STAT).unwrap();
        for (number, target) in [(0, "/dev/null"), (1, "socket:[12]"), (2, "socket:[13]"), (3, "/var/lib/db")] {
            symlink(target, fd.join(number.to_string())).unwrap();
        }
        let key = TaskKey { pid: 7, tid: 7, start: 4711 };
        let found = descriptors(&Root::captured(tree.path()), &key).unwrap();
        let expected =
            [("socket", 2), ("/dev/null", 1), ("/var/lib/db", 1)].map(|(name, count)| (name.to_owned(), count));
        assert_eq!(found, expected);
        let another = TaskKey { start: 4712, ..key };
        let error = descriptors(&Root::captured(tree.path()), &another).unwrap_err();
        assert_eq!(error.why(), "the process has ended");
        let gone = TaskKey { pid: 8, ..key };
        assert_eq!(descriptors(&Root::captured(tree.path()), &gone).unwrap_err().why(), "/proc/8/fd does not exist");
    }
}
