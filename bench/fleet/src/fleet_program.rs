//! Asks `whyslow-fleet`.

use jiff::Timestamp;
use serde_json::Value;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use whyslow_pairs::failure::{Failure, Result};

/// The program over a store.
pub struct FleetProgram<'p> {
    /// Where it is.
    pub path: &'p Path,
    /// A folder, or a bucket.
    pub store: &'p OsStr,
    /// What else it needs to know: the credentials of a bucket.
    pub environment: &'p [(&'p str, String)],
}

impl FleetProgram<'_> {
    /// The document that answers a question about a span, milliseconds since 1970.
    ///
    /// # Errors
    /// The program fails, or there is no document.
    pub fn json(&self, words: &[&str], span: (i64, i64)) -> Result<Value> {
        let output = self.output(&[words, &["--json"]].concat(), span)?;
        Ok(serde_json::from_slice(&output)?)
    }

    /// What it prints.
    ///
    /// # Errors
    /// The program fails.
    pub fn output(&self, words: &[&str], (from_ms, to_ms): (i64, i64)) -> Result<Vec<u8>> {
        let time = |ms: i64| Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |time| time.to_string());
        let output = self.command(words).args(["--from", &time(from_ms), "--to", &time(to_ms)]).output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Failure::new(format!("{} {}: {said}", self.path.display(), words.join(" "))));
        }
        Ok(output.stdout)
    }

    /// A command, to be run or started.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.path);
        let environment = self.environment.iter().map(|(name, value)| (name, value));
        command.args(words).arg("--store").arg(self.store).envs(environment);
        command
    }
}
