//! Reads the output of other tools into [`Window`](whyslow_model::window::Window)s.
//!
//! A capture is text that someone pasted: prompts, several commands, wrapped lines, remarks. [`recognizer`] says what comes
//! next, [`shell_session`] follows what happened in the shell, and [`file_reader`] acts on both. The [`Format`] of an output
//! reads it into a [`ToolRun`](tool_run::ToolRun), and [`merge`] puts the runs together. Anything uncertain is left out and
//! noted with file and line; a wrong number is never produced.

mod banner;
mod captures;
mod clock;
mod command;
mod complaint;
mod file_reader;
mod format;
mod formats;
mod incident;
mod json;
mod kernel_file;
mod lines;
mod margin;
mod markup;
mod merge;
mod number;
mod output_start;
mod prelude;
mod print_steps;
mod printed_files;
mod prompt;
mod quotations;
mod recognizer;
mod refusal;
mod report_intervals;
mod request_trace;
mod run_options;
mod series;
mod shell;
mod shell_session;
mod skipped;
mod supportconfig;
mod table;
#[cfg(test)]
mod testing;
mod timeline;
mod tool_run;
mod typed_command;
mod wrap;
mod wrapped_command;
mod wrapped_table;
mod zone;

pub use file_reader::Input;
pub use format::Format;
pub use formats::{FORMATS, converted, recording};
pub use incident::{Incident, IncidentContents, ProcCopy, ProcTree, ProcTrees, ReadMonitor, join};
pub use merge::Capture;
pub use refusal::Refusal;

use captures::Captures;
use file_reader::read_file;

/// Reads the files of one incident. Anything uncertain is skipped and noted in the Windows' source reports, or, if `strict`,
/// refused.
///
/// # Errors
/// Fails if nothing was recognized at all; if `strict`, also at the first place whose meaning is uncertain, or where a file
/// could not be read.
pub fn read(inputs: Vec<Input<'_>>, strict: bool) -> Result<Vec<Capture>, Refusal> {
    let mut captures = Captures::default();
    for input in inputs {
        read_file(input, strict, &mut captures)?;
    }
    captures.finish()
}
