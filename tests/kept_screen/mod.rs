//! Screens in `docs/screens/`, each with the command that prints it.

// Each test program only uses a part of this.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/screens").join(format!("{name}.txt"))
}

/// Compares a screen with the stored one.
pub fn assert_screen(name: &str, command: &str, drawn: &str) {
    assert_kept(&path(name), &format!("$ {command}\n{drawn}"));
}

/// Compares a text with a file; with `WHYSLOW_UPDATE_SCREENS`, writes it to the file first.
pub fn assert_kept(path: &Path, drawn: &str) {
    if std::env::var_os("WHYSLOW_UPDATE_SCREENS").is_some() {
        fs::write(path, drawn).expect("the screen is written");
    }
    let kept = fs::read_to_string(path).unwrap_or_default();
    assert_eq!(drawn, kept, "{} differs; drawn:\n{drawn}", path.display());
}

/// Returns the stored screen without its command.
pub fn screen(name: &str) -> String {
    let kept = fs::read_to_string(path(name)).expect("a screen");
    kept.split_once('\n').expect("a command and its screen").1.to_owned()
}
