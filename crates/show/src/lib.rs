//! Draws the documents of the other crates as text, JSON, CSV, SVG, PNG and a web page. Computes nothing.
//!
//! Names in a diagnosis (processes, mounts, hosts) are chosen by others and are not trusted. Text reaches the screen only through
//! [`escape::terminal`], JSON only through [`json::pretty`], flame graphs and charts only through [`escape::xml`], and the page
//! only as data ([`page`]).

mod canvas;
pub mod chart;
pub mod clock;
pub mod escape;
mod fio;
pub mod flame;
mod human;
pub mod json;
pub mod nagios;
pub mod page;
pub mod rows;
pub mod stack;
pub mod text;

pub use canvas::{Ink, Piece, bold, dim, plain};
