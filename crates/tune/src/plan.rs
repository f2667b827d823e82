//! What a set of wishes comes to on this machine: what would change, from what, and what cannot be.

use crate::catalogue::Catalogue;
use crate::error::Error;
use crate::glob;
use crate::knob::Knob;
use crate::machine::Machine;
use crate::target::Target;
use crate::things;
use crate::values::Values;
use std::time::Duration;
use whyslow_model::tune::{Effect, PlanDocument, PlanLine, Risk, Step, Unavailable};

/// A setting that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Of what.
    pub target: Target,
    /// Which value.
    pub wanted: Wanted,
    /// Why, in words; empty where nobody said.
    pub reason: String,
}

/// Which value is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// This one.
    Exactly(String),
    /// This number, unless it is higher already.
    AtLeast(String),
    /// This number, unless it is lower already.
    AtMost(String),
    /// The first of these that is to be had.
    FirstOf(Vec<String>),
}

/// What is to be done, and the settings it is to be done to.
pub struct Plan {
    pub(crate) why: String,
    pub(crate) items: Vec<Item>,
}

/// One line of a plan.
pub(crate) struct Item {
    pub(crate) line: PlanLine,
    pub(crate) knob: Option<Knob>,
}

/// Reads `NAME[@THING]=VALUE`.
///
/// # Errors
/// What is missing.
pub fn wish(text: &str) -> Result<Wish, Error> {
    let (target, value) = text
        .split_once('=')
        .ok_or_else(|| Error::Usage(format!("'{text}': a change is written NAME=VALUE or NAME@THING=VALUE")))?;
    let target = target.trim().parse().map_err(Error::Usage)?;
    Ok(Wish { target, wanted: Wanted::Exactly(value.trim().to_owned()), reason: String::new() })
}

impl Plan {
    /// What wishes come to. A pattern for a thing (`disk.scheduler@sd*`) stands for each thing it matches.
    pub fn of(machine: &Machine, why: &str, wishes: &[Wish]) -> Self {
        let mut plan = Self { why: why.to_owned(), items: Vec::new() };
        for wish in wishes.iter().filter(|wish| !is_implied(wish, wishes)) {
            plan.add(machine, wish);
        }
        plan.items = ordered(plan.items);
        plan
    }

    /// Adds a wish. The last one for a setting counts, in the place of the first.
    pub(crate) fn add(&mut self, machine: &Machine, wish: &Wish) {
        for target in expanded(machine, &wish.target) {
            let item = item(machine, wish, target);
            match self.items.iter().position(|earlier| earlier.line.target == item.line.target) {
                Some(at) => self.items[at] = item,
                None => self.items.push(item),
            }
        }
    }

    /// Adds a setting that cannot be as it is wanted.
    pub(crate) fn cannot(&mut self, target: &Target, wanted: &str, why: Unavailable) {
        self.items.push(impossible(target, wanted.to_owned(), String::new(), why));
    }

    /// The plan, to be shown.
    pub fn document(&self) -> PlanDocument {
        PlanDocument { why: self.why.clone(), lines: self.items.iter().map(|item| item.line.clone()).collect() }
    }

    /// Whether anything would change.
    pub fn changes_anything(&self) -> bool {
        self.changes().next().is_some()
    }

    /// The worst that can come of it.
    pub fn risk(&self) -> Risk {
        self.changes().map(|item| item.line.risk).max().unwrap_or(Risk::Low)
    }

    /// Whether it can cut off whoever makes it.
    pub fn cuts_off(&self) -> bool {
        self.changes().any(|item| item.line.cuts_off)
    }

    /// How long the traces of the old values take to go.
    pub fn settle(&self) -> Duration {
        let seconds = self.changes().filter_map(|item| item.knob.as_ref()?.entry.tunable.settle).max();
        Duration::from_secs(seconds.unwrap_or(0).into())
    }

