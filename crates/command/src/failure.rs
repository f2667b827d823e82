//! Error type of the programs, and their messages on stderr.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;
use whyslow_model::human::without_error_numbers;
use whyslow_show::escape;

/// Exit status if there is no data for the request.
const NOTHING: u8 = 1;
/// Exit status after wrong usage or unreadable input.
const USAGE: u8 = 2;
/// Exit status after Ctrl-C: 128 + SIGINT, as in a shell.
pub const INTERRUPTED: u8 = 130;

/// Reason why the program ends without an answer, with its exit status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    what: String,
    status: u8,
}

impl Failure {
    /// Creates an error for wrong usage or unreadable input.
    pub fn usage(what: impl Into<String>) -> Self {
        Self { what: what.into(), status: USAGE }
    }

    /// Creates an error for a request for which there is no data.
    pub fn nothing(what: impl Into<String>) -> Self {
        Self { what: what.into(), status: NOTHING }
    }

    /// Creates an error for Ctrl-C before there was a result.
    pub fn interrupted(what: impl Into<String>) -> Self {
        Self { what: what.into(), status: INTERRUPTED }
    }

    /// Prefixes the message with its subject.
    pub fn about(self, subject: &str) -> Self {
        Self { what: format!("{subject}: {}", self.what), ..self }
    }

    /// Returns the message.
    pub fn words(&self) -> &str {
        &self.what
    }

    /// Returns whether there is no data; otherwise the request is wrong or the input cannot be read.
    pub fn is_nothing(&self) -> bool {
        self.status == NOTHING
    }

    /// Prints the error on stderr in one line and returns the exit status.
    pub fn report(&self, program: &str) -> ExitCode {
        complain(program, &self.what);
        ExitCode::from(self.status)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Error for Failure {}

/// Prints a message of the program on stderr.
pub fn complain(program: &str, what: &str) {
    // With stderr closed, there is nowhere to report to.
    let _ = writeln!(io::stderr(), "{program}: {}", escape::terminal(&without_error_numbers(what)));
}
