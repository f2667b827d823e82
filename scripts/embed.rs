//! Embeds files in a program, for build scripts. Included with `#[path]`, because it belongs to no crate.

use std::fs;
use std::path::{Path, PathBuf};

/// Writes a constant expression of names and texts to `out`, for each entry of the folder and its subfolders for which `text_of`
/// returns a file. A name is the path within the folder: `cpu/saturated.toml`.
///
/// The folder is relative to the package, where cargo runs its build script.
pub fn embed(folder: &str, out: &Path, text_of: impl Fn(&Path) -> Option<PathBuf>) {
    let folder = Path::new(folder).canonicalize().unwrap_or_else(|e| panic!("{folder}: {e}"));
    let mut texts = Vec::new();
    collect(&folder, &text_of, &mut texts);
    let item = |(entry, text): &(PathBuf, PathBuf)| {
        let name = entry.strip_prefix(&folder).expect("an entry is in its folder");
        format!("({name:?}, include_str!({text:?}))")
    };
    let list: Vec<String> = texts.iter().map(item).collect();
    fs::write(out, format!("&[\n{}\n]\n", list.join(",\n"))).expect("OUT_DIR can be written");
}

/// Adds each entry in the folder that has a text, and the file with the text, sorted by name.
fn collect(folder: &Path, text_of: &impl Fn(&Path) -> Option<PathBuf>, texts: &mut Vec<(PathBuf, PathBuf)>) {
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = fs::read_dir(folder).expect("the folder can be read");
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.expect("the folder can be listed").path()).collect();
    entries.sort();
    for entry in entries {
        match text_of(&entry) {
            Some(text) => {
                println!("cargo::rerun-if-changed={}", text.display());
                texts.push((entry, text));
            }
            None if entry.is_dir() => collect(&entry, text_of, texts),
            None => {}
        }
    }
}

/// Returns the entry itself if it is a TOML file.
pub fn toml(entry: &Path) -> Option<PathBuf> {
    entry.extension().is_some_and(|e| e == "toml").then(|| entry.to_owned())
}
