//! Decides which files of a folder or archive are worth reading, by their names.

use crate::formats::{FORMATS, is_metadata};

/// Kind of a file.
#[derive(Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A log, or the output of a tool.
    Capture,
    /// A copy of a file under /proc or /sys.
    InProcTree {
        /// The folder that stands for `/`.
        root: String,
        /// `proc/stat`
        path: Vec<String>,
    },
    /// A copy of a file under /proc if its folder is a copy of /proc; otherwise a capture.
    MayBeProc {
        /// The folder that may stand for `/proc`.
        root: String,
        /// `net/dev`
        path: Vec<String>,
    },
    /// Part of a binary recording that describes it; converted together with the other parts.
    Recording,
    /// Anything else.
    Other,
}

/// Extensions of captures that people made themselves.
const TEXT: [&str; 5] = [".txt", ".log", ".out", ".json", ".nmon"];
const PROC_FILES: &str = "stat meminfo vmstat diskstats loadavg uptime interrupts softirqs mdstat schedstat swaps slabinfo \
    zoneinfo buddyinfo cpuinfo version mounts partitions filesystems cmdline";
const PROC_FOLDERS: [&str; 4] = ["net", "pressure", "scsi", "sys"];
/// Maximum depth of the path of a capture.
const DEEPEST: usize = 24;

/// Returns the kind of the file at this path. Paths that lead outside are not read.
pub fn file_kind(path: &str) -> FileKind {
    let Some(parts) = parts(path) else { return FileKind::Other };
    let Some((name, folders)) = parts.split_last() else { return FileKind::Other };
    let owned = |parts: &[&str]| parts.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>();
    if let Some(at) = folders.iter().position(|f| *f == "proc" || *f == "sys") {
        return FileKind::InProcTree { root: folders[..at].join("/"), path: owned(&parts[at..]) };
    }
    if PROC_FILES.split(' ').any(|file| file == *name) {
        return FileKind::MayBeProc { root: folders.join("/"), path: owned(&[*name]) };
    }
    if let Some((folder, above)) = folders.split_last().filter(|(folder, _)| PROC_FOLDERS.contains(folder)) {
        return FileKind::MayBeProc { root: above.join("/"), path: owned(&[*folder, *name]) };
    }
    let at_top = folders.len() <= 1;
    if at_top && is_metadata(name) {
        return FileKind::Recording;
    }
    let is_text = at_top && TEXT.iter().any(|extension| name.ends_with(extension));
    if is_text || FORMATS.iter().any(|format| format.is_named(name)) { FileKind::Capture } else { FileKind::Other }
}

/// Splits a path into its parts. Returns `None` if it leads outside.
fn parts(path: &str) -> Option<Vec<&str>> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let plain = parts.iter().all(|part| *part != ".." && !part.contains('\0'));
    (plain && parts.len() <= DEEPEST).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_known_files_of_a_report() {
        for path in [
            "sosreport-web-2024/sos_commands/kernel/dmesg",
            "sosreport-web-2024/var/log/messages-20240601.gz",
            "sosreport-web-2024/sos_commands/process/ps_auxwwwm",
            "sosreport-web-2024/sos_commands/logs/journalctl_--no-pager",
            "sosreport-web-2024/sos_commands/filesys/mount_-l",
            "sosreport-web-2024/sos_commands/xfs/xfs_info_.dev.sda1",
            "sosreport-web-2024/sos_commands/usb/lsusb_-t",
            "sosreport-web-2024/sos_commands/docker/docker_stats_--all_--no-stream",
            "scc_web_250603_1011/basic-environment.txt",
            "case/iostat-x-kernel-4.19.txt",
            "notes.txt",
        ] {
            assert_eq!(file_kind(path), FileKind::Capture, "{path}");
        }
        let tree = |root: &str, path: &[&str]| FileKind::InProcTree {
            root: root.into(),
            path: path.iter().map(|p| (*p).into()).collect(),
        };
        assert_eq!(file_kind("./sos/proc/net/dev"), tree("sos", &["proc", "net", "dev"]));
        assert_eq!(file_kind("proc/stat"), tree("", &["proc", "stat"]));
        assert_eq!(
            file_kind("sos/sys/block/sda/queue/nr_requests"),
            tree("sos", &["sys", "block", "sda", "queue", "nr_requests"])
        );
        assert_eq!(
            file_kind("copy/net/dev"),
            FileKind::MayBeProc { root: "copy".into(), path: vec!["net".into(), "dev".into()] }
        );
        for path in ["../../etc/shadow", "a/../proc/stat", "etc/passwd", "sos/usr/bin/topaz", "", "/"] {
            assert_eq!(file_kind(path), FileKind::Other, "{path}");
        }
    }

    proptest! {
        #[test]
        fn no_path_leaves_the_archive(path in "(\\.\\./|/|proc/|sys/|[a-z.]{1,8}/){0,30}[a-z.]{0,8}") {
            if let FileKind::InProcTree { path, .. } | FileKind::MayBeProc { path, .. } = file_kind(&path) {
                prop_assert!(path.iter().all(|part| part != ".." && !part.contains('/') && !part.is_empty()));
            }
        }
    }
}
