//! What the command lines of `whyslow` and `whyslow-fleet` share: options for the output, sections of the help, exit codes, error
//! messages and manual pages.
//!
//! Small, because only what both programs do in the same way belongs here: without it, each would have its own copy, and they
//! would drift apart.

mod failure;
mod help;
mod manual;
mod output;

pub use failure::{Failure, INTERRUPTED, complain};
pub use help::{HelpSection, after_help, in_one_line};
pub use manual::ManArgs;
pub use output::{ColorChoice, DisplayOptions, is_dumb_terminal, print, quietly};
