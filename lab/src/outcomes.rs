//! Outcomes of runs, as printed with --json, and their tables in a document.

use crate::error::{Context, Error, Result};
use crate::trial::Outcome;
use std::fs;
use std::path::{Path, PathBuf};

/// Writes the result of `tables` for these runs into a document, between the lines with its `mark`.
///
/// # Errors
/// Fails if a run cannot be read or the document has no place for the tables.
pub fn write(runs: &[PathBuf], document: &Path, mark: &str, tables: fn(&[Outcome]) -> String) -> Result<()> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    for run in runs {
        let text = fs::read_to_string(run).context(run.display())?;
        let run: Vec<Outcome> = serde_json::from_str(&text).context(run.display())?;
        outcomes.extend(run);
    }
    let begin = format!("<!-- {mark}: written by `whyslow-lab");
    let end = format!("<!-- end of {mark} -->");
    let text = fs::read_to_string(document).context(document.display())?;
    let no_place = || Error::failed(format!("{}: no lines {begin} ...` --> and {end}", document.display()));
    let from = text.find(&begin).and_then(|at| Some(at + text[at..].find('\n')? + 1)).ok_or_else(no_place)?;
    let to = from + text[from..].find(&end).ok_or_else(no_place)?;
    fs::write(document, format!("{}{}{}", &text[..from], tables(&outcomes), &text[to..])).context(document.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_written_between_their_marks() {
        let dir = whyslow_testing::folder();
        let (run, document) = (dir.path().join("run.json"), dir.path().join("accuracy.md"));
        fs::write(&run, serde_json::to_string(&[Outcome::before("c", 1)]).unwrap()).unwrap();
        let begin = "<!-- lab: written by `whyslow-lab matrix` -->\n";
        fs::write(&document, format!("# Title\n{begin}old\n<!-- end of lab -->\nend\n")).unwrap();
        let tables = |outcomes: &[Outcome]| format!("{}\n", outcomes[0].name);
        for _ in 0..2 {
            write(std::slice::from_ref(&run), &document, "lab", tables).unwrap();
            let expected = format!("# Title\n{begin}c\n<!-- end of lab -->\nend\n");
            assert_eq!(fs::read_to_string(&document).unwrap(), expected);
        }
        assert!(write(std::slice::from_ref(&run), &document, "gains", tables).is_err());
        fs::write(&document, "no marks\n").unwrap();
        assert!(write(&[run], &document, "lab", tables).is_err());
    }
}
