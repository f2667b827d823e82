//! Every action of the built-in rules that is a setting prints a trial, and each is one that can be made.

use super::args::TryArgs;
use super::task::Task;
use std::fs;
use std::path::Path;
use toml::{Table, Value};
use whyslow_tune::{Catalogue, Machine};

/// What a trial may fail for on a machine that has no such thing, or has it set so already.
const NOT_HERE: [&str; 5] =
    ["not there: ", "unsupported here: ", "failed: ", "not permitted: ", "everything is already set"];

/// The commands of all actions that are settings, with the rule's file.
fn commands() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rules");
    let mut commands = Vec::new();
    for file in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let rule: Table = fs::read_to_string(&file).unwrap().parse().unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        let actions = rule.get("actions").and_then(Value::as_array).cloned().unwrap_or_default();
        for action in actions.iter().filter(|action| action["kind"].as_str() == Some("tunable")) {
            let command = action.get("try").and_then(Value::as_str);
            commands
                .push((name.to_owned(), filled(command.unwrap_or_else(|| panic!("{name}: an action without a try")))));
        }
    }
    assert!(commands.len() > 15, "{commands:?}");
    commands
}

/// A command with something in each place, as a shell gets it: a name that has to be quoted, and a number.
fn filled(template: &str) -> String {
    let mut rest = template;
    let mut text = String::new();
    while let Some((before, tail)) = rest.split_once('{') {
        let (inside, tail) = tail.split_once('}').unwrap();
        text += before;
        text += match inside {
            _ if inside.starts_with('=') => "1048576",
            "subject.pid" => "1",
            _ => "'a->b c'",
        };
        rest = tail;
    }
    text + rest
}

#[test]
fn every_setting_that_a_rule_proposes_can_be_tried() {
    for (file, command) in commands() {
        let words = shlex::split(&command).unwrap();
        let args = TryArgs::of_words(&words).unwrap_or_else(|| panic!("{file}: {command}: no trial"));
        assert!(args.metric.is_some(), "{file}: {command}: it has no --metric");
        for change in &args.changes {
            let wish = whyslow_tune::wish(change).unwrap();
            Catalogue::built_in().check(&wish).unwrap_or_else(|e| panic!("{file}: {change}: {e}"));
        }
        let before = args.before;
        match Task::of(&Machine::live(), args) {
            Ok(task) => assert!(before || task.can_alternate().is_ok(), "{file}: {command}"),
            Err(e) => assert!(NOT_HERE.iter().any(|words| e.words().contains(words)), "{file}: {}", e.words()),
        }
    }
}
