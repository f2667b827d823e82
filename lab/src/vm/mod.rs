//! Runs trials in virtual machines, each on a Debian kernel: see vm/README.md.

mod durable;
mod guest;
mod shell;
mod spec;

pub use durable::Durable;
pub use guest::Images;
pub use shell::{background, modules, shell};
pub use spec::{VmSpec, is_guest};
