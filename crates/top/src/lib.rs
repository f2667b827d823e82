//! The live screen of `whyslow top`: the diagnosis, and below it who waits for what.
//!
//! [`App`] is the state of the screen: events go in, requests and frames come out, and nothing is read or written. [`run`] connects
//! it to a terminal. Samples and diagnoses come from the program through a channel, live or out of a recording.

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
