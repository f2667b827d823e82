//! Runs each command and hands the result to `show`.

use crate::args::{self, Cli, Command};
use crate::baseline;
use crate::bench;
use crate::compare;
use crate::expect;
use crate::explain;
use crate::export;
use crate::exporter;
use crate::mcp;
use crate::observe::{explained, observed_as, print_diagnosis, print_for_nagios};
use crate::options::OutputOptions;
use crate::output::{Failure, print, tell};
use crate::profile;
use crate::read;
use crate::record;
use crate::report;
use crate::serve;
use crate::ship;
use crate::stack;
use crate::top;
use crate::tune;
use crate::user_rules;
use clap_complete::Shell;
use clap_complete::env::Shells;
use std::process::ExitCode;
use whyslow_command::ManArgs;
use whyslow_documents::listing::{RuleDetails, RuleInfo};
use whyslow_import::{FORMATS, Format};
use whyslow_model::catalogue::{self, FamilyInfo};
use whyslow_model::suggest::unknown;
use whyslow_show::text;

/// Runs the command of the command line.
pub fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let look = &cli.look;
    match &cli.command {
        None => why_slow(&cli),
        Some(Command::Metrics { filter }) => metrics(filter.as_deref(), look),
        Some(Command::Rules { filter }) => rules(filter.as_deref(), look),
        Some(Command::Top(args)) => top::run(args, look),
        Some(Command::Read(asked)) => read::read(asked, look),
        Some(Command::Formats { filter }) => formats(filter.as_deref(), look),
        Some(Command::Profile(args)) => profile::run(args, look),
        Some(Command::Record(args)) => record::run(args, look),
        Some(Command::Explain(args)) => explain::run(args, look),
        Some(Command::Export(args)) => export::run(args, look),
        Some(Command::Report(args)) => report::run(args, look),
        Some(Command::Serve(args)) => serve::run(args),
        Some(Command::Exporter(args)) => exporter::run(args),
        Some(Command::Ship(args)) => ship::run(args, look),
        Some(Command::Baseline(args)) => baseline::run(args, look),
        Some(Command::Compare(args)) => compare::run(args, look),
        Some(Command::Tune(args)) => tune::run(args, look),
        Some(Command::Try(args)) => tune::try_out(args, look),
        Some(Command::Bench(args)) => bench::run(args, look),
        Some(Command::Stack(args)) => stack::run(args, look),
        Some(Command::Expect(args)) => expect::run(args, look),
        Some(Command::Mcp) => mcp::run(),
        Some(Command::Completions { shell }) => completions(*shell),
        Some(Command::Man(args)) => man(args),
    }
}

fn why_slow(cli: &Cli) -> Result<ExitCode, Failure> {
    let names = cli.pseudonyms.begin()?;
    let diagnosis = if cli.target.is_given() {
        explained(&cli.observe, &cli.target, cli.look.display.json)?
    } else {
        observed_as(&cli.observe, &names)?.0
    };
    names.finish()?;
    if cli.observe.nagios {
        return print_for_nagios(&diagnosis);
    }
    print_diagnosis(&diagnosis, &cli.look, cli.observe.check)
}

/// Shows the family of that name, or else those with the word in one of their names.
fn metrics(filter: Option<&str>, look: &OutputOptions) -> Result<ExitCode, Failure> {
    let mut families = catalogue::families();
    if let Some(filter) = filter {
        let is_name = families.iter().any(|family| family.is_named(filter));
        let mentions = |family: &FamilyInfo| {
            contains(family.name, filter) || family.metrics.iter().any(|metric| contains(metric.name, filter))
        };
        let wanted = |family: &FamilyInfo| if is_name { family.is_named(filter) } else { mentions(family) };
        narrow("metric", &mut families, filter, |family| family.name, wanted)?;
    }
    tell(&families, look, |all, style| text::metrics(all, style))?;
    Ok(ExitCode::SUCCESS)
}

/// Shows the rules for that id, or else the list of those whose id contains the word.
fn rules(filter: Option<&str>, look: &OutputOptions) -> Result<ExitCode, Failure> {
    let rules = user_rules::load();
    let mut list = rules.book.rules();
    if let Some(filter) = filter {
        let same: Vec<RuleInfo> = list.iter().filter(|rule| rule.id == filter).cloned().collect();
        if let Some((rule, others)) = same.split_first() {
            let document = RuleDetails { rule: rule.clone(), variants: others.to_vec() };
            tell(&document, look, |_, style| text::rule(&same, style))?;
            return Ok(ExitCode::SUCCESS);
        }
        narrow("rule", &mut list, filter, |rule| &rule.id, |rule| contains(&rule.id, filter))?;
    }
    tell(&list, look, |all, style| text::rules(all, style))?;
    Ok(if rules.broken > 0 { ExitCode::from(2) } else { ExitCode::SUCCESS })
}

fn formats(filter: Option<&str>, look: &OutputOptions) -> Result<ExitCode, Failure> {
    let mut formats: Vec<_> = FORMATS.iter().map(Format::info).collect();
    if let Some(filter) = filter {
        narrow("format", &mut formats, filter, |format| format.name, |format| contains(format.name, filter))?;
    }
    tell(&formats, look, |all, style| text::formats(all, style))?;
    Ok(ExitCode::SUCCESS)
}

/// Keeps the matching items of a list; fails if there are none.
fn narrow<T>(
    what: &str,
    list: &mut Vec<T>,
    filter: &str,
    name: impl Fn(&T) -> &str,
    wanted: impl Fn(&T) -> bool,
) -> Result<(), Failure> {
    if !list.iter().any(&wanted) {
        // Part of a name is enough to filter by: 'dsk' can mean 'disk' of 'disk.saturated'.
        let known = list.iter().map(&name).chain(list.iter().filter_map(|one| name(one).split('.').next()));
        return Err(Failure::usage(unknown(what, filter, &format!("whyslow {what}s"), known)));
    }
    list.retain(wanted);
    Ok(())
}

fn contains(name: &str, filter: &str) -> bool {
    name.to_lowercase().contains(&filter.to_lowercase())
}

/// Prints a script that asks this program for candidates, so that it also completes names of rules, tunables, profiles
/// and baselines.
fn completions(shell: Shell) -> Result<ExitCode, Failure> {
    let shells = Shells::builtins();
    let shell = shells.completer(&shell.to_string()).expect("every shell of clap_complete has a completer");
    let mut script = Vec::new();
    let written = shell.write_registration("COMPLETE", "whyslow", "whyslow", "whyslow", &mut script);
    written.map_err(|e| Failure::usage(format!("cannot write the completion script: {e}")))?;
    print(script)?;
    Ok(ExitCode::SUCCESS)
}

fn man(args: &ManArgs) -> Result<ExitCode, Failure> {
    print(args.page(&args::description(), &args::SECTIONS).map_err(Failure::usage)?)?;
    Ok(ExitCode::SUCCESS)
}
