//! Output to stdout and stderr, and the exit status.

use crate::options::{Colour, OutputOptions};
use serde::Serialize;
use std::fmt;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use whyslow_model::human::without_error_numbers;
use whyslow_sense::SourceError;
use whyslow_show::text::TextStyle;
use whyslow_show::{escape, json, nagios};

const WIDTH_WITHOUT_TERMINAL: usize = 80;
/// Longer lines are harder to read.
const WIDEST: usize = 120;

/// Exit status after Ctrl-C: 128 + SIGINT, as in a shell.
pub const INTERRUPTED: u8 = 130;

/// Reason why the program ends without an answer, with its exit status.
#[derive(Debug)]
pub struct Failure {
    what: String,
    status: u8,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Failure {
    /// Creates an error for wrong usage or unreadable input.
    pub fn usage(what: impl Into<String>) -> Self {
        Self { what: what.into(), status: 2 }
    }

    /// Creates an error for a request for which there is no data.
    pub fn nothing(what: impl Into<String>) -> Self {
        Self { what: what.into(), status: 1 }
    }

    /// Creates an error for Ctrl-C before there was a result.
    pub fn interrupted(what: impl Into<String>) -> Self {
        Self { what: what.into(), status: INTERRUPTED }
    }

    /// Creates an error for a source that the kernel does not let us read, with the remedy.
    pub fn unreadable(to_do: &str, error: SourceError) -> Self {
        Self::usage(match error {
            SourceError::NotPermitted { why, remedy } if !remedy.is_empty() => {
                format!("cannot {to_do}: {why}: {remedy}")
            }
            error => format!("cannot {to_do}: {}", error.why()),
        })
    }

    pub fn words(&self) -> &str {
        &self.what
    }

    /// Prefixes the message with its subject.
    pub fn of(self, subject: &str) -> Self {
        Self { what: format!("{subject}: {}", self.what), ..self }
    }

    /// Prints the error on stderr in one line; a monitoring plugin prints it on stdout.
    pub fn report(self) -> ExitCode {
        if is_plugin() {
            let _ =
                writeln!(io::stdout(), "WHYSLOW UNKNOWN - {}", nagios::one_line(&without_error_numbers(&self.what)));
            return ExitCode::from(nagios::UNKNOWN);
        }
        complain(&self.what);
        ExitCode::from(self.status)
    }
}

/// Returns whether the program runs as a monitoring plugin, whatever the rest of its command line: that may be the
/// error.
fn is_plugin() -> bool {
    std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--nagios")
}

pub fn complain(what: &str) {
    // With stderr closed, there is nowhere to report to.
    let _ = writeln!(io::stderr(), "whyslow: {}", escape::terminal(&without_error_numbers(what)));
}

/// Writes to stdout.
///
/// # Errors
/// Fails if stdout cannot be written. A reader that closes the pipe early (`whyslow | head -1`) is not an error.
pub fn print(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    quietly(out.write_all(text.as_ref()).and_then(|()| out.flush()))
}

/// Writes a document to stdout, as JSON or as text.
pub fn tell<T: Serialize>(
    document: &T,
    look: &OutputOptions,
    draw: impl FnOnce(&T, &TextStyle) -> String,
) -> Result<(), Failure> {
    print(if look.json { json::pretty(document) } else { draw(document, &style(look)) })
}

/// Converts the result of writing to stdout; a closed pipe is not an error.
pub fn quietly(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Failure::usage(format!("cannot write to stdout: {e}"))),
        _ => Ok(()),
    }
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
    let colour = match look.color {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => io::stdout().is_terminal() && !has("NO_COLOR") && !is_dumb(),
    };
    TextStyle { width: look.width.map_or_else(terminal_width, usize::from), colour, all: look.all, utc: look.utc }
}

/// Returns whether the terminal does not support control sequences.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

fn has(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

fn terminal_width() -> usize {
    terminal_size::terminal_size_of(io::stdout()).map_or(WIDTH_WITHOUT_TERMINAL, |(w, _)| usize::from(w.0).min(WIDEST))
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
        Self { visible: io::stderr().is_terminal() && !is_dumb(), doing, interrupted }
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
