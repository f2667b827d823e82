//! Tests that all text for users is in plain English with the terms of the field, and that a first screen is short.

mod messages;
mod script;
mod source;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use whyslow_testing::{cause_files, recommended_actions, rule_files};

/// Phrases that are not plain English, or not terms of the field; the test looks for them between word boundaries.
const BANNED: &[&str] = &[
    "as dear as",
    "as this was in the past",
    "be had",
    "came by another",
    "charged to processes",
    "counted apart",
    "dear",
    "drowns",
    "each anew",
    "for want of",
    "given back",
    "given it up",
    "goes no faster",
    "house",
    "how grave",
    "in a word of ours",
    "in vain",
    "is at work",
    "is kept in not",
    "is no attribute",
    "is no list",
    "is no number",
    "is no quota",
    "is to be borne in mind",
    "is to be had",
    "it is its turn",
    "it is none",
    "judged by that",
    "lies across",
    "looked closer",
    "messages of the kernel",
    "metadata are",
    "nobody asks",
    "nobody is told",
    "nobody knows",
    "nobody looked",
    "nobody says",
    "nobody to blame",
    "nobody waited",
    "nobody waits",
    "none of ours",
    "nothing was seen of",
    "of how many was not captured",
    "of its client",
    "of which",
    "out of the way",
    "packets come by",
    "processor time",
    "processors",
    "put back",
    "puts back",
    "rooms",
    "sent again",
    "shall",
    "some five",
    "some forty",
    "some ten",
    "some thousand",
    "some thousands",
    "somebody",
    "speaks of",
    "stand in its queue",
    "stands still",
    "stands there twice",
    "stood still",
    "take back",
    "take long",
    "taken away",
    "taken back",
    "taken for lost",
    "takes back",
    "takes long",
    "tells of",
    "that someone set",
    "the most there may be",
    "the queue stands",
    "the time lost is told",
    "threw away",
    "thrown out",
    "throws away",
    "throws most",
    "timers apart",
    "told",
    "told apart",
    "under way",
    "unless said",
    "unless told",
    "use up",
    "uses it up",
    "uses up the",
    "wait long",
    "waiting for data of",
    "waits long",
    "waits no longer",
    "wants a value",
    "wants it",
    "what a thing is",
    "what came of",
    "what of",
    "whatever part of",
    "which part of all",
    "who are you",
    "whoever",
    "without a word",
    "would tell",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == extension)).collect();
    files.sort();
    assert!(!files.is_empty(), "{folder} has no file .{extension}");
    files
}

/// Returns the banned phrases in a text, in any case, with the line of each.
fn banned(text: &str) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    // A phrase may span two lines.
    let lines: Vec<&str> = text.lines().collect();
    for (i, line) in lines.iter().enumerate() {
        let next = lines.get(i + 1).map_or("", |next| next.trim_start());
        let both = format!("{line} {next}").to_lowercase();
        for &phrase in BANNED {
            let starts = both.match_indices(phrase).map(|(at, _)| at).filter(|at| *at < line.len());
            let is_word = |at: &usize| {
                let before = both[..*at].chars().next_back();
                let after = both[at + phrase.len()..].chars().next();
                // Names in code are exempt.
                let ends = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && !['_', '.', '`'].contains(&c));
                let ends_after = after.is_none_or(|c| !c.is_alphanumeric() && !['_', '`'].contains(&c));
                ends(before) && ends_after
            };
            found.extend(starts.filter(is_word).map(|_| (phrase, (*line).to_owned())));
        }
    }
    found
}

