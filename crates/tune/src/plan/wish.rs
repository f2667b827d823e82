//! What is wanted: settings by name, values, bounds and choices.

use crate::catalogue::Catalogue;
use crate::error::Error;
use crate::glob;
use crate::machine::Machine;
use crate::target::Target;
use crate::things;

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

/// The things that a pattern stands for; the target itself where it names one, or where nothing matches.
pub(super) fn expanded(machine: &Machine, target: &Target) -> Vec<Target> {
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
