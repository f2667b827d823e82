//! Runs queries with `whyslow-fleet`.

use jiff::Timestamp;
use serde_json::Value;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};
use whyslow_pairs::failure::{Failure, Result};

/// The program with a store.
pub struct FleetProgram<'p> {
    /// Path of the program.
    pub path: &'p Path,
    /// A folder or a bucket.
    pub store: &'p OsStr,
    /// SQL engine; `None` for the engine in the program.
    pub engine: Option<&'p str>,
    /// Environment variables, such as the credentials of a bucket.
    pub environment: &'p [(&'p str, String)],
}

impl FleetProgram<'_> {
    /// Returns the document that answers a question about a span, in milliseconds since 1970.
    ///
    /// # Errors
    /// Fails if the program fails or returns no document.
    pub fn json(&self, words: &[&str], span: (i64, i64)) -> Result<Value> {
        let output = self.output(&[words, &["--json"]].concat(), span)?;
        Ok(serde_json::from_slice(&output)?)
    }

    /// Returns the answer to a question, which may be about the time until now, or the program's message if it has no answer.
    ///
    /// # Errors
    /// Fails if the program fails otherwise.
    pub fn answer(&self, words: &[&str], span: (i64, i64)) -> Result<Value> {
        let words = &[&["--json"], words].concat()[..];
        let output = if words[1] == "forecast" { self.command(words).output()? } else { self.asked(words, span)? };
        match output.status.code() {
            Some(0) => Ok(serde_json::from_slice(&output.stdout)?),
            Some(1) => Ok(Value::from(String::from_utf8_lossy(&output.stderr).trim())),
            _ => Err(self.failed(words, &output)),
        }
    }

    /// Returns the program's standard output.
    ///
    /// # Errors
    /// Fails if the program fails.
    pub fn output(&self, words: &[&str], span: (i64, i64)) -> Result<Vec<u8>> {
        let output = self.asked(words, span)?;
        if output.status.success() { Ok(output.stdout) } else { Err(self.failed(words, &output)) }
    }

    fn asked(&self, words: &[&str], (from_ms, to_ms): (i64, i64)) -> Result<Output> {
        let time = |ms: i64| Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |time| time.to_string());
        let (from, to) = (time(from_ms), time(to_ms));
        // Options must come before `--`.
        let options = words.iter().position(|word| *word == "--").unwrap_or(words.len());
        let words = [&words[..options], &["--from", &from, "--to", &to], &words[options..]].concat();
        Ok(self.command(&words).output()?)
    }

    fn failed(&self, words: &[&str], output: &Output) -> Failure {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Failure::new(format!("{} {}: {said}", self.path.display(), words.join(" ")))
    }

    /// Returns a command to run or start.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.path);
        let environment = self.environment.iter().map(|(name, value)| (name, value));
        command.args(words).env("WHYSLOW_FLEET_STORE", self.store).envs(environment);
        match self.engine {
            Some(engine) => command.env("WHYSLOW_FLEET_ENGINE", engine),
            None => command.env_remove("WHYSLOW_FLEET_ENGINE"),
        };
        command
    }
}
