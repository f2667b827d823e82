//! The `whyslow` program: parses the command line and connects the crates. No logic.

mod args;
mod atomic_file;
mod baseline;
mod bench;
mod commands;
mod compare;
mod complete;
mod explain;
mod export;
mod interrupt;
mod man;
mod memory;
mod observe;
mod options;
mod output;
mod profile;
mod progress;
mod rates;
mod read;
mod record;
mod recordings;
mod tune;
mod user_rules;
mod why;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Answers the shell, and ends, where COMPLETE is set.
    clap_complete::CompleteEnv::with_factory(args::description).complete();
    memory::give_back();
    match args::parse() {
        Ok(args) => {
            let status = commands::run(args).unwrap_or_else(|failure| failure.report());
            interrupt::exit_status().map_or(status, ExitCode::from)
        }
        Err(exit) => exit,
    }
}
