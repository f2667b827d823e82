//! Tests of captures written as they would appear in tickets and mails, by someone who had not seen the rules
//! (docs/accuracy.md): prompts, several tools, several hosts, a sentence above. Each must lead to its cause.

mod captured;

use captured::captures_of;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use whyslow_diagnose::{RuleBook, diagnose, merge_diagnoses, virtual_machines};
use whyslow_documents::diagnosis::{Diagnosis, Origin, Verdict};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    finding: Option<String>,
    culprit: Option<String>,
    verdict: Option<Verdict>,
}

fn judged(name: &str, text: &str, rules: &RuleBook) -> Diagnosis {
    let captures = captures_of([(name, text)], false).unwrap_or_else(|e| panic!("{name}: {e}"));
    let label = |c: &whyslow_import::Capture| format!("{} of {}", c.label(), c.host.as_deref().unwrap_or_default());
    let of = |c: &whyslow_import::Capture| (label(c), diagnose(&c.window, Origin::Import, rules));
    let windows: Vec<_> = captures.iter().map(|c| (label(c), &c.window)).collect();
    let machines = virtual_machines(&windows);
    merge_diagnoses(captures.iter().map(of).collect(), machines, rules).expect("a diagnosis")
}

#[test]
fn each_written_capture_leads_to_its_cause() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let all: BTreeMap<String, Expected> = toml::from_str(&read("written.toml")).expect("written.toml");
    let rules = RuleBook::built_in();
    let mut wrong = Vec::new();
    for (name, expected) in &all {
        let d = judged(name, &read(&format!("written/{name}.txt")), &rules);
        let first = d.findings.first();
        let subject = first.map(|f| format!("{}@{}", f.id, f.subject.name));
        let culprit = first.and_then(|f| f.culprits.first()).map(|culprit| culprit.name.clone());
        let is_right = match &expected.verdict {
            Some(verdict) => d.verdict == *verdict,
            None => {
                d.verdict == Verdict::Bottleneck
                    && subject == expected.finding
                    && (expected.culprit.is_none() || culprit == expected.culprit)
            }
        };
        if !is_right {
            wrong.push(format!("{name}: {:?} {subject:?} {culprit:?}", d.verdict));
        }
    }
    assert!(!all.is_empty());
    assert!(wrong.is_empty(), "{wrong:#?}");
}
