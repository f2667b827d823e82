//! Documents of earlier answers, and references to their parts.

use serde_json::Value;
use std::collections::VecDeque;

/// Number of documents kept; older ones are discarded.
const KEPT: usize = 16;
/// A part whose JSON is longer than this, in bytes, is answered with an outline.
const LONGEST: usize = 16_000;
/// Maximum length of a text shown in an outline, characters.
const LONGEST_IN_OUTLINE: usize = 200;
/// Maximum number of members listed in an outline.
const MOST_IN_OUTLINE: usize = 200;

/// The newest documents of this session, each with its number.
#[derive(Debug, Default)]
pub struct Documents {
    kept: VecDeque<(u64, Value)>,
    count: u64,
}

impl Documents {
    /// Stores a document. Returns its reference, such as `d3`, and the stored document.
    pub fn keep(&mut self, document: Value) -> (String, &Value) {
        self.count += 1;
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        let (count, kept) = self.kept.push_back_mut((self.count, document));
        (format!("d{count}"), kept)
    }

    /// Returns the part with this reference, such as `d3/findings/0`: a document, then a JSON pointer (RFC 6901).
    ///
    /// # Errors
    /// Fails if the document does not exist or was discarded, or if it has no such part.
    pub fn part(&self, reference: &str) -> Result<&Value, String> {
        let (name, pointer) = match reference.find('/') {
            Some(slash) => reference.split_at(slash),
            None => (reference, ""),
        };
        let number = name.strip_prefix('d').and_then(|number| number.parse::<u64>().ok());
        let number = number.ok_or_else(|| format!("{reference}: a reference looks like d3/findings/0"))?;
        let kept = self.kept.iter().find(|(one, _)| *one == number);
        let (_, document) = kept.ok_or_else(|| match number {
            1.. if number <= self.count => {
                format!("{name}: only the last {KEPT} documents are kept; call the tool again")
            }
            _ => format!("{name}: there is no such document yet"),
        })?;
        document.pointer(pointer).ok_or_else(|| format!("{reference}: {name} has no such part"))
    }
}

/// Returns a part as JSON; if that is long, its members with references to them.
pub fn details(reference: &str, part: &Value) -> String {
    let json = whyslow_show::json::pretty(part);
    if json.len() <= LONGEST { json } else { outline(reference, part) }
}

/// Lists the references to those members of a document that have members of their own.
pub fn contents(reference: &str, document: &Value) -> Vec<String> {
    let Value::Object(members) = document else { return Vec::new() };
    let part = |(name, value): (&String, &Value)| match value {
        Value::Array(list) if !list.is_empty() => Some(format!("{reference}/{} ({})", escaped(name), list.len())),
        Value::Object(object) if !object.is_empty() => Some(format!("{reference}/{}", escaped(name))),
        _ => None,
    };
    members.iter().filter_map(part).collect()
}

fn outline(reference: &str, part: &Value) -> String {
    let line = |name: String, value: &Value| {
        let what = match value {
            Value::Array(list) => format!("{} entries", list.len()),
            Value::Object(members) => {
                let id = ["id", "name", "metric", "summary"].iter().find_map(|name| members.get(*name)?.as_str());
                id.map_or_else(|| format!("{} members", members.len()), shortened)
            }
            Value::String(text) => shortened(text),
            other => other.to_string(),
        };
        format!("{reference}/{name}: {what}")
    };
    let mut lines: Vec<String> = match part {
        Value::Object(members) => members.iter().map(|(name, value)| line(escaped(name), value)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(n, value)| line(n.to_string(), value)).collect(),
        other => vec![other.to_string()],
    };
    if lines.len() > MOST_IN_OUTLINE {
        let more = lines.len() - MOST_IN_OUTLINE;
        lines.truncate(MOST_IN_OUTLINE);
        lines.push(format!("and {more} more, up to {reference}/{}", MOST_IN_OUTLINE + more - 1));
    }
    lines.join("\n")
}

fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(LONGEST_IN_OUTLINE).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    whyslow_show::escape::terminal(&short).into_owned()
}

/// Escapes a member's name for a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_reference_is_a_document_and_a_pointer() {
        let mut documents = Documents::default();
        assert_eq!(documents.keep(json!({"findings": [{"id": "disk.slow"}], "a/b": {"c": 1}})).0, "d1");
        assert_eq!(documents.part("d1/findings/0/id"), Ok(&json!("disk.slow")));
        assert_eq!(documents.part("d1/a~1b/c"), Ok(&json!(1)));
        assert!(documents.part("d1").unwrap().is_object());
        for (wrong, why) in [
            ("", "looks like"),
            ("d", "looks like"),
            ("findings/0", "looks like"),
            ("d0", "no such document"),
            ("d2", "no such document"),
            ("d1/findings/1", "no such part"),
            ("d1/findings/-1", "no such part"),
        ] {
            let refused = documents.part(wrong).unwrap_err();
            assert!(refused.contains(why), "{wrong}: {refused}");
        }
    }

    #[test]
    fn only_the_newest_are_kept() {
        let mut documents = Documents::default();
        for n in 0..20 {
            documents.keep(json!(n));
        }
        assert!(documents.part("d4").unwrap_err().contains("only the last 16"));
        assert_eq!(documents.part("d5"), Ok(&json!(4)));
        assert_eq!(documents.part("d20"), Ok(&json!(19)));
    }

    #[test]
    fn what_is_long_is_an_outline_that_leads_on() {
        let finding = |n: usize| json!({"id": format!("disk.f{n}"), "summary": "x".repeat(100)});
        let document =
            json!({"verdict": "bottleneck", "findings": (0..300).map(finding).collect::<Vec<_>>(), "empty": []});
        assert_eq!(contents("d1", &document), ["d1/findings (300)"]);
        let text = details("d1", &document);
        assert_eq!(text, "d1/verdict: bottleneck\nd1/findings: 300 entries\nd1/empty: 0 entries");
        let text = details("d1/findings", &document["findings"]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[0], lines.len()), ("d1/findings/0: disk.f0", 201));
        assert_eq!(lines[200], "and 100 more, up to d1/findings/299");
        assert!(details("d1/findings/0", &document["findings"][0]).contains("\"id\": \"disk.f0\""));
    }
}
