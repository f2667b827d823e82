//! The devices that a unit of a profile applies to.

use crate::instances;
use crate::machine::Machine;
use whyslow_documents::tune::TunableScope;

/// Buses whose disks tuned's disk plugin accepts; it also accepts devices on no bus (loop, dm, md).
const BUSES: [&str; 5] = ["scsi", "virtio", "xen", "nvme", "mmc"];

/// Returns the devices of a kind of unit that a rule selects: patterns, and `!pattern` for exclusions.
pub(super) fn matching(machine: &Machine, kind: &str, rule: &str) -> Vec<String> {
    let root = machine.root();
    let all: Vec<String> = match kind {
        "disk" => {
            instances::list(machine, TunableScope::Disk).into_iter().filter(|name| is_disk(machine, name)).collect()
        }
        "net" => {
            let names = instances::list(machine, TunableScope::Interface).into_iter();
            names.filter(|name| root.at(format!("sys/class/net/{name}/device")).exists()).collect()
        }
        "cpu" => instances::list(machine, TunableScope::Cpu),
        _ => Vec::new(),
    };
    all.into_iter().filter(|name| is_named(rule, name)).collect()
}

fn is_disk(machine: &Machine, name: &str) -> bool {
    let root = machine.root();
    let bus = root.link(&format!("sys/block/{name}/device/subsystem"));
    let is_known = bus.is_none_or(|bus| BUSES.contains(&bus.rsplit('/').next().unwrap_or_default()));
    is_known && root.number(&format!("sys/block/{name}/removable")) == Some(0)
}

/// Whether a rule selects a device.
pub(super) fn is_named(rule: &str, name: &str) -> bool {
    let words: Vec<&str> = rule.split([',', ' ', '\n', '\t']).filter(|word| !word.is_empty()).collect();
    let (out, of): (Vec<&str>, Vec<&str>) = words.into_iter().partition(|word| word.starts_with('!'));
    let is_in = of.is_empty() || of.iter().any(|pattern| instances::matches_pattern(pattern, name));
    is_in && !out.iter().any(|pattern| instances::matches_pattern(&pattern[1..], name))
}

/// Lists the paths under a folder that match a pattern, component by component.
pub(crate) fn paths(machine: &Machine, pattern: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for part in pattern.trim_start_matches('/').split('/') {
        found = found.iter().flat_map(|folder| steps(machine, folder, part)).collect();
    }
    found.into_iter().filter(|path| machine.root().at(path).exists()).map(|path| format!("/{path}")).collect()
}

fn steps(machine: &Machine, folder: &str, part: &str) -> Vec<String> {
    let join = |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
    if !part.contains(['*', '?', '[']) {
        return vec![join(part)];
    }
    let names = machine.root().list(folder);
    names.iter().filter(|name| instances::matches_pattern(part, name)).map(|name| join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_name_devices() {
        assert!(is_named("*", "sda") && is_named("sd*, vda", "vda") && is_named("!sdb", "sda"));
        assert!(!is_named("sd*, !sda", "sda") && !is_named("!sda", "sda") && !is_named("hd*", "sda"));
    }

    #[test]
    fn patterns_find_paths() {
        let machine = Machine::live();
        assert!(paths(&machine, "/proc/sys/vm/swapp*").contains(&"/proc/sys/vm/swappiness".to_owned()));
        assert_eq!(paths(&machine, "/proc/sys/nosuch*/x"), Vec::<String>::new());
    }
}
