//! Files of rules, for tests that read them as they are.

use std::fs;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Returns the files of all rules, those of causes in subfolders.
///
/// # Panics
/// Panics if the folder cannot be read.
pub fn rule_files() -> Vec<PathBuf> {
    let mut files = files_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rules"));
    files.sort();
    files
}

/// Returns the files of causes: `rules/SUBJECT/CAUSE.toml`.
///
/// # Panics
/// Panics if the folder cannot be read, or has few causes.
pub fn cause_files() -> Vec<PathBuf> {
    let is_cause = |path: &PathBuf| path.parent().is_some_and(|folder| !folder.ends_with("rules"));
    let causes: Vec<PathBuf> = rule_files().into_iter().filter(is_cause).collect();
    assert!(causes.len() > 100, "only {} causes", causes.len());
    causes
}

/// Returns the actions that causes recommend, their variants included, with the file of each.
///
/// # Panics
/// Panics if a file is not TOML.
pub fn recommended_actions() -> Vec<(PathBuf, Value)> {
    let list = |of: &Table, key: &str| of.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let of_file = |path: PathBuf| {
        let cause: Table = fs::read_to_string(&path).expect("a text").parse().expect("TOML");
        let variants = list(&cause, "variant");
        let all = std::iter::once(&cause).chain(variants.iter().filter_map(Value::as_table));
        all.flat_map(|of| list(of, "actions")).map(|action| (path.clone(), action)).collect::<Vec<_>>()
    };
    cause_files().into_iter().flat_map(of_file).collect()
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}
