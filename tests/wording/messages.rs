//! All sentences that users read, as docs/messages.md, so that they can be read in one sitting.
//! WHYSLOW_UPDATE_DOCS=1 writes the file.

use crate::{all_help, files, root, script, source};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use toml::{Table, Value};
use whyslow_testing::{cause_files, rule_files};

const INTRODUCTION: &str = "\
# Messages

All sentences that whyslow shows: rules, settings, help, and the texts in the sources of its crates and of the page. A sentence that occurs in \
several places is listed once, where it occurs first. `{…}` stands for a value, and `{…|request|requests}` for a word that agrees \
with it. The help of `whyslow-fleet` is listed with its crate. Texts of sources are recognized by their words, so that some of \
those listed are not sentences, and words that others write (kernel messages, headers of other tools) are left out where they are \
many.

Written by `WHYSLOW_UPDATE_DOCS=1 cargo test -p whyslow --test wording messages`. To change a sentence, change its source.
";

/// Keys of rules and tunables whose values are text. The values of all others are ids, names, expressions, commands and sources.
const TEXT_KEYS: [&str; 25] = [
    "AIX",
    "FreeBSD",
    "HP-UX",
    "Solaris",
    "because",
    "default",
    "effect",
    "expect",
    "expected",
    "how_bad",
    "if",
    "means",
    "no",
    "of",
    "otherwise",
    "stalls",
    "summary",
    "summary_unattributed",
    "text",
    "then",
    "unattributed",
    "unit",
    "used_for",
    "values",
    "what",
];

/// Crates whose text no user reads.
const WITHOUT_MESSAGES: [&str; 1] = ["testing"];

/// The document under construction.
struct Messages {
    text: String,
    seen: BTreeSet<String>,
}

impl Messages {
    fn section(&mut self, heading: &str, sentences: impl IntoIterator<Item = String>) {
        let new: Vec<String> = sentences.into_iter().filter(|text| self.seen.insert(text.clone())).collect();
        if !new.is_empty() {
            let _ = writeln!(self.text, "\n{heading}\n");
            for sentence in new {
                let _ = writeln!(self.text, "- {}", markdown(&sentence));
            }
        }
    }
}

/// Escapes what Markdown would not show as it is.
fn markdown(text: &str) -> String {
    text.replace('<', "\\<").replace('*', "\\*").replace("](", "]\\(")
}

fn document() -> String {
    let mut messages = Messages { text: INTRODUCTION.to_owned(), seen: BTreeSet::new() };
    let stem = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    messages.text.push_str("\n## Rules\n");
    let causes = cause_files();
    for path in &causes {
        let subject = stem(path.parent().expect("a folder"));
        messages.section(&format!("### {subject}.{}", stem(path)), texts(path));
    }
    for path in rule_files().iter().filter(|path| !causes.contains(path)) {
        messages.section(&format!("### {}", stem(path)), texts(path));
    }
    messages.text.push_str("\n## Settings\n");
    for path in files("crates/tune/tunables", "toml") {
        messages.section(&format!("### {}", stem(&path)), texts(&path));
    }
    messages.text.push_str("\n## Help\n");
    for (command, help) in all_help() {
        messages.section(&format!("### {}", ["whyslow", &command].join(" ").trim_end()), entries(&help));
    }
    for folder in crates() {
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        let _ = write!(messages.text, "\n## Crate {name}\n");
        for (file, sentences) in source::sentences_of(&folder) {
            messages.section(&format!("### {name}: {file}"), sentences);
        }
    }
    messages.text.push_str("\n## Page\n");
    for path in files("web", "js") {
        let script = fs::read_to_string(&path).expect("a script");
        messages.section(&format!("### {}", stem(&path)), script::sentences_of(&script));
    }
    messages.text
}

fn crates() -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(root().join("crates")).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut crates: Vec<_> = entries.filter(|path| !WITHOUT_MESSAGES.iter().any(|name| path.ends_with(name))).collect();
    crates.sort();
    crates
}

/// Returns the texts of a TOML file that read like English.
fn texts(path: &Path) -> Vec<String> {
    let file: Table = fs::read_to_string(path).expect("a text").parse().expect("TOML");
    let mut found = Vec::new();
    for (key, value) in &file {
        add_texts(key, value, &mut found);
    }
    found
}

fn add_texts(key: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) if TEXT_KEYS.contains(&key) && text.contains(' ') => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| add_texts(key, item, found)),
        Value::Table(table) => table.iter().for_each(|(key, value)| add_texts(key, value, found)),
        _ => {}
    }
}

/// Returns the paragraphs and descriptions of a help text, each in one line, without names of options and headings.
fn entries(help: &str) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    let mut continues = false;
    for line in help.lines() {
        let indent = line.len() - line.trim_start().len();
        let text = line.trim();
        // Two spaces separate an option from its description, which may also begin on the next line.
        let described = text.split_once("  ").filter(|_| indent < 8).map(|(_, description)| description.trim());
        let is_name = indent < 8 && text.starts_with('-');
        match described {
            Some(description) => entries.push(description.to_owned()),
            None if is_name => entries.push(String::new()),
            None if continues && indent != 2 => {
                let last = entries.last_mut().expect("an entry before it");
                *last = format!("{last} {text}").trim().to_owned();
            }
            None => entries.push(text.to_owned()),
        }
        continues = !text.is_empty() && (indent > 0 || !text.ends_with(':'));
    }
    entries.retain(|entry| source::is_sentence(entry) && !entry.starts_with("Usage: "));
    entries
}

#[test]
fn messages_in_the_documentation_are_up_to_date() {
    let path = root().join("docs/messages.md");
    let expected = document();
    if std::env::var_os("WHYSLOW_UPDATE_DOCS").is_some() {
        fs::write(path, expected).expect("docs can be written");
        return;
    }
    let kept = fs::read_to_string(path).unwrap_or_default();
    let changed = kept.lines().zip(expected.lines()).find(|(kept, expected)| kept != expected);
    assert!(
        kept == expected,
        "docs/messages.md is not up to date: WHYSLOW_UPDATE_DOCS=1 cargo test -p whyslow --test wording messages\n{changed:?}"
    );
}

#[test]
fn help_becomes_one_line_for_each_description() {
    let help = "Do it, at\nonce\n\nOptions:\n  -y, --yes        Go ahead, even if\n                   it hurts\n      --no <WHAT>  Do not do it\n  --long <NAME>\n          A long name\n          for it\n";
    let expected = ["Do it, at once", "Go ahead, even if it hurts", "Do not do it", "A long name for it"];
    assert_eq!(entries(help), expected);
}
