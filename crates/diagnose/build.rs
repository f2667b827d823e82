//! Embeds the rules: writes a list of every file in `rules/` for `include_str!`.

use std::path::Path;
use std::{env, fs};

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rules").canonicalize().expect("rules/ is there");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("rules/ can be read")
        .map(|entry| entry.expect("rules/ can be listed").path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.sort();
    let entries: Vec<String> = files
        .iter()
        .map(|path| format!("({:?}, include_str!({path:?}))", path.file_name().expect("a file has a name")))
        .collect();
    let list = format!("&[\n{}\n]\n", entries.join(",\n"));
    fs::write(Path::new(&env::var("OUT_DIR").expect("cargo sets OUT_DIR")).join("rules.rs"), list)
        .expect("OUT_DIR can be written");
}
