//! Trials, one table per resource: faults, and healthy controls that resemble them.

mod compound;
mod cpu;
mod disk;
mod filesystem;
mod interference;
mod limits;
mod memory;
mod network;
mod programs;
mod tasks;
mod vm;

use crate::trial::{Kind, Trial};

const TABLES: &[&[Trial]] = &[
    cpu::TRIALS,
    memory::TRIALS,
    disk::TRIALS,
    filesystem::TRIALS,
    network::TRIALS,
    limits::TRIALS,
    tasks::TRIALS,
    compound::TRIALS,
    interference::TRIALS,
];

fn rows() -> impl Iterator<Item = &'static Trial> {
    TABLES.iter().chain(programs::TABLES).chain(vm::TABLES).copied().flatten()
}

/// Returns all trials: the faults first, then the controls.
pub fn all() -> impl Iterator<Item = &'static Trial> {
    rows().filter(|trial| trial.finding.is_some()).chain(rows().filter(|trial| trial.finding.is_none()))
}

/// Returns the kind of a trial.
pub fn kind(trial: &Trial) -> Kind {
    let is_in = |table: &[Trial]| table.iter().any(|row| row.name == trial.name);
    match trial.finding {
        _ if is_in(compound::TRIALS) => Kind::Compound,
        _ if programs::TABLES.iter().any(|table| is_in(table)) => Kind::Program,
        _ if is_in(interference::TRIALS) => Kind::Interference,
        Some(_) => Kind::Fault,
        None => Kind::Control,
    }
}

/// Returns the trial of this name, which must be in a table.
pub fn find(name: &str) -> &'static Trial {
    let named = rows().find(|trial| trial.name == name);
    named.unwrap_or_else(|| unreachable!("a test compares the names in the tables: {name}"))
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

    #[test]
    fn the_parts_of_a_compound_fault_are_faults_and_the_first_is_what_it_expects() {
        for trial in all().filter(|trial| !trial.parts.is_empty()) {
            let found: Vec<_> = trial.parts.iter().map(|name| find(name).finding).collect();
            assert!(found.iter().all(Option::is_some) && found[0] == trial.finding, "{}", trial.name);
            assert!(trial.parts.iter().all(|name| find(name).parts.is_empty()), "{}", trial.name);
        }
    }
}
