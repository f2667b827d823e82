//! Options of benchmarks as command lines spell them.

use crate::command::CommandLine;
use crate::number::{number, scaled};

/// Converts a number of bytes as options spell it (`4k`, `64K`, `1M`) to bytes.
pub fn size(text: &str) -> Option<String> {
    let text = text.trim_end_matches(['B', 'b']).trim_end_matches('i');
    scaled(text, 1024.0, 1.0).filter(|bytes| *bytes > 0.0).map(|bytes| format!("{bytes:.0}"))
}

/// Returns the value of a one-letter option (`-w 64K`, `-w64K`) or of its long form (`--window 64K`, `--window=64K`).
pub fn value<'c>(command: &'c CommandLine, letter: char, long: &str) -> Option<&'c str> {
    let mut words = command.arguments();
    while let Some(word) = words.next() {
        if let Some(rest) = word.strip_prefix("--") {
            match rest.split_once('=') {
                Some((name, value)) if name == long => return Some(value),
                None if rest == long => return words.next(),
                _ => {}
            }
        } else if let Some(rest) = word.strip_prefix('-').and_then(|word| word.strip_prefix(letter)) {
            return if rest.is_empty() { words.next() } else { Some(rest) };
        }
    }
    None
}

/// Returns true if an option without a value was given.
pub fn flag(command: &CommandLine, letter: char, long: &str) -> bool {
    let is_short =
        |word: &str| !word.starts_with("--") && word.strip_prefix('-').is_some_and(|rest| rest == letter.to_string());
    command.arguments().any(|word| is_short(word) || word.strip_prefix("--").is_some_and(|word| word == long))
}

/// Parses a count as an option spells it.
pub fn count(text: &str) -> Option<String> {
    number(text).map(|count| format!("{count:.0}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_behind_a_letter_or_a_name() {
        let command = CommandLine::at_prompt("$ iperf3 -c h -w64K -P 4 --bitrate=1G --length 8K -u").unwrap();
        let of = |letter, long| value(&command, letter, long);
        assert_eq!((of('w', "window"), of('P', "parallel")), (Some("64K"), Some("4")));
        assert_eq!((of('b', "bitrate"), of('l', "length"), of('M', "set-mss")), (Some("1G"), Some("8K"), None));
        assert!(flag(&command, 'u', "udp") && !flag(&command, 'R', "reverse"));
    }

    #[test]
    fn sizes_are_bytes() {
        assert_eq!(
            ["4k", "4096", "64K", "1M", "8KiB"].map(size),
            ["4096", "4096", "65536", "1048576", "8192"].map(|n| Some(n.to_owned()))
        );
        assert_eq!((size("x"), size("")), (None, None));
    }
}
