//! Property tests for parsers: whatever a file holds, they return.

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};

/// Feeds `parse` any text at all, and `sample` (what the kernel writes) cut short and with a piece of it overwritten.
pub(crate) fn never_panics(sample: &str, parse: impl Fn(&str)) {
    let damaged =
        (any::<prop::sample::Index>(), any::<prop::sample::Index>(), "\\PC{0,4}").prop_map(|(cut, at, piece)| {
            let mut bytes = sample.as_bytes()[..cut.index(sample.len() + 1)].to_vec();
            let at = at.index(bytes.len() + 1);
            bytes.splice(at..(at + piece.len()).min(bytes.len()), piece.into_bytes());
            String::from_utf8_lossy(&bytes).into_owned()
        });
    let text = prop_oneof![".*", "([ -~]{0,20}[ :\\n\\t]?){0,40}", damaged];
    let outcome = TestRunner::default().run(&text, |text| {
        parse(&text);
        Ok::<(), TestCaseError>(())
    });
    assert_eq!(outcome, Ok(()));
}
