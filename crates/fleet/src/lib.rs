//! Answers questions about all machines that ship to one store: which are sick, with what, and since when.
//!
//! `whyslow ship` writes the files of a [`Store`], one per host, table and hour. A [`Fleet`] is the store over a
//! [`Span`] of time; its [`query`](Fleet::query) runs SQL over exactly the files that count, with embedded DataFusion
//! or on a Trino cluster. Data from hosts are not trusted: [`validity`] decides row by row what counts, and every
//! answer reports what was left out. [`compact`] merges the files of all hosts, one hour at a time.

mod args;
pub mod cell;
pub mod commands;
pub mod compact;
mod failure;
mod fleet;
mod left_out;
mod options;
mod period;
pub mod schema;
mod span;
pub mod sql;
pub mod store;
mod table;
mod trino;
pub mod validity;

pub use fleet::{Fleet, QueryRows};
pub use left_out::LeftOut;
pub use options::QueryOptions;
pub use period::Period;
pub use span::Span;
pub use store::Store;
pub use whyslow_command::{DisplayOptions, Failure};

use std::process::ExitCode;

/// Name of the program in messages.
const PROGRAM: &str = "whyslow-fleet";

/// Runs the command line of `whyslow-fleet`.
pub fn run() -> ExitCode {
    args::parse().map_or_else(|status| status, |cli| cli.run().unwrap_or_else(|failure| failure.report(PROGRAM)))
}
