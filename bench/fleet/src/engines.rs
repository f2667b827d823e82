//! Compares the answers of the embedded engine and Trino, and how long each takes.

use crate::fleet_program::FleetProgram;
use crate::growth::Times;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Instant;
use whyslow_pairs::failure::{Failure, Result};
use whyslow_pairs::stop;
use whyslow_rollup::tables;

/// Maximum relative difference of numbers: engines add up in different orders.
const ROUNDING: f64 = 1e-9;
/// Field for the left-out data, which depends on the files that an engine reads, not on the rows.
const LEFT_OUT: &str = "left_out";
/// Command whose answer refers to the time until now, which advances.
const FORECAST: &str = "forecast";
const ENDS: [&str; 2] = ["from", "to"];

/// SQL queries, each with a deterministic order of rows.
const SQL: [&str; 12] = [
    "SELECT COUNT(*) AS n, COUNT(DISTINCT host) AS hosts, MIN(at) AS first, MAX(at) AS last FROM minute",
    "SELECT host, SUM(lost_s) AS lost FROM minute GROUP BY host ORDER BY lost DESC, host LIMIT 50",
    "SELECT day, hour, SUM(write_time) / NULLIF(SUM(writes), 0) AS ns FROM disk GROUP BY day, hour ORDER BY day, hour",
    "SELECT finding, COUNT(*) AS n, SUM(lost_s) AS lost, MAX(worst) AS worst FROM episode GROUP BY finding ORDER BY finding",
    "SELECT kind, COUNT(DISTINCT name) AS names FROM inventory GROUP BY kind ORDER BY kind",
    "SELECT DISTINCT host, name, value FROM inventory WHERE kind = 'label' ORDER BY host, name, value",
    "SELECT host, at, kind, name, COALESCE(old, '') AS was, COALESCE(new, '') AS becomes FROM change \
     ORDER BY host, at, kind, name, was, becomes",
    "SELECT value AS role, SUM(lost_s) AS lost FROM minute JOIN (SELECT DISTINCT host AS labelled, value FROM inventory \
     WHERE kind = 'label' AND name = 'role') AS roles ON host = labelled GROUP BY value ORDER BY value",
    "SELECT host, at, lost_s FROM (SELECT host, at, lost_s, ROW_NUMBER() OVER (PARTITION BY host ORDER BY lost_s DESC, at) AS place \
     FROM minute) AS placed WHERE place = 1 ORDER BY host",
    "SELECT device, operation, at_least, SUM(count) AS n FROM request_device_time GROUP BY device, operation, at_least \
     ORDER BY device, operation, at_least",
    "SELECT host, point, MIN(available / size) AS least FROM mount WHERE size > 0 GROUP BY host, point ORDER BY host, point",
    "SELECT host, UPPER(host) AS large, LENGTH(host) AS length FROM minute GROUP BY host ORDER BY host",
];

/// A store that both engines are asked about.
pub struct Engines<'e> {
    /// The program with its own engine.
    pub embedded: FleetProgram<'e>,
    /// The program with Trino.
    pub trino: FleetProgram<'e>,
    /// Time span of the questions, in milliseconds since 1970.
    pub span: (i64, i64),
    /// Number of times that each question is asked.
    pub runs: usize,
}

/// Answers of the engines.
#[derive(Serialize)]
pub struct Comparison {
    questions: Vec<Compared>,
    embedded: Times,
    trino: Times,
}

/// Answers to a question.
#[derive(Serialize)]
struct Compared {
    question: String,
    /// Number of values in the answer.
    values: usize,
    /// Position where the answers first differ, and both values there.
    difference: Option<String>,
    embedded_s: Vec<f64>,
    trino_s: Vec<f64>,
}

