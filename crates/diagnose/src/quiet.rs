//! Whether a window leaves anything to look for.

use crate::document::is_felt;
use crate::facts::Facts;
use crate::judge::judge;
use crate::rulebook::RuleBook;
use whyslow_model::window::Window;

/// Whether no rule holds whose cause anybody would feel. Tables of processes and threads may be missing from the window.
pub fn nothing_is_felt(window: &Window, book: &RuleBook) -> bool {
    let (found, _) = judge(book.all(), &Facts::of(window));
    !found.iter().any(|judged| is_felt(&judged.finding))
}
