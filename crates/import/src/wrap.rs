//! Lines that a mail program broke. It breaks a line at the last space before its column limit, so the first word of the rest
//! would not have fitted. This distinguishes a broken line from two lines.

use crate::margin::indentation;

/// Range of the limits of mail programs: RFC 1855 asks for less than 65 columns, RFC 3676 for at most 78.
const NARROWEST: usize = 60;
const WIDEST: usize = 82;
/// Columns of quotation marks and indentation that may have been removed from some of the lines.
const REMOVED: usize = 8;
/// Maximum number of spaces between two columns, which are lost where a line is broken.
const MOST_SPACES: usize = 8;
/// Maximum number of lines that one line is broken into.
pub const MOST_PIECES: usize = 6;

/// Widest line of a text, which is a lower bound of the limit.
#[derive(Clone, Copy, Default)]
pub struct Wrap {
    widest: usize,
}

impl Wrap {
    /// Estimates the limit from these lines.
    pub fn from_lines<'t>(lines: impl Iterator<Item = &'t str>) -> Self {
        let mut wrap = Self::default();
        lines.for_each(|line| wrap.add(line));
        wrap
    }

    /// Adds a line. It is not longer than the limit, unless it has no space at which it could be broken.
    pub fn add(&mut self, text: &str) {
        if text.len() > self.widest && text.trim_start().contains(' ') {
            self.widest = self.widest.max(columns(text));
        }
    }

    /// Returns true if a line of this many columns may have been broken, depending on what follows.
    pub fn may_break(&self, columns: usize) -> bool {
        columns <= WIDEST && self.widest <= WIDEST
    }

    /// Returns true if a line of this many columns is as long as it can be, so that the next one is its rest. Mail programs do
    /// not indent the rest, as the kernel does with further lines of one message; one space protects a `>` (RFC 3676).
    pub fn breaks(&self, columns: usize, next: &str) -> bool {
        if !self.may_break(columns) || is_indented(next) {
            return false;
        }
        let unbroken = columns + 1 + first_word(next);
        unbroken > NARROWEST.max(self.widest.saturating_sub(REMOVED))
    }
}

/// Returns the number of columns of a line.
pub fn columns(text: &str) -> usize {
    text.chars().count()
}

/// Part of a line: how often it is quoted, and its columns including the quotation marks.
#[derive(Clone, Copy)]
pub struct Piece {
    pub quotes: usize,
    pub columns: usize,
}

/// Returns true if a line is the rest of a quoted line that was broken after quoting: only the first piece kept all the marks.
/// `pieces` are the pieces before it.
pub fn is_broken_off(pieces: &[Piece], next: Piece, text: &str) -> bool {
    let is_less_quoted = pieces.first().is_some_and(|first| next.quotes < first.quotes);
    if !is_less_quoted || pieces.len() >= MOST_PIECES || text.is_empty() || is_indented(text) {
        return false;
    }
    // In a text that was quoted and wrapped twice, pieces with fewer marks were broken off later.
    let begin = pieces.iter().rposition(|piece| piece.quotes >= next.quotes).unwrap_or(0);
    let line: usize = pieces[begin..].iter().map(|piece| piece.columns + 1).sum();
    let widest = pieces.iter().map(|piece| piece.columns).max().unwrap_or(0);
    widest <= WIDEST + REMOVED && line + MOST_SPACES + first_word(text) > NARROWEST
}

fn is_indented(text: &str) -> bool {
    indentation(text) > 1 || text.starts_with('\t')
}

/// Returns the number of columns of the first word.
fn first_word(text: &str) -> usize {
    text.split_whitespace().next().map_or(0, columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_broken_if_the_next_word_would_not_have_fitted() {
        let wrap =
            Wrap::from_lines(["[    1.000000] sd 0:0:0:0: [sda] tag#4 FAILED Result: hostbyte=DID_OK"].into_iter());
        assert_eq!(wrap.widest, 69);
        assert!(wrap.breaks(69, "driverbyte=DRIVER_OK"));
        assert!(wrap.breaks(60, "driverbyte=DRIVER_OK"), "a word of 20 columns makes it 81");
        assert!(!wrap.breaks(40, "driverbyte=DRIVER_OK"), "it would have had 61 columns");
        assert!(!wrap.breaks(69, "         res 41/40"), "the kernel's own second line");
        assert!(!wrap.breaks(83, "x"));
    }

    #[test]
    fn a_text_with_longer_lines_was_not_wrapped() {
        let long = format!("[    2.000000] {}", "word ".repeat(20));
        assert!(!Wrap::from_lines(["[    1.000000] x", &long].into_iter()).breaks(69, "driverbyte=DRIVER_OK"));
        let unbreakable = "x".repeat(120);
        assert!(Wrap::from_lines(["[    1.000000] x", &unbreakable].into_iter()).breaks(69, "driverbyte=DRIVER_OK"));
    }

    #[test]
    fn what_was_broken_off_has_fewer_marks_of_quotation() {
        let piece = |quotes, columns| Piece { quotes, columns };
        assert!(is_broken_off(&[piece(1, 70)], piece(0, 20), "12345.00 1.00"));
        assert!(!is_broken_off(&[piece(1, 70)], piece(1, 22), "12345.00 1.00"), "a line of its own");
        assert!(!is_broken_off(&[piece(1, 30)], piece(0, 20), "12345.00 1.00"), "it would have fitted");
        assert!(!is_broken_off(&[piece(1, 70)], piece(0, 0), ""));
        assert!(!is_broken_off(&[piece(1, 70), piece(0, 13)], piece(0, 30), "Thanks"), "the rest was short");
        assert!(is_broken_off(&[piece(2, 70), piece(0, 4)], piece(1, 30), "1.00"), "the rest of the first rest");
    }
}