impl Comparison {
    /// Returns whether all answers are the same.
    pub fn holds(&self) -> bool {
        self.questions.iter().all(|compared| compared.difference.is_none())
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let different: Vec<&Compared> = self.questions.iter().filter(|one| one.difference.is_some()).collect();
        writeln!(f, "{} questions, {} answered differently", self.questions.len(), different.len())?;
        different.iter().try_for_each(|compared| write!(f, "{compared}"))?;
        for (engine, Times { median, p95, .. }) in [("embedded", self.embedded), ("trino", self.trino)] {
            writeln!(f, "{engine:<9} {median:.2} s median, {p95:.2} s p95")?;
        }
        Ok(())
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { question, values, difference, embedded_s, trino_s } = self;
        let (embedded, trino) = (Times::new(embedded_s.clone()).median, Times::new(trino_s.clone()).median);
        let same = difference.as_ref().map_or_else(|| "same".to_owned(), |what| format!("DIFFERENT at {what}"));
        writeln!(f, "embedded {embedded:.2} s, trino {trino:.2} s, {values} values, {same}: {question}")
    }
}

impl Engines<'_> {
    /// Asks both engines each question, and compares the answers.
    ///
    /// # Errors
    /// Fails if a program fails or a signal arrives.
    pub fn compare(&self) -> Result<Comparison> {
        // Trino's answers end with the last compacted hour: ask both about the time until then.
        let hour = self.trino.json(&["sql", "SELECT 1 AS one"], self.span)?;
        let to = hour["to"].as_str().and_then(|to| to.parse::<jiff::Timestamp>().ok());
        let to = to.ok_or_else(|| Failure::new("an answer without an end"))?.as_millisecond();
        let span = (self.span.0, to);
        let questions = self.questions(span)?;
        let questions = questions.iter().map(|question| self.ask(question, span)).collect::<Result<Vec<_>>>()?;
        let of = |times: fn(&Compared) -> &Vec<f64>| Times::new(questions.iter().flat_map(times).copied().collect());
        let (embedded, trino) = (of(|compared| &compared.embedded_s), of(|compared| &compared.trino_s));
        Ok(Comparison { questions, embedded, trino })
    }

    /// Returns questions for every command, about hosts, findings and changes in the store.
    fn questions(&self, span: (i64, i64)) -> Result<Vec<Vec<String>>> {
        let sick = self.embedded.json(&["sick", "--limit", "0"], span)?;
        let changes = self.embedded.json(&["change"], span)?;
        let all = |list: &Value, name: &str| -> Vec<String> {
            let entries = list.as_array().into_iter().flatten();
            entries.filter_map(|entry| entry[name].as_str().map(str::to_owned)).collect()
        };
        let (sick_hosts, findings, ids) =
            (all(&sick["hosts"], "host"), all(&sick["findings"], "finding"), all(&changes["changes"], "id"));
        let observed = self.embedded.json(&["sql", "SELECT DISTINCT host FROM minute", "--limit", "0"], span)?;
        let observed: BTreeSet<String> = all(&observed["rows"], "host").into_iter().collect();
        let some = sick_hosts.iter().take(2).chain(observed.iter().take(2)).chain(observed.iter().next_back());
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let mut questions = Vec::from(
            [
                &["sick", "--limit", "0"][..],
                &["sick", "--by", "role"],
                &["sick", "--by", "kernel"],
                &["sick", "--by", "sysctl/vm.swappiness"],
                &["change"],
                &["outliers"],
                &["outliers", "--twins", "role"],
                &[FORECAST],
                &["why", "no.such.finding"],
            ]
            .map(words),
        );
        // A host name that begins with a hyphen is not an option.
        questions.extend(some.map(|host| words(&["host", "--limit", "0", "--", host])));
        for finding in findings.iter().take(2) {
            questions.push(words(&["sick", "--finding", finding]));
            questions.push(words(&["why", finding]));
            questions.push(words(&["why", finding, "--within", "rack", "--before", "3h"]));
        }
        for id in ids.iter().take(2) {
            questions.push(words(&["change", "--window", "2h", "--", id]));
        }
        let counts =
            tables().iter().map(|table| format!("SELECT '{0}' AS name, COUNT(*) AS n FROM \"{0}\"", table.name));
        let counts = format!("{} ORDER BY name", counts.collect::<Vec<_>>().join(" UNION ALL "));
        questions.extend(SQL.into_iter().chain([counts.as_str()]).map(|sql| words(&["sql", "--limit", "0", sql])));
        Ok(questions)
    }

    fn ask(&self, question: &[String], span: (i64, i64)) -> Result<Compared> {
        let words: Vec<&str> = question.iter().map(String::as_str).collect();
        let answer = |program: &FleetProgram<'_>| -> Result<(Value, Vec<f64>)> {
            let (mut answer, mut times) = (Value::Null, Vec::new());
            for _ in 0..self.runs.max(1) {
                stop::check()?;
                let begun = Instant::now();
                answer = program.answer(&words, span)?;
                times.push(begun.elapsed().as_secs_f64());
            }
            Ok((answer, times))
        };
        let ((embedded, embedded_s), (trino, trino_s)) = (answer(&self.embedded)?, answer(&self.trino)?);
        let [embedded, trino] = [embedded, trino].map(|answer| comparable(answer, words[0] == FORECAST));
        let compared = Compared {
            question: question.join(" "),
            values: values(&embedded),
            difference: difference("", &embedded, &trino),
            embedded_s,
            trino_s,
        };
        eprint!("{compared}");
        Ok(compared)
    }
}

