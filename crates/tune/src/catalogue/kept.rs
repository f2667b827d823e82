//! The lines that keep settings over a reboot, each in a file of our own that the machine reads at boot.

use super::{Entry, filled, sysctl_path};
use crate::machine::Machine;
use crate::target::Target;
use whyslow_model::tune::{Access, Persist, Scope};

const HEADER: &str = "# Written by 'whyslow tune persist', taken back by 'whyslow tune undo'.\n";
/// Behind all that packages bring, and behind Debian's 99-sysctl.conf.
pub(crate) const SYSCTL: &str = "etc/sysctl.d/99-whyslow.conf";
const TMPFILES: &str = "etc/tmpfiles.d/whyslow.conf";
const UDEV: &str = "etc/udev/rules.d/99-whyslow.rules";

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
pub(crate) fn sysctl_of(entry: &Entry) -> Option<String> {
    match &entry.tunable.access {
        Access::Sysctl => Some(entry.tunable.name.clone()),
        Access::File(path) => path.starts_with("proc/sys/").then(|| entry.tunable.name.clone()),
        _ => None,
    }
}

fn file_of(entry: &Entry, name: &str) -> Option<String> {
    match &entry.tunable.access {
        Access::Sysctl => Some(sysctl_path(&entry.tunable.name)),
        Access::File(template) => Some(filled(template, name)),
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
    use super::super::Catalogue;
    use super::*;
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
    fn systemd_says_quotas_in_percent() {
        assert_eq!(quota("150000 100000").as_deref(), Some("150%"));
        assert_eq!(quota("max 100000"), None);
    }
}
