//! Screens as they are kept in `docs/screens/`.

use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/screens")
}

/// Compares a screen with the file of that name.
pub fn assert_screen(name: &str, command: &str, drawn: &str) {
    let path = folder().join(format!("{name}.txt"));
    let screen = format!("$ {command}\n{drawn}");
    if std::env::var_os("WHYSLOW_UPDATE_SCREENS").is_some() {
        std::fs::write(&path, &screen).expect("the screen is written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(screen, kept, "{} differs; drawn:\n{screen}", path.display());
}
