//! Resolves requests on this machine: the changes, the current values, and requests that are impossible.

mod step;
#[cfg(test)]
mod tests;

use crate::Error;
use crate::catalogue::Catalogue;
use crate::instances;
use crate::machine::Machine;
use crate::request::{ChangeRequest, RequestedValue};
use crate::system_setting::SystemSetting;
use crate::target::ChangeTarget;
use std::collections::HashMap;
use std::time::Duration;
use whyslow_documents::tune::{Effect, PlanDocument, PlanLine, PlanStep, Risk, Unavailable};

/// The planned changes, with their settings.
pub struct Plan {
    pub(crate) why: String,
    pub(crate) items: Vec<PlanItem>,
    /// Index of each setting's item, by name.
    places: HashMap<String, usize>,
}

pub(crate) struct PlanItem {
    pub(crate) line: PlanLine,
    pub(crate) setting: Option<SystemSetting>,
}

impl Plan {
    /// Resolves requests. A pattern for an instance (`disk.scheduler@sd*`) stands for each instance that it matches.
    pub fn new(machine: &Machine, why: &str, requests: &[ChangeRequest]) -> Self {
        let mut plan = Self { why: why.to_owned(), items: Vec::new(), places: HashMap::new() };
        for request in requests.iter().filter(|request| !is_implied(request, requests)) {
            plan.add(machine, request);
        }
        plan.items = ordered(plan.items);
        plan.places = plan.items.iter().enumerate().map(|(at, item)| (item.line.target.clone(), at)).collect();
        plan
    }

    /// Adds a request. The last one for a setting counts, at the position of the first.
    pub(crate) fn add(&mut self, machine: &Machine, request: &ChangeRequest) {
        for target in expanded(machine, &request.target) {
            let item = step::item(machine, request, target);
            match self.places.get(&item.line.target) {
                Some(&at) => self.items[at] = item,
                None => {
                    self.places.insert(item.line.target.clone(), self.items.len());
                    self.items.push(item);
                }
            }
        }
    }

    /// Adds a setting that cannot have the requested value.
    pub(crate) fn cannot(&mut self, target: &ChangeTarget, wanted: &str, why: Unavailable) {
        self.items.push(step::impossible(target, wanted.to_owned(), String::new(), why));
    }

    /// Returns the plan as a document to display.
    pub fn document(&self) -> PlanDocument {
        let lines = self.items.iter().map(|item| item.line.clone()).collect();
        let mut files: Vec<String> = self.changes().filter_map(|item| item.setting.as_ref()?.written_file()).collect();
        files.sort();
        files.dedup();
        PlanDocument { why: self.why.clone(), lines, files }
    }

    /// Whether anything would change.
    pub fn changes_anything(&self) -> bool {
        self.changes().next().is_some()
    }

    /// Returns the highest risk of its changes.
    pub fn risk(&self) -> Risk {
        self.changes().map(|item| item.line.risk).max().unwrap_or(Risk::Low)
    }

    /// Whether a change could cut off or stall the user who makes it, or lowers a limit.
    pub fn needs_confirmation(&self) -> bool {
        self.changes().any(|item| item.line.confirm)
    }

    /// Returns the time until the effects of the old values are gone.
    pub fn settle(&self) -> Duration {
        let seconds = self.changes().filter_map(|item| item.setting.as_ref()?.entry.tunable.settle).max();
        Duration::from_secs(seconds.unwrap_or(0).into())
    }

    /// Returns when the last of the changes takes effect.
    pub fn effect(&self) -> Effect {
        self.changes().map(|item| item.line.effect).max().unwrap_or(Effect::Instant)
    }

    /// Checks that every setting can have the requested value.
    ///
    /// # Errors
    /// Returns the first setting that cannot, and the reason.
    pub fn all_possible(&self) -> Result<(), Error> {
        self.possible(|_| false)
    }

    /// Checks that every setting can have the requested value, except for settings that this machine does not have.
    ///
    /// # Errors
    /// Returns the first setting that cannot, although this machine has it.
    pub fn possible_here(&self) -> Result<(), Error> {
        self.possible(|why| matches!(why, Unavailable::Unsupported(_) | Unavailable::Absent(_)))
    }

