//! What each command does: a room's answer, handed to `show`.

use crate::args::{Cli, Command};
use crate::baseline;
use crate::bench;
use crate::compare;
use crate::explain;
use crate::export;
use crate::man;
use crate::options::Look;
use crate::output::{self, Failure, print};
use crate::profile;
use crate::read;
use crate::record;
use crate::tune;
use crate::user_rules;
use crate::why::{diagnosed, tell};
use clap_complete::Shell;
use clap_complete::env::Shells;
use std::process::ExitCode;
use whyslow_import::{FORMATS, Format};
use whyslow_model::catalogue::{self, FamilyInfo};
use whyslow_model::suggest::did_you_mean;
use whyslow_show::{json, text};

/// Does what the command line asks for.
///
/// # Errors
/// What kept it from being done.
pub fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let look = &cli.look;
    match &cli.command {
        None => why_slow(&cli),
        Some(Command::Metrics { filter }) => metrics(filter.as_deref(), look),
        Some(Command::Rules { filter }) => rules(filter.as_deref(), look),
        Some(Command::Read(asked)) => read::read(asked, look),
        Some(Command::Formats { filter }) => formats(filter.as_deref(), look),
        Some(Command::Profile(args)) => profile::run(args, look),
        Some(Command::Record(args)) => record::run(args, look),
        Some(Command::Explain(args)) => explain::run(args, look),
        Some(Command::Export(args)) => export::run(args, look),
        Some(Command::Baseline(args)) => baseline::run(args, look),
        Some(Command::Compare(args)) => compare::run(args, look),
        Some(Command::Tune(args)) => tune::run(args, look),
        Some(Command::Try(args)) => tune::try_out(args, look),
        Some(Command::Bench(args)) => bench::run(args, look),
        Some(Command::Completions { shell }) => completions(*shell),
        Some(Command::Man) => man(),
    }
}

fn why_slow(cli: &Cli) -> Result<ExitCode, Failure> {
    tell(&diagnosed(&cli.observe)?, &cli.look, cli.observe.check)
}

fn metrics(filter: Option<&str>, look: &Look) -> Result<ExitCode, Failure> {
    let mut families = catalogue::families();
    if let Some(filter) = filter {
        let named: Vec<FamilyInfo> = families.iter().filter(|family| family.name == filter).cloned().collect();
        let mentions = |family: &FamilyInfo| {
            contains(family.name, filter) || family.metrics.iter().any(|metric| contains(metric.name, filter))
        };
        let names: Vec<&str> = families.iter().map(|family| family.name).collect();
        if named.is_empty() {
            families.retain(mentions);
        } else {
            families = named;
        }
        if families.is_empty() {
            return Err(unknown("metric", filter, names));
        }
    }
    print(if look.json { json::pretty(&families) } else { text::metrics(&families, &output::style(look)) })?;
    Ok(ExitCode::SUCCESS)
}

/// The rule of that id, else the list of those whose id holds the word.
fn rules(filter: Option<&str>, look: &Look) -> Result<ExitCode, Failure> {
    let rules = user_rules::load();
    let mut list = rules.book.rules();
    if let Some(filter) = filter {
        if let Some(rule) = list.iter().find(|rule| rule.id == filter) {
            print(if look.json { json::pretty(rule) } else { text::rule(rule, &output::style(look)) })?;
            return Ok(ExitCode::SUCCESS);
        }
        let ids: Vec<String> = list.iter().map(|rule| rule.id.clone()).collect();
        list.retain(|rule| contains(&rule.id, filter));
        if list.is_empty() {
            return Err(unknown("rule", filter, ids));
        }
    }
    print(if look.json { json::pretty(&list) } else { text::rules(&list, &output::style(look)) })?;
    Ok(if rules.broken > 0 { ExitCode::from(2) } else { ExitCode::SUCCESS })
}

fn formats(filter: Option<&str>, look: &Look) -> Result<ExitCode, Failure> {
    let mut formats: Vec<_> = FORMATS.iter().map(Format::info).collect();
    if let Some(filter) = filter {
        let names: Vec<&str> = formats.iter().map(|format| format.name).collect();
        formats.retain(|format| contains(format.name, filter));
        if formats.is_empty() {
            return Err(unknown("format", filter, names));
        }
    }
    print(if look.json { json::pretty(&formats) } else { text::formats(&formats, &output::style(look)) })?;
    Ok(ExitCode::SUCCESS)
}

fn contains(name: &str, filter: &str) -> bool {
    name.to_lowercase().contains(&filter.to_lowercase())
}

fn unknown<N: AsRef<str>>(what: &str, name: &str, known: Vec<N>) -> Failure {
    let suggestion = did_you_mean(name, known);
    Failure::usage(format!("no {what} '{name}'; 'whyslow {what}s' lists them{suggestion}"))
}

/// A script that asks this program for candidates, so that it completes names of rules, tunables, profiles and baselines too.
fn completions(shell: Shell) -> Result<ExitCode, Failure> {
    let shells = Shells::builtins();
    let shell = shells.completer(&shell.to_string()).expect("every shell of clap_complete has a completer");
    let mut script = Vec::new();
    let written = shell.write_registration("COMPLETE", "whyslow", "whyslow", "whyslow", &mut script);
    written.map_err(|e| Failure::usage(format!("cannot write the completion script: {e}")))?;
    print(script)?;
    Ok(ExitCode::SUCCESS)
}

fn man() -> Result<ExitCode, Failure> {
    let page = man::page().map_err(|e| Failure::usage(format!("cannot write the manual page: {e}")))?;
    print(page)?;
    Ok(ExitCode::SUCCESS)
}
