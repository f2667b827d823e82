//! Command line of `whyslow`.

use crate::baseline::BaselineArgs;
use crate::bench::BenchArgs;
use crate::compare::CompareArgs;
use crate::complete;
use crate::expect::ExpectArgs;
use crate::explain::ExplainArgs;
use crate::export::ExportArgs;
use crate::exporter::ExporterArgs;
use crate::options::{Observe, OutputOptions};
use crate::output::{self, Failure};
use crate::profile::ProfileArgs;
use crate::pseudonymise::PseudonymOptions;
use crate::read::ReadArgs;
use crate::record::RecordArgs;
use crate::report::ReportArgs;
use crate::serve::ServeArgs;
use crate::ship::ShipArgs;
use crate::stack::StackArgs;
use crate::top::TopArgs;
use crate::tune::{TryArgs, TuneArgs};
use crate::why::WhyTarget;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::{ArgValueCandidates, Shell};
use std::process::ExitCode;
use whyslow_command::{HelpSection, ManArgs, after_help, in_one_line};
use whyslow_model::suggest;

/// Sections that follow the options in `--help` and the manual page, as title and text.
pub const SECTIONS: [HelpSection; 5] = [
    (
        "Examples",
        "\
whyslow                        watch for ten seconds, then say what is wrong
whyslow -v                     the same, with all the evidence
whyslow top                    a screen that stays open: who waits for what
whyslow --for 1m               watch longer, to catch rare stalls
whyslow --json | jq .verdict   for scripts
whyslow --check || page-me     exit status 1 means there is a bottleneck
whyslow --pid 4711             explain where the time of a process goes
whyslow -- make -j4            run a command, and explain why it took so long
whyslow read vmstat.txt dmesg  diagnose the output of other tools
whyslow stack                  storage and network from top to hardware
whyslow expect md0             what it should deliver, and what it does
whyslow rules disk.saturated   explain a finding
whyslow profile --culprit      show where the culprit spends its time
whyslow try vm.swappiness=10 -- make
                               prove whether a change helps
whyslow record --for 1h        record for an hour (default: until stopped)
whyslow explain --since 8h     explain what happened in the last eight hours
whyslow report -o report.html sar.txt
                               draw charts of what other tools printed
whyslow serve                  the same in a browser, live and recorded
whyslow read --pseudonymise x.tar.gz
                               the same diagnosis without anybody's names
whyslow baseline save --for 10m
                               record a baseline of normal behavior
whyslow compare default 03:00..04:00
                               show what was different that night
whyslow exporter --listen 127.0.0.1:9787
                               serve metrics and findings to Prometheus
whyslow ship s3://fleet --label role=db
                               ship minutes and episodes to a fleet's store",
    ),
    ("Ctrl-C", "Stops early and diagnoses what was seen; a second Ctrl-C quits at once."),
    (
        "Exit status",
        "\
0    success, whatever was found
1    --check found a bottleneck; 'profile --culprit' found no culprit; the
     recording does not cover that time; 'tune' left a setting unchanged, or
     'tune verify' found one that differs; 'try' found nothing to try;
     'ship --once' could not deliver everything
2    wrong usage, or input that cannot be read
3    with --check: undetermined: too little was visible, or no cause is known
     (--nagios has the plugins' own: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN)
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
WHYSLOW_TOKEN    shared secret of 'bench net serve' and its clients
AWS_*            credentials, region and endpoint of the bucket of 'ship'
WHYSLOW_REMOTE_WRITE_AUTH, WHYSLOW_OTLP_AUTH
                 Authorization header of 'exporter', without a file",
    ),
    (
        "Files",
        "\
/etc/whyslow/rules.d/*.toml              rules of this machine
$XDG_CONFIG_HOME/whyslow/rules.d/*.toml  your own rules
/etc/whyslow/profiles                    tuning profiles of this machine
/var/lib/whyslow                         recording, journal of changes
/var/lib/whyslow/baselines               baselines; 'default' is the usual
/var/lib/whyslow/ship                    what 'ship' has delivered",
    ),
];

/// Options that a command inherits from the commands above it but ignores; its help leaves them out.
const IRRELEVANT: &[(&str, &[&str])] = &[
    ("bench drop-caches", &["save", "replace", "dir"]),
    ("mcp", &["json", "all", "utc", "color", "width"]),
    ("completions", &["json", "all", "utc", "color", "width"]),
    ("man", &["json", "all", "utc", "color", "width"]),
    ("record", &["all", "color"]),
    ("ship", &["all", "utc", "color"]),
    ("top", &["json", "all", "width"]),
    ("export", &["all", "color", "width"]),
    ("report", &["all", "color", "width"]),
    ("serve", &["json", "all", "utc", "color", "width"]),
    ("exporter", &["json", "all", "utc", "color", "width"]),
    ("stack", &["utc"]),
    ("expect", &["utc"]),
    ("rules", &["all", "utc"]),
    ("formats", &["all", "utc"]),
    ("bench net serve", &["save", "replace", "dir"]),
    ("bench net stop", &["save", "replace", "dir"]),
];

/// Commands that change settings, put load on the machine, or delete something.
const CHANGING: [&str; 11] =
    ["set", "apply", "undo", "persist", "confirm", "recover", "try", "bench", "drop-caches", "delete", "stop"];

/// Explains why this machine is slow, and recommends the one change that should help.
#[derive(Debug, Parser)]
#[command(name = "whyslow", version, after_help = after_help(&SECTIONS))]
pub struct Cli {
    #[command(flatten)]
    pub observe: Observe,
    #[command(flatten)]
    pub target: WhyTarget,
    #[command(flatten)]
    pub pseudonyms: PseudonymOptions,
    #[command(flatten)]
    pub look: OutputOptions,
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do instead of observing.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show a screen that stays open: the diagnosis, and who waits for what; live, or of a recording
    Top(TopArgs),
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
    /// Draw charts and findings: an HTML page, a picture, or text for a ticket
    Report(ReportArgs),
    /// Serve a web page about this machine, live, and about recordings
    Serve(ServeArgs),
    /// Export metrics and findings to Prometheus or OpenTelemetry
    Exporter(ExporterArgs),
    /// Ship rollups of a recording to the store of a fleet: a folder, or a bucket (S3)
    Ship(ShipArgs),
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
    /// Show what requests and packets pass through, as trees from mounts and interfaces down to hardware, with every limit
    Stack(StackArgs),
    /// Show what drives, RAID and links should deliver, beside what they did, and which layout would deliver more
    Expect(ExpectArgs),
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
    /// Serve agents: these commands, read only, as tools of the Model Context Protocol on standard input and output
    Mcp,
    /// Print a shell completion script
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print a manual page: whyslow man | man -l -; of a command: whyslow man tune set
    Man(ManArgs),
}

/// Parses the command line. Prints help and version itself.
///
/// # Errors
/// Returns the exit status if help or version was printed, or if the usage was wrong, which one line on stderr
/// explains.
pub fn parse() -> Result<Cli, ExitCode> {
    let matches = description().try_get_matches();
    if let Some(what) = matches.as_ref().ok().and_then(misplaced) {
        return Err(output::report(&Failure::usage(what)));
    }
    let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches)).map_err(|error| {
        if error.use_stderr() {
            output::report(&Failure::usage(one_line(&error)))
        } else {
            output::quietly(error.print()).map_or_else(|failure| output::report(&failure), |()| ExitCode::SUCCESS)
        }
    })?;
    cli.observe.check().map_err(|what| output::report(&Failure::usage(what)))?;
    if cli.observe.no_bpf && cli.target.is_given() {
        return Err(output::report(&Failure::usage(
            "explaining where a program's time goes needs BPF: remove --no-bpf",
        )));
    }
    if cli.pseudonyms.is_given() && cli.target.is_given() {
        return Err(output::report(&Failure::usage(
            "--pseudonymise does not cover explanations of where a program's time goes, which name its files and functions",
        )));
    }
    if cli.look.display.utc {
        // SAFETY: the program has one thread so far, so nothing else reads the environment. Set here, `TZ` also applies
        // to the times in options and in other tools' output.
        unsafe { std::env::set_var("TZ", "UTC") };
    }
    Ok(cli)
}

/// Returns an error if an observation option precedes another command, for which it would have no effect.
fn misplaced(matches: &ArgMatches) -> Option<String> {
    let (command, _) = matches.subcommand()?;
    let observing = WhyTarget::augment_args(Observe::augment_args(clap::Command::new("")));
    let observing = PseudonymOptions::augment_args(observing);
    let is_given = |arg: &&Arg| matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
    let option = observing.get_arguments().find(is_given)?.get_long()?;
    Some(format!(
        "--{option} before '{command}' has no effect: write it after '{command}', if that has such an option \
         ('whyslow {command} --help' lists them)"
    ))
}

/// Returns the clap description of the program, for parsing, the manual page and completions.
pub fn description() -> clap::Command {
    IRRELEVANT.iter().fold(Cli::command(), |program, (path, options)| {
        let path: Vec<&str> = path.split(' ').collect();
        hide(program, &path, options, &[])
    })
}

/// Hides options that the commands above define, in the command at the end of a path.
fn hide(command: clap::Command, path: &[&str], options: &[&str], above: &[Arg]) -> clap::Command {
    let Some((next, rest)) = path.split_first() else {
        let ignored = above.iter().filter(|arg| options.contains(&arg.get_id().as_str()));
        return command.args(ignored.map(|arg| arg.clone().hide(true)));
    };
    let global = command.get_arguments().filter(|arg| arg.is_global_set()).cloned();
    let above: Vec<Arg> = above.iter().cloned().chain(global).collect();
    command.mut_subcommand(next, |command| hide(command, rest, options, &above))
}

/// Returns clap's message with its suggestion but without the usage; without a suggestion, adds the command that shows
/// the usage.
fn one_line(error: &clap::Error) -> String {
    let text =
        mistyped_command(error).map_or_else(|| error.to_string(), |typed| format!("unrecognized subcommand '{typed}'"));
    let what_to_do = match (suggestion(error), error.kind()) {
        (Some(name), _) => suggest::question(&name),
        (None, ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument | ErrorKind::MissingRequiredArgument) => {
            format!("; '{} --help' shows the usage", command_of(error))
        }
        (None, _) => String::new(),
    };
    in_one_line(&text) + &what_to_do
}

/// Returns the command that an error is about, from its usage: `Usage: whyslow tune set [OPTIONS] <CHANGE>...`.
fn command_of(error: &clap::Error) -> String {
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let words = usage.split_whitespace().skip_while(|word| *word == "Usage:");
    let names: Vec<&str> = words.take_while(|word| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')).collect();
    if names.is_empty() { "whyslow".to_owned() } else { names.join(" ") }
}

/// Returns a mistyped command: because of `-- COMMAND`, clap parses it as an argument.
fn mistyped_command(error: &clap::Error) -> Option<&str> {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_word = error.kind() == ErrorKind::UnknownArgument && !typed.starts_with('-');
    (is_word && command_of(error) == "whyslow").then_some(typed)
}

fn suggestion(error: &clap::Error) -> Option<String> {
    if let Some(typed) = mistyped_command(error) {
        let commands: Vec<String> =
            description().get_subcommands().map(|command| command.get_name().to_owned()).collect();
        return suggest::closest(typed, &commands).and_then(|_| closest(typed, &commands));
    }
    let kinds = [
        (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
        (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        (ContextKind::InvalidValue, ContextKind::SuggestedValue),
    ];
    let (typed, known) = kinds.iter().find_map(|(typed, known)| Some((error.get(*typed)?, error.get(*known)?)))?;
    let known = match known {
        ContextValue::String(name) => std::slice::from_ref(name),
        ContextValue::Strings(names) => names,
        _ => return None,
    };
    let ContextValue::String(typed) = typed else { return None };
    closest(typed, known)
}

/// Returns the name closest to the typed one. Suggests a command that changes something only for a typo of one letter,
/// and only if no other command is as close.
fn closest(typed: &str, known: &[String]) -> Option<String> {
    let (changing, harmless): (Vec<&String>, Vec<&String>) =
        known.iter().partition(|name| CHANGING.contains(&name.as_str()));
    let slip = |names: &[&String]| suggest::closest(typed, names.iter().filter(|name| suggest::is_slip(typed, name)));
    slip(&harmless)
        .or_else(|| slip(&changing))
        .or_else(|| suggest::closest(typed, &harmless))
        .or_else(|| harmless.last().map(|name| (*name).clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_is_sound() {
        description().debug_assert();
    }

    #[test]
    fn common_options_come_before_or_after_the_command_and_those_of_observing_do_not() {
        let matches = |words: &[&str]| description().try_get_matches_from([&["whyslow"], words].concat()).unwrap();
        for words in [
            &["--json", "rules"][..],
            &["-v", "rules", "disk"],
            &["rules", "--json"],
            &["--for", "1s"],
            &["--", "read"],
        ] {
            assert_eq!(misplaced(&matches(words)), None, "{words:?}");
        }
        let before = matches(&["--json", "rules"]);
        assert!(Cli::from_arg_matches(&before).unwrap().look.display.json);
        for words in [&["--for", "1s", "record"][..], &["--pid", "1", "rules"], &["--check", "read", "-"]] {
            let what = misplaced(&matches(words)).unwrap();
            assert!(what.starts_with(&format!("{} before '", words[0])), "{what}");
        }
    }

    #[test]
    fn a_typing_error_does_not_suggest_a_command_that_changes_something() {
        let error = |line: &str| {
            let words = std::iter::once("whyslow").chain(line.split(' '));
            one_line(&description().try_get_matches_from(words).unwrap_err())
        };
        for (line, suggested) in [
            ("tune shwo", "; did you mean 'show'?"),
            ("tune gst x", "; did you mean 'get'?"),
            ("tune sett x=1", "; did you mean 'set'?"),
            ("tune confrim", "; did you mean 'confirm'?"),
            ("tune stet", "; did you mean 'set'?"),
            ("tune status", "; 'whyslow tune --help' shows the usage"),
            ("tune unapply", "; 'whyslow tune --help' shows the usage"),
            ("tune set", "; 'whyslow tune set --help' shows the usage"),
            ("--widht 90", "; did you mean '--width'?"),
            ("--frobnicate", "; 'whyslow --help' shows the usage"),
        ] {
            assert!(error(line).ends_with(suggested), "{line}: {}", error(line));
        }
    }

    #[test]
    fn what_help_says_after_the_options_fits_80_columns() {
        let text = after_help(&SECTIONS);
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
