//! The command line of `whyslow tune`.

use crate::options::duration;
use clap::{Args, Subcommand};
use std::time::Duration;

/// What to do with settings.
#[derive(Debug, Args)]
pub struct TuneArgs {
    /// Without one: what is changed now, and how to go on
    #[command(subcommand)]
    pub action: Option<Action>,
}

/// One command.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// List the tunables with what they are here
    List {
        /// Only those whose name or meaning holds this word
        word: Option<String>,
    },
    /// Explain one: what it means, what it takes, what can go wrong, what it is here
    Show {
        /// The tunable, such as vm.swappiness or disk.scheduler@sda; any sysctl, or a path under /sys
        name: String,
    },
    /// Write the value of each to standard output
    Get {
        /// The tunables
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Change settings: all of them or none, journalled, and read back
    Set {
        /// NAME=VALUE or NAME@THING=VALUE; a pattern such as sd* stands for several things
        #[arg(required = true)]
        changes: Vec<String>,
        #[command(flatten)]
        how: How,
    },
    /// Apply a profile, or several merged from left to right: all of it that this machine has, or nothing
    Apply {
        /// The profiles
        #[arg(required = true, value_name = "PROFILE")]
        profiles: Vec<String>,
        #[command(flatten)]
        read: Reading,
        #[command(flatten)]
        how: How,
    },
    /// List the profiles there are: those of whyslow, the machine's own, and tuned's
    Profiles,
    /// Say which profile fits this machine, and why
    Recommend,
    /// Read a profile with all it includes and computes, and write it as one file without
    Import {
        /// The profiles, merged from left to right
        #[arg(required = true, value_name = "PROFILE")]
        profiles: Vec<String>,
        /// Keep it under this name in /etc/whyslow/profiles, rather than writing it to standard output
        #[arg(long, value_name = "NAME")]
        save: Option<String>,
        #[command(flatten)]
        read: Reading,
    },
    /// Tell what is set by whyslow, what it was and what it is; or what a profile would change
    Diff {
        /// The profiles
        #[arg(value_name = "PROFILE")]
        profiles: Vec<String>,
        #[command(flatten)]
        read: Reading,
    },
    /// Tell whether what was set still holds, or whether all is as a profile wants it; exit with 1 where it is not
    Verify {
        /// The profiles
        #[arg(value_name = "PROFILE")]
        profiles: Vec<String>,
        #[command(flatten)]
        read: Reading,
    },
    /// Take changes back: the last, one, or all that stand; only what still holds our value
    Undo {
        /// The change, as history numbers it [default: the last that stands]
        #[arg(conflicts_with = "all")]
        id: Option<u64>,
        /// Take back all that stands
        // The name and id of the global option, which means 'draw all there is' elsewhere.
        #[arg(id = "all", long)]
        all: bool,
        /// Only say what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// Show what was changed, by whom and why, and what became of it
    History {
        /// Only this change
        id: Option<u64>,
    },
    /// Show what was tried, and what came of it
    Trials,
    /// Keep a change over a reboot, in a file that the machine reads at boot
    Persist {
        /// The change, as history numbers it [default: the last that stands]
        id: Option<u64>,
        #[command(flatten)]
        how: How,
    },
    /// Confirm a change that is taken back otherwise
    Confirm {
        /// The change, as history numbers it [default: all that wait]
        id: Option<u64>,
        /// Only say what would be confirmed
        #[arg(long)]
        dry_run: bool,
    },
    /// Take back what a run that died left unfinished, and what nobody confirmed in time; for a unit at boot
    Recover {
        /// Only say what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// Watch over a change that is to be confirmed
    #[command(hide = true)]
    Guard {
        /// The change
        id: u64,
    },
}

/// How changes are made.
#[derive(Debug, Args)]
pub struct How {
    /// Only say what would be done
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Do it though it is risky
    #[arg(long, short)]
    pub yes: bool,
    /// Take it back unless 'whyslow tune confirm' comes within this time [default: 5m for settings of the network]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub confirm_within: Option<Duration>,
    /// Take nothing back by itself
    #[arg(long, conflicts_with = "confirm_within")]
    pub no_confirm: bool,
    /// What it is for; goes to the history
    #[arg(long, value_name = "TEXT")]
    pub why: Option<String>,
}

/// How profiles are read.
#[derive(Debug, Args)]
pub struct Reading {
    /// Let a profile run commands that its values are computed by
    #[arg(long)]
    pub allow_commands: bool,
}
