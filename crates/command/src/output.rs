//! Options for the output, and output to stdout.

use crate::Failure;
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::io::{self, ErrorKind, IsTerminal, Write};
use whyslow_show::json;
use whyslow_show::text::TextStyle;

const WIDTH_WITHOUT_TERMINAL: usize = 80;
/// Longer lines are harder to read.
const WIDEST: usize = 120;

/// How to draw.
#[derive(Clone, Debug, Args)]
pub struct DisplayOptions {
    /// Write JSON
    #[arg(long, global = true, display_order = 1000)]
    pub json: bool,
    /// Show and read times in UTC instead of the local time zone
    #[arg(long, global = true, display_order = 1002)]
    pub utc: bool,
    /// When to use color; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, value_name = "WHEN", default_value = "auto", global = true, display_order = 1003)]
    pub color: ColorChoice,
    /// Width of the output in columns, at least 40 [default: the terminal's, at most 120; 80 without a terminal]
    #[arg(long, value_name = "COLUMNS", value_parser = width, global = true, display_order = 1004)]
    pub width: Option<u16>,
}

/// When to use color.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum ColorChoice {
    // No doc comments here: clap would show each as a paragraph of the help.
    Auto,
    Always,
    Never,
}

impl DisplayOptions {
    /// Writes a document to stdout, as JSON or as the text that `draw` returns.
    ///
    /// # Errors
    /// Fails if stdout cannot be written.
    pub fn show<T: Serialize>(&self, document: &T, draw: impl FnOnce(&TextStyle) -> String) -> Result<(), Failure> {
        print(if self.json { json::pretty(document) } else { draw(&self.style()) })
    }

    /// Returns the style for drawing a summary on this stdout.
    pub fn style(&self) -> TextStyle {
        let colour = match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb_terminal(),
        };
        TextStyle { width: self.width.map_or_else(terminal_width, usize::from), colour, all: false, utc: self.utc }
    }
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

/// Returns whether the terminal does not support control sequences.
pub fn is_dumb_terminal() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

fn terminal_width() -> usize {
    terminal_size::terminal_size_of(io::stdout()).map_or(WIDTH_WITHOUT_TERMINAL, |(w, _)| usize::from(w.0).min(WIDEST))
}

fn width(text: &str) -> Result<u16, String> {
    text.parse().ok().filter(|width| *width >= 40).ok_or_else(|| "the width must be at least 40 columns".into())
}

/// Writes to stdout.
///
/// # Errors
/// Fails if stdout cannot be written. A reader that closes the pipe early (`whyslow | head -1`) is not an error.
pub fn print(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    quietly(out.write_all(text.as_ref()).and_then(|()| out.flush()))
}

/// Converts the result of writing to stdout; a closed pipe is not an error.
///
/// # Errors
/// Fails if stdout cannot be written for any other reason.
pub fn quietly(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Failure::usage(format!("cannot write to stdout: {e}"))),
        _ => Ok(()),
    }
}
