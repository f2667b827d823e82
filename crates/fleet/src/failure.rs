//! Error type of the program.

use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;
use whyslow_model::human::without_error_numbers;
use whyslow_show::escape;

/// Reason why there is no answer, with its exit status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    what: String,
    status: u8,
}

impl Failure {
    /// Creates an error for wrong usage or an unreadable store.
    pub fn usage(what: impl Into<String>) -> Self {
        Self { what: what.into(), status: 2 }
    }

    /// Creates an error for Ctrl-C before there was an answer.
    pub(crate) fn interrupted() -> Self {
        Self { what: "interrupted; the query was cancelled".to_owned(), status: 130 }
    }

    /// Creates an error for an empty answer.
    pub fn nothing(what: impl Into<String>) -> Self {
        Self { what: what.into(), status: 1 }
    }

    /// Returns whether the answer is empty; otherwise the query is wrong or the store cannot be read.
    pub fn is_nothing(&self) -> bool {
        self.status == 1
    }

    /// Prints the error on stderr in one line and returns the exit status.
    pub fn report(&self) -> ExitCode {
        complain(&self.what);
        ExitCode::from(self.status)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Error for Failure {}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        Self::usage(words(&error))
    }
}

impl From<object_store::Error> for Failure {
    fn from(error: object_store::Error) -> Self {
        Self::usage(of_store(&error))
    }
}

/// Prints a message on stderr.
pub(crate) fn complain(what: &str) {
    // With stderr closed, there is nowhere to report to.
    let _ = writeln!(io::stderr(), "whyslow-fleet: {}", escape::terminal(&without_error_numbers(what)));
}

/// Formats an engine error without its type names.
fn words(error: &DataFusionError) -> String {
    match error.find_root() {
        DataFusionError::SQL(error, _) => invalid_sql(error).what,
        DataFusionError::ObjectStore(error) => of_store(error),
        DataFusionError::ResourcesExhausted(_) => {
            "the query needs more memory than it may take: ask for less, or give it more (--memory 4G)".to_owned()
        }
        DataFusionError::Plan(text) if text.contains("not supported: ") => {
            format!("only questions are allowed (SELECT, EXPLAIN): {text}")
        }
        root => root.message().lines().collect::<Vec<_>>().join(" "),
    }
}

/// Returns the error for a query that cannot be parsed.
pub(crate) fn invalid_sql(error: &ParserError) -> Failure {
    // 'sql parser error: Expected …'
    let text = error.to_string();
    Failure::usage(format!("this is not valid SQL: {}", text.trim_start_matches("sql parser error: ")))
}

fn of_store(error: &object_store::Error) -> String {
    format!("cannot read or write the store: {}", whyslow_rollup::in_one_line(error))
}

/// Returns whether a file no longer existed when it was read: the compactor has replaced it since it was listed.
pub(crate) fn is_gone(error: &DataFusionError) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let is_missing = |error: &object_store::Error| matches!(error, object_store::Error::NotFound { .. });
        if error.downcast_ref::<object_store::Error>().is_some_and(is_missing) {
            return true;
        }
        if let Some(DataFusionError::ObjectStore(error)) = error.downcast_ref()
            && is_missing(error)
        {
            return true;
        }
        cause = error.source();
    }
    false
}