    /// The first setting that cannot be as it is wanted.
    ///
    /// # Errors
    /// Which, and why.
    pub fn all_possible(&self) -> Result<(), Error> {
        self.possible(|_| false)
    }

    /// The same, where settings that this machine does not have may be left out.
    ///
    /// # Errors
    /// Which setting cannot be as it is wanted, though this machine has it.
    pub fn possible_here(&self) -> Result<(), Error> {
        self.possible(|why| matches!(why, Unavailable::Unsupported(_) | Unavailable::Absent(_)))
    }

    fn possible(&self, forgiven: impl Fn(&Unavailable) -> bool) -> Result<(), Error> {
        for item in &self.items {
            if let Step::Cannot(why) = &item.line.step
                && !forgiven(why)
            {
                return Err(Error::Unavailable { target: item.line.target.clone(), why: why.clone() });
            }
        }
        Ok(())
    }

    pub(crate) fn changes(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|item| matches!(item.line.step, Step::Change { .. }))
    }
}

/// Whether a wish goes with another, of the other half of a pair of which one counts: it says that this half shall not
/// count, or comes later.
fn is_implied(wish: &Wish, all: &[Wish]) -> bool {
    let Some(entry) = Catalogue::built_in().find(&wish.target.name) else { return false };
    let Some(unset) = &entry.tunable.unset else { return false };
    let is_unset = |wish: &Wish| matches!(&wish.wanted, Wanted::Exactly(value) if value == unset);
    let own = all.iter().rposition(|other| other == wish);
    let mut others = all.iter().enumerate().filter(|(_, other)| {
        other.target.instance == wish.target.instance
            && entry.tunable.disturbs.contains(&other.target.name)
            && !is_unset(other)
    });
    others.any(|(at, _)| is_unset(wish) || Some(at) > own)
}

/// The things that a pattern stands for; the target itself where it names one, or where nothing matches.
fn expanded(machine: &Machine, target: &Target) -> Vec<Target> {
    let pattern = target.instance.as_deref().filter(|name| name.contains(['*', '?', '[']));
    let (Some(pattern), Some(entry)) = (pattern, Catalogue::built_in().find(&target.name)) else {
        return vec![target.clone()];
    };
    let names = things::list(machine, entry.tunable.scope);
    let matching: Vec<Target> = names
        .iter()
        .filter(|name| glob::matches(pattern, name))
        .map(|name| Target::of(&target.name, Some(name)))
        .collect();
    if matching.is_empty() { vec![target.clone()] } else { matching }
}

fn item(machine: &Machine, wish: &Wish, target: Target) -> Item {
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
                cuts_off: tunable.cuts_off,
            };
            Item { line, knob: Some(knob) }
        }
        Err(why) => impossible(&target, wish.wanted.words(), wish.reason.clone(), why),
    }
}

fn impossible(target: &Target, wanted: String, reason: String, why: Unavailable) -> Item {
    let line = PlanLine {
        target: target.to_string(),
        wanted,
        step: Step::Cannot(why),
        reason,
        effect: Effect::Instant,
        risk: Risk::Low,
        cuts_off: false,
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
        Ok(value) => (value, Step::Change { from: now }),
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

impl Wanted {
    /// The wish in the words it came in.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Exactly(value) => value.clone(),
            Self::AtLeast(value) => format!("at least {value}"),
            Self::AtMost(value) => format!("at most {value}"),
            Self::FirstOf(values) => values.join(" or "),
        }
    }
}

/// What must be set before something else comes before it; for the rest the order is that of the wishes.
fn ordered(mut items: Vec<Item>) -> Vec<Item> {
    let mut ordered: Vec<Item> = Vec::new();
    while !items.is_empty() {
        let ready = items.iter().position(|item| !items.iter().any(|other| item.comes_after(other)));
        // A circle in the catalogue would leave none ready: a test sees to it that there is none.
        ordered.push(items.remove(ready.unwrap_or(0)));
    }
    ordered
}

