//! Options of comparison programs, and the loop that runs their cases.

use crate::failure::{Failure, Result};
use crate::program::beside;
use clap::Args;
use serde::Serialize;
use std::fmt::Display;
use std::path::PathBuf;

/// Options of a comparison program.
#[derive(Args)]
pub struct Options {
    /// Only cases whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Pairs of runs per case
    #[arg(long, value_name = "COUNT", default_value = "10")]
    pub pairs: usize,
    /// The whyslow program [default: beside this program]
    #[arg(long, value_name = "PATH")]
    whyslow: Option<PathBuf>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

impl Options {
    /// Returns the path of the whyslow program.
    ///
    /// # Errors
    /// Fails if it does not exist.
    pub fn whyslow(&self) -> Result<String> {
        let path = beside(self.whyslow.as_ref(), "whyslow")?;
        path.into_os_string().into_string().map_err(|_| Failure::new("the path of whyslow is not UTF-8"))
    }

    /// Measures the selected cases and prints the results: a line after each, or JSON at the end, even if a case fails.
    ///
    /// # Errors
    /// Fails if no case is selected or one fails.
    pub fn measure<C, F: Serialize + Display>(
        &self,
        cases: &[C],
        name: impl Fn(&C) -> String,
        mut measure: impl FnMut(&C) -> Result<Vec<F>>,
    ) -> Result<()> {
        let wanted: Vec<&C> = cases.iter().filter(|case| name(case).contains(&self.only)).collect();
        if wanted.is_empty() {
            let names: Vec<String> = cases.iter().map(name).collect();
            return Err(Failure::new(format!("no case has {:?} in its name: {}", self.only, names.join("; "))));
        }
        let mut all = Vec::new();
        let outcome = wanted.into_iter().try_for_each(|case| {
            let found = measure(case)?;
            if !self.json {
                found.iter().for_each(|found| println!("{found}"));
            }
            all.extend(found);
            Ok(())
        });
        if self.json {
            println!("{}", serde_json::to_string_pretty(&all)?);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(only: &str) -> (Result<()>, Vec<&'static str>) {
        let options = Options { only: only.into(), pairs: 1, whyslow: None, json: false };
        let mut run = Vec::new();
        let outcome = options.measure(
            &["disk: read", "disk: write", "loop: read"],
            |case| (*case).to_owned(),
            |case| {
                run.push(*case);
                if *case == "disk: write" { Err(Failure::new("full")) } else { Ok(vec!["1.0"]) }
            },
        );
        (outcome, run)
    }

    #[test]
    fn only_what_is_wanted_is_measured_until_something_fails() {
        let (outcome, run) = measured("read");
        outcome.unwrap();
        assert_eq!(run, ["disk: read", "loop: read"]);
        let (outcome, run) = measured("");
        assert_eq!((outcome.unwrap_err().to_string(), run), ("full".into(), vec!["disk: read", "disk: write"]));
    }

    #[test]
    fn a_name_that_no_case_has_is_refused_with_those_there_are() {
        let (outcome, run) = measured("tape");
        let told = outcome.unwrap_err().to_string();
        assert!(told.contains("\"tape\"") && told.contains("disk: write; loop: read"), "{told}");
        assert!(run.is_empty());
    }
}
