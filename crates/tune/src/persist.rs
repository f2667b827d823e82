//! How a setting is kept over a reboot: a line in a file of our own that the machine reads at boot.

use crate::catalogue::{Catalogue, Entry, PERSIST, sysctl_path};
use crate::machine::Machine;
use crate::plan::{Plan, Wanted, Wish};
use crate::target::Target;
use crate::values::squeeze;
use std::collections::BTreeMap;
use whyslow_model::tune::{Access, HistoryEntry, Persist, Scope, Unavailable};

const HEADER: &str = "# Written by 'whyslow tune persist', taken back by 'whyslow tune undo'.\n";
/// Behind all that packages bring, and behind Debian's 99-sysctl.conf.
const SYSCTL: &str = "etc/sysctl.d/99-whyslow.conf";
const TMPFILES: &str = "etc/tmpfiles.d/whyslow.conf";
const UDEV: &str = "etc/udev/rules.d/99-whyslow.rules";

/// The plan that keeps what a transaction changed over a reboot.
pub fn plan(machine: &Machine, entry: &HistoryEntry) -> Plan {
    let id = entry.transaction.id;
    let mut plan = Plan::of(machine, &format!("keep change {id} over a reboot"), &[]);
    for at in entry.outstanding() {
        let change = &entry.transaction.changes[at];
        let target = Target::of(PERSIST, Some(&change.target));
        match wish(machine, &change.target, entry.held_value(at).unwrap_or_default()) {
            Ok(wish) => plan.add(machine, &wish),
            Err(why) => plan.cannot(&target, entry.held_value(at).unwrap_or_default(), Unavailable::Unsupported(why)),
        }
    }
    plan
}

fn wish(machine: &Machine, target: &str, value: &str) -> Result<Wish, String> {
    let kept: Target = target.parse()?;
    if kept.name == PERSIST {
        return Err("it is a line that is read at boot already".into());
    }
    let (entry, kept) = Catalogue::built_in().resolve(&kept, machine)?;
    line_of(&entry, &kept, machine)?;
    let value = value_of(&entry, value)?;
    let reason = sysctl_of(&entry).and_then(|key| set_later(machine, &key, &value)).unwrap_or_default();
    Ok(Wish { target: Target::of(PERSIST, Some(&kept.to_string())), wanted: Wanted::Exactly(value), reason })
}

/// Who sets a sysctl to something else after our file was read: files go by name, whichever folder they are in, and
/// procps' `sysctl --system` reads /etc/sysctl.conf last (sysctl.d(5), sysctl(8)).
fn set_later(machine: &Machine, key: &str, value: &str) -> Option<String> {
    let folders = ["usr/lib/sysctl.d", "usr/local/lib/sysctl.d", "run/sysctl.d", "etc/sysctl.d"];
    // A file of the same name hides that of an earlier folder.
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for folder in folders {
        let names = machine.root().list(folder).into_iter().filter(|name| name.ends_with(".conf"));
        files.extend(names.map(|name| (name.clone(), format!("{folder}/{name}"))));
    }
    let own = SYSCTL.rsplit('/').next().unwrap_or_default();
    let later = files.into_iter().filter(|(name, _)| name.as_str() > own).map(|(_, path)| path);
    let other = |path: String| {
        let set = set_in(&machine.root().maybe(&path)?, key)?;
        (set != value).then(|| format!("/{path} sets it to {set} after this: change it there"))
    };
    later.chain(["etc/sysctl.conf".to_owned()]).filter_map(other).next_back()
}

/// The last value that a file of sysctl.d gives a key.
fn set_in(text: &str, key: &str) -> Option<String> {
    let set = |line: &str| {
        let (name, value) = line.trim().trim_start_matches('-').split_once('=')?;
        (sysctl_path(name.trim()) == sysctl_path(key)).then(|| squeeze(value))
    };
    text.lines().filter_map(set).next_back()
}

/// The line that keeps a target over a reboot.
///
/// # Errors
/// Why there is none, and what to do instead.
pub(crate) fn line_of(entry: &Entry, target: &Target, machine: &Machine) -> Result<Access, String> {
    let name = target.instance.as_deref().unwrap_or_default();
    let line = |file: String, prefix: String, suffix: &str, header: String| Access::Line {
        file,
        prefix,
        suffix: suffix.into(),
        header,
    };
    match &entry.tunable.persist {
        Persist::Sysctl => {
            let key = sysctl_of(entry).ok_or_else(|| format!("{target} is no sysctl"))?;
            Ok(line(SYSCTL.into(), format!("{key} = "), "", HEADER.into()))
        }
        Persist::Tmpfiles => {
            let path = file_of(entry, name).filter(|path| !path.contains([' ', '%']));
            let path = path.ok_or_else(|| format!("{target} is no file that tmpfiles.d can name"))?;
            // w: write to the file if it is there (tmpfiles.d(5)).
            Ok(line(TMPFILES.into(), format!("w /{path} - - - - "), "", HEADER.into()))
        }
        Persist::Udev(subsystem) => {
            let attribute = attribute(entry, name).filter(|_| !name.contains(['"', '*', '?', '[', '|', '\\']));
            let attribute = attribute.ok_or_else(|| format!("{target} is no attribute that udev can match"))?;
            let matches = format!("ACTION==\"add|change\", SUBSYSTEM==\"{subsystem}\", KERNEL==\"{name}\"");
            Ok(line(UDEV.into(), format!("{matches}, ATTR{{{attribute}}}=\""), "\"", HEADER.into()))
        }
        Persist::Unit(property) => {
            let (unit, section) =
                unit(name).ok_or_else(|| format!("'{name}' is no unit of systemd's: its owner sets its limits"))?;
            let folder = format!("etc/systemd/system/{unit}.d");
            let is_systemd = machine.root().at("run/systemd/system").is_dir();
            if !is_systemd {
                return Err(format!("systemd does not run here, so that '{name}' is set up by something else at boot"));
            }
            Ok(line(format!("{folder}/50-whyslow.conf"), format!("{property}="), "", format!("{HEADER}[{section}]\n")))
        }
        Persist::No(instead) => Err(format!("{target} is kept in no file of ours: {instead}")),
    }
}

