//! Shell completion of arguments: names known to this version and this machine.

use crate::recordings;
use crate::stack;
use crate::user_rules;
use clap_complete::CompletionCandidate;
use std::ffi::OsString;
use std::path::PathBuf;
use whyslow_diagnose::RuleBook;
use whyslow_import::FORMATS;
use whyslow_model::catalogue;
use whyslow_series::ChartSpec;
use whyslow_store::Baselines;
use whyslow_tune::{Catalogue, Machine, profile};

pub fn rules() -> Vec<CompletionCandidate> {
    // Several rules can find the same problem; the first one describes it.
    let mut rules = RuleBook::built_in().rules();
    rules.dedup_by(|later, first| later.id == first.id);
    rules.into_iter().map(|rule| CompletionCandidate::new(rule.id).help(Some(rule.means.into()))).collect()
}

pub fn families() -> Vec<CompletionCandidate> {
    let candidate =
        |family: &catalogue::FamilyInfo| CompletionCandidate::new(family.name).help(Some(family.help.into()));
    catalogue::families().iter().map(candidate).collect()
}

pub fn charts() -> Vec<CompletionCandidate> {
    let candidate = |chart: &ChartSpec| CompletionCandidate::new(chart.id).help(Some(chart.title.into()));
    user_rules::declare_quantities();
    whyslow_series::charts().map(candidate).collect()
}

pub fn formats() -> Vec<CompletionCandidate> {
    FORMATS.iter().map(|format| CompletionCandidate::new(format.info().name)).collect()
}

/// Returns devices, mount points and interfaces of this machine.
pub fn stack_nodes() -> Vec<CompletionCandidate> {
    stack::names().into_iter().map(CompletionCandidate::new).collect()
}

pub fn tunables() -> Vec<CompletionCandidate> {
    Catalogue::built_in().names().map(CompletionCandidate::new).collect()
}

/// Returns tunables with a trailing `=`, ready for the value.
pub fn changes() -> Vec<CompletionCandidate> {
    Catalogue::built_in().names().map(|name| CompletionCandidate::new(format!("{name}="))).collect()
}

pub fn profiles() -> Vec<CompletionCandidate> {
    profile::list(&Machine::live()).into_iter().map(|profile| CompletionCandidate::new(profile.name)).collect()
}

/// Returns the baselines in the folder that `--dir` names on the line being completed, or else in the default folder.
pub fn baselines() -> Vec<CompletionCandidate> {
    let asked = dir_on_the_line(std::env::args_os());
    let names = recordings::folder(asked.as_deref()).ok().and_then(|folder| Baselines::in_folder(&folder).names().ok());
    names.unwrap_or_default().into_iter().map(CompletionCandidate::new).collect()
}

/// Returns the value of the last `--dir` of the line being completed. clap_complete does not pass it on, but the shell
/// passes the words of the line as arguments after its own `--`.
fn dir_on_the_line(arguments: impl Iterator<Item = OsString>) -> Option<PathBuf> {
    let line: Vec<OsString> = arguments.skip_while(|word| word != "--").skip(1).collect();
    let after = line.windows(2).filter(|pair| pair[0] == "--dir").map(|pair| PathBuf::from(&pair[1]));
    let attached = line.iter().filter_map(|word| Some(PathBuf::from(word.to_str()?.strip_prefix("--dir=")?)));
    let dir = after.chain(attached).last()?;
    // The shell has not expanded the words yet.
    match (dir.strip_prefix("~"), std::env::home_dir()) {
        (Ok(rest), Some(home)) => Some(home.join(rest)),
        _ => Some(dir),
    }
}
