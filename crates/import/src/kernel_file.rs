//! Files of /proc and /sys found in texts, held until they are written where the readers of the live kernel expect them.
//!
//! The paths come from the author of the text: only plain names below /proc and /sys are accepted, and all sizes and counts are
//! limited.

use crate::clock::PrintedTime;
use crate::refusal::Refusal;
use std::collections::{BTreeMap, BTreeSet};
use whyslow_documents::diagnosis::Host;
use whyslow_model::origin::SourceLocation;
use whyslow_model::value::Name;

/// Maximum length of a path, and of a name in it.
const LONGEST_PATH: usize = 512;
const LONGEST_NAME: usize = 200;
/// Maximum depth of a path.
const DEEPEST: usize = 24;
/// Maximum bytes of one file, and of all files.
const LARGEST: usize = 4 << 20;
const MOST_BYTES: usize = 32 << 20;
/// Maximum number of files across all texts.
const MOST_FILES: usize = 10_000;
/// Maximum number of captures side by side.
const MOST_SETS: usize = 64;
/// Path of the file with the machine's name.
const HOST_NAME: &str = "proc/sys/kernel/hostname";
/// Placeholder for the name of a control group that its files do not give.
const CONTAINER: &str = "container";
/// Files of /sys with several lines.
const TABLES: [&str; 5] = ["meminfo", "numastat", "vmstat", "uevent", "modalias"];

/// Name endings of control group files that have several lines, or none.
const CGROUP_TABLES: [&str; 8] =
    [".stat", ".events", ".events.local", ".numa_stat", ".pressure", ".oom_control", "io.max", ".procs"];

/// Returns a printed path if it names a file below /proc or /sys and leads nowhere else.
pub fn file_path(text: &str) -> Option<&str> {
    let below = text.strip_prefix("/proc/").or_else(|| text.strip_prefix("/sys/"))?;
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"_-.,:+@!#%=~".contains(&b);
    let is_name = |name: &str| {
        (1..=LONGEST_NAME).contains(&name.len()) && name != "." && name != ".." && name.bytes().all(is_plain)
    };
    let fits = text.len() <= LONGEST_PATH && below.split('/').count() < DEEPEST;
    (fits && below.split('/').all(is_name)).then_some(text)
}

/// Returns true if a file has one line.
pub fn is_one_line(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_table = || match path.starts_with("/sys/fs/cgroup/") {
        true => CGROUP_TABLES.iter().any(|end| name.ends_with(end)) || name.starts_with("blkio."),
        false => TABLES.contains(&name),
    };
    path.starts_with("/proc/sys/") || (path.starts_with("/sys/") && !is_table())
}

/// Returns true if a file of a control group holds a limit or weight of that group.
fn is_limit(path: &str) -> bool {
    const ENDS: [&str; 9] =
        [".max", ".high", ".low", ".min", ".weight", "quota_us", "period_us", "limit_in_bytes", "_device"];
    path.starts_with("sys/fs/cgroup/") && ENDS.iter().any(|end| path.ends_with(end))
}

/// Returns the path by which the readers know a file: sysfs shows devices under several paths, connected by links that a text
/// lacks.
pub fn canonical(path: &str) -> String {
    let alias = |folder: &str, own: &str| path.split_once(folder).map(|(_, rest)| format!("{own}{rest}"));
    let path = match path.strip_prefix("/sys/") {
        Some(_) if path.starts_with("/sys/class/block/") => {
            // A partition has none of these folders; its disk is not in its path.
            let of_disk = path.split('/').nth(5).is_some_and(|folder| ["queue", "device", "mq"].contains(&folder));
            if of_disk { alias("/sys/class/block/", "/sys/block/") } else { None }
        }
        Some(below) if below.starts_with("devices/") => {
            alias("/block/", "/sys/block/").or_else(|| alias("/thermal/", "/sys/class/thermal/"))
        }
        Some(below) => below.strip_prefix("fs/cgroup/").and_then(of_container),
        _ => None,
    }
    .unwrap_or_else(|| path.to_owned());
    path.trim_start_matches('/').to_owned()
}

