//! Usage of kernel-wide limits (Documentation/admin-guide/sysctl/fs.rst, kernel.rst and vm.rst).

use crate::root::Root;
use crate::source::SourceInfo;
use crate::source_error::SourceError;
use whyslow_model::catalogue::Limits;
use whyslow_model::key;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Gauge;

pub(super) const INFO: SourceInfo =
    SourceInfo::new("proc/sys/fs", "open files, inodes and asynchronous I/O against the kernel's limits");

pub(super) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let limit = |path: &str| Gauge::from(root.setting_number(path));
    let files = root.polled_text("proc/sys/fs/file-nr");
    let limits = Limits {
        host: key::MachineKey,
        files: files.as_deref().ok().and_then(in_use).into(),
        files_max: root.setting_number("proc/sys/fs/file-max").or_else(|| nth(files.as_deref().ok()?, 2)).into(),
        inodes: root.polled_word("proc/sys/fs/inode-nr").as_deref().and_then(in_use).into(),
        open_files_max: limit("proc/sys/fs/nr_open"),
        pid_max: limit("proc/sys/kernel/pid_max"),
        threads_max: limit("proc/sys/kernel/threads-max"),
        map_count_max: limit("proc/sys/vm/max_map_count"),
        aio: root.polled_number("proc/sys/fs/aio-nr").into(),
        aio_max: limit("proc/sys/fs/aio-max-nr"),
    };
    // Captures may have any of these files.
    match files {
        Err(error) if limits == Limits::new(key::MachineKey) => Err(error),
        _ => {
            out.kernel.limits.push(limits);
            Ok(())
        }
    }
}

fn nth(text: &str, field: usize) -> Option<u64> {
    text.split_ascii_whitespace().nth(field)?.parse().ok()
}

/// Parses `allocated free ...`: returns the number allocated and not free.
fn in_use(text: &str) -> Option<u64> {
    Some(nth(text, 0)?.saturating_sub(nth(text, 1)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    #[test]
    fn free_entries_are_not_in_use() {
        assert_eq!(in_use("1184\t0\t9223372036854775807\n"), Some(1184));
        assert_eq!(in_use("30000\t1000\n"), Some(29_000));
        assert_eq!((in_use("30000\n"), in_use("x y")), (None, None));
    }

    #[test]
    fn each_file_is_read_without_the_others() {
        let read = |files: &[(&str, &str)]| {
            let mut out = Snapshot::default();
            read(&CapturedTree::with_files(files).root(), &mut out).unwrap();
            out.kernel.limits.remove(0)
        };
        let alone = read(&[("proc/sys/fs/file-nr", "794112\t0\t794112\n")]);
        assert_eq!((alone.files.get(), alone.files_max.get()), (Some(794_112.0), Some(794_112.0)));
        let other = read(&[("proc/sys/kernel/pid_max", "32768\n")]);
        assert_eq!((other.files.get(), other.pid_max.get()), (None, Some(32_768.0)));
    }

    #[test]
    fn the_live_machine_has_open_files_within_its_limits() {
        let mut out = Snapshot::default();
        assert_eq!(read(&Root::live(), &mut out), Ok(()));
        let limits = &out.kernel.limits[0];
        assert!(limits.files.get().unwrap() > 0.0);
        assert!(limits.files_max.get().unwrap() >= limits.files.get().unwrap());
        assert!(limits.pid_max.get().unwrap() >= 300.0);
    }

    #[test]
    fn a_tree_without_proc_is_absent() {
        assert!(matches!(
            read(&CapturedTree::with_files(&[]).root(), &mut Snapshot::default()),
            Err(SourceError::Absent(_))
        ));
    }
}
