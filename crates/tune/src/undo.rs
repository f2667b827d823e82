//! Rolls changes back: only settings that still hold our value, on the same instance that was changed.

use crate::catalogue::PERSIST;
use crate::machine::Machine;
use crate::system_setting::SystemSetting;
use std::fs;
use std::rc::Rc;
use whyslow_documents::tune::{ChangeOutcome, HistoryEntry, SettingChange, Status, TunableScope, Unavailable, Undoing};

/// Rolls back the outstanding changes of a transaction, and returns the outcome of each.
///
/// All values are read before any is written: restoring one may change another (a scheduler resets its queue).
pub(crate) fn roll_back(machine: &Machine, history: &[HistoryEntry], entry: &HistoryEntry) -> Vec<Undoing> {
    let outstanding = entry.outstanding();
    let decisions: Vec<(usize, Decision)> =
        outstanding.iter().map(|&at| (at, OutstandingChange { machine, history, entry, at }.decide())).collect();
    let mut writes: Vec<Write> = decisions.iter().filter_map(|(at, decision)| decision.write(*at, entry)).collect();
    writes.extend(collateral(machine, entry, &decisions));
    let failed = in_passes(writes, Write::make);
    let outcome = |at: usize, decision: Decision| match decision {
        Decision::Leave(outcome) => outcome,
        Decision::Restore(setting) => {
            let why = failed.iter().find(|(write, _)| write.change == at).map(|(_, why)| why.clone());
            result(&setting, &entry.transaction.changes[at], why)
        }
    };
    decisions.into_iter().map(|(at, decision)| undoing(entry, at, outcome(at, decision))).collect()
}

/// Whether a value is the result of a reboot after a change.
pub(crate) fn is_reset(
    machine: &Machine,
    history: &[HistoryEntry],
    entry: &HistoryEntry,
    at: usize,
    now: &str,
) -> bool {
    OutstandingChange { machine, history, entry, at }.is_reset_to(now)
}

/// Predicts the outcome of each change if it were rolled back: [`ChangeOutcome::Restored`] if the original would be restored.
pub(crate) fn foresee(machine: &Machine, history: &[HistoryEntry], entry: &HistoryEntry) -> Vec<Undoing> {
    let foreseen = |at: usize| match (OutstandingChange { machine, history, entry, at }).decide() {
        Decision::Leave(outcome) => undoing(entry, at, outcome),
        Decision::Restore(_) => undoing(entry, at, ChangeOutcome::Restored),
    };
    entry.outstanding().into_iter().map(foreseen).collect()
}

/// Decision about one change.
enum Decision {
    Restore(Rc<SystemSetting>),
    Leave(ChangeOutcome),
}

impl Decision {
    /// Returns the write that restores the original; `None` if the other half of a pair restores it.
    fn write(&self, at: usize, entry: &HistoryEntry) -> Option<Write> {
        let Self::Restore(setting) = self else { return None };
        let original = &entry.transaction.changes[at].original;
        if setting.entry.tunable.unset.as_ref() == Some(original) {
            return None;
        }
        Some(Write { change: at, setting: Rc::clone(setting), value: original.clone() })
    }
}

/// A change that was made, with its context.
struct OutstandingChange<'a> {
    machine: &'a Machine,
    history: &'a [HistoryEntry],
    entry: &'a HistoryEntry,
    at: usize,
}

