//! Resolves one request on this machine.

use super::PlanItem;
use crate::machine::Machine;
use crate::own_session;
use crate::request::{ChangeRequest, RequestedValue};
use crate::system_setting::SystemSetting;
use crate::target::ChangeTarget;
use crate::values::Values;
use whyslow_documents::tune::{Effect, PlanLine, PlanStep, Risk, Stalls, Tunable, TunableScope, Unavailable};

pub(super) fn item(machine: &Machine, request: &ChangeRequest, target: ChangeTarget) -> PlanItem {
    match SystemSetting::for_target(machine, &target) {
        Ok(setting) => {
            let (wanted, step) = step(&setting, &request.wanted);
            let step = match step {
                PlanStep::Change { from } => match setting.may_write() {
                    // No user may write it.
                    Err(why @ Unavailable::Unsupported(_)) => PlanStep::Cannot(why),
                    _ => PlanStep::Change { from },
                },
                other => other,
            };
            let tunable = &setting.entry.tunable;
            let lowers = match &step {
                PlanStep::Change { from } => lowers(tunable, from, &wanted),
                _ => false,
            };
            let line = PlanLine {
                target: setting.target.to_string(),
                wanted,
                step,
                reason: request.reason.clone(),
                effect: tunable.effect,
                risk: tunable.risk,
                network: tunable.network,
                confirm: tunable.network || lowers || can_stall(machine, &setting),
                lowers,
            };
            PlanItem { line, setting: Some(setting) }
        }
        Err(why) => impossible(&target, request.wanted.words(), request.reason.clone(), why),
    }
}

pub(super) fn impossible(target: &ChangeTarget, wanted: String, reason: String, why: Unavailable) -> PlanItem {
    let line = PlanLine {
        target: target.to_string(),
        wanted,
        step: PlanStep::Cannot(why),
        reason,
        effect: Effect::Instant,
        risk: Risk::Low,
        network: false,
        confirm: false,
        lowers: false,
    };
    PlanItem { line, setting: None }
}

/// Whether a change lowers a limit, or one of several.
fn lowers(tunable: &Tunable, from: &str, to: &str) -> bool {
    let number = |word: &str| match word.parse::<i128>() {
        _ if tunable.unlimited.as_deref() == Some(word) => i128::MAX,
        Ok(number) => number,
        // `max`, `unlimited`.
        Err(_) => i128::MAX,
    };
    tunable.limit && from.split(' ').zip(to.split(' ')).any(|(from, to)| number(to) < number(from))
}

/// Whether a wrong value could prevent the user who makes the change from undoing it.
fn can_stall(machine: &Machine, setting: &SystemSetting) -> bool {
    match setting.entry.tunable.stalls {
        None | Some(Stalls::Nothing) => false,
        Some(Stalls::Machine) => true,
        Some(Stalls::Session) => {
            // A group's use of a disk is named DISK/GROUP.
            let name = setting.target.instance.as_deref().unwrap_or_default();
            let group = match setting.entry.tunable.scope {
                TunableScope::GroupDisk => name.split_once('/').map_or("", |(_, group)| group),
                _ => name,
            };
            own_session::is_in_group(machine, &setting.entry.tunable.access, group)
        }
    }
}

/// Returns the value that a request resolves to, and the step it needs.
fn step(setting: &SystemSetting, wanted: &RequestedValue) -> (String, PlanStep) {
    let now = match setting.read() {
        Ok(now) => now,
        Err(why) => return (wanted.words(), PlanStep::Cannot(why)),
    };
    let entry = &setting.entry;
    let check = |value: &str| setting.offered(entry.values.check(value, &entry.tunable.unit)?);
    let refused = |why: String| (wanted.words(), PlanStep::Cannot(Unavailable::Failed(why)));
    let value = match wanted {
        RequestedValue::Exactly(value) => check(value),
        RequestedValue::AtLeast(_) | RequestedValue::AtMost(_) | RequestedValue::Each(_) => {
            match check(&wanted.value().unwrap_or_default()) {
                Ok(value) => {
                    let in_force = setting.in_force(&now);
                    let comes_to = bounded(wanted, &in_force, &value);
                    if comes_to == in_force && value != in_force {
                        let why = match in_force == now {
                            true => format!("only {} is requested", wanted.words()),
                            false => format!("it comes to {in_force}, and only {} is requested", wanted.words()),
                        };
                        return (value, PlanStep::Keep { now, why });
                    }
                    Ok(comes_to)
                }
                other => other,
            }
        }
        RequestedValue::FirstOf(values) => first_of(values, &setting.choices(), &now),
    };
    match value {
        Ok(value) if setting.means(&value, &now) => (value, PlanStep::Already),
        Ok(value) if entry.tunable.unset.as_deref() == Some(value.as_str()) => {
            let other = entry.tunable.disturbs.join(", ");
            refused(format!("{value} cannot be written: set {other} instead, which resets this to {value}"))
        }
        Ok(value) => match setting.most().filter(|most| value.parse::<i128>().is_ok_and(|value| value > *most)) {
            Some(most) => {
                let why = format!("{} takes {most} at most", setting.target.instance.as_deref().unwrap_or("it"));
                (value, PlanStep::Cannot(Unavailable::Unsupported(why)))
            }
            None => (value, PlanStep::Change { from: now }),
        },
        Err(why) => refused(why),
    }
}

/// Applies a bound number by number: a request to raise lowers none of them. If either value is not numeric, the requested one is
/// returned unchanged.
fn bounded(wanted: &RequestedValue, now: &str, value: &str) -> String {
    let numbers = |text: &str| text.split(' ').map(|word| word.parse::<i128>().ok()).collect::<Option<Vec<_>>>();
    match (numbers(now), numbers(value)) {
        (Some(now), Some(value)) if now.len() == value.len() => {
            let each = now.iter().zip(&value).enumerate();
            each.map(|(at, (now, value))| wanted.at(at).resolve(*now, *value).to_string()).collect::<Vec<_>>().join(" ")
        }
        _ => value.to_owned(),
    }
}

/// Returns the first value that the kernel lists, or the first one if it lists none.
fn first_of(values: &[String], choices: &[String], now: &str) -> Result<String, String> {
    let found = values.iter().find(|value| choices.is_empty() || choices.contains(value) || *value == now);
    found
        .cloned()
        .ok_or_else(|| format!("none of {} is available; there are {}", values.join(", "), choices.join(", ")))
}

impl SystemSetting {
    /// Returns the value now in force: if the other half of a pair counts, the amount that results from it. A share of dirty
    /// memory refers to the memory available without swapping (Documentation/admin-guide/sysctl/vm.rst: dirty_ratio).
    fn in_force(&self, now: &str) -> String {
        let share = match self.target.name.as_str() {
            "vm.dirty_bytes" => "vm.dirty_ratio",
            "vm.dirty_background_bytes" => "vm.dirty_background_ratio",
            _ => return now.to_owned(),
        };
        if self.entry.tunable.unset.as_deref() != Some(now) {
            return now.to_owned();
        }
        let percent = || self.sibling(share)?.read().ok()?.parse::<u64>().ok();
        let bytes = || Some(self.available_memory()? / 100 * percent()?);
        bytes().map_or(now.to_owned(), |bytes: u64| bytes.to_string())
    }

    /// Returns the other possible values, if the kernel lists them.
    fn choices(&self) -> Vec<String> {
        match self.entry.values {
            Values::OneOf(_) => self.listed(),
            _ => self.kernel_lists(),
        }
    }
}
