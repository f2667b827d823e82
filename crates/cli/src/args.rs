//! The command line.

use crate::baseline::BaselineArgs;
use crate::bench::BenchArgs;
use crate::compare::CompareArgs;
use crate::explain::ExplainArgs;
use crate::export::ExportArgs;
use crate::options::{Look, Observe};
use crate::output::{self, Failure};
use crate::profile::ProfileArgs;
use crate::read::ReadArgs;
use crate::record::RecordArgs;
use crate::tune::{TryArgs, TuneArgs};
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use std::process::ExitCode;

/// What the options do not tell: title and text, for `--help` and the manual page.
pub const SECTIONS: [(&str, &str); 5] = [
    (
        "Examples",
        "\
whyslow                        watch for ten seconds, then say what is wrong
whyslow --for 1m               watch longer: rare stalls show
whyslow --json | jq .verdict   for a program
whyslow --check || page-me     for a script: 1 is a bottleneck
whyslow read vmstat.txt dmesg  what other tools printed, diagnosed
whyslow rules disk.saturated   what a finding means, how it is told apart
whyslow profile --culprit -o flame.svg
                               what the process to blame spends its time in
whyslow record --for 1h        record everything; as a service without --for
whyslow explain --since 8h     what happened last night
whyslow baseline save --for 10m
                               what it is like when all is well
whyslow compare default 03:00..04:00
                               what was otherwise that night",
    ),
    ("Ctrl-C", "Ends the watching early and diagnoses what there is; a second one ends the program."),
    (
        "Exit status",
        "\
0    done, whatever was found
1    with --check: there is a bottleneck; profile --culprit: nobody to blame;
     tune: not all is as it was asked for
2    wrong usage, or input that cannot be read
3    with --check: undetermined, too little could be seen
129  ended by SIGHUP; what was made is removed first, and what was measured by
     then is printed
130  interrupted before there was anything to compare; try: and all is put back
143  ended by SIGTERM; otherwise as 129",
    ),
    (
        "Environment",
        "\
NO_COLOR         where set and not empty, no colour but by --color always
XDG_CONFIG_HOME  where your own rules are (default ~/.config)
XDG_STATE_HOME   where recordings of other users than root are (default ~/.local/state)
WHYSLOW_STATE    where the journal of changes is (default /var/lib/whyslow)
WHYSLOW_TOKEN    what a server of 'bench net' and its clients both know",
    ),
    (
        "Files",
        "\
/etc/whyslow/rules.d/*.toml              the machine's own rules
$XDG_CONFIG_HOME/whyslow/rules.d/*.toml  yours
/var/lib/whyslow                         the machine's recording
/var/lib/whyslow/baselines               its baselines; findings are told with `default`",
    ),
];

fn sections() -> String {
    let section = |(title, text): &(&str, &str)| format!("{title}:\n  {}", text.replace('\n', "\n  "));
    SECTIONS.iter().map(section).collect::<Vec<_>>().join("\n\n")
}

/// Says why this machine is slow, on what evidence, and which one change should help.
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
    /// List every metric: what it is, its unit, where the kernel keeps it
    Metrics,
    /// List the rules, or explain one: what it means, its look-alikes, its sources
    Rules {
        /// The rule to explain, such as disk.saturated
        id: Option<String>,
    },
    /// Diagnose what other tools printed: vmstat, iostat -x, kernel logs ... Several files are one incident
    Read(ReadArgs),
    /// List what `read` recognises, and what can be concluded from it
    Formats,
    /// Show where the time of a process, or of the machine, goes: text, folded stacks, a flame graph
    Profile(ProfileArgs),
    /// Record every metric to disk, once a second, until told to stop
    Record(RecordArgs),
    /// Say what happened over a recording: when, what, who, how bad, and what changed just before
    Explain(ExplainArgs),
    /// Write rows of a recording as CSV, JSON lines or Parquet
    Export(ExportArgs),
    /// Keep what this machine is like when all is well, to compare with
    Baseline(BaselineArgs),
    /// Say what differs beyond noise between two of: baseline, part of a recording, benchmark's result
    Compare(CompareArgs),
    /// Look at the settings of the kernel, change them safely, and take changes back
    Tune(TuneArgs),
    /// Try a change with and without in turn, around a command or under the load there is, and say whether it helped
    Try(TryArgs),
    /// Measure what storage, network, memory and processors can do, with known load
    Bench(BenchArgs),
    /// Write the completion script of a shell to standard output
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the manual page to standard output: whyslow man | man -l -
    Man,
}

/// Reads the command line. Help and version are printed here; what is left is the exit status.
///
/// # Errors
/// The status to exit with: help was printed, or the usage was wrong and one line on stderr says how.
pub fn parse() -> Result<Cli, ExitCode> {
    let cli = Cli::try_parse().map_err(|error| {
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

/// The program as clap describes it: for the manual page and completions.
pub fn description() -> clap::Command {
    Cli::command()
}

/// clap's message without its usage and hints.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let message = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = message.trim_start_matches("error: ").split_whitespace().collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_is_sound() {
        description().debug_assert();
    }
}
