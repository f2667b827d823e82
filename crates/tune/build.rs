//! Embeds the catalogue and the profiles: writes lists of their files for `include_str!`.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    embed(&here.join("tunables"), &out.join("tunables.rs"));
    embed_profiles(&here.join("../../profiles").canonicalize().expect("profiles/ is there"), &out.join("profiles.rs"));
}

/// Writes the names of a folder's folders, and the text of the tuned.conf in each.
fn embed_profiles(folder: &Path, out: &Path) {
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut folders: Vec<_> = fs::read_dir(folder)
        .expect("profiles/ can be read")
        .map(|entry| entry.expect("profiles/ can be listed").path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    let entry = |path: &PathBuf| {
        let file = path.join("tuned.conf");
        println!("cargo::rerun-if-changed={}", file.display());
        format!("({:?}, include_str!({file:?}))", path.file_name().expect("a folder has a name"))
    };
    let entries: Vec<String> = folders.iter().map(entry).collect();
    fs::write(out, format!("&[\n{}\n]\n", entries.join(",\n"))).expect("OUT_DIR can be written");
}

/// Writes the names and texts of a folder's TOML files as a constant expression.
fn embed(folder: &Path, out: &Path) {
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("the folder can be read")
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.sort();
    let entries: Vec<String> = files
        .iter()
        .map(|path| format!("({:?}, include_str!({path:?}))", path.file_name().expect("a file has a name")))
        .collect();
    fs::write(out, format!("&[\n{}\n]\n", entries.join(",\n"))).expect("OUT_DIR can be written");
}
