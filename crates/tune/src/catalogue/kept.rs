//! The lines that make settings survive a reboot, each in a file of our own that the machine reads at boot.

use super::{Entry, udev};
use crate::machine::Machine;
use crate::target::{ChangeTarget, filled, sysctl_path};
use whyslow_documents::tune::{Access, Persist, TunableScope};

const HEADER: &str = "# Written by 'whyslow tune persist', removed by 'whyslow tune undo'.\n";
/// Sorts after all files from packages, and after Debian's 99-sysctl.conf.
pub(crate) const SYSCTL: &str = "etc/sysctl.d/99-whyslow.conf";
const TMPFILES: &str = "etc/tmpfiles.d/whyslow.conf";
const UDEV: &str = "etc/udev/rules.d/99-whyslow.rules";

/// Returns the line that makes a target survive a reboot.
pub(crate) fn line_of(entry: &Entry, target: &ChangeTarget, machine: &Machine) -> Result<Access, String> {
    line(entry, target, machine, false)
}

/// Returns the line as earlier versions wrote it, which matched devices by kernel names.
pub(super) fn line_of_earlier(entry: &Entry, target: &ChangeTarget, machine: &Machine) -> Result<Access, String> {
    line(entry, target, machine, true)
}

fn line(entry: &Entry, target: &ChangeTarget, machine: &Machine, earlier: bool) -> Result<Access, String> {
    let name = target.instance.as_deref().unwrap_or_default();
    let line_in = |file: String, prefix: String, suffix: &str, header: String| Access::Line {
        file,
        prefix,
        suffix: suffix.into(),
        header,
        more: Vec::new(),
    };
    match &entry.tunable.persist {
        Persist::Sysctl => {
            let key = sysctl_of(entry).ok_or_else(|| format!("{target} is not a sysctl"))?;
            Ok(line_in(SYSCTL.into(), format!("{key} = "), "", HEADER.into()))
        }
        Persist::Tmpfiles => {
            let path = file_of(entry, name).filter(|path| !path.contains([' ', '%']));
            let path = path.ok_or_else(|| format!("{target} is not a file that tmpfiles.d can set"))?;
            // w: write to the file if it exists (tmpfiles.d(5)).
            Ok(line_in(TMPFILES.into(), format!("w /{path} - - - - "), "", HEADER.into()))
        }
        Persist::Udev(subsystem) => {
            let attribute = attribute(entry, name).filter(|_| !name.contains(['"', '*', '?', '[', '|', '\\']));
            let attribute = attribute.ok_or_else(|| format!("{target} is not an attribute that udev can match"))?;
            let device = match earlier {
                true => format!("KERNEL==\"{name}\""),
                false => udev::matches(machine, subsystem, name)?,
            };
            let matches = format!("ACTION==\"add|change\", SUBSYSTEM==\"{subsystem}\", {device}");
            Ok(line_in(UDEV.into(), format!("{matches}, ATTR{{{attribute}}}=\""), "\"", HEADER.into()))
        }
        Persist::Unit(property) => {
            let (unit, section) = unit(name)
                .ok_or_else(|| format!("'{name}' is not a systemd unit: set its limit where it is created"))?;
            let folder = format!("etc/systemd/system/{unit}.d");
            let is_systemd = machine.root().at("run/systemd/system").is_dir();
            if !is_systemd {
                return Err(format!("systemd does not run here, so '{name}' is created by something else at boot"));
            }
            let header = format!("{HEADER}[{section}]\n");
            let mut line = line_in(format!("{folder}/50-whyslow.conf"), format!("{property}="), "", header);
            if let (Access::Line { more, .. }, "CPUQuota", false) = (&mut line, property.as_str(), earlier) {
                more.push("CPUQuotaPeriodSec=".to_owned());
            }
            Ok(line)
        }
        Persist::No(instead) => Err(format!("whyslow cannot make {target} persistent; instead: {instead}")),
    }
}

