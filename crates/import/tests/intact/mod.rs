//! The captures among the fixtures.

use std::path::Path;

/// The name and the text of every capture.
pub fn captures() -> Vec<(String, String)> {
    fn collect(folder: &Path, into: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, into);
            } else if path.extension().is_some_and(|e| e == "txt") {
                into.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut all = Vec::new();
    collect(&folder, &mut all);
    for (name, _) in &mut all {
        *name = name.trim_start_matches(&format!("{}/", folder.display())).to_owned();
    }
    all.sort();
    all
}
