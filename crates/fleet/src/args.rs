//! Command line of `whyslow-fleet`.

use crate::commands::{change, compact, forecast, host, outliers, serve, sick, sql, tables, why};
use crate::{DisplayOptions, Failure, PROGRAM};
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use std::process::ExitCode;
use whyslow_command::{HelpSection, ManArgs, after_help, in_one_line};

/// Sections that follow the options in `--help`, as title and text.
const SECTIONS: [HelpSection; 3] = [
    (
        "Examples",
        "\
whyslow-fleet sick                   hosts that lose time, to what, since when
whyslow-fleet sick --by role         the same by a label of the hosts
whyslow-fleet sick --by kernel --since 7d
whyslow-fleet host db-17             what happened on one of them
whyslow-fleet host db-17 --raw 03:00..03:20
                                     the command that explains that span there
whyslow-fleet host db-17 --raw 03:00..03:20 --key raw.pem
                                     ask for it over the store, and explain it
whyslow-fleet why disk.saturated     what the hosts with it share
whyslow-fleet change                 what was changed, on how many hosts
whyslow-fleet change kernel:release=6.8.0-45 --since 7d
                                     whether it helped
whyslow-fleet outliers               which hosts differ from their twins
whyslow-fleet forecast               what will run out, and when
whyslow-fleet serve                  all of this as a page in a browser
whyslow-fleet tables                 the tables, and their columns
whyslow-fleet sql 'SELECT version, COUNT(DISTINCT host) FROM minute GROUP BY version'
whyslow-fleet compact --every 1h --keep 90d
                                     merge the hosts' files, expire old ones",
    ),
    (
        "Exit status",
        "\
0    success, whatever was found
1    no host has shipped anything in that time, or made that change;
     'compact' could not compact everything; 'host --run': ssh failed;
     'host --key': no answer, or nothing was recorded then
2    wrong usage, or a store or engine that cannot be read
130  ended by Ctrl-C while Trino ran a query, which is cancelled",
    ),
    (
        "Environment",
        "\
WHYSLOW_FLEET_STORE  the store, without --store
WHYSLOW_FLEET_ENGINE the engine, without --engine
TRINO_PASSWORD       the password of the user of --engine
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION,
AWS_ENDPOINT_URL, AWS_ALLOW_HTTP
                     credentials and address of a bucket
NO_COLOR             if set and not empty, no color except with --color always
TZ                   the local time zone (--utc overrides it)",
    ),
];

/// Asks all machines that ship to one store a question: which are sick, with what, and since when.
#[derive(Debug, Parser)]
#[command(name = "whyslow-fleet", version, after_help = after_help(&SECTIONS), arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    options: DisplayOptions,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show which hosts lose time, to what, since when, and whether it gets worse
    Sick(sick::SickArgs),
    /// Show what happened on a host: episodes, changes, gaps
    Host(host::HostArgs),
    /// Show what the hosts with a finding share, and the others lack
    Why(why::WhyArgs),
    /// Show what was changed, or judge whether a change helped
    Change(change::ChangeArgs),
    /// Show hosts that differ from their twins
    Outliers(outliers::OutliersArgs),
    /// Show what will run out, and when
    Forecast(forecast::ForecastArgs),
    /// Serve a page with all of this, for this machine by default
    Serve(serve::FleetServeArgs),
    /// Answer a question in SQL
    Sql(sql::SqlArgs),
    /// Describe the tables, or the columns of one
    Tables(tables::TablesArgs),
    /// Merge the files of all hosts, an hour at a time, and delete what is too old
    Compact(compact::CompactArgs),
    /// Print a shell completion script
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print a manual page: whyslow-fleet man | man -l -; of a command: whyslow-fleet man sick
    Man(ManArgs),
}

/// Parses the command line. Prints help and version itself.
///
/// # Errors
/// Returns the exit status if the program must end here: after help or version, or because the usage is wrong.
pub(crate) fn parse() -> Result<Cli, ExitCode> {
    let cli = Cli::try_parse().map_err(|error| {
        if error.use_stderr() && error.kind() != clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            let message = in_one_line(&error.to_string());
            return Failure::usage(format!("{message}; 'whyslow-fleet --help' shows the usage")).report(PROGRAM);
        }
        let _ = error.print();
        ExitCode::from(if error.use_stderr() { 2 } else { 0 })
    })?;
    if cli.options.utc {
        // SAFETY: the program has one thread so far, so nothing else reads the environment. Set here, `TZ` also applies
        // to the times in options.
        unsafe { std::env::set_var("TZ", "UTC") };
    }
    Ok(cli)
}

impl Cli {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let options = &self.options;
        match self.command {
            Command::Sick(args) => sick::run(&args, options),
            Command::Host(args) => host::run(&args, options),
            Command::Why(args) => why::run(&args, options),
            Command::Change(args) => change::run(&args, options),
            Command::Outliers(args) => outliers::run(&args, options),
            Command::Forecast(args) => forecast::run(&args, options),
            Command::Serve(args) => serve::run(&args),
            Command::Sql(args) => sql::run(&args, options),
            Command::Tables(args) => tables::run(&args, options),
            Command::Compact(args) => compact::run(&args, options),
            Command::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Self::command(), "whyslow-fleet", &mut script);
                whyslow_command::print(script)?;
                Ok(ExitCode::SUCCESS)
            }
            Command::Man(args) => {
                let page = args.page(&Self::command(), &SECTIONS).map_err(Failure::usage)?;
                whyslow_command::print(page)?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn commands_show_only_options_that_they_use() {
        let help = |name: &str| {
            let mut all = Cli::command();
            all.find_subcommand_mut(name).expect("a command").render_help().to_string()
        };
        assert!(help("sick").contains("--memory") && help("compact").contains("--store"));
        assert!(!help("compact").contains("--memory") && !help("tables").contains("--store"));
    }

    #[test]
    fn the_help_fits_a_terminal() {
        assert!(after_help(&SECTIONS).lines().filter(|line| !line.contains(" sql ")).all(|line| line.len() <= 80));
    }
}
