//! What each command does: a room's answer, handed to `show`.

use crate::args::{self, Cli, Command};
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
use std::process::ExitCode;
use whyslow_model::catalogue;
use whyslow_show::{json, text};

/// Does what the command line asks for.
///
/// # Errors
/// What kept it from being done.
pub fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let look = &cli.look;
    match &cli.command {
        None => why_slow(&cli),
        Some(Command::Metrics) => metrics(look),
        Some(Command::Rules { id: None }) => list_rules(look),
        Some(Command::Rules { id: Some(id) }) => explain_rule(id, look),
        Some(Command::Read(asked)) => read::read(asked, look),
        Some(Command::Formats) => read::formats(look),
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

fn metrics(look: &Look) -> Result<ExitCode, Failure> {
    let families = catalogue::families();
    print(if look.json { json::pretty(&families) } else { text::metrics(&families, &output::style(look)) })?;
    Ok(ExitCode::SUCCESS)
}

fn list_rules(look: &Look) -> Result<ExitCode, Failure> {
    let rules = user_rules::load();
    let list = rules.book.rules();
    print(if look.json { json::pretty(&list) } else { text::rules(&list, &output::style(look)) })?;
    Ok(if rules.broken > 0 { ExitCode::from(2) } else { ExitCode::SUCCESS })
}

fn explain_rule(id: &str, look: &Look) -> Result<ExitCode, Failure> {
    let rules = user_rules::load().book.rules();
    let rule = rules.iter().find(|r| r.id == id);
    let rule = rule.ok_or_else(|| Failure::usage(format!("no rule '{id}'; 'whyslow rules' lists them")))?;
    print(if look.json { json::pretty(rule) } else { text::rule(rule, &output::style(look)) })?;
    Ok(ExitCode::SUCCESS)
}

fn completions(shell: Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::description(), "whyslow", &mut script);
    print(script)?;
    Ok(ExitCode::SUCCESS)
}

fn man() -> Result<ExitCode, Failure> {
    let page = man::page().map_err(|e| Failure::usage(format!("cannot write the manual page: {e}")))?;
    print(page)?;
    Ok(ExitCode::SUCCESS)
}
