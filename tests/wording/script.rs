//! Finds the sentences in the scripts of the page: literals that read like English.

use crate::source::is_sentence;

/// Returns the sentences in a script. `{…}` stands for a value.
pub fn sentences_of(script: &str) -> Vec<String> {
    let mut literals = Literals { rest: script.chars().collect(), at: 0, found: Vec::new() };
    literals.code(None);
    let joined = literals.found.iter().map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    joined.filter(|text| is_sentence(text)).collect()
}

/// Scanner of a script.
struct Literals {
    rest: Vec<char>,
    at: usize,
    found: Vec<String>,
}

impl Literals {
    fn take(&mut self) -> Option<char> {
        self.at += 1;
        self.rest.get(self.at - 1).copied()
    }

    /// Scans code up to a closing brace, or to the end.
    fn code(&mut self, end: Option<char>) {
        let mut braces = 0;
        // What comes before decides whether a slash divides or begins a regular expression.
        let mut last = ';';
        while let Some(c) = self.take() {
            match c {
                '{' => braces += 1,
                '}' if braces == 0 && end == Some('}') => return,
                '}' => braces -= 1,
                '"' | '\'' | '`' => {
                    let text = self.literal(c);
                    self.found.push(text);
                }
                '/' => match self.rest.get(self.at) {
                    Some('/') => while self.take().is_some_and(|c| c != '\n') {},
                    Some('*') => {
                        while self.take().is_some_and(|c| c != '*' || self.rest.get(self.at) != Some(&'/')) {}
                        self.at += 1;
                    }
                    _ if "(,=:[!&|?{};+>".contains(last) => self.expression(),
                    _ => {}
                },
                _ => {}
            }
            if !c.is_whitespace() {
                last = c;
            }
        }
    }

    /// Returns the text up to the closing quote.
    fn literal(&mut self, quote: char) -> String {
        let mut text = String::new();
        while let Some(c) = self.take().filter(|c| *c != quote) {
            match c {
                '\\' => match self.take() {
                    Some('n') => text.push(' '),
                    Some('u') => {
                        let code: String = (0..4).filter_map(|_| self.take()).collect();
                        text.extend(u32::from_str_radix(&code, 16).ok().and_then(char::from_u32));
                    }
                    other => text.extend(other),
                },
                '$' if quote == '`' && self.rest.get(self.at) == Some(&'{') => {
                    self.at += 1;
                    self.code(Some('}'));
                    text.push_str("{…}");
                }
                c => text.push(c),
            }
        }
        text
    }

    /// Skips a regular expression.
    fn expression(&mut self) {
        let mut is_class = false;
        while let Some(c) = self.take() {
            match c {
                '\\' => self.at += 1,
                '[' => is_class = true,
                ']' => is_class = false,
                '/' if !is_class => return,
                '\n' => return,
                _ => {}
            }
        }
    }
}

#[test]
fn literals_of_scripts_are_found_within_one_another() {
    let script = r#"
        // "not a text of users"
        import { curves } from "./curves.js"; /* 'nor this one' */
        const waited = `waited for ${count > 1 ? `all of ${name}` : 'the first one'} since then`;
        const words = line.split(/["'\/]/).map((word) => word / 2); note("the page\u00a0is old");
    "#;
    let expected = ["all of {…}", "the first one", "waited for {…} since then", "the page is old"];
    assert_eq!(sentences_of(script), expected);
}
