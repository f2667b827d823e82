//! Tunables, plans and changes.

mod change;
mod profile;
mod trial;
mod tunable;

pub use change::{checks, history, plan, undone};
pub use profile::{notes, profiles, recommendations};
pub use trial::{rehearsal, trial, trials, walk};
pub use tunable::{tunable, tunables};

use whyslow_model::tune::{Effect, Risk};

/// When a change takes effect, in words.
fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Instant => "at once",
        Effect::WashOut => "once the effects of the old value have worn off",
        Effect::Reopen => "for files opened afterwards only",
        Effect::Restart => "for processes started afterwards only",
        Effect::Reboot => "at the next boot",
    }
}

/// What can go wrong, in words.
fn risk(risk: Risk) -> &'static str {
    match risk {
        Risk::Low => "low",
        Risk::Medium => "medium: work may be delayed, refused or interrupted",
        Risk::High => "high: processes, data or the machine itself may be lost",
    }
}

/// A value to draw: an empty one is made visible.
fn value(value: &str) -> &str {
    if value.is_empty() { "(empty)" } else { value }
}
