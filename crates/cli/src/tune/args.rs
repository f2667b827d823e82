//! The command line of `whyslow tune`.

use crate::complete;
use crate::options::duration;
use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;
use std::time::Duration;

/// What to do with settings.
#[derive(Debug, Args)]
pub struct TuneArgs {
    /// Without a command: the changes in effect, and what to do next
    #[command(subcommand)]
    pub action: Option<TuneCommand>,
}

/// One command.
#[derive(Debug, Subcommand)]
pub enum TuneCommand {
    /// List the tunables with their current values
    List {
        /// Only those with this word in their name or description
        word: Option<String>,
    },
    /// Explain a tunable: meaning, valid values, risks, current value
    Show {
        /// The tunable, such as vm.swappiness or disk.scheduler@sda; any sysctl, or a path under /sys
        #[arg(add = ArgValueCandidates::new(complete::tunables))]
        name: String,
    },
    /// Print current values
    Get {
        /// The tunables
        #[arg(required = true, add = ArgValueCandidates::new(complete::tunables))]
        names: Vec<String>,
    },
    /// Change settings, all of them or none; each is journalled and verified
    Set {
        /// NAME=VALUE or NAME@THING=VALUE; THING can be a pattern such as sd*, or several PIDs
        #[arg(required = true, add = ArgValueCandidates::new(complete::changes))]
        changes: Vec<String>,
        #[command(flatten)]
        how: How,
    },
    /// Apply a profile, or several merged from left to right; all that this machine supports, or nothing
    Apply {
        /// The profiles
        #[arg(required = true, value_name = "PROFILE", add = ArgValueCandidates::new(complete::profiles))]
        profiles: Vec<String>,
        #[command(flatten)]
        read: ReadOptions,
        #[command(flatten)]
        how: How,
    },
    /// List the profiles: built in, the machine's own, and tuned's
    Profiles,
    /// Recommend a profile for this machine, with the reason
    Recommend,
    /// Convert a tuned profile into one self-contained file, with includes and variables resolved
    Import {
        /// The profiles, merged from left to right
        #[arg(required = true, value_name = "PROFILE", add = ArgValueCandidates::new(complete::profiles))]
        profiles: Vec<String>,
        /// Save it under this name in /etc/whyslow/profiles instead of printing it
        #[arg(long, value_name = "NAME")]
        save: Option<String>,
        #[command(flatten)]
        read: ReadOptions,
    },
    /// Show what whyslow changed, before and now; or what a profile would change
    Diff {
        /// The profiles
        #[arg(value_name = "PROFILE", add = ArgValueCandidates::new(complete::profiles))]
        profiles: Vec<String>,
        #[command(flatten)]
        read: ReadOptions,
    },
    /// Check whether changes are still in effect, or whether a profile is; exit status 1 if not
    Verify {
        /// The profiles
        #[arg(value_name = "PROFILE", add = ArgValueCandidates::new(complete::profiles))]
        profiles: Vec<String>,
        #[command(flatten)]
        read: ReadOptions,
    },
    /// Roll back the last change, one change, or all; values changed externally since are left alone
    Undo {
        /// Number of the change in the history [default: the last one in effect]
        #[arg(conflicts_with = "all")]
        id: Option<u64>,
        /// Roll back all changes
        // The name and id of the global option, which means 'show everything' elsewhere.
        #[arg(id = "all", long)]
        all: bool,
        /// Only show what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// Show the changes made: what, by whom, why, and whether they are still in effect
    History {
        /// Only this change
        id: Option<u64>,
    },
    /// Show the results of past trials ('whyslow try')
    Trials,
    /// Make a change survive a reboot
    Persist {
        /// Number of the change in the history [default: the last one in effect]
        id: Option<u64>,
        #[command(flatten)]
        how: How,
    },
    /// Confirm a change that would otherwise be rolled back
    Confirm {
        /// Number of the change in the history [default: all that wait for confirmation]
        id: Option<u64>,
        /// Only show what would be confirmed
        #[arg(long)]
        dry_run: bool,
    },
    /// Roll back what an interrupted run left behind, and what was not confirmed in time; for a boot-time unit
    Recover {
        /// Only show what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// Wait for a change to be confirmed
    #[command(hide = true)]
    Guard {
        /// The change
        id: u64,
    },
}

/// How changes are made.
#[derive(Debug, Args)]
pub struct How {
    /// Only show what would be done
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Go ahead even if the change is risky
    #[arg(long, short)]
    pub yes: bool,
    /// Roll back unless 'whyslow tune confirm' is run within this time [default: 5m for what could cut you off or stall the machine, and lowered limits]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub confirm_within: Option<Duration>,
    /// Never roll back automatically
    #[arg(long, conflicts_with = "confirm_within")]
    pub no_confirm: bool,
    /// Reason for the change; recorded in the history
    #[arg(long, value_name = "TEXT")]
    pub why: Option<String>,
}

/// How profiles are read.
#[derive(Debug, Args)]
pub struct ReadOptions {
    /// Allow the profile to run commands to compute values
    #[arg(long)]
    pub allow_commands: bool,
}