/// Files of a control group of version 2 that the machine's root group lacks.
const GROUP_FILES: [&str; 13] = [
    "cpu.max",
    "cpu.stat",
    "io.max",
    "memory.current",
    "memory.events",
    "memory.high",
    "memory.max",
    "memory.peak",
    "memory.swap.current",
    "memory.swap.max",
    "pids.current",
    "pids.events",
    "pids.max",
];
/// Files of version 1, and their controllers.
const OLD_GROUP_FILES: [(&str, &str); 9] = [
    ("cpu", "cpu.cfs_period_us"),
    ("cpu", "cpu.cfs_quota_us"),
    ("cpu", "cpu.stat"),
    ("memory", "memory.failcnt"),
    ("memory", "memory.limit_in_bytes"),
    ("memory", "memory.max_usage_in_bytes"),
    ("memory", "memory.usage_in_bytes"),
    ("pids", "pids.current"),
    ("pids", "pids.max"),
];

/// Returns the path of a control group file that was printed at the root of the hierarchy: a container sees its own group
/// there. The machine's root group has no such files, or empty ones.
fn of_container(below: &str) -> Option<String> {
    if GROUP_FILES.contains(&below) {
        return Some(format!("/sys/fs/cgroup/{CONTAINER}/{below}"));
    }
    let (controllers, file) = below.split_once('/')?;
    let is_old = OLD_GROUP_FILES.iter().any(|(own, name)| *name == file && controllers.split(',').any(|c| c == *own));
    is_old.then(|| format!("/sys/fs/cgroup/{controllers}/{CONTAINER}/{file}"))
}

/// Returns the path of a control group file that was printed in an unknown folder: its name is that of no other file.
pub fn group_file(name: &str) -> Option<String> {
    let old = || {
        OLD_GROUP_FILES
            .iter()
            .find(|(_, file)| *file == name)
            .map(|(folder, _)| format!("/sys/fs/cgroup/{folder}/{name}"))
    };
    if GROUP_FILES.contains(&name) { Some(format!("/sys/fs/cgroup/{name}")) } else { old() }
}

/// A file of /proc or /sys.
#[derive(Debug, PartialEq)]
pub struct KernelFile {
    /// Path without the leading `/`: `sys/block/sda/queue/nr_requests`.
    pub path: String,
    /// First and last line of the file in the text.
    pub line: u32,
    pub last: u32,
    /// Time at which the file was printed.
    pub at: PrintedTime,
    /// Machine on which the file was printed, as far as the text says.
    pub host: Option<Name>,
    pub content: String,
}

impl KernelFile {
    pub fn new(path: &str, line: u32, first: &str) -> Self {
        let (path, content) = (canonical(path), String::new());
        let mut file = Self { path, line, last: line, at: PrintedTime::default(), host: None, content };
        file.push(line, first);
        file
    }

    /// Sets the name of the control group that the container sees as the root.
    pub fn set_container(&mut self, name: &str) {
        let own = format!("/{CONTAINER}/");
        if self.path.starts_with("sys/fs/cgroup/") && self.path.contains(&own) {
            self.path = self.path.replacen(&own, &format!("/{name}/"), 1);
        }
    }

    /// Adds a line, unless the file would exceed the maximum size.
    pub fn push(&mut self, line: u32, text: &str) {
        self.last = line;
        if self.content.len() + text.len() < LARGEST {
            self.content.push_str(text);
            self.content.push('\n');
        }
    }

    /// Returns true if a format may read it as text.
    pub fn is_of_proc(&self) -> bool {
        self.path.starts_with("proc/") && !self.path.starts_with("proc/sys/")
    }
}

/// Files of one machine at one time; a text has each of them once.
#[derive(Debug)]
pub struct KernelFileSet {
    /// Texts that contain the files.
    texts: BTreeSet<Name>,
    /// First line of the first file.
    line: u32,
    /// Time of the first file that has one.
    pub at: PrintedTime,
    /// Machine on which the files were printed, as far as the text says.
    host: Option<Name>,
    /// Contents and locations by path.
    pub files: BTreeMap<String, (String, SourceLocation)>,
}

/// The files of all texts of an incident.
#[derive(Debug, Default)]
pub struct KernelFileSets {
    sets: Vec<KernelFileSet>,
    bytes: usize,
    count: usize,
}

