//! The command line.

use crate::baseline::BaselineArgs;
use crate::bench::BenchArgs;
use crate::compare::CompareArgs;
use crate::complete;
use crate::explain::ExplainArgs;
use crate::export::ExportArgs;
use crate::options::{Look, Observe};
use crate::output::{self, Failure};
use crate::profile::ProfileArgs;
use crate::read::ReadArgs;
use crate::record::RecordArgs;
use crate::tune::{TryArgs, TuneArgs};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::{ArgValueCandidates, Shell};
use std::process::ExitCode;
use whyslow_model::suggest;

/// What follows the options in `--help` and the manual page: title and text.
pub const SECTIONS: [(&str, &str); 5] = [
    (
        "Examples",
        "\
whyslow                        watch for ten seconds, then say what is wrong
whyslow -v                     the same, with all the evidence
whyslow --for 1m               watch longer, to catch rare stalls
whyslow --json | jq .verdict   for scripts
whyslow --check || page-me     exit status 1 means there is a bottleneck
whyslow read vmstat.txt dmesg  diagnose the output of other tools
whyslow rules disk.saturated   explain a finding
whyslow profile --culprit      show where the culprit spends its time
whyslow try vm.swappiness=10 -- make
                               prove whether a change helps
whyslow record --for 1h        record for an hour (default: until stopped)
whyslow explain --since 8h     explain what happened in the last eight hours
whyslow baseline save --for 10m
                               record a baseline of normal behavior
whyslow compare default 03:00..04:00
                               show what was different that night",
    ),
    ("Ctrl-C", "Stops early and diagnoses what was seen; a second Ctrl-C quits at once."),
    (
        "Exit status",
        "\
0    success, whatever was found
1    --check found a bottleneck; 'profile --culprit' found no culprit; the
     recording does not cover that time; 'tune' left a setting unchanged, or
     'tune verify' found one that differs; 'try' found nothing to try
2    wrong usage, or input that cannot be read
3    with --check: undetermined, too little was visible
129  ended by SIGHUP, after cleaning up and printing what was measured
130  ended by Ctrl-C before there was a result; 'try' has rolled back
143  ended by SIGTERM, after cleaning up and printing what was measured",
    ),
    (
        "Environment",
        "\
NO_COLOR         if set and not empty, no color except with --color always
TZ               the local time zone (--utc overrides it)
XDG_CONFIG_HOME  where your own rules are (default ~/.config)
XDG_STATE_HOME   where users other than root record (default ~/.local/state)
WHYSLOW_STATE    where the journal of changes is (default /var/lib/whyslow)
WHYSLOW_TOKEN    shared secret of 'bench net serve' and its clients",
    ),
    (
        "Files",
        "\
/etc/whyslow/rules.d/*.toml              rules of this machine
$XDG_CONFIG_HOME/whyslow/rules.d/*.toml  your own rules
/etc/whyslow/profiles                    tuning profiles of this machine
/var/lib/whyslow                         recording, journal of changes
/var/lib/whyslow/baselines               baselines; 'default' is the usual",
    ),
];

/// Options that a command accepts from the commands above it but ignores: they are left out of its help.
const IRRELEVANT: [(&str, &[&str]); 8] = [
    ("completions", &["json", "all", "utc", "color", "width"]),
    ("man", &["json", "all", "utc", "color", "width"]),
    ("record", &["all", "color"]),
    ("export", &["all", "color", "width"]),
    ("rules", &["all", "utc"]),
    ("formats", &["all", "utc"]),
    ("bench net serve", &["save", "replace", "dir"]),
    ("bench net stop", &["save", "replace", "dir"]),
];

fn sections() -> String {
    let section = |(title, text): &(&str, &str)| format!("{title}:\n  {}", text.replace('\n', "\n  "));
    SECTIONS.iter().map(section).collect::<Vec<_>>().join("\n\n")
}

/// Explains why this machine is slow, and recommends the one change that should help.
#[derive(Debug, Parser)]
#[command(name = "whyslow", version, after_help = sections())]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct Cli {
    #[command(flatten)]
    pub observe: Observe,
    #[command(flatten)]
    pub look: Look,
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do instead of observing.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Diagnose the output of other tools: vmstat, iostat, sar, top, kernel logs ...
    Read(ReadArgs),
    /// Show where a process, or the whole machine, spends its time: text, folded stacks, flame graph
    Profile(ProfileArgs),
    /// Record all metrics to disk, once a second
    Record(RecordArgs),
    /// Explain what happened during a recording: when, what, who, how bad, and what changed just before
    Explain(ExplainArgs),
    /// Export metrics of a recording as CSV, JSON lines or Parquet
    Export(ExportArgs),
    /// Record a baseline of normal behavior, and manage baselines
    Baseline(BaselineArgs),
    /// Compare two of: a baseline, part of a recording, a benchmark result
    Compare(CompareArgs),
    /// Show, change and roll back kernel settings
    Tune(TuneArgs),
    /// Measure whether a change helps, by alternating runs with and without it
    Try(TryArgs),
    /// Benchmark disks, file systems, network, memory and CPUs
    Bench(BenchArgs),
    /// List the rules, or explain one
    Rules {
        /// Only the rules whose id contains this, such as disk; a full id, such as disk.saturated, explains that rule
        #[arg(add = ArgValueCandidates::new(complete::rules))]
        filter: Option<String>,
    },
    /// List the metrics: meaning, unit, source
    Metrics {
        /// Only this family, such as disk; or the families that contain this word in a name
        #[arg(add = ArgValueCandidates::new(complete::families))]
        filter: Option<String>,
    },
    /// List the formats that 'read' recognizes
    Formats {
        /// Only the formats whose name contains this, such as iostat
        #[arg(add = ArgValueCandidates::new(complete::formats))]
        filter: Option<String>,
    },
    /// Print a shell completion script
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page: whyslow man | man -l -
    Man,
}

/// Reads the command line. Help and version are printed here; what is left is the exit status.
///
/// # Errors
/// The status to exit with: help was printed, or the usage was wrong and one line on stderr says how.
pub fn parse() -> Result<Cli, ExitCode> {
    let cli = description().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = cli.map_err(|error| {
        if error.use_stderr() {
            Failure::usage(one_line(&error)).report()
        } else {
            output::quietly(error.print()).map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS)
        }
    })?;
    cli.observe.check().map_err(|what| Failure::usage(what).report())?;
    if cli.look.utc {
        // SAFETY: the program has one thread so far; nobody reads the environment meanwhile. Set here, it also holds for
        // the times that options name and for those that other tools' output is read with.
        unsafe { std::env::set_var("TZ", "UTC") };
    }
    Ok(cli)
}

/// The program as clap describes it: for parsing, the manual page and completions.
pub fn description() -> clap::Command {
    IRRELEVANT.iter().fold(Cli::command(), |program, (path, options)| {
        let path: Vec<&str> = path.split(' ').collect();
        hide(program, &path, options, &[])
    })
}

/// Hides options, which commands above it define, in the command at the end of a path.
fn hide(command: clap::Command, path: &[&str], options: &[&str], above: &[Arg]) -> clap::Command {
    let Some((next, rest)) = path.split_first() else {
        let ignored = above.iter().filter(|arg| options.contains(&arg.get_id().as_str()));
        return command.args(ignored.map(|arg| arg.clone().hide(true)));
    };
    let global = command.get_arguments().filter(|arg| arg.is_global_set()).cloned();
    let above: Vec<Arg> = above.iter().cloned().chain(global).collect();
    command.mut_subcommand(next, |command| hide(command, rest, options, &above))
}

/// clap's message with its suggestion, without its usage.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let message = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = message.trim_start_matches("error: ").split_whitespace().collect();
    words.join(" ") + &suggestion(error)
}

fn suggestion(error: &clap::Error) -> String {
    let kinds = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    let suggested = kinds.iter().find_map(|kind| match error.get(*kind)? {
        ContextValue::String(name) => Some(name.clone()),
        ContextValue::Strings(names) => closest_of(names, error),
        _ => None,
    });
    suggested.map_or_else(String::new, |name| suggest::question(&name))
}

/// Of several suggestions, the one closest to what was typed.
fn closest_of(names: &[String], error: &clap::Error) -> Option<String> {
    let kinds = [ContextKind::InvalidSubcommand, ContextKind::InvalidArg, ContextKind::InvalidValue];
    let typed = kinds.iter().find_map(|kind| match error.get(*kind)? {
        ContextValue::String(typed) => Some(typed),
        _ => None,
    });
    typed.and_then(|typed| suggest::closest(typed, names)).or_else(|| names.last().cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_is_sound() {
        description().debug_assert();
    }

    #[test]
    fn what_help_says_after_the_options_fits_80_columns() {
        let text = sections();
        let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
        assert_eq!(wide, <[&str; 0]>::default());
    }

    #[test]
    fn a_command_that_saves_nothing_has_no_options_for_it() {
        let mut program = description();
        let net = program.find_subcommand_mut("bench").and_then(|bench| bench.find_subcommand_mut("net")).unwrap();
        let has_save = |command: &mut clap::Command| command.render_help().to_string().contains("--save");
        for name in ["serve", "stop"] {
            assert!(!has_save(net.find_subcommand_mut(name).unwrap()), "{name}");
        }
    }
}
