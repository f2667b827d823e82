//! What wishes stand for: patterns for each thing that matches, lists of processes, one half of a pair for both.

use crate::catalogue::Catalogue;
use crate::glob;
use crate::machine::Machine;
use crate::target::Target;
use crate::things;
use crate::wish::{Wanted, Wish};

/// Whether a wish goes with another, of the other half of a pair of which one counts: it says that this half shall not
/// count, or comes later.
pub(super) fn is_implied(wish: &Wish, all: &[Wish]) -> bool {
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

/// The things that a pattern or a list of processes stands for; the target itself where it names one, or where nothing
/// matches.
pub(super) fn expanded(machine: &Machine, target: &Target) -> Vec<Target> {
    if target.name.starts_with("process.")
        && let Some(pids) = target.instance.as_deref()
    {
        return pids.split(',').map(|pid| Target::of(&target.name, Some(pid))).collect();
    }
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