impl KernelFileSets {
    /// Adds a file. A file that the text already had begins another set.
    ///
    /// # Errors
    /// Fails if there are too many files, or too many bytes in them.
    pub fn add(&mut self, text: &Name, file: KernelFile) -> Result<(), Refusal> {
        let refused = |expected: String| Err(Refusal::described(text, file.line, expected, "more; give fewer"));
        if self.count >= MOST_FILES || self.bytes + file.content.len() > MOST_BYTES {
            return refused(format!("at most {MOST_FILES} files of /proc and /sys, and {} MiB", MOST_BYTES >> 20));
        }
        let is_own = |set: &KernelFileSet| {
            set.texts.contains(text) && !Host::names_differ(set.host.as_deref(), file.host.as_deref())
        };
        let newest = self.sets.iter().rposition(is_own);
        let place = match newest.filter(|at| !self.sets[*at].files.contains_key(&file.path)) {
            Some(at) => at,
            None if self.sets.len() < MOST_SETS => {
                let texts = BTreeSet::from([text.clone()]);
                let host = file.host.clone();
                self.sets.push(KernelFileSet { texts, line: file.line, at: file.at, host, files: BTreeMap::new() });
                self.sets.len() - 1
            }
            None => return refused(format!("at most {MOST_SETS} copies of a file of /proc or /sys")),
        };
        self.count += 1;
        self.bytes += file.content.len();
        let location = SourceLocation { file: text.clone(), first: file.line, last: file.last };
        if self.sets[place].at.time.is_none() {
            self.sets[place].at = file.at;
        }
        self.sets[place].host = self.sets[place].host.take().or(file.host);
        self.sets[place].files.insert(file.path, (file.content, location));
        Ok(())
    }

    /// Reassigns the files of a text from one machine to another.
    pub fn rename_host(&mut self, text: &Name, from: &Name, to: &Name) {
        let own = self.sets.iter_mut().filter(|set| set.texts.contains(text) && set.host.as_ref() == Some(from));
        own.for_each(|set| set.host = Some(to.clone()));
    }

    /// Adds the machine's name to each set, in the file in which the kernel reports it.
    fn name_hosts(&mut self) {
        for set in &mut self.sets {
            let Some((host, text)) = set.host.clone().zip(set.texts.first().cloned()) else { continue };
            let location = SourceLocation { file: text, first: set.line, last: set.line };
            set.files.entry(HOST_NAME.to_owned()).or_insert_with(|| (format!("{host}\n"), location));
        }
    }

    /// Copies the limits from earlier files of the same text to later ones: limits are rarely printed twice.
    fn repeat_limits(&mut self) {
        for at in 1..self.sets.len() {
            let (before, [set, ..]) = self.sets.split_at_mut(at) else { break };
            let earlier = before.iter().rev().find(|other| {
                other.texts == set.texts
                    && other.host == set.host
                    && set.at.since(other.at).is_some_and(|seconds| seconds > 0.0)
            });
            for (path, file) in earlier.iter().flat_map(|other| &other.files).filter(|(path, _)| is_limit(path)) {
                set.files.entry(path.clone()).or_insert_with(|| file.clone());
            }
        }
    }