fn assert_plain(what: &str, text: &str) {
    let found: Vec<String> = banned(text).iter().map(|(phrase, line)| format!("{phrase:?} in: {line}")).collect();
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

fn assert_plain_files(files: impl IntoIterator<Item = PathBuf>) {
    let found: Vec<String> = files
        .into_iter()
        .flat_map(|path| {
            let text = fs::read_to_string(&path).expect("a text");
            let named = move |(phrase, line)| format!("{}: {phrase:?} in: {line}", path.display());
            banned(&text).into_iter().map(named).collect::<Vec<_>>()
        })
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_list_finds_a_phrase_across_lines_and_leaves_longer_words_alone() {
    assert_eq!(banned("it is\nnone").len(), 1);
    assert_eq!(banned("Told you.").len(), 1);
    assert!(banned("stolen, of whichever, `cpu.idle_processors`").is_empty());
}

#[test]
fn rules_are_in_plain_english() {
    assert_plain_files(rule_files());
}

#[test]
fn charts_are_in_plain_english() {
    let text = |chart: &whyslow_series::ChartSpec| format!("{}. {}", chart.title, chart.help);
    assert_plain("charts", &whyslow_series::charts().map(text).collect::<Vec<_>>().join("\n"));
}

/// A diagnostic does not contain a remedy, because it is displayed as something to find out.
#[test]
fn a_diagnostic_contains_no_remedy() {
    const REMEDIES: [&str; 20] = [
        "add ",
        "clear ",
        "close ",
        "copy ",
        "enlarge",
        "give ",
        "hold it",
        "limit it",
        "make ",
        "move ",
        "pin it",
        "raise",
        "reboot",
        "remove",
        "repair",
        "replace",
        "restart",
        "stop ",
        "try another",
        "update ",
    ];
    let mut seen = 0;
    for (path, action) in recommended_actions() {
        if action["kind"].as_str() != Some("diagnostic") {
            continue;
        }
        seen += 1;
        let text = action["text"].as_str().unwrap_or_default().to_lowercase();
        let remedy = REMEDIES.iter().find(|remedy| format!(" {text}").contains(&format!(" {remedy}")));
        assert_eq!(remedy, None, "{}: {text}", path.display());
    }
    assert!(seen > 200, "only {seen} diagnostics");
}

#[test]
fn every_finding_is_documented() {
    let text = fs::read_to_string(root().join("docs/findings.md")).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let documented: Vec<&str> = rows.flat_map(|ids| ids.split(", ")).collect();
    for path in cause_files() {
        let cause: toml::Table = fs::read_to_string(&path).unwrap().parse().unwrap();
        let id = cause["id"].as_str().unwrap();
        assert!(documented.contains(&id), "{}: {id} is not in docs/findings.md", path.display());
    }
}

#[test]
fn files_that_contributing_names_exist() {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let names = text.split('`').skip(1).step_by(2);
    let is_path = |name: &&str| {
        name.contains('/')
            && !name.contains([' ', '('])
            && !["/", "~", "Documentation/"].iter().any(|start| name.starts_with(start))
    };
    // Capital letters mark a name to be chosen.
    let is_placeholder = |part: &&str| part.bytes().any(|b| b.is_ascii_uppercase());
    let mut checked = 0;
    for name in names.filter(is_path) {
        let fixed: PathBuf = name.split('/').take_while(|part| !is_placeholder(part)).collect();
        let places = ["", "crates", "crates/import/src", "crates/import"].map(|place| root().join(place).join(&fixed));
        assert!(places.iter().any(|path| path.exists()), "{name}");
        checked += 1;
    }
    assert!(checked > 15, "{checked}");
}

/// Commands for pasting are complete.
#[test]
fn commands_of_rules_have_no_placeholders() {
    for path in files("rules", "toml") {
        let text = fs::read_to_string(&path).expect("a rule");
        for command in text.lines().filter_map(|line| line.strip_prefix("try = ")) {
            let is_placeholder = |word: &str| word.len() > 1 && word.bytes().all(|b| b.is_ascii_uppercase());
            let words = command.split(|c: char| !c.is_ascii_alphanumeric());
            let found: Vec<&str> = words.filter(|word| is_placeholder(word)).collect();
            assert!(found.is_empty() && !command.contains('<'), "{}: {found:?} in {command}", path.display());
        }
    }
}

#[test]
fn tunables_are_in_plain_english() {
    assert_plain_files(files("crates/tune/tunables", "toml"));
}

#[test]
fn documents_are_in_plain_english() {
    let top = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root().join(name));
    assert_plain_files(
        top.into_iter()
            .chain(files("docs", "md").into_iter().filter(|path| !path.ends_with("messages.md")))
            .chain(files("docs/howto", "md"))
            .chain(files("docs/decisions", "md")),
    );
}

#[test]
fn messages_are_in_plain_english() {
    // Names of measurements, by which results are compared with older ones.
    const NAMES: [&str; 2] = ["- machine: processors", "- timer set and taken back"];
    let text = fs::read_to_string(root().join("docs/messages.md")).expect("a text");
    let sentences = text.lines().filter(|line| !NAMES.contains(line)).collect::<Vec<_>>();
    assert_plain("docs/messages.md", &sentences.join("\n"));
}

#[test]
fn screens_are_in_plain_english() {
    assert_plain_files(files("docs/screens", "txt"));
}

#[test]
fn help_is_in_plain_english_and_fits_80_columns() {
    let all = all_help();
    for (command, help) in &all {
        assert_plain(&format!("whyslow {command} --help"), help);
        let wide: Vec<&str> = help.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "whyslow {command} --help:\n{}", wide.join("\n"));
    }
    assert!(all.len() > 30, "only {} commands have help", all.len());
}

#[test]
fn lists_are_in_plain_english() {
    for list in ["rules", "metrics", "formats"] {
        let out = whyslow(&[list.into()]);
        // Names of metrics are exempt.
        let without_names =
            out.lines().map(|line| match line.strip_prefix("  ").and_then(|row| row.split_once("  ")) {
                Some((name, rest)) if !name.contains(' ') => rest.to_owned(),
                _ => line.to_owned(),
            });
        assert_plain(&format!("whyslow {list}"), &without_names.collect::<Vec<_>>().join("\n"));
    }
}