impl OutstandingChange<'_> {
    fn change(&self) -> &SettingChange {
        &self.entry.transaction.changes[self.at]
    }

    fn decide(&self) -> Decision {
        if let Some(outcome) = self.is_elsewhere() {
            return Decision::Leave(outcome);
        }
        let setting = match SystemSetting::of_change(self.machine, self.change()) {
            Ok(setting) => setting,
            Err(Unavailable::Absent(why)) => return Decision::Leave(ChangeOutcome::Gone { why }),
            Err(why) => return Decision::Leave(ChangeOutcome::Failed { why: why.to_string() }),
        };
        if let Some(outcome) = self.is_of_another(&setting) {
            return Decision::Leave(outcome);
        }
        let now = match setting.read() {
            Ok(now) => now,
            Err(why) => return Decision::Leave(ChangeOutcome::Failed { why: why.to_string() }),
        };
        if now == self.change().original {
            return Decision::Leave(ChangeOutcome::Already);
        }
        if self.holds(&setting, &now) {
            return Decision::Restore(Rc::new(setting));
        }
        if self.is_reset_to(&now) {
            return Decision::Leave(ChangeOutcome::Gone { why: format!("a reboot has reset it to {now}") });
        }
        Decision::Leave(match self.later_change(&now) {
            Some(by) => ChangeOutcome::Superseded { by },
            None => ChangeOutcome::ChangedSince { now },
        })
    }

    fn rebooted(&self) -> bool {
        self.entry.transaction.boot != self.machine.boot()
    }

    /// Whether a value is the result of a reboot: the value before this change, or before an earlier one of the same setting.
    fn is_reset_to(&self, now: &str) -> bool {
        let mut earlier = self.history.iter().filter(|entry| entry.transaction.id <= self.entry.transaction.id);
        let is_original = |entry: &HistoryEntry| {
            let mut changes = entry.transaction.changes.iter().enumerate();
            changes.any(|(at, change)| {
                change.target == self.change().target && change.original == now && entry.is_outstanding(at)
            })
        };
        // Persistent lines survive a reboot.
        self.rebooted() && !self.change().target.starts_with(PERSIST) && earlier.any(is_original)
    }

    /// Returns the outcome of a change that was made in another network namespace, in which names have other meanings; `None` if
    /// it was not.
    fn is_elsewhere(&self) -> Option<ChangeOutcome> {
        let netns = self.change().identity.split('/').next().unwrap_or_default();
        if self.rebooted() || !netns.starts_with("net:") || netns == self.machine.netns() {
            return None;
        }
        Some(if exists(netns) {
            ChangeOutcome::Failed {
                why: format!("it belongs to the network namespace {netns}: run this there (ip netns exec, nsenter)"),
            }
        } else {
            ChangeOutcome::Gone { why: format!("the network namespace {netns} is gone") }
        })
    }

    /// Returns the outcome of a change whose instance no longer exists; `None` if the setting still belongs to the same instance.
    fn is_of_another(&self, setting: &SystemSetting) -> Option<ChangeOutcome> {
        let scope = setting.entry.tunable.scope;
        if self.rebooted() {
            // IDs are reassigned at each boot: only names remain, and processes and groups are certainly gone.
            let why = || ChangeOutcome::Gone { why: "the machine has rebooted".into() };
            return matches!(
                scope,
                TunableScope::Process | TunableScope::Cgroup | TunableScope::GroupDisk | TunableScope::Mount
            )
            .then(why);
        }
        (!setting.is_of(self.change()))
            .then(|| ChangeOutcome::Gone { why: format!("this is a different {} with the same name", scope.word()) })
    }

    /// Whether the current value is the one that we wrote.
    fn holds(&self, setting: &SystemSetting, now: &str) -> bool {
        if self.entry.held_value(self.at) == Some(now) {
            return true;
        }
        // The program may have died between writing a value and recording the kernel's result: writing it again shows the result.
        let unnoted = self.entry.status == Status::Open && self.entry.held[self.at].is_none() && !self.rebooted();
        unnoted && (setting.means(&self.change().intended, now) || self.comes_to(setting, now))
    }

    fn comes_to(&self, setting: &SystemSetting, now: &str) -> bool {
        let made = setting.try_write(&self.change().intended);
        let is_ours = made.as_deref() == Ok(now);
        if !is_ours {
            // Another writer's value is restored.
            let _ = setting.try_write(now);
        }
        is_ours
    }

    /// Returns a later transaction that changed the same setting, is still in place, and set the current value.
    fn later_change(&self, now: &str) -> Option<u64> {
        let later = self.history.iter().filter(|later| later.transaction.id > self.entry.transaction.id);
        let holds = |later: &&HistoryEntry| {
            let changes = later.transaction.changes.iter().enumerate();
            let mut same =
                changes.filter(|(at, change)| change.target == self.change().target && later.is_outstanding(*at));
            same.any(|(at, _)| later.held_value(at) == Some(now))
        };
        later.into_iter().find(holds).map(|later| later.transaction.id)
    }
}

