//! Summarizes a document in the form that a person would see.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use whyslow_documents::comparison::Comparison;
use whyslow_documents::diagnosis::Diagnosis;
use whyslow_documents::explanation::Explanation;
use whyslow_documents::tune::{PlanDocument, Rehearsal};
use whyslow_show::escape;
use whyslow_show::text::{self, TextStyle};

/// Maximum number of lines of a list.
const LONGEST_LIST: usize = 300;
/// Maximum number of findings that are listed.
const MOST_FINDINGS: usize = 10;

/// Kind of a document, which decides how it is formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentKind {
    /// Result of observing or of reading captures.
    Diagnosis,
    /// Events over a recording.
    Explanation,
    /// Differences between two periods or results.
    Comparison,
    /// Effects of a planned change.
    Plan,
    /// Plan of a trial.
    Trial,
    /// A list of rules or metrics, or one rule.
    List,
}

/// Formats the document as text, or as JSON if it cannot be formatted.
pub fn text(kind: DocumentKind, document: &Value) -> String {
    let style = TextStyle { width: 100, colour: false, all: false, utc: true };
    match kind {
        DocumentKind::Diagnosis => drawn::<Diagnosis>(document, &style, text::diagnosis),
        DocumentKind::Explanation => drawn::<Explanation>(document, &style, text::explanation),
        DocumentKind::Comparison => drawn::<Comparison>(document, &style, text::comparison),
        DocumentKind::Plan => drawn::<PlanDocument>(document, &style, text::tune::plan),
        DocumentKind::Trial => drawn::<Rehearsal>(document, &style, text::tune::rehearsal),
        DocumentKind::List => list(document),
    }
}

fn drawn<T: DeserializeOwned>(document: &Value, style: &TextStyle, draw: fn(&T, &TextStyle) -> String) -> String {
    match T::deserialize(document) {
        Ok(typed) => draw(&typed, style),
        Err(_) => whyslow_show::json::pretty(document),
    }
}

/// Formats a line for each entry of a list: its id or name, and its meaning; for a single family, its metrics too.
fn list(document: &Value) -> String {
    let Value::Array(entries) = document else { return whyslow_show::json::pretty(document) };
    let members = |entry: &Value| entry.get("metrics").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut lines: Vec<String> = match &entries[..] {
        [only] => [only.clone()].iter().chain(&members(only)).filter_map(line).collect(),
        several => several.iter().filter_map(line).collect(),
    };
    let more = lines.len().saturating_sub(LONGEST_LIST);
    lines.truncate(LONGEST_LIST);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines.join("\n")
}

fn line(entry: &Value) -> Option<String> {
    let text = |name: &str| entry.get(name)?.as_str().map(|text| escape::terminal(text).into_owned());
    let name = text("id").or_else(|| text("name"))?;
    let name = text("scope").map_or(name.clone(), |scope| format!("{name} ({scope})"));
    Some(text("means").or_else(|| text("help")).map_or(name.clone(), |meaning| format!("{name}: {meaning}")))
}

/// Formats the verdict and the findings of a diagnosis, each with its reference, because the screen names causes only in words.
pub fn findings(reference: &str, document: &Value) -> String {
    let Ok(diagnosis) = Diagnosis::deserialize(document) else { return String::new() };
    let mut lines = vec![format!("Verdict: {}", spelled(&diagnosis.verdict))];
    lines.extend(diagnosis.findings.iter().take(MOST_FINDINGS).enumerate().map(|(n, finding)| {
        let key = escape::terminal(&finding.subject.key_of(&finding.id)).into_owned();
        let cause = finding
            .explained_by
            .as_ref()
            .map_or_else(String::new, |cause| format!(", an effect of {}", escape::terminal(cause)));
        format!("{reference}/findings/{n}: {key}, {} confidence{cause}", spelled(&finding.confidence))
    }));
    lines.join("\n")
}

/// Returns a word of the document in its JSON spelling.
fn spelled(word: &impl Serialize) -> String {
    serde_json::to_value(word).ok().and_then(|word| Some(word.as_str()?.to_owned())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_list_has_a_line_for_each_and_one_family_its_metrics() {
        let rules = json!([{"id": "disk.slow", "scope": "disk", "means": "A disk is slow."}, {"id": "a\u{1b}[2J", "means": "b"}]);
        assert_eq!(text(DocumentKind::List, &rules), "disk.slow (disk): A disk is slow.\na\\x1b[2J: b");
        let family =
            json!([{"name": "disk", "help": "Requests", "metrics": [{"name": "reads", "help": "reads completed"}]}]);
        assert_eq!(text(DocumentKind::List, &family), "disk: Requests\nreads: reads completed");
        let many: Value = (0..400).map(|n| json!({"name": format!("n{n}")})).collect();
        let lines: Vec<String> = text(DocumentKind::List, &many).lines().map(str::to_owned).collect();
        assert_eq!((lines.len(), &*lines[299], &*lines[300]), (301, "n299", "and 100 more"));
    }
}
