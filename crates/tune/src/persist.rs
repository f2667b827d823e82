//! Makes changes survive a reboot: the lines that do so, and files that override them later.

use crate::catalogue::{Catalogue, PERSIST, SYSCTL, line_of, sysctl_of, value_of};
use crate::machine::Machine;
use crate::plan::Plan;
use crate::request::{ChangeRequest, RequestedValue};
use crate::target::{ChangeTarget, sysctl_path};
use crate::values::squeeze;
use std::collections::BTreeMap;
use whyslow_documents::tune::{HistoryEntry, Unavailable};

/// Returns the plan that makes a transaction's changes survive a reboot.
pub fn plan(machine: &Machine, entry: &HistoryEntry) -> Plan {
    let id = entry.transaction.id;
    let mut plan = Plan::new(machine, &format!("make change {id} survive a reboot"), &[]);
    for at in entry.outstanding() {
        let change = &entry.transaction.changes[at];
        let target = ChangeTarget::new(PERSIST, Some(&change.target));
        match request(machine, &change.target, entry.held_value(at).unwrap_or_default()) {
            Ok(request) => plan.add(machine, &request),
            Err(why) => plan.cannot(&target, entry.held_value(at).unwrap_or_default(), Unavailable::Unsupported(why)),
        }
    }
    plan
}

fn request(machine: &Machine, target: &str, value: &str) -> Result<ChangeRequest, String> {
    let kept: ChangeTarget = target.parse()?;
    if kept.name == PERSIST {
        return Err("it is already a line that is read at boot".into());
    }
    let (entry, kept) = Catalogue::built_in().resolve(&kept, machine)?;
    line_of(&entry, &kept, machine)?;
    let value = value_of(&entry, value)?;
    let reason = sysctl_of(&entry).and_then(|key| set_later(machine, &key, &value)).unwrap_or_default();
    Ok(ChangeRequest {
        target: ChangeTarget::new(PERSIST, Some(&kept.to_string())),
        wanted: RequestedValue::Exactly(value),
        reason,
    })
}

/// Returns a warning if a file that is read after ours sets a sysctl to another value: files are read in the order of their
/// names, whichever folder they are in, and procps' `sysctl --system` reads /etc/sysctl.conf last (sysctl.d(5), sysctl(8)).
fn set_later(machine: &Machine, key: &str, value: &str) -> Option<String> {
    let folders = ["usr/lib/sysctl.d", "usr/local/lib/sysctl.d", "run/sysctl.d", "etc/sysctl.d"];
    // A file hides one of the same name in an earlier folder.
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

/// Returns the last value that a file of sysctl.d gives a key.
fn set_in(text: &str, key: &str) -> Option<String> {
    let set = |line: &str| {
        let (name, value) = line.trim().trim_start_matches('-').split_once('=')?;
        (sysctl_path(name.trim()) == sysctl_path(key)).then(|| squeeze(value))
    };
    text.lines().filter_map(set).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::{tree, write};

    #[test]
    fn who_sets_it_later_is_named() {
        let (folder, machine) = tree(&[("etc/sysctl.d/10-first.conf", "vm.swappiness = 1\n")]);
        assert_eq!(set_later(&machine, "vm.swappiness", "10"), None);
        write(&folder, "etc/sysctl.conf", "# vm.swappiness = 2\n-vm/swappiness=  30\n");
        let why = set_later(&machine, "vm.swappiness", "10").unwrap();
        assert_eq!(why, "/etc/sysctl.conf sets it to 30 after this: change it there");
        assert_eq!(set_later(&machine, "vm.swappiness", "30"), None);
    }
}