/// Whether a network namespace still has a process or a mount.
fn exists(netns: &str) -> bool {
    let mounted = fs::read_to_string("/proc/self/mountinfo").is_ok_and(|text| text.contains(netns));
    let in_it = |entry: std::io::Result<fs::DirEntry>| {
        let link = entry.and_then(|entry| fs::read_link(entry.path().join("ns/net")));
        link.is_ok_and(|link| link.as_os_str() == netns)
    };
    mounted || fs::read_dir("/proc").is_ok_and(|mut entries| entries.any(in_it))
}

/// A value to be restored.
struct Write {
    change: usize,
    setting: Rc<SystemSetting>,
    value: String,
}

impl Write {
    fn make(&self) -> Result<(), String> {
        match self.setting.read() {
            Ok(now) if self.setting.means(&self.value, &now) => Ok(()),
            _ => self.setting.write(&self.value).map(|_| ()).map_err(|why| why.to_string()),
        }
    }
}

/// Returns the settings that changed along with those being rolled back, unless they were set externally since.
fn collateral(machine: &Machine, entry: &HistoryEntry, decisions: &[(usize, Decision)]) -> Vec<Write> {
    let mut writes = Vec::new();
    for (at, decision) in decisions {
        if matches!(decision, Decision::Leave(_)) {
            continue;
        }
        let held = entry.held[*at].as_ref();
        for (number, side) in entry.transaction.changes[*at].collateral.iter().enumerate() {
            let Ok(setting) = SystemSetting::named(machine, &side.target) else { continue };
            let after = held.and_then(|held| held.collateral.get(number));
            let set_since =
                after.is_some_and(|after| setting.read().is_ok_and(|now| now != *after && now != side.original));
            let is_own_change = entry.transaction.changes.iter().any(|change| change.target == side.target);
            let unwritable = setting.entry.tunable.unset.as_ref() == Some(&side.original);
            if !set_since && !is_own_change && !unwritable {
                writes.push(Write { change: *at, setting: Rc::new(setting), value: side.original.clone() });
            }
        }
    }
    writes
}

/// Returns the outcome of restoring a value, judged by the current one.
fn result(setting: &SystemSetting, change: &SettingChange, failed: Option<String>) -> ChangeOutcome {
    match setting.read() {
        Ok(now) if setting.means(&change.original, &now) && failed.is_none() => ChangeOutcome::Restored,
        Ok(now) => ChangeOutcome::Failed {
            why: failed.unwrap_or_else(|| format!("it is {now} after {} was written", change.original)),
        },
        Err(why) => ChangeOutcome::Failed { why: why.to_string() },
    }
}

fn undoing(entry: &HistoryEntry, at: usize, outcome: ChangeOutcome) -> Undoing {
    let change = &entry.transaction.changes[at];
    Undoing {
        id: entry.transaction.id,
        change: at,
        target: change.target.clone(),
        original: change.original.clone(),
        outcome,
    }
}

/// Tries each in turn, and retries failed ones as long as others succeed: one setting may be refused until another has changed
/// (an interface's MTU by the one below it, a minimum frequency by the maximum). Returns the final failures.
pub(crate) fn in_passes<T, E>(items: Vec<T>, mut attempt: impl FnMut(&T) -> Result<(), E>) -> Vec<(T, E)> {
    let mut left = items;
    loop {
        let before = left.len();
        let mut failed = Vec::new();
        for item in left {
            if let Err(e) = attempt(&item) {
                failed.push((item, e));
            }
        }
        if failed.is_empty() || failed.len() == before {
            return failed;
        }
        left = failed.into_iter().map(|(item, _)| item).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::in_passes;

    #[test]
    fn what_depends_on_a_later_one_is_tried_again() {
        let mut done: Vec<u32> = Vec::new();
        // Each needs the number above it; 9 never works.
        let left = in_passes(vec![1, 2, 9, 3], |n| {
            let ready = *n == 3 || done.contains(&(n + 1));
            if ready {
                done.push(*n)
            }
            ready.then_some(()).ok_or("not yet")
        });
        assert_eq!((done, left), (vec![3, 2, 1], vec![(9, "not yet")]));
    }
}
