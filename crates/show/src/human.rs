//! Numbers for the screen.
//!
//! Between a number and its unit stands a no-break space, which the canvas draws as a space and does not break at.

use crate::canvas::NO_BREAK;
use whyslow_model::diagnosis::{Evidence, Reading};
use whyslow_model::human;

/// An evidence's value in human units, unit included.
pub(crate) fn evidence(evidence: &Evidence) -> String {
    match &evidence.value {
        Reading::Text(words) => words.clone(),
        Reading::Number(number) => unbroken(human::quantity(*number, &evidence.unit)),
    }
}

/// A ratio as a percentage.
pub(crate) fn percent(ratio: f64) -> String {
    unbroken(human::percent(ratio))
}

/// A share of a whole as a whole percentage; little is not nothing.
pub(crate) fn share(ratio: f64) -> String {
    unbroken(human::share(ratio))
}

/// A number of bytes.
pub(crate) fn bytes(bytes: u64) -> String {
    unbroken(human::bytes(bytes))
}

/// A number in a base unit.
pub(crate) fn quantity(number: f64, unit: &str) -> String {
    unbroken(human::quantity(number, unit))
}

/// A time in seconds, in the unit it is spoken of.
pub(crate) fn seconds(seconds: f64) -> String {
    unbroken(human::quantity(seconds, "s"))
}

/// What stays on one line.
fn unbroken(text: String) -> String {
    text.replace(' ', &NO_BREAK.to_string())
}
