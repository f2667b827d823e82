//! Output to stdout and stderr, and the exit status.

use crate::options::OutputOptions;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use whyslow_command::is_dumb_terminal;
use whyslow_model::human::without_error_numbers;
use whyslow_sense::SourceError;
use whyslow_show::nagios;
use whyslow_show::text::TextStyle;

pub use whyslow_command::{Failure, INTERRUPTED, print, quietly};

const PROGRAM: &str = "whyslow";

/// Creates an error for a source that the kernel does not let us read, with the remedy.
pub fn unreadable(to_do: &str, error: SourceError) -> Failure {
    Failure::usage(match error {
        SourceError::NotPermitted { why, remedy } if !remedy.is_empty() => {
            format!("cannot {to_do}: {why}: {remedy}")
        }
        error => format!("cannot {to_do}: {}", error.why()),
    })
}

/// Prints an error on stderr in one line and returns the exit status; a monitoring plugin prints it on stdout.
pub fn report(failure: &Failure) -> ExitCode {
    if is_plugin() {
        let what = without_error_numbers(failure.words());
        let _ = writeln!(io::stdout(), "WHYSLOW UNKNOWN - {}", nagios::one_line(&what));
        return ExitCode::from(nagios::UNKNOWN);
    }
    failure.report(PROGRAM)
}

/// Returns whether the program runs as a monitoring plugin, whatever the rest of its command line: that may be the
/// error.
fn is_plugin() -> bool {
    std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--nagios")
}

/// Prints a message on stderr.
pub fn complain(what: &str) {
    whyslow_command::complain(PROGRAM, what);
}

/// Writes a document to stdout, as JSON or as text.
pub fn tell<T: Serialize>(
    document: &T,
    look: &OutputOptions,
    draw: impl FnOnce(&T, &TextStyle) -> String,
) -> Result<(), Failure> {
    look.display.show(document, |_| draw(document, &style(look)))
}

/// Returns the format for a file name extension; `plain` without an extension.
///
/// # Errors
/// Fails for an unknown extension, because the wanted format is unknown.
pub fn by_ending<F: Copy>(path: &Path, endings: &[(&str, F)], plain: F) -> Result<F, Failure> {
    let Some(ending) = path.extension() else { return Ok(plain) };
    let known = endings.iter().find(|(known, _)| ending.eq_ignore_ascii_case(known)).map(|(_, format)| *format);
    known.or_else(|| (!is_regular_or_new(path)).then_some(plain)).ok_or_else(|| {
        let all: Vec<String> = endings.iter().map(|(known, _)| format!(".{known}")).collect();
        let all = all.join(", ");
        Failure::usage(format!("{}: unknown file extension; known are {all}, or give --format", path.display()))
    })
}

/// Returns whether the path is a regular or new file; the names of pipes and devices say nothing about the format.
fn is_regular_or_new(path: &Path) -> bool {
    std::fs::metadata(path).map_or(true, |metadata| metadata.is_file())
}

/// Returns the style for drawing on this stdout.
pub fn style(look: &OutputOptions) -> TextStyle {
    TextStyle { all: look.all, ..look.display.style() }
}

/// Progress line on stderr if that is a terminal; erased when dropped.
#[derive(Debug)]
pub struct ProgressLine {
    visible: bool,
    doing: &'static str,
    interrupted: &'static str,
}

impl ProgressLine {
    /// Creates a line that names the current activity and the effect of Ctrl-C.
    pub fn new(doing: &'static str, interrupted: &'static str) -> Self {
        Self { visible: io::stderr().is_terminal() && !is_dumb_terminal(), doing, interrupted }
    }

    /// Creates a line without a countdown, for [`say`](Self::say).
    pub fn empty() -> Self {
        Self::new("", "")
    }

    /// Creates a line that is never shown.
    pub fn silent() -> Self {
        Self { visible: false, doing: "", interrupted: "" }
    }

    /// Shows the remaining time.
    pub fn show(&self, left: Duration) {
        self.say(&format!("{}, {} s left (Ctrl-C: {})", self.doing, left.as_secs_f64().ceil(), self.interrupted));
    }

    /// Shows a text: carriage return, the text, and 'erase to the end of the line' (ECMA-48, EL).
    pub fn say(&self, text: &str) {
        if self.visible {
            // Progress that cannot be shown is no reason to stop.
            let _ = write!(io::stderr(), "\r{text}\x1b[K");
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.say("");
    }
}
