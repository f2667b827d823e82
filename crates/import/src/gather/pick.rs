//! Which files of a folder or archive tell something, by their names.

/// What a file is.
#[derive(Debug, PartialEq, Eq)]
pub enum Pick {
    /// A log, or what a tool printed.
    Capture,
    /// A copy of a file under /proc or /sys, of the tree that begins at this folder.
    Tree {
        /// The folder that stands for `/`.
        root: String,
        /// `proc/stat`
        path: Vec<String>,
    },
    /// A copy of a file of /proc, if the folder it stands in is a copy of /proc; else a capture.
    MayBeProc {
        /// The folder that may stand for `/proc`.
        root: String,
        /// `net/dev`
        path: Vec<String>,
    },
    /// None that tells anything known here.
    Nothing,
}

/// Beginnings of the names of logs: `messages-20240601.gz`, `kern.log.1`.
const LOGS: [&str; 9] =
    ["messages", "syslog", "kern.log", "kernel.log", "dmesg", "vmcore-dmesg", "journalctl", "kmsg", "boot.msg"];
/// Tools whose output stands under their name: `sos_commands/process/ps_auxwwwm`, `sar-d.txt`.
const TOOLS: [&str; 33] = [
    "vmstat",
    "iostat",
    "mpstat",
    "pidstat",
    "sar",
    "sadf",
    "top",
    "ps",
    "free",
    "df",
    "uptime",
    "ethtool",
    "ifconfig",
    "ip",
    "ss",
    "netstat",
    "nstat",
    "tc",
    "lsblk",
    "fdisk",
    "parted",
    "mdstat",
    "sysctl",
    "ipcs",
    "ulimit",
    "numactl",
    "numastat",
    "nfsiostat",
    "mountstats",
    "lsscsi",
    "smartctl",
    "meminfo",
    "interrupts",
];
/// What people call captures of theirs.
const TEXT: [&str; 4] = [".txt", ".log", ".out", ".json"];
/// Files of /proc that stand in it directly.
const PROC: [&str; 20] = [
    "stat",
    "meminfo",
    "vmstat",
    "diskstats",
    "loadavg",
    "uptime",
    "interrupts",
    "softirqs",
    "mdstat",
    "schedstat",
    "swaps",
    "slabinfo",
    "zoneinfo",
    "buddyinfo",
    "cpuinfo",
    "version",
    "mounts",
    "partitions",
    "filesystems",
    "cmdline",
];
/// Folders of /proc.
const PROC_FOLDERS: [&str; 4] = ["net", "pressure", "scsi", "sys"];
/// No path of a capture is longer.
const DEEPEST: usize = 24;

/// What the file at this path is. Paths that lead elsewhere are nothing.
pub fn pick(path: &str) -> Pick {
    let Some(parts) = parts(path) else { return Pick::Nothing };
    let Some((name, folders)) = parts.split_last() else { return Pick::Nothing };
    let owned = |parts: &[&str]| parts.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>();
    if let Some(at) = folders.iter().position(|f| *f == "proc" || *f == "sys") {
        return Pick::Tree { root: folders[..at].join("/"), path: owned(&parts[at..]) };
    }
    if PROC.contains(name) {
        return Pick::MayBeProc { root: folders.join("/"), path: owned(&[*name]) };
    }
    if let Some((folder, above)) = folders.split_last().filter(|(folder, _)| PROC_FOLDERS.contains(folder)) {
        return Pick::MayBeProc { root: above.join("/"), path: owned(&[*folder, *name]) };
    }
    let at_top = folders.len() <= 1 && TEXT.iter().any(|end| name.ends_with(end));
    if at_top || LOGS.iter().any(|log| name.starts_with(log)) || TOOLS.iter().any(|tool| is_of(name, tool)) {
        Pick::Capture
    } else {
        Pick::Nothing
    }
}

/// The parts of a path; `None` where it leads elsewhere.
fn parts(path: &str) -> Option<Vec<&str>> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let plain = parts.iter().all(|part| *part != ".." && !part.contains('\0'));
    (plain && parts.len() <= DEEPEST).then_some(parts)
}

/// Whether a name is a tool's, with options or an ending behind it.
fn is_of(name: &str, tool: &str) -> bool {
    name.strip_prefix(tool).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '_', '-', ' ']))
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
            "case/iostat-x-kernel-4.19.txt",
            "notes.txt",
        ] {
            assert_eq!(pick(path), Pick::Capture, "{path}");
        }
        let tree = |root: &str, path: &[&str]| Pick::Tree {
            root: root.into(),
            path: path.iter().map(|p| (*p).into()).collect(),
        };
        assert_eq!(pick("./sos/proc/net/dev"), tree("sos", &["proc", "net", "dev"]));
        assert_eq!(pick("proc/stat"), tree("", &["proc", "stat"]));
        assert_eq!(
            pick("sos/sys/block/sda/queue/nr_requests"),
            tree("sos", &["sys", "block", "sda", "queue", "nr_requests"])
        );
        assert_eq!(
            pick("copy/net/dev"),
            Pick::MayBeProc { root: "copy".into(), path: vec!["net".into(), "dev".into()] }
        );
        for path in ["../../etc/shadow", "a/../proc/stat", "etc/passwd", "sos/usr/bin/topaz", "", "/"] {
            assert_eq!(pick(path), Pick::Nothing, "{path}");
        }
    }

    proptest! {
        #[test]
        fn no_path_leads_out(path in "(\\.\\./|/|proc/|sys/|[a-z.]{1,8}/){0,30}[a-z.]{0,8}") {
            if let Pick::Tree { path, .. } | Pick::MayBeProc { path, .. } = pick(&path) {
                prop_assert!(path.iter().all(|part| part != ".." && !part.contains('/') && !part.is_empty()));
            }
        }
    }
}
