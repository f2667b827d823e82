//! Draws what the other rooms found: the main screen, the catalogue, the rules, profiles, JSON. Computes nothing.
//!
//! Every name in a diagnosis (a process, a mount, a host) is hostile text: it was chosen by somebody else. Text reaches
//! the screen only through [`escape::terminal`], JSON only through [`json::pretty`], a flame graph only through [`escape::xml`].

mod canvas;
mod clock;
pub mod escape;
mod fio;
pub mod flame;
mod human;
pub mod json;
pub mod rows;
pub mod text;
