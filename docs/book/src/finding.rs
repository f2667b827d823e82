//! One page for each finding, generated from its rules.

use crate::markdown::{anchor, escaped};
use crate::tunables;
use std::collections::BTreeMap;
use std::path::PathBuf;
use whyslow_documents::diagnosis::ActionKind;
use whyslow_documents::listing::{ActionInfo, RuleInfo, Signal, split_set_value};

/// Returns the path of a finding's page.
pub(crate) fn path(id: &str) -> PathBuf {
    PathBuf::from(format!("docs/findings/{id}.md"))
}

/// Returns the pages by id.
pub(crate) fn pages(rules: &[RuleInfo]) -> BTreeMap<String, String> {
    let mut causes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for rule in rules {
        for effect in &rule.explains {
            causes.entry(effect).or_default().push(&rule.id);
        }
    }
    let mut by_id: BTreeMap<&str, Vec<&RuleInfo>> = BTreeMap::new();
    for rule in rules {
        by_id.entry(&rule.id).or_default().push(rule);
    }
    for variants in by_id.values_mut() {
        // The main rule comes before its variants.
        variants.sort_by_key(|rule| !rule.variant.is_empty());
    }
    let known = |id: &str| by_id.contains_key(id);
    let page = |(id, variants): (&&str, &Vec<&RuleInfo>)| {
        let causes = causes.get(id).map_or(&[][..], Vec::as_slice);
        ((*id).to_owned(), page(id, variants, causes, &known))
    };
    by_id.iter().map(page).collect()
}

/// Links each id in the overview to its page.
pub(crate) fn with_links<'a>(overview: &str, ids: impl Iterator<Item = &'a str>) -> String {
    let ids: Vec<&str> = ids.collect();
    let link = |id: &str| if ids.contains(&id) { format!("[{id}](findings/{id}.md)") } else { id.to_owned() };
    let line = |line: &str| match line.strip_prefix("| ").and_then(|row| row.split_once(" | ")) {
        Some((first, rest)) => {
            let linked: Vec<String> = first.split(", ").map(link).collect();
            format!("| {} | {rest}\n", linked.join(", "))
        }
        None => format!("{line}\n"),
    };
    overview.lines().map(line).collect()
}

fn page(id: &str, variants: &[&RuleInfo], causes: &[&str], is_known: &dyn Fn(&str) -> bool) -> String {
    let mut page = format!("# {id}\n\n{}\n", escaped(&variants[0].means));
    let reference = |id: &str| if is_known(id) { format!("[{id}]({id}.md)") } else { id.to_owned() };
    let references = |title: &str, ids: &mut Vec<&str>| {
        ids.sort_unstable();
        ids.dedup();
        ids.retain(|other| *other != id);
        let listed: Vec<String> = ids.iter().map(|id| reference(id)).collect();
        if listed.is_empty() { String::new() } else { format!("\n{title}: {}.\n", listed.join(", ")) }
    };
    let mut effects: Vec<&str> = variants.iter().flat_map(|rule| &rule.explains).map(String::as_str).collect();
    page += &references("Its effects may be", &mut effects);
    page += &references("It may be an effect of", &mut causes.to_vec());
    for rule in variants {
        if variants.len() > 1 {
            let variant = if rule.variant.is_empty() { "the usual rule" } else { &rule.variant };
            page += &format!("\n## Variant: {variant}\n\n{}\n", escaped(&rule.means));
        }
        page += &of_rule(rule);
    }
    page
}

fn of_rule(rule: &RuleInfo) -> String {
    let mut page =
        format!("\nIt is judged for each {} ([what the words mean](../diagnosis.md)).\n", escaped(&rule.scope));
    page += &expression("It is found when", &rule.when);
    page += &expression("Impact: the share of the time that is lost", &rule.impact);
    page += &expression("Severity, where no time was measured", &rule.severity);
    page += &list("What looks alike, and is not", &rule.look_alikes);
    page += &actions(&rule.actions);
    page += &evidence(rule);
    page += &list("Sources", &rule.sources);
    page
}

fn expression(title: &str, cel: &str) -> String {
    if cel.is_empty() { String::new() } else { format!("\n### {title}\n\n```text\n{}\n```\n", in_lines(cel.trim())) }
}

/// Breaks a condition into a line for each part that must hold.
fn in_lines(cel: &str) -> String {
    let mut lines = String::new();
    let mut depth = 0_usize;
    for (at, c) in cel.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 && cel[at..].starts_with(" && ") => {
                lines.push_str("\n ");
                continue;
            }
            _ => {}
        }
        lines.push(c);
    }
    lines
}

fn list(title: &str, entries: &[String]) -> String {
    let lines: String = entries.iter().map(|entry| format!("- {}\n", escaped(entry))).collect();
    if entries.is_empty() { String::new() } else { format!("\n### {title}\n\n{lines}") }
}

fn actions(actions: &[ActionInfo]) -> String {
    let mut page = String::new();
    if !actions.is_empty() {
        page += "\n### What to do\n\n";
    }
    for action in actions {
        let kind = match action.kind {
            ActionKind::Tunable => "Setting",
            ActionKind::Advice => "Advice",
            ActionKind::Diagnostic => "To find out more",
        };
        page += &format!("- {kind}: {}.", escaped(&action.text));
        if !action.expect.is_empty() {
            page += &format!(" Expected: {}.", escaped(&action.expect));
        }
        if !action.when.is_empty() {
            page += &format!(" Recommended when `{}`.", action.when.trim());
        }
        page.push('\n');
        for (name, value) in &action.set {
            let (value, is_least) = split_set_value(value);
            let tunable = name.split('@').next().unwrap_or(name);
            let is_listed = tunables::is_listed(tunable);
            let link =
                if is_listed { format!(": [what it does](../tunables.md#{})", anchor(tunable)) } else { String::new() };
            page += &format!("  - `{name}={value}`{}{link}\n", if is_least { " or more" } else { "" });
        }
    }
    page
}

/// Lists the signals with the values of a healthy machine, first those that the finding shows.
fn evidence(rule: &RuleInfo) -> String {
    let expected = |name: &str| rule.evidence.iter().find(|shown| shown.signal == name).map(|shown| &shown.expected);
    let (shown, read): (Vec<&Signal>, Vec<&Signal>) =
        rule.signals.iter().partition(|signal| expected(signal.name).is_some());
    let mut page = String::new();
    if !rule.signals.is_empty() {
        page += "\n### Evidence\n\n| signal | meaning | healthy | formula | source |\n|---|---|---|---|---|\n";
    }
    for signal in shown.into_iter().chain(read) {
        page += &format!(
            "| `{}` ({}) | {} | {} | {} | {} |\n",
            signal.name,
            escaped(signal.unit),
            escaped(signal.help),
            expected(signal.name).map_or_else(String::new, |healthy| escaped(healthy)),
            escaped(signal.how),
            escaped(signal.source)
        );
    }
    page
}