/// What stands in the line for a value: systemd has its own way to say a quota.
///
/// # Errors
/// The value cannot stand in such a line.
pub(crate) fn value_of(entry: &Entry, value: &str) -> Result<String, String> {
    match &entry.tunable.persist {
        Persist::Unit(property) if property == "CPUQuota" => {
            quota(value).ok_or_else(|| format!("'{value}' needs no line: no quota is the default"))
        }
        Persist::Unit(_) if value == "max" => Ok("infinity".into()),
        Persist::Tmpfiles | Persist::Udev(_) if value.contains(['%', '"', '\\']) => {
            Err(format!("'{value}' cannot stand in such a line"))
        }
        _ if value.is_empty() => Err("an empty value cannot be kept".into()),
        _ => Ok(value.to_owned()),
    }
}

/// `QUOTA PERIOD` as systemd's CPUQuota: percent of one processor. `None` for max.
fn quota(value: &str) -> Option<String> {
    let (quota, period) = value.split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then(|| format!("{:.0}%", (quota / period * 100.0).max(1.0)))
}

/// The sysctl's name, in sysctl.d's spelling.
fn sysctl_of(entry: &Entry) -> Option<String> {
    match &entry.tunable.access {
        Access::Sysctl => Some(entry.tunable.name.clone()),
        Access::File(path) => path.starts_with("proc/sys/").then(|| entry.tunable.name.clone()),
        _ => None,
    }
}

fn file_of(entry: &Entry, name: &str) -> Option<String> {
    let (first, second) = name.split_once('/').unwrap_or((name, ""));
    match &entry.tunable.access {
        Access::Sysctl => Some(sysctl_path(&entry.tunable.name)),
        Access::File(path) => Some(path.replace("{0}", first).replace("{1}", second).replace("{}", name)),
        _ => None,
    }
}

/// The file of a device's setting, from the device's folder.
fn attribute(entry: &Entry, name: &str) -> Option<String> {
    let Access::File(path) = &entry.tunable.access else { return None };
    let (_, attribute) = path.split_once("/{}/")?;
    (matches!(entry.tunable.scope, Scope::Disk | Scope::Interface) && !name.is_empty()).then(|| attribute.to_owned())
}

/// The unit that a control group belongs to, and the section of its file where limits stand.
fn unit(group: &str) -> Option<(&str, &'static str)> {
    let unit = group.rsplit('/').next()?;
    let section = match unit.rsplit_once('.')?.1 {
        "service" => "Service",
        "slice" => "Slice",
        "scope" => "Scope",
        "mount" => "Mount",
        "socket" => "Socket",
        "swap" => "Swap",
        _ => return None,
    };
    Some((unit, section))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;
    use whyslow_sense::Root;

    fn line(target: &str) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("run/systemd/system")).unwrap();
        let machine = Machine::at(Root::captured(folder.path()));
        let (entry, target) = Catalogue::built_in().resolve(&target.parse().unwrap(), &machine)?;
        match line_of(&entry, &target, &machine)? {
            Access::Line { file, prefix, suffix, .. } => Ok(format!("/{file}: {prefix}#{suffix}")),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_kind_has_its_file() {
        assert_eq!(line("vm.swappiness").unwrap(), "/etc/sysctl.d/99-whyslow.conf: vm.swappiness = #");
        assert_eq!(line("kernel.core_pattern").unwrap(), "/etc/sysctl.d/99-whyslow.conf: kernel.core_pattern = #");
        assert_eq!(
            line("thp.enabled").unwrap(),
            "/etc/tmpfiles.d/whyslow.conf: w /sys/kernel/mm/transparent_hugepage/enabled - - - - #"
        );
        assert_eq!(
            line("disk.read_ahead_kb@sda").unwrap(),
            "/etc/udev/rules.d/99-whyslow.rules: ACTION==\"add|change\", SUBSYSTEM==\"block\", KERNEL==\"sda\", ATTR{queue/read_ahead_kb}=\"#\""
        );
        assert_eq!(
            line("cgroup.memory.max@/system.slice/x.service").unwrap(),
            "/etc/systemd/system/x.service.d/50-whyslow.conf: MemoryMax=#"
        );
        assert!(line("cgroup.memory.max@/docker/0123").unwrap_err().contains("no unit"));
        assert!(line("mount.commit@/srv").unwrap_err().contains("/etc/fstab"));
        assert!(line("disk.read_ahead_kb@sd\"a").is_err());
    }

    #[test]
    fn who_sets_it_later_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let machine = Machine::at(Root::captured(folder.path()));
        write("etc/sysctl.d/10-first.conf", "vm.swappiness = 1\n");
        assert_eq!(set_later(&machine, "vm.swappiness", "10"), None);
        write("etc/sysctl.conf", "# vm.swappiness = 2\n-vm/swappiness=  30\n");
        let why = set_later(&machine, "vm.swappiness", "10").unwrap();
        assert_eq!(why, "/etc/sysctl.conf sets it to 30 after this: change it there");
        assert_eq!(set_later(&machine, "vm.swappiness", "30"), None);
    }

    #[test]
    fn systemd_says_quotas_in_percent() {
        assert_eq!(quota("150000 100000").as_deref(), Some("150%"));
        assert_eq!(quota("max 100000"), None);
    }
}