/// Returns an answer without the fields in which engines may differ.
fn comparable(mut answer: Value, is_until_now: bool) -> Value {
    if let Some(fields) = answer.as_object_mut() {
        fields.retain(|name, _| name != LEFT_OUT && !(is_until_now && ENDS.contains(&name.as_str())));
    }
    answer
}

fn values(of: &Value) -> usize {
    match of {
        Value::Array(all) => all.iter().map(values).sum(),
        Value::Object(all) => all.values().map(values).sum(),
        _ => 1,
    }
}

/// Returns where documents first differ, apart from rounding.
fn difference(path: &str, a: &Value, b: &Value) -> Option<String> {
    let differs = || Some(format!("{path}: {a} and {b}"));
    match (a, b) {
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut pairs = a.iter().zip(b).enumerate();
            pairs.find_map(|(at, (a, b))| difference(&format!("{path}[{at}]"), a, b))
        }
        (Value::Array(a), Value::Array(b)) => Some(format!("{path}: {} and {} entries", a.len(), b.len())),
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            let of = |object: &serde_json::Map<String, Value>, key: &str| object.get(key).cloned().unwrap_or_default();
            keys.into_iter().find_map(|key| difference(&format!("{path}.{key}"), &of(a, key), &of(b, key)))
        }
        (Value::Number(a), Value::Number(b)) if a != b => {
            let (a, b) = (a.as_f64()?, b.as_f64()?);
            if (a - b).abs() <= ROUNDING * a.abs().max(b.abs()).max(1.0) { None } else { differs() }
        }
        _ if a == b => None,
        _ => differs(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn documents_differ_by_more_than_rounding() {
        let same = |a: Value, b: Value| assert_eq!(difference("", &a, &b), None);
        same(json!({"a": [1, 0.1, null], "b": [1]}), json!({"b": [1], "a": [1.0, 0.1 + 1e-12, null]}));
        same(json!(1e18), json!(1e18 + 1e8));
        let differ = |a: Value, b: Value, what: &str| assert_eq!(difference("", &a, &b).as_deref(), Some(what));
        differ(json!({"a": [1, 2]}), json!({"a": [1, 3]}), ".a[1]: 2 and 3");
        differ(json!([1]), json!([1, 2]), ": 1 and 2 entries");
        differ(json!({"a": 1}), json!({"a": 1, "b": "x"}), ".b: null and \"x\"");
        differ(json!("é"), json!("e\u{301}"), ": \"é\" and \"e\u{301}\"");
        let answer = json!({"from": 1, "to": 2, "left_out": [3], "rows": []});
        assert_eq!(comparable(answer.clone(), false), json!({"from": 1, "to": 2, "rows": []}));
        assert_eq!(comparable(answer, true), json!({"rows": []}));
        assert_eq!(values(&json!({"a": [1, {"b": null}]})), 2);
    }
}
