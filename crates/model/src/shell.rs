//! Words for a POSIX shell.

use std::borrow::Cow;

/// A word as a shell takes it literally (XCU 2.2.2, single quotes), whatever is in it.
pub fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_gets_one_word() {
        assert_eq!(quoted("/dev/sda1"), "/dev/sda1");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("$(reboot)"), "'$(reboot)'");
        assert_eq!(quoted("it's; rm -rf"), r"'it'\''s; rm -rf'");
    }

    #[test]
    fn a_real_shell_gives_the_word_back() {
        for word in ["a b", "$HOME", "`id`", "x'y\"z", "new\nline", "*", "~", "-n", "#c", "a;b|c&d"] {
            let script = format!("printf %s {}", quoted(word));
            let out = std::process::Command::new("sh").args(["-c", &script]).output().expect("sh runs");
            assert_eq!(String::from_utf8_lossy(&out.stdout), word, "{script}");
        }
    }
}
