//! For build scripts: puts the texts of files into a program. Taken in with `#[path]`, for it is no crate's own.

use std::fs;
use std::path::{Path, PathBuf};

/// Writes a constant expression of names and texts to `out`: of each entry of the folder for which `text_of` names a file.
///
/// The folder is relative to the package, where cargo runs its build script.
pub fn embed(folder: &str, out: &Path, text_of: impl Fn(&Path) -> Option<PathBuf>) {
    let folder = Path::new(folder).canonicalize().unwrap_or_else(|e| panic!("{folder}: {e}"));
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut entries: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("the folder can be read")
        .map(|entry| entry.expect("the folder can be listed").path())
        .collect();
    entries.sort();
    let list: Vec<String> = entries
        .iter()
        .filter_map(|entry| {
            let file = text_of(entry)?;
            println!("cargo::rerun-if-changed={}", file.display());
            Some(format!("({:?}, include_str!({file:?}))", entry.file_name().expect("an entry has a name")))
        })
        .collect();
    fs::write(out, format!("&[\n{}\n]\n", list.join(",\n"))).expect("OUT_DIR can be written");
}

/// The files that are TOML, by their own names.
pub fn toml(entry: &Path) -> Option<PathBuf> {
    entry.extension().is_some_and(|e| e == "toml").then(|| entry.to_owned())
}
