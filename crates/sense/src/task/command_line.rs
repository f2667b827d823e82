//! The command line of one process (proc_pid_cmdline(5)), read for a process that a finding names, never for all of them.

use super::stat::Stat;
use crate::root::Root;
use std::fs::File;
use std::io::Read;
use whyslow_model::key::TaskKey;
use whyslow_model::mask;

/// Maximum number of bytes read: a command line can be megabytes.
const LONGEST: u64 = 4096;

/// Reads the command line of a process and masks secrets. Returns `None` if the process has ended, has no command line, or may
/// not be inspected. The kernel reuses PIDs; the start time distinguishes such processes.
pub fn command_line(root: &Root, process: &TaskKey) -> Option<String> {
    let mut bytes = Vec::new();
    let file = File::open(root.at(format!("proc/{}/cmdline", process.pid))).ok()?;
    file.take(LONGEST).read_to_end(&mut bytes).ok()?;
    let stat = std::fs::read(root.at(format!("proc/{}/stat", process.pid))).ok()?;
    let (stat, _) = Stat::parse(&stat)?;
    let words: Vec<String> = bytes
        .split(|byte| *byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .filter(|word| !word.is_empty())
        .collect();
    (stat.start == process.start && !words.is_empty()).then(|| mask::words(&words).join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const STAT: &str =
        "7 (db) S 1 7 7 0 -1 4194560 1 0 0 0 1 1 0 0 20 0 1 0 4711 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 17 1 0 0 0 0 0\n";

    fn tree() -> tempfile::TempDir {
        let tree = whyslow_testing::folder();
        fs::create_dir_all(tree.path().join("proc/7")).unwrap();
        fs::write(tree.path().join("proc/7/stat"), STAT).unwrap();
        fs::write(tree.path().join("proc/7/cmdline"), "db\0--password=hunter2\0--port\x005432\0").unwrap();
        tree
    }

    #[test]
    fn secrets_in_a_command_line_are_masked() {
        let tree = tree();
        let key = TaskKey { pid: 7, tid: 7, start: 4711 };
        let line = command_line(&Root::captured(tree.path()), &key).unwrap();
        assert!(line.starts_with("db --password=") && line.ends_with(" --port 5432"), "{line}");
        assert!(!line.contains("hunter2"), "{line}");
    }

    #[test]
    fn another_process_of_the_same_number_is_not_taken_for_it() {
        let tree = tree();
        let root = Root::captured(tree.path());
        assert_eq!(command_line(&root, &TaskKey { pid: 7, tid: 7, start: 4712 }), None);
        assert_eq!(command_line(&root, &TaskKey { pid: 8, tid: 8, start: 4711 }), None);
    }
}
