//! Variables (`${name}`) and functions (`${f:name:argument:…}`, which can be nested) in values. A backslash before the dollar
//! keeps them unexpanded.

use super::functions::Functions;
use crate::machine::Machine;
use std::collections::HashMap;

/// Maximum length of a value, whatever refers to what.
const LONGEST: usize = 64 * 1024;

/// The variables and functions of a profile.
pub(super) struct Variables<'a> {
    functions: Functions<'a>,
    variables: HashMap<String, String>,
}

impl<'a> Variables<'a> {
    /// Creates an empty set of variables; `may_run` permits functions to run commands.
    pub(super) fn new(machine: &'a Machine, may_run: bool) -> Self {
        Self { functions: Functions { machine, may_run }, variables: HashMap::new() }
    }

    /// Defines a variable and expands its value now.
    pub(super) fn define(&mut self, name: &str, value: &str) -> Result<(), String> {
        if name.is_empty() || !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
            return Err(format!("'{name}' is not a valid variable name"));
        }
        let value = self.expand(value)?;
        self.variables.insert(name.to_owned(), value);
        Ok(())
    }

    /// Expands variables and functions in a value. Leaves undefined ones unchanged.
    ///
    /// # Errors
    /// Fails if a function refuses: an assertion that fails, a command that must not run.
    pub(super) fn expand(&self, value: &str) -> Result<String, String> {
        if !value.contains("${") {
            return Ok(value.to_owned());
        }
        if value.len() > LONGEST {
            return Err(format!("it is longer than {} KiB, and refers to variables or functions", LONGEST >> 10));
        }
        let text = self.called(&self.put_in(value))?;
        Ok(text.replace("\\${", "${"))
    }

    /// Substitutes variables; escaped ones lose a backslash.
    fn put_in(&self, value: &str) -> String {
        let mut out = String::new();
        let mut rest = value;
        while let Some(at) = rest.find("${") {
            let (before, from) = rest.split_at(at);
            out.push_str(before);
            let end = from[2..].find(|c: char| !c.is_alphanumeric() && c != '_').map(|end| end + 2);
            let name = end.filter(|end| from[*end..].starts_with('}')).map(|end| &from[2..end]);
            match name.and_then(|name| Some((name, self.variables.get(name)?))) {
                Some((name, text)) if !before.ends_with('\\') && out.len() + text.len() < LONGEST => {
                    out.push_str(text);
                    rest = &from[name.len() + 3..];
                }
                _ => {
                    out.push_str("${");
                    rest = &from[2..];
                }
            }
        }
        out + rest
    }

    /// Calls functions, from the innermost outwards.
    fn called(&self, value: &str) -> Result<String, String> {
        let mut text = value.to_owned();
        let mut opened: Vec<(usize, bool)> = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            if rest.starts_with("${") {
                opened.push((at, text[..at].ends_with('\\')));
                at += 2;
            } else if rest.starts_with('}') {
                let call = opened.pop().filter(|(_, escaped)| !escaped);
                match call.map(|(from, _)| Ok::<_, String>((from, self.call(&text[from..at])?))).transpose()? {
                    Some((from, Some(result))) if text.len() + result.len() < LONGEST => {
                        text.replace_range(from..=at, &result);
                        at = from + result.len();
                    }
                    _ => at += 1,
                }
            } else {
                at += rest.chars().next().map_or(1, char::len_utf8);
            }
        }
        Ok(text)
    }

    /// Calls `${f:name:argument:…`. Returns `None` if the text is not a call, or the function has no result.
    fn call(&self, text: &str) -> Result<Option<String>, String> {
        let Some(call) = text.strip_prefix("${f:") else { return Ok(None) };
        let mut words = arguments(call).into_iter();
        let name = words.next().unwrap_or_default();
        self.functions.call(&name, &words.collect::<Vec<_>>())
    }
}

/// Splits at colons; `\:` is a literal colon.
fn arguments(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        let last = parts.last_mut().expect("it is predefined");
        match c {
            ':' if escaped => {
                last.pop();
                last.push(':');
            }
            ':' => parts.push(String::new()),
            c => last.push(c),
        }
        escaped = c == '\\';
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn expanded(text: &str) -> Result<String, String> {
        let machine = Machine::live();
        let mut variables = Variables::new(&machine, false);
        variables.define("a", "1-3").unwrap();
        variables.define("b", "x${a}y").unwrap();
        variables.expand(text)
    }

    #[test]
    fn variables_and_functions_are_put_in() {
        for (text, result) in [
            ("${b}", "x1-3y"),
            ("${unknown} ${a}", "${unknown} 1-3"),
            ("\\${a}", "${a}"),
            ("${f:strip: a : b }", "a  b"),
            ("${f:kb2s:${f:s2kb:16}}", "16"),
            ("${f:cpulist_unpack:${a}}", "1,2,3"),
            ("${f:regex_search_ternary:${a}:[0-9]:yes:no}", "yes"),
            ("${f:strip:a\\:b}", "a:b"),
            ("${f:nosuch:1}", "${f:nosuch:1}"),
            ("a}b${", "a}b${"),
        ] {
            assert_eq!(expanded(text).as_deref(), Ok(result), "{text}");
        }
    }

    #[test]
    fn what_refuses_is_told() {
        assert!(expanded("${f:exec:mktemp:-d}").unwrap_err().contains("--allow-commands"));
        assert!(expanded("${f:assertion:cores are set:a:b}").unwrap_err().contains("cores are set"));
        assert_eq!(expanded("${f:assertion:x:a:a}").as_deref(), Ok("${f:assertion:x:a:a}"));
    }

    proptest! {
        #[test]
        fn anything_is_survived(text in "[${}:fab\\\\0-9é]{0,40}") {
            let _ = expanded(&text);
        }
    }
}
