//! Measures how often a finding is right at each confidence, over all captures under crates/import/tests/fixtures,
//! whose causes are in `calibration.toml`; docs/accuracy.md has the table.

mod captured;

use captured::captures;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use whyslow_diagnose::{RuleBook, VirtualMachines, diagnose, merge_diagnoses};
use whyslow_documents::diagnosis::{Confidence, Diagnosis, Origin};
use whyslow_import::{Capture, Input};

const CAUSES: &str = include_str!("calibration.toml");
/// The minimum share of findings that must be right.
const HIGH: f64 = 0.98;
const MEDIUM: f64 = 0.8;

/// Returns `None` if nothing can be read.
fn judged(files: &[PathBuf], rules: &RuleBook) -> Option<Diagnosis> {
    let input = |path: &PathBuf| Input {
        name: path.file_name().unwrap().to_string_lossy().into_owned(),
        reader: Box::new(BufReader::new(File::open(path).unwrap())),
    };
    let captures = whyslow_import::read(files.iter().map(input).collect(), false).ok()?;
    let of = |c: &Capture| (c.label(), diagnose(&c.window, Origin::Import, rules));
    merge_diagnoses(captures.iter().map(of).collect(), VirtualMachines::default(), rules)
}

#[test]
fn findings_are_as_often_right_as_their_confidence_says() {
    let rules = RuleBook::built_in();
    let causes: BTreeMap<String, Vec<String>> = toml::from_str(CAUSES).unwrap();
    let captures = captures();
    let unknown: Vec<_> = causes.keys().filter(|name| !captures.contains_key(*name)).collect();
    assert!(unknown.is_empty(), "no such capture: {unknown:?}");
    let mut counts: BTreeMap<Confidence, [usize; 2]> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (name, files) in &captures {
        let Some(d) = judged(files, &rules) else { continue };
        for finding in d.findings.iter().filter(|finding| finding.confidence != Confidence::Low) {
            let is_right = causes.get(name).is_some_and(|ids| ids.contains(&finding.id));
            counts.entry(finding.confidence).or_default()[usize::from(!is_right)] += 1;
            if !is_right {
                wrong.push(format!("{name}: {} ({:?})", finding.key(), finding.confidence));
            }
        }
    }
    let mut table = "| confidence | right | wrong |\n| --- | --- | --- |\n".to_owned();
    for (confidence, words, least) in [(Confidence::High, "high", HIGH), (Confidence::Medium, "medium", MEDIUM)] {
        let [right, of_wrong] = counts[&confidence];
        assert!(
            right as f64 >= least * (right + of_wrong) as f64,
            "{words}: {right} right, {of_wrong} wrong: {wrong:#?}"
        );
        table.push_str(&format!("| {words} | {right} | {of_wrong} |\n"));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/accuracy.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once("| confidence |").expect("the table");
    let (_, after) = rest.split_once("\n\n").expect("text behind the table");
    if std::env::var_os("WHYSLOW_UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{before}{table}\n{after}")).unwrap();
        return;
    }
    assert!(text.contains(&table), "docs/accuracy.md has another table than\n{table}wrong: {wrong:#?}");
}