    fn possible(&self, forgiven: impl Fn(&Unavailable) -> bool) -> Result<(), Error> {
        for item in &self.items {
            if let PlanStep::Cannot(why) = &item.line.step
                && !forgiven(why)
            {
                return Err(Error::Unavailable { target: item.line.target.clone(), why: why.clone() });
            }
        }
        Ok(())
    }

    /// Checks that all changes are permitted, as far as that can be known beforehand.
    ///
    /// # Errors
    /// Returns the first setting that may not be written.
    pub fn all_permitted(&self) -> Result<(), Error> {
        let refused = |item: &PlanItem| {
            let why = item.setting.as_ref()?.may_write().err()?;
            Some(Error::Unavailable { target: item.line.target.clone(), why })
        };
        self.changes().find_map(refused).map_or(Ok(()), Err)
    }

    pub(crate) fn changes(&self) -> impl Iterator<Item = &PlanItem> {
        self.items.iter().filter(|item| matches!(item.line.step, PlanStep::Change { .. }))
    }
}

/// Orders settings by their dependencies, and otherwise as requested.
fn ordered(items: Vec<PlanItem>) -> Vec<PlanItem> {
    let waits = |item: &PlanItem| item.may_wait() && items.iter().any(|other| item.comes_after(other));
    let waits: Vec<bool> = items.iter().map(waits).collect();
    // Settings without dependencies keep their places; only the others need to be ordered.
    let (mut waiting, mut ordered) = (Vec::new(), Vec::new());
    for (item, waits) in items.into_iter().zip(waits) {
        if waits { waiting.push(item) } else { ordered.push(item) }
    }
    while !waiting.is_empty() {
        let ready = waiting.iter().position(|item| !waiting.iter().any(|other| item.comes_after(other)));
        // A cycle in the catalogue would leave none ready; a test ensures that there is none.
        ordered.push(waiting.remove(ready.unwrap_or(0)));
    }
    ordered
}

impl PlanItem {
    fn may_wait(&self) -> bool {
        self.setting.as_ref().is_some_and(|setting| !setting.entry.tunable.after.is_empty())
    }

    fn comes_after(&self, other: &Self) -> bool {
        let (Some(own), Some(other)) = (&self.setting, &other.setting) else { return false };
        !own.entry.tunable.after.is_empty()
            && own.target.instance == other.target.instance
            && own.entry.tunable.after.contains(&other.target.name)
    }
}

/// Whether another request implies this one: the two are halves of a pair in which only one counts, and this one says that its
/// half shall not count, or comes later.
fn is_implied(request: &ChangeRequest, all: &[ChangeRequest]) -> bool {
    let Some(entry) = Catalogue::built_in().find(&request.target.name) else { return false };
    let Some(unset) = &entry.tunable.unset else { return false };
    let is_unset =
        |request: &ChangeRequest| matches!(&request.wanted, RequestedValue::Exactly(value) if value == unset);
    let own = all.iter().rposition(|other| other == request);
    let mut others = all.iter().enumerate().filter(|(_, other)| {
        other.target.instance == request.target.instance
            && entry.tunable.disturbs.contains(&other.target.name)
            && !is_unset(other)
    });
    others.any(|(at, _)| is_unset(request) || Some(at) > own)
}

/// Expands a pattern or a list of processes to instances; returns the target itself if it names one instance, or if nothing
/// matches.
fn expanded(machine: &Machine, target: &ChangeTarget) -> Vec<ChangeTarget> {
    if target.name.starts_with("process.")
        && let Some(pids) = target.instance.as_deref()
    {
        return pids.split(',').map(|pid| ChangeTarget::new(&target.name, Some(pid))).collect();
    }
    let pattern = target.instance.as_deref().filter(|name| name.contains(['*', '?', '[']));
    let (Some(pattern), Some(entry)) = (pattern, Catalogue::built_in().find(&target.name)) else {
        return vec![target.clone()];
    };
    let names = instances::list(machine, entry.tunable.scope);
    let matching: Vec<ChangeTarget> = names
        .iter()
        .filter(|name| instances::matches_pattern(pattern, name))
        .map(|name| ChangeTarget::new(&target.name, Some(name)))
        .collect();
    if matching.is_empty() { vec![target.clone()] } else { matching }
}
