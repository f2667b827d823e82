use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// A setting of this machine that a test changes. Restored when dropped, or by the next sweep.
pub struct RestoredSetting {
    path: PathBuf,
    value: String,
    _record: NamedTempFile,
}

impl RestoredSetting {
    /// Records the value of a file under /sys or /proc/sys before it is changed.
    pub fn record(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref().to_owned();
        let value = fs::read_to_string(&path).expect("a setting").trim().to_owned();
        let mut record =
            tempfile::Builder::new().prefix(crate::prefix()).suffix("-setting").tempfile().expect("a temporary file");
        writeln!(record, "{} {value}", path.display()).expect("a line");
        Self { path, value, _record: record }
    }
}

impl Drop for RestoredSetting {
    fn drop(&mut self) {
        let restored = fs::write(&self.path, &self.value);
        assert!(restored.is_ok() || std::thread::panicking(), "{}: {restored:?}", self.path.display());
    }
}
