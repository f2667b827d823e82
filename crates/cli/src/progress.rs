//! The line that says how long it still takes.

use crate::output;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// A line on stderr, where that is a terminal; erased when dropped.
#[derive(Debug)]
pub struct Progress {
    visible: bool,
}

impl Progress {
    pub fn new() -> Self {
        Self { visible: io::stderr().is_terminal() && !output::is_dumb() }
    }

    /// Says how much time is left.
    pub fn show(&self, left: Duration) {
        self.draw(&format!("watching, {} s left (Ctrl-C: diagnose now)", left.as_secs_f64().ceil()));
    }

    /// Carriage return, the text, and 'erase to the end of the line' (ECMA-48, EL).
    fn draw(&self, text: &str) {
        if self.visible {
            // Progress that cannot be shown is no reason to stop.
            let _ = write!(io::stderr(), "\r{text}\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.draw("");
    }
}
