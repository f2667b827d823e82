//! What each command does: a room's answer, handed to `show`.

use crate::args::{self, Cli, Command, Look, Observe};
use crate::baseline;
use crate::bench;
use crate::compare;
use crate::explain;
use crate::export;
use crate::interrupt::Interrupt;
use crate::man;
use crate::observe::observe;
use crate::output::{self, Failure, print};
use crate::profile;
use crate::read;
use crate::record;
use crate::tune;
use crate::user_rules;
use clap_complete::Shell;
use std::process::ExitCode;
use whyslow_diagnose::diagnose;
use whyslow_model::catalogue;
use whyslow_model::diagnosis::{Diagnosis, Origin, Verdict};
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

/// Watches this machine and says what is wrong with it.
///
/// # Errors
/// What kept it from being watched.
pub fn diagnosed(asked: &Observe) -> Result<Diagnosis, Failure> {
    // First of all: the rules take a while to read where the machine is busy.
    let interrupt = Interrupt::listen().map_err(|e| Failure::usage(format!("cannot listen for Ctrl-C: {e}")))?;
    let rules = user_rules::load();
    let window = observe(asked, interrupt, |window| whyslow_diagnose::asked(window, &rules.book))?;
    let mut diagnosis = diagnose(&window, Origin::Live, &rules.book);
    baseline::remember(&mut diagnosis);
    Ok(diagnosis)
}

fn why_slow(cli: &Cli) -> Result<ExitCode, Failure> {
    tell(&diagnosed(&cli.observe)?, &cli.look, cli.observe.check)
}

/// Prints a diagnosis; with `check` the exit status tells its verdict.
pub fn tell(diagnosis: &Diagnosis, look: &Look, check: bool) -> Result<ExitCode, Failure> {
    print(if look.json { json::diagnosis(diagnosis) } else { text::diagnosis(diagnosis, &output::style(look)) })?;
    Ok(match diagnosis.verdict {
        Verdict::Bottleneck if check => ExitCode::from(1),
        Verdict::Undetermined if check => ExitCode::from(3),
        _ => ExitCode::SUCCESS,
    })
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
