//! Built-in rules, together with those of the machine and the user.

use crate::output;
use crate::recordings::{self, absolute};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use whyslow_diagnose::RuleBook;

/// All usable rules, and the number of unusable files.
pub struct Rules {
    pub book: RuleBook,
    pub broken: usize,
}

/// Usable rules, and what is wrong with the others.
struct Files {
    book: RuleBook,
    complaints: Vec<String>,
}

/// Reads the rules of every folder. Reports a broken rule on stderr with file and line; the other rules stay usable.
pub fn load() -> Rules {
    if let Some(home) = recordings::closed_home() {
        let (folder, why) = (home.folder.display(), home.why);
        output::complain(&format!("{folder} (HOME) {why}: your own rules and the default baseline are left out"));
    }
    let Files { book, complaints } = Files::read_all();
    for what in &complaints {
        output::complain(&format!("rule left out: {what}"));
    }
    Rules { book, broken: complaints.len() }
}

/// Declares the users' quantities, for commands that need them before they load the rules, or only them: charts have names.
/// Reports nothing.
pub fn declare_quantities() {
    if folders().iter().any(|folder| files(folder).is_ok_and(|files| !files.is_empty())) {
        drop(Files::read_all());
    }
}

impl Files {
    fn read_all() -> Self {
        let mut files = Self { book: RuleBook::built_in(), complaints: Vec::new() };
        for folder in folders() {
            files.read(&folder);
        }
        files
    }

    fn read(&mut self, folder: &Path) {
        let files = match files(folder) {
            Ok(files) => files,
            Err(e) if e.kind() == ErrorKind::NotFound => return,
            Err(e) => return self.complaints.push(format!("cannot read {}: {e}", folder.display())),
        };
        for file in files {
            let name = file.display().to_string();
            match read(&file) {
                Ok(text) => {
                    if let Err(e) = self.book.add(&name, &text) {
                        self.complaints.push(e.to_string());
                    }
                }
                Err(e) => self.complaints.push(format!("{name}: {e}")),
            }
        }
    }
}

/// Returns the machine's folder, then the user's (XDG Base Directory Specification: ignore a relative path).
fn folders() -> Vec<PathBuf> {
    let home = || absolute("HOME").filter(|_| recordings::closed_home().is_none());
    let user = absolute("XDG_CONFIG_HOME").or_else(|| home().map(|home| home.join(".config")));
    let user = user.map(|config| config.join("whyslow/rules.d"));
    [Some("/etc/whyslow/rules.d".into()), user].into_iter().flatten().collect()
}

/// Reads a rule file. Rules decide what 'try' changes and which programs it runs: root does not accept those of another
/// user.
fn read(file: &Path) -> std::io::Result<String> {
    String::from_utf8(whyslow_trusted::read(file)?).map_err(std::io::Error::other)
}

/// Returns the `*.toml` files of a folder, by name.
fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    // Reported once, not for each file.
    whyslow_trusted::check(folder)?;
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "toml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
