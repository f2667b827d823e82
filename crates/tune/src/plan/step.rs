//! What is to be done about one wish on this machine.

use super::Item;
use crate::knob::Knob;
use crate::machine::Machine;
use crate::target::Target;
use crate::values::Values;
use crate::wish::{Wanted, Wish};
use whyslow_model::tune::{Effect, PlanLine, Risk, Step, Unavailable};

pub(super) fn item(machine: &Machine, wish: &Wish, target: Target) -> Item {
    match Knob::of(machine, &target) {
        Ok(knob) => {
            let (wanted, step) = step(&knob, &wish.wanted);
            let tunable = &knob.entry.tunable;
            let line = PlanLine {
                target: knob.target.to_string(),
                wanted,
                step,
                reason: wish.reason.clone(),
                effect: tunable.effect,
                risk: tunable.risk,
                network: tunable.network,
            };
            Item { line, knob: Some(knob) }
        }
        Err(why) => impossible(&target, wish.wanted.words(), wish.reason.clone(), why),
    }
}

pub(super) fn impossible(target: &Target, wanted: String, reason: String, why: Unavailable) -> Item {
    let line = PlanLine {
        target: target.to_string(),
        wanted,
        step: Step::Cannot(why),
        reason,
        effect: Effect::Instant,
        risk: Risk::Low,
        network: false,
    };
    Item { line, knob: None }
}

/// The value that a wish comes to, and what is to be done for it.
fn step(knob: &Knob, wanted: &Wanted) -> (String, Step) {
    let now = match knob.read() {
        Ok(now) => now,
        Err(why) => return (wanted.words(), Step::Cannot(why)),
    };
    let entry = &knob.entry;
    let check = |value: &str| entry.values.check(value, &entry.tunable.unit);
    let refused = |why: String| (wanted.words(), Step::Cannot(Unavailable::Failed(why)));
    let value = match wanted {
        Wanted::Exactly(value) => check(value),
        Wanted::AtLeast(value) | Wanted::AtMost(value) => match check(value) {
            Ok(value) if keeps(wanted, &now, &value) => {
                let why = format!("only {} is asked for", wanted.words());
                return (value, Step::Keep { now, why });
            }
            other => other,
        },
        Wanted::FirstOf(values) => first_of(values, &knob.choices(), &now),
    };
    match value {
        Ok(value) if value == now => (value, Step::Already),
        Ok(value) if entry.tunable.unset.as_deref() == Some(value.as_str()) => {
            let other = entry.tunable.disturbs.join(", ");
            refused(format!("{value} cannot be written: set {other} instead, and this goes to {value}"))
        }
        Ok(value) => match knob.most().filter(|most| value.parse::<i128>().is_ok_and(|value| value > *most)) {
            Some(most) => {
                let why = format!("{} takes {most} at most", knob.target.instance.as_deref().unwrap_or("it"));
                (value, Step::Cannot(Unavailable::Unsupported(why)))
            }
            None => (value, Step::Change { from: now }),
        },
        Err(why) => refused(why),
    }
}

/// Whether what there is satisfies a wish for at least or at most a value. What is no number does not.
fn keeps(wanted: &Wanted, now: &str, value: &str) -> bool {
    match (now.parse::<i128>(), value.parse::<i128>()) {
        (Ok(now), Ok(value)) => {
            if matches!(wanted, Wanted::AtLeast(_)) {
                now > value
            } else {
                now < value
            }
        }
        _ => false,
    }
}

/// The first value that the kernel lists; where it lists none, the first.
fn first_of(values: &[String], choices: &[String], now: &str) -> Result<String, String> {
    let found = values.iter().find(|value| choices.is_empty() || choices.contains(value) || *value == now);
    found
        .cloned()
        .ok_or_else(|| format!("none of {} is to be had; there are {}", values.join(", "), choices.join(", ")))
}

impl Knob {
    /// What else the value could be, where the kernel lists that.
    fn choices(&self) -> Vec<String> {
        match self.entry.values {
            Values::Listed | Values::OneOf(_) => self.listed(),
            _ => Vec::new(),
        }
    }
}
