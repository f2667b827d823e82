//! The line that says how long it still takes.

use crate::output;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// A line on stderr, where that is a terminal; erased when dropped.
#[derive(Debug)]
pub struct Progress {
    visible: bool,
    doing: &'static str,
    interrupted: &'static str,
}

impl Progress {
    /// What is being done, and what Ctrl-C does about it.
    pub fn new(doing: &'static str, interrupted: &'static str) -> Self {
        Self { visible: io::stderr().is_terminal() && !output::is_dumb(), doing, interrupted }
    }

    /// Says how much time is left.
    pub fn show(&self, left: Duration) {
        self.say(&format!("{}, {} s left (Ctrl-C: {})", self.doing, left.as_secs_f64().ceil(), self.interrupted));
    }

    /// Says something else: carriage return, the text, and 'erase to the end of the line' (ECMA-48, EL).
    pub fn say(&self, text: &str) {
        if self.visible {
            // Progress that cannot be shown is no reason to stop.
            let _ = write!(io::stderr(), "\r{text}\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.say("");
    }
}