impl Item {
    fn comes_after(&self, other: &Self) -> bool {
        let (Some(own), Some(other)) = (&self.knob, &other.knob) else { return false };
        own.target.instance == other.target.instance && own.entry.tunable.after.contains(&other.target.name)
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_sense::Root;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let machine = Machine::at(Root::captured(folder.path()));
        (folder, machine)
    }

    fn steps(machine: &Machine, wishes: &[Wish]) -> Vec<(String, Step)> {
        Plan::of(machine, "", wishes)
            .document()
            .lines
            .into_iter()
            .map(|line| (format!("{}={}", line.target, line.wanted), line.step))
            .collect()
    }

    fn wants(target: &str, wanted: Wanted) -> Wish {
        Wish { target: target.parse().unwrap(), wanted, reason: String::new() }
    }

    #[test]
    fn wishes_are_read() {
        assert_eq!(wish("a.b@c=d=e").unwrap().wanted, Wanted::Exactly("d=e".into()));
        assert!(wish("vm.swappiness").unwrap_err().to_string().contains("NAME=VALUE"));
    }

    #[test]
    fn a_pattern_stands_for_every_thing() {
        let disk = |name: &str| format!("sys/block/{name}/queue/scheduler");
        let (_folder, machine) =
            tree(&[(&disk("sda"), "[none] bfq\n"), (&disk("sdb"), "none [bfq]\n"), (&disk("vda"), "[none]\n")]);
        let steps = steps(&machine, &[wish("disk.scheduler@sd*=bfq").unwrap()]);
        assert_eq!(
            steps,
            [
                ("disk.scheduler@sda=bfq".into(), Step::Change { from: "none".into() }),
                ("disk.scheduler@sdb=bfq".into(), Step::Already),
            ]
        );
    }

    #[test]
    fn a_wish_may_be_a_bound_or_a_choice() {
        let (_folder, machine) =
            tree(&[("proc/sys/net/core/somaxconn", "4096\n"), ("sys/block/sda/queue/scheduler", "[none] kyber\n")]);
        let value = || "2048".to_owned();
        let name = "net.core.somaxconn";
        assert!(matches!(steps(&machine, &[wants(name, Wanted::AtLeast(value()))])[0].1, Step::Keep { .. }));
        assert!(matches!(steps(&machine, &[wants(name, Wanted::AtMost(value()))])[0].1, Step::Change { .. }));
        let schedulers = Wanted::FirstOf(vec!["bfq".into(), "kyber".into(), "none".into()]);
        assert_eq!(steps(&machine, &[wants("disk.scheduler@sda", schedulers)])[0].0, "disk.scheduler@sda=kyber");
        let none = Wanted::FirstOf(vec!["cfq".into()]);
        assert!(matches!(
            &steps(&machine, &[wants("disk.scheduler@sda", none)])[0].1,
            Step::Cannot(Unavailable::Failed(_))
        ));
    }

    #[test]
    fn what_others_depend_on_comes_first_and_the_last_wish_counts() {
        let (_folder, machine) =
            tree(&[("sys/block/sda/queue/scheduler", "[none] bfq\n"), ("sys/block/sda/queue/nr_requests", "64\n")]);
        let wishes =
            ["disk.nr_requests@sda=256", "disk.scheduler@sda=none", "disk.scheduler@sda=bfq"].map(|w| wish(w).unwrap());
        let names: Vec<String> = steps(&machine, &wishes).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["disk.scheduler@sda=bfq", "disk.nr_requests@sda=256"]);
    }

    #[test]
    fn the_other_half_of_a_pair_is_named() {
        let (_folder, machine) = tree(&[("proc/sys/vm/dirty_bytes", "8192\n"), ("proc/sys/vm/dirty_ratio", "0\n")]);
        let step = &steps(&machine, &[wish("vm.dirty_bytes=0").unwrap()])[0].1;
        assert!(
            matches!(step, Step::Cannot(Unavailable::Failed(why)) if why.contains("set vm.dirty_ratio instead")),
            "{step:?}"
        );
    }
}
