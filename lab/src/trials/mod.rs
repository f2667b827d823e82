//! The trials, one table per resource: faults, and healthy controls that resemble them.

mod cpu;
mod disk;
mod filesystem;
mod limits;
mod memory;
mod network;
mod tasks;

use crate::trial::Trial;

const TABLES: &[&[Trial]] =
    &[cpu::TRIALS, memory::TRIALS, disk::TRIALS, filesystem::TRIALS, network::TRIALS, limits::TRIALS, tasks::TRIALS];

/// All trials: the faults first, then the controls.
pub fn all() -> impl Iterator<Item = &'static Trial> {
    let rows = || TABLES.iter().copied().flatten();
    rows().filter(|trial| trial.finding.is_some()).chain(rows().filter(|trial| trial.finding.is_none()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_no_fault_is_its_own_look_alike() {
        let names: Vec<_> = all().map(|trial| trial.name).collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len(), "{names:?}");
        for trial in all() {
            assert!(trial.finding.is_none_or(|id| !trial.never.contains(&id)), "{}", trial.name);
            assert!(trial.finding.is_none() || trial.slightly.is_empty(), "{}", trial.name);
        }
    }
}
