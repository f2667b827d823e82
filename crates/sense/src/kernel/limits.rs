//! Counts against the kernel's limits (Documentation/admin-guide/sysctl/fs.rst, kernel.rst and vm.rst).

use super::gauge;
use crate::root::Root;
use crate::source::{Miss, Source};
use whyslow_model::catalogue;
use whyslow_model::key;
use whyslow_model::snapshot::Snapshot;

/// Reads the tables of files, inodes, process numbers and asynchronous I/O.
pub(super) struct Limits;

impl Source for Limits {
    fn name(&self) -> &'static str {
        "proc/sys/fs"
    }

    fn tells(&self) -> &'static str {
        "open files, inodes and asynchronous I/O against the kernel's limits"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        let files = root.kept_text("proc/sys/fs/file-nr")?;
        let limit = |path: &str| gauge(root.setting_number(path));
        out.kernel.limits.push(catalogue::Limits {
            host: key::Machine,
            files: gauge(in_use(&files)),
            files_max: limit("proc/sys/fs/file-max"),
            inodes: gauge(root.kept_word("proc/sys/fs/inode-nr").as_deref().and_then(in_use)),
            open_files_max: limit("proc/sys/fs/nr_open"),
            pid_max: limit("proc/sys/kernel/pid_max"),
            threads_max: limit("proc/sys/kernel/threads-max"),
            map_count_max: limit("proc/sys/vm/max_map_count"),
            aio: gauge(root.kept_number("proc/sys/fs/aio-nr")),
            aio_max: limit("proc/sys/fs/aio-max-nr"),
        });
        Ok(())
    }
}

/// Those allocated and not free, of `allocated free ...`.
fn in_use(text: &str) -> Option<u64> {
    let mut fields = text.split_ascii_whitespace().map(str::parse::<u64>);
    let (allocated, free) = (fields.next()?.ok()?, fields.next()?.ok()?);
    Some(allocated.saturating_sub(free))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_free_are_not_in_use() {
        assert_eq!(in_use("1184\t0\t9223372036854775807\n"), Some(1184));
        assert_eq!(in_use("30000\t1000\n"), Some(29_000));
        assert_eq!(in_use("30000\n"), None);
        assert_eq!(in_use("x y"), None);
    }

    #[test]
    fn the_live_machine_has_files_open() {
        let mut out = Snapshot::default();
        Limits.read(&Root::live(), &mut out).unwrap();
        let limits = &out.kernel.limits[0];
        assert!(limits.files.get().unwrap() > 0.0);
        assert!(limits.files_max.get().unwrap() >= limits.files.get().unwrap());
        assert!(limits.pid_max.get().unwrap() >= 300.0);
    }

    #[test]
    fn a_tree_without_it_is_absent() {
        let folder = tempfile::tempdir().unwrap();
        let miss = Limits.read(&Root::captured(folder.path()), &mut Snapshot::default());
        assert!(matches!(miss, Err(Miss::Absent(_))));
    }
}
