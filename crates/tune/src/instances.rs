//! The instances of each kind of thing that has tunables (disks, interfaces, processes …), and their identities: a name can be reused.

use crate::machine::Machine;
use crate::mounts;
use std::ffi::CString;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use whyslow_documents::tune::{Access, TunableScope, Unavailable};

/// Lists the instances of a kind, by name. Empty for processes and groups, which are too many to query one by one.
pub(crate) fn list(machine: &Machine, scope: TunableScope) -> Vec<String> {
    let root = machine.root();
    match scope {
        TunableScope::Disk => root.list("sys/block"),
        // The folder contains a file in addition to the interfaces (bonding_masters).
        TunableScope::Interface => {
            let names = root.list("sys/class/net");
            names.into_iter().filter(|name| root.at(format!("sys/class/net/{name}/mtu")).exists()).collect()
        }
        TunableScope::NetQueue => parts(machine, "sys/class/net", "queues", |_| true),
        TunableScope::Cpu => root.list("sys/devices/system/cpu").into_iter().filter(|name| is_cpu(name)).collect(),
        TunableScope::IdleState => {
            parts(machine, "sys/devices/system/cpu", "cpuidle", |name| name.starts_with("state"))
        }
        TunableScope::Irq => {
            let mut numbers: Vec<u32> = root.list("proc/irq").iter().filter_map(|name| name.parse().ok()).collect();
            numbers.sort_unstable();
            numbers.into_iter().map(|number| number.to_string()).collect()
        }
        TunableScope::Mount => mounts::read(machine).into_iter().map(|mount| mount.point).collect(),
        // The folder contains a subfolder with the driver's features in addition to the file systems.
        TunableScope::Ext4 => root.list("sys/fs/ext4").into_iter().filter(|name| name != "features").collect(),
        TunableScope::PageSize => root.list("sys/kernel/mm/hugepages"),
        TunableScope::Machine
        | TunableScope::Netns
        | TunableScope::Cgroup
        | TunableScope::GroupDisk
        | TunableScope::Process
        | TunableScope::Line => Vec::new(),
    }
}

fn is_cpu(name: &str) -> bool {
    name.strip_prefix("cpu").is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// Lists `THING/PART` for each part in a folder of each thing.
fn parts(machine: &Machine, folder: &str, within: &str, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let root = machine.root();
    let of = |thing: String| {
        let names = root.list(&format!("{folder}/{thing}/{within}"));
        names.into_iter().filter(|name| wanted(name)).map(|name| format!("{thing}/{name}")).collect::<Vec<_>>()
    };
    root.list(folder).into_iter().flat_map(of).collect()
}

/// Checks that an instance of that name exists.
pub(crate) fn find(machine: &Machine, scope: TunableScope, access: &Access, name: &str) -> Result<(), Unavailable> {
    let absent = || Err(Unavailable::Absent(format!("no {} '{name}'", scope.word())));
    if matches!(scope, TunableScope::Interface | TunableScope::NetQueue) && !machine.sees_own_interfaces() {
        let why = "/sys shows the interfaces of another network namespace; 'ip netns exec' and 'nsenter --mount --net' bring the right one";
        return Err(Unavailable::Unsupported(why.into()));
    }
    let is_there = match scope {
        TunableScope::Machine | TunableScope::Netns | TunableScope::Line => true,
        TunableScope::Mount => mounts::find(machine, name).is_some(),
        TunableScope::Cgroup => return mounts::cgroup_folder(machine, access, name).map(|_| ()),
        TunableScope::GroupDisk => {
            let (disk, group) = name.split_once('/').unwrap_or((name, ""));
            find(machine, TunableScope::Disk, access, disk)?;
            return mounts::cgroup_folder(machine, access, group).map(|_| ());
        }
        TunableScope::Process | TunableScope::Irq => {
            is_number(name) && machine.root().at(path_of(scope, name)).exists()
        }
        TunableScope::NetQueue | TunableScope::IdleState => {
            let parts = name.split_once('/');
            parts.is_some_and(|(a, b)| is_one_name(a) && is_one_name(b))
                && machine.root().at(path_of(scope, name)).exists()
        }
        _ => is_one_name(name) && machine.root().at(path_of(scope, name)).exists(),
    };
    if is_there { Ok(()) } else { absent() }
}

/// Whether a name is a single path component that does not lead elsewhere.
fn is_one_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains('/') && !name.chars().any(char::is_control)
}

fn is_number(name: &str) -> bool {
    !name.is_empty() && name.len() < 11 && name.bytes().all(|b| b.is_ascii_digit())
}

/// Returns the folder of an instance.
fn path_of(scope: TunableScope, name: &str) -> String {
    let (first, second) = name.split_once('/').unwrap_or((name, ""));
    match scope {
        TunableScope::Disk => format!("sys/block/{name}"),
        TunableScope::Interface => format!("sys/class/net/{name}"),
        TunableScope::NetQueue => format!("sys/class/net/{first}/queues/{second}"),
        TunableScope::Cpu => format!("sys/devices/system/cpu/{name}"),
        TunableScope::IdleState => format!("sys/devices/system/cpu/{first}/cpuidle/{second}"),
        TunableScope::Irq => format!("proc/irq/{name}"),
        TunableScope::Process => format!("proc/{name}"),
        TunableScope::Ext4 => format!("sys/fs/ext4/{name}"),
        TunableScope::PageSize => format!("sys/kernel/mm/hugepages/{name}"),
        TunableScope::Machine
        | TunableScope::Netns
        | TunableScope::Mount
        | TunableScope::Cgroup
        | TunableScope::GroupDisk
        | TunableScope::Line => String::new(),
    }
}

