//! JSON, indented for people.

use crate::escape::is_deceptive;
use serde::Serialize;
use std::fmt::Write;
use whyslow_documents::bench::BenchReport;
use whyslow_documents::diagnosis::Diagnosis;

/// Formats the diagnosis document, which docs/diagnosis.md describes.
pub fn diagnosis(diagnosis: &Diagnosis) -> String {
    pretty(diagnosis)
}

/// Formats a benchmark in fio's JSON format.
pub fn fio(report: &BenchReport) -> String {
    pretty(&crate::fio::fio(report))
}

/// Formats any document of the model as indented JSON with a newline at the end.
///
/// Characters that could deceive a reader at a terminal are written as `\uXXXX`; programs read the same text either way.
pub fn pretty<T: Serialize>(document: &T) -> String {
    safe(&serde_json::to_string_pretty(document).expect("the model's types have string keys only"))
}

/// Formats a document as JSON on one line.
pub fn line<T: Serialize>(document: &T) -> String {
    safe(&serde_json::to_string(document).expect("the model's types have string keys only"))
}

/// Formats the error of a request: `{"error": "…"}`.
pub fn error(why: &str) -> String {
    line(&serde_json::json!({ "error": why }))
}

fn safe(json: &str) -> String {
    let mut safe = String::with_capacity(json.len() + 1);
    for c in json.chars() {
        // Newlines here are layout: serde_json has escaped those in strings.
        if c != '\n' && is_deceptive(c) { push_escaped(&mut safe, c) } else { safe.push(c) }
    }
    safe.push('\n');
    safe
}

fn push_escaped(out: &mut String, c: char) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        write!(out, "\\u{unit:04x}").expect("a String takes all");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deceptive_characters_are_escaped_and_read_back() {
        let name = "a\u{202e}b\u{9b}\u{7f}\u{e0041}\n\x1b日本";
        let json = pretty(&name);
        assert_eq!(json, "\"a\\u202eb\\u009b\\u007f\\udb40\\udc41\\n\\u001b日本\"\n");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), name);
    }
}
