//! I/O errors in words: without the number that `std::io::Error` appends, which tells readers nothing.

use std::borrow::Cow;

/// `(os error 2)`, with the blank before it.
const OPENING: &str = " (os error ";

/// A message without the error numbers in it.
pub fn without_numbers(message: &str) -> Cow<'_, str> {
    let mut parts = message.split(OPENING);
    let first = parts.next().unwrap_or_default();
    if first.len() == message.len() {
        return Cow::Borrowed(message);
    }
    let rest = parts.map(|part| match part.trim_start_matches('-').trim_start_matches(|c: char| c.is_ascii_digit()) {
        rest if rest.starts_with(')') => rest[1..].to_owned(),
        _ => format!("{OPENING}{part}"),
    });
    Cow::Owned(std::iter::once(first.to_owned()).chain(rest).collect())
}

/// An error in words.
pub fn words(error: &std::io::Error) -> String {
    without_numbers(&error.to_string()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn an_error_has_words_and_no_number() {
        assert_eq!(words(&io::Error::from_raw_os_error(2)), "No such file or directory");
        assert_eq!(words(&io::Error::other("it is a disk")), "it is a disk");
    }

    #[test]
    fn every_number_of_a_message_goes_and_nothing_else() {
        let error = io::Error::from_raw_os_error(13);
        assert_eq!(without_numbers(&format!("a: {error}; b: {error}.")), "a: Permission denied; b: Permission denied.");
        for text in ["", "x (os error", "x (os error y)", "(os error 1)"] {
            assert_eq!(without_numbers(text), text);
        }
    }
}