/// Returns the identity that distinguishes an instance from a later one of the same name; empty for the machine itself.
pub(crate) fn identity(machine: &Machine, scope: TunableScope, access: &Access, name: &str) -> String {
    let root = machine.root();
    let netns = || machine.netns();
    let interface = |name: &str| {
        let index = root.word(&format!("sys/class/net/{name}/ifindex")).unwrap_or_default();
        format!("{}/{index}", netns())
    };
    match scope {
        TunableScope::Netns => netns(),
        // A number that no other disk of this boot has had (Documentation/ABI/testing/sysfs-block: diskseq).
        TunableScope::Disk => root.word(&format!("sys/block/{name}/diskseq")).unwrap_or_default(),
        TunableScope::Interface => interface(name),
        TunableScope::NetQueue => interface(name.split('/').next().unwrap_or_default()),
        TunableScope::Irq => root.word(&format!("sys/kernel/irq/{name}/actions")).unwrap_or_default(),
        TunableScope::Mount => mounts::find(machine, name).map(|mount| mount.identity()).unwrap_or_default(),
        TunableScope::Cgroup => mounts::cgroup_folder(machine, access, name).map_or(String::new(), inode),
        TunableScope::Ext4 => inode(root.at(path_of(scope, name))),
        TunableScope::GroupDisk => {
            let (disk, group) = name.split_once('/').unwrap_or((name, ""));
            let of = |scope, name| identity(machine, scope, access, name);
            format!("{} {}", of(TunableScope::Disk, disk), of(TunableScope::Cgroup, group))
        }
        TunableScope::Process => start_time(machine, name).unwrap_or_default(),
        TunableScope::Line => serde_json::to_string(access).unwrap_or_default(),
        TunableScope::Machine | TunableScope::Cpu | TunableScope::IdleState | TunableScope::PageSize => String::new(),
    }
}

/// Returns the inode number of a kernfs folder, which is not reused (fs/kernfs/dir.c).
fn inode(folder: PathBuf) -> String {
    std::fs::metadata(folder).map_or(String::new(), |meta| meta.ino().to_string())
}

/// Returns the start time of a process, in ticks since boot: field 22 of /proc/PID/stat (proc(5)). Its name may contain spaces
/// and parentheses.
fn start_time(machine: &Machine, pid: &str) -> Option<String> {
    let stat = machine.root().maybe(&format!("proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19).map(str::to_owned)
}

/// Whether a name matches a shell pattern (fnmatch(3)). Nothing matches if either contains a zero byte.
pub(crate) fn matches_pattern(pattern: &str, name: &str) -> bool {
    let (Ok(pattern), Ok(name)) = (CString::new(pattern), CString::new(name)) else { return false };
    // SAFETY: both strings end with a zero and outlive the call.
    unsafe { libc::fnmatch(pattern.as_ptr(), name.as_ptr(), 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Access = Access::Sysctl;

    #[test]
    fn names_do_not_lead_elsewhere() {
        let machine = Machine::live();
        for (scope, name) in [
            (TunableScope::Disk, ".."),
            (TunableScope::Disk, "../class"),
            (TunableScope::Interface, "lo/../lo"),
            (TunableScope::NetQueue, "lo/.."),
            (TunableScope::NetQueue, "lo"),
            (TunableScope::Process, "self"),
            (TunableScope::Irq, "../self"),
            (TunableScope::Cpu, ""),
        ] {
            assert!(matches!(find(&machine, scope, &FILE, name), Err(Unavailable::Absent(_))), "{scope:?} {name}");
        }
        assert_eq!(find(&machine, TunableScope::Interface, &FILE, "lo"), Ok(()));
    }

    #[test]
    fn a_process_is_known_by_its_start() {
        let machine = Machine::live();
        let own = identity(&machine, TunableScope::Process, &FILE, &std::process::id().to_string());
        // Field 22 of proc_pid_stat(5); the name, field 2, ends with the last parenthesis.
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let start = stat.rsplit(')').next().unwrap().split_whitespace().nth(22 - 3);
        assert_eq!(Some(own.as_str()), start);
        assert_ne!(own, identity(&machine, TunableScope::Process, &FILE, "1"));
    }

    #[test]
    fn the_things_of_this_machine_are_there() {
        let machine = Machine::live();
        for scope in [
            TunableScope::Disk,
            TunableScope::Interface,
            TunableScope::NetQueue,
            TunableScope::Cpu,
            TunableScope::Mount,
        ] {
            let names = list(&machine, scope);
            assert!(!names.is_empty(), "{scope:?}");
            for name in names {
                assert_eq!(find(&machine, scope, &FILE, &name), Ok(()), "{scope:?} {name}");
            }
        }
    }

    #[test]
    fn patterns_match() {
        for (pattern, name, matches) in [
            ("sd*", "sda", true),
            ("*", "", true),
            ("nvme?n[!2]", "nvme0n1", true),
            ("sd*", "vda", false),
            ("a\0", "a", false),
        ] {
            assert_eq!(matches_pattern(pattern, name), matches, "{pattern:?} {name:?}");
        }
    }
}
