//! Helpers for the tests of the formats.

#[path = "../../../tests/mail.rs"]
mod mail;

use crate::{Capture, Input, Refusal, read};
pub use mail::wrapped;
use whyslow_model::catalogue::Family;
use whyslow_model::window::Window;

/// Reads a text as the file `x`.
pub fn read_text(text: &str) -> Result<Vec<Capture>, Refusal> {
    read(vec![Input { name: "x".into(), reader: Box::new(text.as_bytes()) }], true)
}

/// Returns the only Window of a text.
pub fn window_of(text: &str) -> Window {
    let mut captures = read_text(text).expect("the text can be read");
    assert_eq!(captures.len(), 1, "one capture");
    captures.remove(0).window
}

/// Returns the only row of a family in a text.
pub fn row_of<F: Family>(text: &str) -> F {
    window_of(text).the::<F>().expect("the text has a row").clone()
}

/// Returns the reason why a text is refused.
pub fn refusal_of(text: &str) -> Refusal {
    match read_text(text) {
        Ok(_) => panic!("the text should have been refused"),
        Err(refusal) => refusal,
    }
}

/// Reads a capture from the fixtures.
pub fn fixture(name: &str) -> String {
    let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}