#[test]
fn the_manual_page_and_completions_are_in_plain_english() {
    assert_plain("whyslow man", &whyslow(&["man".into()]));
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        assert_plain(&format!("whyslow completions {shell}"), &whyslow(&["completions".into(), shell.into()]));
    }
}

/// Returns the help of all commands, those below others included, by their names.
fn all_help() -> Vec<(String, String)> {
    let mut waiting = vec![Vec::new()];
    let mut all = Vec::new();
    while let Some(command) = waiting.pop() {
        let help = help(&command);
        waiting.extend(subcommands(&help).into_iter().rev().map(|name| [command.clone(), vec![name]].concat()));
        all.push((command.join(" "), help));
    }
    all
}

fn help(command: &[String]) -> String {
    whyslow(&[command, &["--help".to_owned()]].concat())
}

fn whyslow(args: &[String]) -> String {
    let out =
        Command::new(env!("CARGO_BIN_EXE_whyslow")).args(args).env("COLUMNS", "80").output().expect("whyslow runs");
    assert_eq!(out.status.code(), Some(0), "whyslow {}", args.join(" "));
    String::from_utf8(out.stdout).expect("UTF-8")
}

fn subcommands(help: &str) -> Vec<String> {
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let named = commands.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    // 'help' describes itself only in the list.
    named.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).filter(|name| name != "help").collect()
}

/// Returns the answer of a first screen: the lines after the last blank line, or after the header, without the commands
/// to capture next.
fn answer(screen: &str) -> Vec<&str> {
    let lines: Vec<&str> = screen
        .lines()
        .skip(2)
        .take_while(|line| !line.starts_with("To find out more: add the output of: "))
        .filter(|line| !["Also: ", "Less certain: "].iter().any(|label| line.starts_with(label)))
        .collect();
    let start = lines.iter().rposition(|line| line.is_empty()).map_or(0, |blank| blank + 1);
    lines[start..].to_vec()
}

/// Counts the numbers that a reader has to weigh, without those of commands and names, process IDs and times of day.
fn numbers(line: &str) -> usize {
    if line.starts_with("    ") {
        return 0;
    }
    let line = line.split(", since ").next().unwrap_or_default().split(", for ").next().unwrap_or_default();
    let mut words = line.split_whitespace().peekable();
    let mut count = 0;
    let mut before = "";
    while let Some(word) = words.next() {
        let bare = word.trim_start_matches('(').trim_end_matches([')', ',', ':', ';', '.']);
        let is_number = bare.starts_with(|c: char| c.is_ascii_digit()) && bare.matches(':').count() < 2;
        let is_alone = word.starts_with('(') && word.trim_end_matches([',', ':', ';', '.']).ends_with(')');
        let is_id = before.trim_start_matches('(') == "pid" || (is_alone && bare.chars().all(|c| c.is_ascii_digit()));
        let is_address = bare.matches('.').count() > 1;
        let is_factor = words.peek() == Some(&"x") || before == "x";
        let is_place = before == "line";
        count += usize::from(is_number && !is_id && !is_address && !is_factor && !is_place);
        before = word;
    }
    count
}

#[test]
fn numbers_are_counted_without_ids_and_times() {
    assert_eq!(numbers("loop0 cannot keep up: 16 requests queued, each waiting 13 ms."), 2);
    assert_eq!(numbers("  Who:      postgres (pid 4711) with 71 % of disk writes"), 1);
    assert_eq!(numbers("  How bad:  requests waited 62 % of the time, since 10:00:00"), 1);
    assert_eq!(numbers("A thread of job (5970) uses 64 % of one CPU"), 1);
    assert_eq!(numbers("    renice -n 10 -p 3710"), 0);
}

#[test]
fn a_first_screen_is_short_and_has_at_most_five_numbers_in_its_answer() {
    let mut seen = 0;
    for path in files("docs/screens", "txt") {
        let screen = fs::read_to_string(&path).expect("a screen");
        let command = screen.lines().next().unwrap_or_default();
        let is_first = command == "$ whyslow" || command.starts_with("$ whyslow read ");
        if !is_first {
            continue;
        }
        seen += 1;
        let lines = screen.lines().count() - 1;
        let most = if screen.contains("To decide, on the captured host:") { 17 } else { 10 };
        assert!(lines <= most, "{} has {lines} lines", path.display());
        let answer = answer(&screen);
        // The next capture and the comparison do not count as part of the answer.
        let own = answer.iter().take_while(|line| !line.starts_with("To decide, "));
        let count: usize = own.filter(|line| !line.starts_with("Compared: ")).map(|line| numbers(line)).sum();
        assert!(count <= 5, "{} has {count} numbers in its answer:\n{}", path.display(), answer.join("\n"));
    }
    assert!(seen >= 15, "only {seen} first screens");
}
