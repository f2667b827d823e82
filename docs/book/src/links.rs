//! Links of Markdown documents.

pub use crate::markdown::{anchor, headings};
use std::path::{Component, Path, PathBuf};

/// A link to a file, or within the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link<'a> {
    /// The text, as Markdown.
    pub text: &'a str,
    /// The path, relative to the document's folder; empty for a link within the document.
    pub target: &'a str,
    /// The anchor, if it has one.
    pub anchor: Option<&'a str>,
    /// Start and end in the document.
    start: usize,
    end: usize,
}

/// Finds the links of a document, except those to other hosts. Ignores code.
pub fn links(text: &str) -> Vec<Link<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    let mut is_fenced = false;
    for line in text.split_inclusive('\n') {
        let is_indented = line.starts_with("    ") && !line.trim_start().starts_with(['-', '*']);
        is_fenced ^= line.starts_with("```");
        if !is_fenced && !is_indented {
            found.extend(links_of(line, at));
        }
        at += line.len();
    }
    found
}

fn links_of(line: &str, at: usize) -> Vec<Link<'_>> {
    let mut found = Vec::new();
    for (middle, _) in line.match_indices("](") {
        let (Some(start), Some(length)) = (line[..middle].rfind('['), line[middle..].find(')')) else { continue };
        // An odd number of backquotes before it means that it is in a code span.
        if line[..start].matches('`').count() % 2 == 1 {
            continue;
        }
        let target = &line[middle + 2..middle + length];
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (target, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
        let (start, end) = (at + start, at + middle + length + 1);
        found.push(Link { text: &line[start - at + 1..middle], target, anchor, start, end });
    }
    found
}

/// Resolves the target of a link in a document to a path without `..`, as far as possible.
pub fn destination(document: &Path, target: &str) -> PathBuf {
    if target.is_empty() {
        return document.to_owned();
    }
    let mut path = PathBuf::new();
    for part in document.parent().unwrap_or(Path::new("")).join(target).components() {
        match part {
            Component::ParentDir if path.file_name().is_some() => drop(path.pop()),
            part => path.push(part),
        }
    }
    path
}

/// Keeps only the links to what is in the manual. Replaces others with their text.
pub(crate) fn only_to(text: &str, document: &Path, is_in_manual: impl Fn(&Path) -> bool) -> String {
    let mut kept = String::new();
    let mut at = 0;
    for link in links(text) {
        if !is_in_manual(&destination(document, link.target)) {
            kept.push_str(&text[at..link.start]);
            kept.push_str(link.text);
            at = link.end;
        }
    }
    kept + &text[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_code_and_to_other_hosts_are_none() {
        let text =
            "See [a](a.md#b) and [c](https://c).\n\n    [x](x.md)\n\n```\n[y](y.md)\n```\n`[z](z.md)`, [d](#e)\n";
        let found: Vec<(&str, &str, Option<&str>)> =
            links(text).iter().map(|link| (link.text, link.target, link.anchor)).collect();
        assert_eq!(found, [("a", "a.md", Some("b")), ("d", "", Some("e"))]);
    }

    #[test]
    fn a_link_to_a_file_that_is_no_page_becomes_its_text() {
        let is_page = |path: &Path| path == Path::new("docs/a.md") || path == Path::new("README.md");
        let text = only_to("[a](a.md), [b](../src/b.rs), [c](../README.md#d)", Path::new("docs/x.md"), is_page);
        assert_eq!(text, "[a](a.md), b, [c](../README.md#d)");
    }
}
