//! Baselines on disk: one JSON file each.
//!
//! ```text
//! DIR/baselines/NAME.json
//! ```

use crate::error::StoreError;
use crate::folder::sync_folder;
use crate::permissions::{create_folder, restrict_file, restrict_folder};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use whyslow_documents::baseline::{Baseline, SCHEMA};

/// Subfolder of a recording's folder.
const FOLDER: &str = "baselines";
const EXTENSION: &str = "json";
/// Largest file that is read. A day of a large machine takes a few megabytes.
const LARGEST: u64 = 256 << 20;

/// The baselines in a state folder.
#[derive(Clone, Debug)]
pub struct Baselines {
    folder: PathBuf,
}

impl Baselines {
    /// The baseline that a live diagnosis uses.
    pub const DEFAULT: &str = "default";

    /// Opens the baselines of a state folder, such as /var/lib/whyslow, which need not exist.
    pub fn in_folder(state: &Path) -> Self {
        Self { folder: state.join(FOLDER) }
    }

    /// Saves a baseline under its name, atomically, and returns its file. Overwrites an existing one only with `replace`.
    ///
    /// # Errors
    /// Fails if the name is invalid or taken, or the folder cannot be written.
    pub fn save(&self, baseline: &Baseline, replace: bool) -> Result<PathBuf, StoreError> {
        let path = self.path(&baseline.name)?;
        if !replace && path.exists() {
            return Err(StoreError::invalid(&path, "a baseline of this name exists; overwrite it with --replace"));
        }
        create_folder(&self.folder).map_err(StoreError::io(&self.folder))?;
        restrict_folder(&self.folder);
        let draft = path.with_extension("new");
        let json = serde_json::to_vec(baseline).expect("a baseline's keys are strings");
        let write = |mut file: File| {
            restrict_file(&file);
            file.write_all(&json).and_then(|()| file.sync_all())
        };
        let written = File::create(&draft).and_then(write);
        let placed = written.and_then(|()| fs::rename(&draft, &path)).map_err(StoreError::io(&path));
        if placed.is_err() {
            // A full disk is the usual reason.
            let _ = fs::remove_file(&draft);
        }
        placed.and_then(|()| sync_folder(&self.folder)).map(|()| path)
    }

    /// Loads a baseline; `None` if there is none of this name.
    ///
    /// # Errors
    /// Fails if the name is invalid, or the file cannot be read or is not a baseline.
    pub fn load(&self, name: &str) -> Result<Option<Baseline>, StoreError> {
        let path = self.path(name)?;
        match read(&path) {
            Err(error) if error.kind() == Some(ErrorKind::NotFound) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Returns all names, sorted.
    ///
    /// # Errors
    /// Fails if the folder exists and cannot be read.
    pub fn names(&self) -> Result<Vec<String>, StoreError> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(StoreError::io(&self.folder))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let path = entry.map_err(StoreError::io(&self.folder))?.path();
            let name = path.file_stem().and_then(|stem| stem.to_str()).filter(|name| is_name(name));
            if let (Some(name), true) = (name, path.extension().is_some_and(|e| e == EXTENSION)) {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Deletes a baseline; returns false if there was none of this name.
    ///
    /// # Errors
    /// Fails if it cannot be deleted.
    pub fn delete(&self, name: &str) -> Result<bool, StoreError> {
        let path = self.path(name)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            other => other.map_err(StoreError::io(&path)).and_then(|()| sync_folder(&self.folder)).map(|()| true),
        }
    }

    /// Returns the file of a baseline, which need not exist.
    ///
    /// # Errors
    /// Fails if the name is invalid.
    pub fn path(&self, name: &str) -> Result<PathBuf, StoreError> {
        let path = self.folder.join(format!("{name}.{EXTENSION}"));
        if is_name(name) {
            return Ok(path);
        }
        let what = format!(
            "'{name}' is not a valid name for a baseline: at most 64 letters, digits, '-', '_' and '.', not starting with '.'"
        );
        Err(StoreError::invalid(&self.folder, what))
    }
}

/// Reads a baseline from any file.
///
/// # Errors
/// Fails if the file cannot be read, or is not a baseline.
pub fn read(path: &Path) -> Result<Baseline, StoreError> {
    let file = File::open(path).map_err(StoreError::io(path))?;
    let mut json = Vec::new();
    file.take(LARGEST).read_to_end(&mut json).map_err(StoreError::io(path))?;
    let baseline: Baseline =
        serde_json::from_slice(&json).map_err(|e| StoreError::invalid(path, format!("not a baseline: {e}")))?;
    if baseline.schema != SCHEMA {
        let what = format!("a baseline with schema '{}', but this version reads {SCHEMA}", baseline.schema);
        return Err(StoreError::invalid(path, what));
    }
    Ok(baseline)
}

/// Returns whether the name is a valid file name on every system, and not a path.
fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=64).contains(&name.len()) && name.chars().all(plain) && !name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_documents::baseline::{BaselineKind, BaselineSeries, Better, Inventory};
    use whyslow_documents::diagnosis::Subject;

