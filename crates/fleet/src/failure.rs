//! Errors of the engine and of the store in words.

use crate::PROGRAM;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use std::error::Error;
use whyslow_command::Failure;

/// Converts the errors of the engine and of the store into those of the program.
pub(crate) trait OrFailure<T> {
    /// Replaces the error by one in words.
    fn or_failure(self) -> Result<T, Failure>;
}

impl<T> OrFailure<T> for Result<T, DataFusionError> {
    fn or_failure(self) -> Result<T, Failure> {
        self.map_err(|error| Failure::usage(words(&error)))
    }
}

impl<T> OrFailure<T> for object_store::Result<T> {
    fn or_failure(self) -> Result<T, Failure> {
        self.map_err(|error| Failure::usage(of_store(&error)))
    }
}

/// Prints a message on stderr.
pub(crate) fn complain(what: &str) {
    whyslow_command::complain(PROGRAM, what);
}

/// Formats an engine error without its type names.
pub(crate) fn words(error: &DataFusionError) -> String {
    match error.find_root() {
        DataFusionError::SQL(error, _) => invalid_sql(error).words().to_owned(),
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