    /// Returns the sets and their names. Texts with different files describe one machine at one time.
    pub fn named(mut self) -> Vec<(String, KernelFileSet)> {
        self.repeat_limits();
        self.name_hosts();
        let mut all: Vec<KernelFileSet> = Vec::new();
        for set in self.sets {
            let after = all.iter().rposition(|other| !other.texts.is_disjoint(&set.texts)).map_or(0, |at| at + 1);
            let is_new = |path: &String, other: &KernelFileSet| path == HOST_NAME || !other.files.contains_key(path);
            let is_apart = |other: &&mut KernelFileSet| {
                !Host::names_differ(other.host.as_deref(), set.host.as_deref())
                    && set.files.keys().all(|path| is_new(path, other))
            };
            match all[after..].iter_mut().find(is_apart) {
                Some(other) => {
                    other.texts.extend(set.texts);
                    other.files.extend(set.files);
                }
                None => all.push(set),
            }
        }
        let label = |set: &KernelFileSet| set.texts.iter().map(|text| text.to_string()).collect::<Vec<_>>().join(" ");
        let labels: Vec<String> = all.iter().map(label).collect();
        let named = |set: KernelFileSet| {
            let own = label(&set);
            let is_only = labels.iter().filter(|label| **label == own).count() == 1;
            (if is_only { own } else { format!("{own}:{}", set.line) }, set)
        };
        all.into_iter().map(named).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_plain_names_below_proc_and_sys_are_files() {
        for path in ["/proc/stat", "/sys/block/cciss!c0d0/queue/scheduler", "/sys/bus/pci/devices/0000:00:1f.2/irq"] {
            assert_eq!(file_path(path), Some(path));
        }
        for path in [
            "/proc/",
            "/proc/../etc/shadow",
            "/sys/a/./b",
            "/sys//a",
            "/etc/passwd",
            "proc/stat",
            "/sys/*/x",
            "/sys/a b",
            "/sys/a\0",
            "/system/x",
            "/proc/ä",
        ] {
            assert_eq!(file_path(path), None, "{path}");
        }
        assert_eq!(file_path(&format!("/sys{}", "/a".repeat(40))), None);
        assert_eq!(file_path(&format!("/sys/{}", "a".repeat(201))), None);
    }

    #[test]
    fn a_device_has_one_path() {
        for (path, own) in [
            ("/sys/class/block/sda/queue/scheduler", "sys/block/sda/queue/scheduler"),
            ("/sys/class/block/sda1/start", "sys/class/block/sda1/start"),
            ("/sys/devices/pci0000:00/ata1/block/sda/sda1/start", "sys/block/sda/sda1/start"),
            ("/sys/devices/virtual/thermal/thermal_zone0/temp", "sys/class/thermal/thermal_zone0/temp"),
            ("/proc/stat", "proc/stat"),
        ] {
            assert_eq!(canonical(path), own);
        }
    }

    fn sets(files: &[(&str, &str, u32)]) -> Vec<(String, Vec<String>)> {
        let mut all = KernelFileSets::default();
        for (text, path, line) in files {
            all.add(&(*text).into(), KernelFile::new(path, *line, "1")).unwrap();
        }
        all.named().into_iter().map(|(name, set)| (name, set.files.into_keys().collect())).collect()
    }

    #[test]
    fn a_file_that_comes_again_begins_another_set_and_other_texts_complete_one() {
        let of = |name: &str, paths: &[&str]| (name.to_owned(), paths.iter().map(|p| (*p).to_owned()).collect());
        let found = sets(&[("x", "/sys/a", 1), ("x", "/sys/b", 2), ("x", "/sys/a", 5), ("x", "/sys/c", 6)]);
        assert_eq!(found, [of("x:1", &["sys/a", "sys/b"]), of("x:5", &["sys/a", "sys/c"])]);
        let found = sets(&[("x", "/sys/a", 1), ("y", "/sys/b", 1), ("z", "/sys/a", 1)]);
        assert_eq!(found, [of("x y", &["sys/a", "sys/b"]), of("z", &["sys/a"])]);
    }

    #[test]
    fn files_of_several_machines_are_apart_and_name_theirs() {
        let mut all = KernelFileSets::default();
        for (host, path, line) in [("db9", "/sys/a", 1), ("web1", "/sys/b", 2), ("db9", "/sys/c", 3)] {
            let file = KernelFile { host: Some(host.into()), ..KernelFile::new(path, line, "1") };
            all.add(&"x".into(), file).unwrap();
        }
        all.rename_host(&"x".into(), &"web1".into(), &"web1.lan".into());
        let found: Vec<_> = all.named().into_iter().map(|(_, set)| set.files).collect();
        let name = |files: &BTreeMap<String, (String, SourceLocation)>| files["proc/sys/kernel/hostname"].0.clone();
        assert_eq!(found.iter().map(name).collect::<Vec<_>>(), ["db9\n", "web1.lan\n"]);
        assert!(found[0].contains_key("sys/c") && found[1].contains_key("sys/b"));
    }

    #[test]
    fn the_number_of_files_and_their_sizes_are_limited() {
        let mut all = KernelFileSets::default();
        let copies = (0..1000).take_while(|line| all.add(&"x".into(), KernelFile::new("/sys/a", *line, "1")).is_ok());
        assert_eq!(copies.count(), MOST_SETS);
        let mut all = KernelFileSets::default();
        let add =
            |all: &mut KernelFileSets, n: u32| all.add(&"x".into(), KernelFile::new(&format!("/sys/{n}"), 1, "1"));
        let files = (0..20_000).take_while(|n| add(&mut all, *n).is_ok());
        assert_eq!(files.count(), MOST_FILES);
        let mut file = KernelFile::new("/proc/stat", 1, "");
        (0..100_000).for_each(|_| file.push(1, &"x".repeat(100)));
        assert!(file.content.len() <= LARGEST);
    }

    proptest! {
        #[test]
        fn no_path_leaves_the_tree(path in "/(proc|sys)(/|\\.\\.|[a-z.:*]{1,5}|\\PC){0,12}") {
            if let Some(path) = file_path(&path) {
                let own = canonical(path);
                prop_assert!(own.starts_with("proc/") || own.starts_with("sys/"));
                prop_assert!(own.split('/').all(|name| !name.is_empty() && name != "." && name != ".."));
            }
        }
    }
}
