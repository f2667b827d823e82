//! Text that clap prints: what follows the options in `--help`, and errors.

/// A section after the options of a program's help and manual page: title and text, whose line breaks are kept.
pub type HelpSection = (&'static str, &'static str);

/// Formats the sections for the end of `--help`.
pub fn after_help(sections: &[HelpSection]) -> String {
    let section = |(title, text): &HelpSection| format!("{title}:\n  {}", text.replace('\n', "\n  "));
    sections.iter().map(section).collect::<Vec<_>>().join("\n\n")
}

/// Returns clap's message on one line, without the usage.
pub fn in_one_line(message: &str) -> String {
    let message = message.split("\n\n").next().unwrap_or_default();
    message.trim_start_matches("error: ").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_indented() {
        assert_eq!(after_help(&[("A", "a\nb"), ("B", "c")]), "A:\n  a\n  b\n\nB:\n  c");
    }

    #[test]
    fn an_error_is_one_line() {
        let error = "error: invalid value 'x' for '--color'\n  [possible values: auto]\n\nFor more information";
        assert_eq!(in_one_line(error), "invalid value 'x' for '--color' [possible values: auto]");
    }
}
