//! The `whyslow` program: reads the command line and connects the rooms. No logic.

mod args;
mod bench;
mod commands;
mod interrupt;
mod man;
mod observe;
mod output;
mod profile;
mod progress;
mod user_rules;

use std::process::ExitCode;

fn main() -> ExitCode {
    match args::parse() {
        Ok(args) => commands::run(args).unwrap_or_else(|failure| failure.report()),
        Err(exit) => exit,
    }
}
