//! Live screen of `whyslow top`: the diagnosis, and below it tables that show what waits for what.
//!
//! [`App`] is the state of the screen. It takes events, returns requests and draws frames, and does no I/O itself. [`run`]
//! connects it to a terminal. Samples and diagnoses come from the program through a channel, live or from a recording.

mod app;
#[cfg(test)]
mod app_tests;
mod detail;
mod entity;
mod header;
mod help;
mod history;
mod keys;
mod panel;
mod past;
mod table;
mod terminal;
#[cfg(test)]
mod testing;
mod text;

pub use app::{App, Event, OpenFile, Request, ScreenOptions, Step};
pub use terminal::{is_possible, run};
