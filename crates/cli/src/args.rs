//! The command line.

use crate::baseline::BaselineArgs;
use crate::bench::BenchArgs;
use crate::compare::CompareArgs;
use crate::explain::ExplainArgs;
use crate::export::ExportArgs;
use crate::output::{self, Failure};
use crate::profile::ProfileArgs;
use crate::record::RecordArgs;
use crate::tune::{TryArgs, TuneArgs};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

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
130  interrupted before there was anything to compare",
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

/// What to observe, and what to make of it.
#[derive(Debug, Args)]
pub struct Observe {
    /// How long to watch: 500ms, 10s, 2m, 1h; a bare number is seconds
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub time: Duration,
    /// How often to look, at least 100ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub interval: Duration,
    /// Load no BPF program into the kernel: less is seen, and from /proc alone
    #[arg(long)]
    pub no_bpf: bool,
    /// Exit with 1 on a bottleneck, with 3 where too little could be seen
    #[arg(long)]
    pub check: bool,
}

/// What to read.
#[derive(Debug, Args)]
pub struct Read {
    /// The files, folders or archives (tar, gzip, xz); - or none is standard input
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Leave out what cannot be read with certainty, and say so, instead of refusing it
    #[arg(long)]
    pub partial: bool,
    /// Exit with 1 on a bottleneck, with 3 where too little could be seen
    #[arg(long)]
    pub check: bool,
}

/// How to draw.
#[derive(Debug, Args)]
pub struct Look {
    /// Write JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Draw all there is: every evidence, culprit and action
    #[arg(long, global = true)]
    pub all: bool,
    /// When to use colour; auto is on a terminal, unless NO_COLOR is set
    #[arg(long, value_name = "WHEN", default_value = "auto", global = true)]
    pub color: Colour,
    /// Columns to draw in, at least 40 [default: the terminal's, at most 120; 80 where there is none]
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(40..), global = true)]
    pub width: Option<u16>,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    // No doc comments here: clap would draw each as a paragraph of the help.
    Auto,
    Always,
    Never,
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
    Read(Read),
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

impl Observe {
    const SHORTEST: Duration = Duration::from_millis(100);
    /// Samples are held in memory, a few hundred kilobytes each on a busy machine.
    const MOST_SAMPLES: u128 = 1000;

    /// Whether what is asked for makes sense.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self) -> Result<(), String> {
        if self.interval < Self::SHORTEST {
            return Err("--interval must be at least 100ms".into());
        }
        if self.time < self.interval {
            return Err("--for must be at least one --interval: a rate needs two samples".into());
        }
        if self.time.as_nanos() / self.interval.as_nanos() >= Self::MOST_SAMPLES {
            return Err(format!("more than {} samples: take a longer --interval", Self::MOST_SAMPLES));
        }
        Ok(())
    }
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

/// `500ms`, `10s`, `2m`, `1h`, `7d`; a bare number is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let size = match unit {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err("not a time such as 500ms, 10s or 2m".into()),
    };
    let number: f64 = number.parse().map_err(|_| "not a time such as 500ms, 10s or 2m")?;
    Duration::try_from_secs_f64(number * size).map_err(|_| "too long".into())
}

/// `100MiB`, `1GiB`; a bare number is bytes.
pub fn size(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "" => 0,
        "KiB" | "K" => 10,
        "MiB" | "M" => 20,
        "GiB" | "G" => 30,
        "TiB" | "T" => 40,
        _ => return Err("not a size such as 100MiB or 1GiB".into()),
    };
    let number: u64 = number.parse().map_err(|_| "not a size such as 100MiB or 1GiB")?;
    number.checked_mul(1 << shift).ok_or_else(|| "too large".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_is_sound() {
        description().debug_assert();
    }

    #[test]
    fn durations_are_read() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("7d"), Ok(Duration::from_secs(604_800)));
        for wrong in ["", "s", "-1s", "1w", "1e9", "nan", "1.2.3", "10 s", "٣s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert!(duration(&"9".repeat(400)).is_err());
    }

    #[test]
    fn sizes_are_read() {
        assert_eq!(size("100"), Ok(100));
        assert_eq!(size("16MiB"), Ok(16 << 20));
        assert_eq!(size("1G"), Ok(1 << 30));
        for wrong in ["", "GiB", "-1", "1.5G", "1 G", "1MB", "99999999999TiB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_window_has_two_samples_and_not_too_many() {
        let check = |time, interval| {
            let ms = Duration::from_millis;
            Observe { time: ms(time), interval: ms(interval), no_bpf: false, check: false }.check()
        };
        assert!(check(1000, 1000).is_ok());
        assert!(check(999, 1000).is_err());
        assert!(check(1000, 99).is_err());
        assert!(check(3_600_000, 1000).is_err());
        assert!(check(0, 0).is_err());
    }
}