    fn made(name: &str, samples: Vec<f64>) -> Baseline {
        let subject = Subject::new("device", "vda");
        let series = BaselineSeries::of_repeats("random read 4 KiB", subject, "1/s", Better::Higher, samples);
        let inventory = Inventory::from([("kernel".to_owned(), "6.18".to_owned())]);
        Baseline { name: name.to_owned(), ..Baseline::new(BaselineKind::Bench, inventory, vec![series]) }
    }

    #[test]
    fn a_saved_baseline_exists_until_it_is_deleted() {
        let dir = whyslow_testing::folder();
        let baselines = Baselines::in_folder(dir.path());
        assert_eq!((baselines.names().unwrap(), baselines.load("may").unwrap()), (vec![], None));
        let may = made("may", vec![100.0, 101.5]);
        baselines.save(&may, false).unwrap();
        baselines.save(&made("april", vec![]), false).unwrap();
        assert_eq!(baselines.names().unwrap(), ["april", "may"]);
        assert_eq!(baselines.load("may").unwrap(), Some(may.clone()));

        let newer = made("may", vec![90.0]);
        assert!(baselines.save(&newer, false).unwrap_err().to_string().contains("--replace"));
        assert_eq!(baselines.load("may").unwrap(), Some(may));
        baselines.save(&newer, true).unwrap();
        assert_eq!(baselines.load("may").unwrap(), Some(newer));

        assert!(baselines.delete("may").unwrap());
        assert!(!baselines.delete("may").unwrap());
        assert_eq!(baselines.names().unwrap(), ["april"]);
    }

    #[test]
    fn a_name_cannot_be_a_path() {
        let dir = whyslow_testing::folder();
        let baselines = Baselines::in_folder(&dir.path().join("state"));
        for name in ["", ".", "..", "../may", "a/b", "a b", "ä", "\u{1b}[2J", &"x".repeat(65)] {
            assert!(baselines.save(&made(name, vec![]), true).is_err(), "{name:?}");
            assert!(baselines.load(name).is_err() && baselines.delete(name).is_err(), "{name:?}");
        }
        assert!(!dir.path().join("state").exists(), "nothing was written");
    }

    #[test]
    fn a_file_that_is_not_a_baseline_is_refused_with_its_name() {
        let dir = whyslow_testing::folder();
        let baselines = Baselines::in_folder(dir.path());
        let path = baselines.save(&made("one", vec![1.0]), false).unwrap();
        let good = fs::read_to_string(&path).unwrap();
        let other = good.replace("whyslow.baseline/1", "whyslow.baseline/9");
        for (text, why) in
            [("", "not a baseline"), (&good[..good.len() / 2], "not a baseline"), (&*other, "baseline/9")]
        {
            fs::write(&path, text).unwrap();
            let error = baselines.load("one").unwrap_err().to_string();
            assert!(error.contains("one.json") && error.contains(why), "{error}");
        }
    }
}