/// Returns the spelling of a value in the line: systemd has its own notation for quotas.
pub(crate) fn value_of(entry: &Entry, value: &str) -> Result<String, String> {
    match &entry.tunable.persist {
        Persist::Unit(property) if property == "CPUQuota" => quota(value),
        Persist::Unit(_) if value == "max" => Ok("infinity".into()),
        Persist::Tmpfiles | Persist::Udev(_) if value.contains(['%', '"', '\\']) => {
            Err(format!("'{value}' cannot be written in such a line"))
        }
        _ if value.is_empty() => Err("an empty value cannot be kept".into()),
        _ => Ok(value.to_owned()),
    }
}

/// Converts `QUOTA PERIOD` in microseconds to systemd's CPUQuota, percent of one CPU with two decimals, and CPUQuotaPeriodSec
/// (systemd.resource-control(5)).
fn quota(value: &str) -> Result<String, String> {
    if value.starts_with("max") {
        return Err(format!("'{value}' needs no line: no quota is the default"));
    }
    let numbers = value.split_once(' ').and_then(|(quota, period)| Some((quota.parse().ok()?, period.parse().ok()?)));
    let (quota, period): (u64, u64) = numbers.ok_or_else(|| format!("'{value}' is not a quota"))?;
    let hundredths = quota.checked_mul(10_000).filter(|product| period > 0 && product % period == 0);
    let hundredths =
        hundredths.map(|product| product / period).filter(|hundredths| *hundredths > 0).ok_or_else(|| {
            format!(
                "systemd takes CPUQuota in steps of 0.01 %, and {quota} of {period} us is not a multiple: choose a quota that is"
            )
        })?;
    let percent = match (hundredths / 100, hundredths % 100) {
        (whole, 0) => format!("{whole}%"),
        (whole, part) if part % 10 == 0 => format!("{whole}.{}%", part / 10),
        (whole, part) => format!("{whole}.{part:02}%"),
    };
    let period = if period % 1000 == 0 { format!("{}ms", period / 1000) } else { format!("{period}us") };
    Ok(format!("{percent} {period}"))
}

/// Returns the sysctl's name, in sysctl.d's spelling.
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

/// Returns the file of a device's setting, relative to the device's folder.
fn attribute(entry: &Entry, name: &str) -> Option<String> {
    let Access::File(path) = &entry.tunable.access else { return None };
    let (_, attribute) = path.split_once("/{}/")?;
    (matches!(entry.tunable.scope, TunableScope::Disk | TunableScope::Interface) && !name.is_empty())
        .then(|| attribute.to_owned())
}

/// Returns the unit that a control group belongs to, and the section of its file that contains limits.
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
    use crate::machine::tests::tree;

    fn line(target: &str) -> Result<String, String> {
        let systemd = ("run/systemd/system/x", "");
        let (_folder, machine) = tree(&[systemd, ("sys/block/sda/dev", "8:0\n"), ("sys/block/sda/wwid", "naa.5\n")]);
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
            "/etc/udev/rules.d/99-whyslow.rules: ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{DEVTYPE}==\"disk\", ATTR{wwid}==\"naa.5\", ATTR{queue/read_ahead_kb}=\"#\""
        );
        assert_eq!(
            line("cgroup.memory.max@/system.slice/x.service").unwrap(),
            "/etc/systemd/system/x.service.d/50-whyslow.conf: MemoryMax=#"
        );
        assert!(line("cgroup.memory.max@/docker/0123").unwrap_err().contains("not a systemd unit"));
        assert!(line("mount.commit@/srv").unwrap_err().contains("/etc/fstab"));
        assert!(line("disk.read_ahead_kb@sd\"a").is_err());
    }

    #[test]
    fn systemd_is_told_quota_and_period_exactly() {
        for (value, line) in [
            ("150000 100000", "150% 100ms"),
            ("5000 20000", "25% 20ms"),
            ("12345 100000", "12.35% 100ms"),
            ("1050 100000", "1.05% 100ms"),
            ("10500 100000", "10.5% 100ms"),
            ("2500 2500", "100% 2500us"),
        ] {
            match quota(value) {
                Ok(told) => assert_eq!(told, line, "{value}"),
                // No value is rounded silently.
                Err(why) => assert!(value.starts_with("12345") && why.contains("0.01 %"), "{value}: {why}"),
            }
        }
        assert!(quota("12345 100000").is_err() && quota("max 100000").is_err() && quota("1 0").is_err());
    }
}
