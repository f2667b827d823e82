//! Helpers for captures as people posted them, read by the program from the outside.

// Each test program only uses a part of this.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use whyslow_documents::diagnosis::{Diagnosis, Evidence, Finding, Origin, Reading};
use whyslow_import::{Capture, Incident, ProcTree, Refusal, join};
use whyslow_sense::read_captured;

/// The folder of the captures.
pub const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../import/tests/fixtures");

/// Returns all captures by their names in `calibration.toml`: files, and folders with the files of one incident.
pub fn captures() -> BTreeMap<String, Vec<PathBuf>> {
    let is_text = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "txt");
    let listed = |folder: &str| -> Vec<PathBuf> {
        let entries = fs::read_dir(Path::new(FIXTURES).join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let name = |path: &Path| path.strip_prefix(FIXTURES).unwrap().to_str().unwrap().to_owned();
    let files = ["", "layouts"].into_iter().flat_map(listed).filter(is_text);
    let cases = listed("cases").into_iter().map(|case| {
        let mut files: Vec<PathBuf> = listed(&name(&case)).into_iter().filter(is_text).collect();
        files.sort();
        (name(&case), files)
    });
    files.map(|file| (name(&file), vec![file])).chain(cases).collect()
}

/// Runs the program in the folder of the captures, without any configuration.
pub fn read(args: &[&str]) -> Output {
    let config = whyslow_testing::folder();
    Command::new(env!("CARGO_BIN_EXE_whyslow"))
        .arg("read")
        .args(args)
        .env("XDG_CONFIG_HOME", config.path())
        .current_dir(FIXTURES)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Returns the captures in these texts, including files of /proc and /sys.
pub fn captures_of<'t>(
    texts: impl IntoIterator<Item = (&'t str, &'t str)>,
    strict: bool,
) -> Result<Vec<Capture>, Refusal> {
    let mut incident = Incident::new(strict, Arc::default());
    for (name, text) in texts {
        incident.add(name, text.as_bytes())?;
    }
    let contents = incident.done()?;
    let copy = |tree: &ProcTree| tree.copy(read_captured(&tree.path));
    let copies = contents.trees.iter().map(copy).collect();
    Ok(join(contents.captures, copies))
}

/// Returns what a program printed, as text.
pub fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// Returns the diagnosis of files, which must be readable.
pub fn diagnosis(files: &[&str]) -> Diagnosis {
    let out = read(&[&["--json"], files].concat());
    assert_eq!(out.status.code(), Some(0), "{files:?}: {}", text(&out.stderr));
    let d: Diagnosis = serde_json::from_slice(&out.stdout).expect("a diagnosis document");
    assert_eq!(d.window.source, Origin::Import);
    d
}

/// Returns the keys of the findings, in their order.
pub fn keys(d: &Diagnosis) -> Vec<String> {
    d.findings.iter().map(Finding::key).collect()
}

/// Returns the key of the first finding; empty if there is none.
pub fn first(d: &Diagnosis) -> String {
    keys(d).first().cloned().unwrap_or_default()
}

/// Returns the finding with this key.
pub fn finding<'d>(d: &'d Diagnosis, key: &str) -> &'d Finding {
    d.findings.iter().find(|f| f.key() == key).unwrap_or_else(|| panic!("no {key} among {:?}", keys(d)))
}

/// Returns a number from evidence or figures.
pub fn number(evidence: &[Evidence], metric: &str) -> Option<f64> {
    match evidence.iter().find(|e| e.metric == metric)?.value {
        Reading::Number(n) => Some(n),
        Reading::Text(_) => None,
    }
}

/// Asserts the figures of a subject, each within two per cent of the printed value.
pub fn figures(d: &Diagnosis, name: &str, expected: &[(&str, f64)]) {
    let of: Vec<_> = d.figures.iter().filter(|f| f.subject.name == name).collect();
    for (metric, want) in expected {
        let told: Vec<f64> = of.iter().filter_map(|f| number(&f.values, metric)).collect();
        assert!(told.iter().any(|n| (n - want).abs() <= 0.02 * want.abs()), "{name}: {metric} is {told:?}, not {want}");
    }
}

/// Bytes in a mebibyte.
pub const MIB: f64 = 1_048_576.0;

/// The columns at which mail programs wrap.
pub const WIDTHS: [usize; 5] = [66, 72, 76, 78, 80];
