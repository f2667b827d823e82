//! Tests that every setting proposed by a built-in rule can be tried.

use super::args::TryArgs;
use super::task::Task;
use toml::Value;
use whyslow_documents::listing::split_set_value;
use whyslow_documents::tune::Risk;
use whyslow_testing::recommended_actions;
use whyslow_tune::{Catalogue, Machine};

/// Acceptable failures of a trial on a machine without the target, or with the setting already in place.
const NOT_HERE: [&str; 5] =
    ["not there: ", "unsupported here: ", "failed: ", "not permitted: ", "everything is already set"];

/// A setting that a rule proposes: the rule's file, and the words of the trial that the program prints for it.
struct Proposed {
    file: String,
    words: Vec<String>,
    is_risky: bool,
}

fn proposed() -> Vec<Proposed> {
    let mut all = Vec::new();
    for (path, action) in recommended_actions() {
        if action["kind"].as_str() != Some("tunable") {
            continue;
        }
        let file = path.file_name().unwrap().to_str().unwrap();
        let trial = action.get("trial").and_then(Value::as_table).unwrap_or_else(|| panic!("{file}: no trial"));
        let flag = |name: &str| trial.get(name).and_then(Value::as_bool).unwrap_or_default();
        let text = |value: &Value| filled(value.as_str().unwrap());
        let mut words = vec!["whyslow".to_owned(), "try".to_owned()];
        let set = action["set"].as_table().unwrap();
        let value = |value: &Value| split_set_value(&text(value)).0.to_owned();
        words.extend(set.iter().map(|(name, to)| format!("{}={}", filled(name), value(to))));
        words.extend(flag("before").then(|| "--before".to_owned()));
        for name in ["metric", "guard", "moves"] {
            words.extend(trial.get(name).map(|value| format!("--{name}={}", text(value))));
        }
        all.push(Proposed { file: file.to_owned(), words, is_risky: flag("risky") });
    }
    assert!(all.len() > 15, "{}", all.len());
    all
}

/// Returns a template with its placeholders filled in.
fn filled(template: &str) -> String {
    let mut rest = template;
    let mut text = String::new();
    while let Some((before, tail)) = rest.split_once('{') {
        let (inside, tail) = tail.split_once('}').unwrap();
        text += before;
        text += match inside {
            _ if inside.starts_with('=') => "1048576",
            "subject.pid" => "1",
            "core.line" => "24",
            "core.other_cpus" => "0-3",
            "core.other_cpus_mask" => "f",
            _ => "a->b c",
        };
        rest = tail;
    }
    text + rest
}

#[test]
fn every_setting_that_a_rule_proposes_is_in_the_catalogue_and_can_be_tried() {
    for Proposed { file, words, is_risky } in proposed() {
        let command = words.join(" ");
        let args = TryArgs::of_words(&words).unwrap_or_else(|| panic!("{file}: {command}: no trial"));
        let requests: Vec<_> = args.changes.iter().map(|change| whyslow_tune::parse_change(change).unwrap()).collect();
        let mut risk = Risk::Low;
        for request in &requests {
            Catalogue::built_in().check(request).unwrap_or_else(|e| panic!("{file}: {command}: {e}"));
            risk = risk.max(Catalogue::built_in().risk(&request.target.name).unwrap());
        }
        assert_eq!(is_risky, risk > Risk::Low, "{file}: {command}: {risk:?}");
        let before = args.before;
        match Task::from_args(&Machine::live(), args) {
            Ok(task) => assert!(before || task.can_alternate().is_ok(), "{file}: {command}"),
            Err(e) => assert!(NOT_HERE.iter().any(|words| e.words().contains(words)), "{file}: {}", e.words()),
        }
    }
}
