//! Numbers for the screen.
//!
//! Numbers and units are joined by no-break spaces, which the canvas draws as spaces without breaking lines there.

use crate::canvas::NO_BREAK;
use whyslow_documents::diagnosis::{Evidence, Reading};
use whyslow_model::human;

/// Formats the value of evidence, with its unit.
pub(crate) fn evidence(evidence: &Evidence) -> String {
    match &evidence.value {
        Reading::Text(words) => words.clone(),
        Reading::Number(number) => unbroken(human::quantity(*number, &evidence.unit)),
    }
}

pub(crate) fn percent(ratio: f64) -> String {
    unbroken(human::percent(ratio))
}

/// Formats a share as a whole percentage; small shares are not shown as zero.
pub(crate) fn share(ratio: f64) -> String {
    unbroken(human::share(ratio))
}

pub(crate) fn bytes(bytes: u64) -> String {
    unbroken(human::bytes(bytes))
}

pub(crate) fn quantity(number: f64, unit: &str) -> String {
    unbroken(human::quantity(number, unit))
}

/// Formats a time in seconds, in a suitable unit.
pub(crate) fn seconds(seconds: f64) -> String {
    unbroken(human::quantity(seconds, "s"))
}

/// Keeps text on one line.
fn unbroken(text: String) -> String {
    text.replace(' ', &NO_BREAK.to_string())
}
