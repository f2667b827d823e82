//! Rows of a family for other programs: CSV and JSON lines.

use crate::json;
use serde_json::{Map, Number, Value as Json};
use whyslow_model::catalogue::FamilyInfo;
use whyslow_model::histogram::{Histogram, span};
use whyslow_model::key::KeyPart;
use whyslow_model::value::Value;

/// The column with the time.
const AT: &str = "at";

/// Formats the names of the columns (RFC 4180).
pub fn csv_header(family: &FamilyInfo) -> String {
    csv_line(std::iter::once(AT).chain(columns(family)).map(str::to_owned))
}

/// Formats a row: time (RFC 3339), key, metrics. Absent values are empty, and text is quoted, so that empty text is distinct from
/// absent. A histogram is represented only by its count.
pub fn csv_row(at: &str, key: &[KeyPart], values: &[Value]) -> String {
    let key = key.iter().map(|part| match part {
        KeyPart::Number(number) => number.to_string(),
        KeyPart::Text(text) => quoted(text),
    });
    let values = values.iter().map(|value| match value {
        Value::Counter(counter) => counter.get().map_or_else(String::new, |n| n.to_string()),
        Value::Gauge(gauge) => gauge.get().map_or_else(String::new, |level| level.to_string()),
        Value::State(state) => state.get().map_or_else(String::new, quoted),
        Value::Histogram(histogram) => histogram.count().map_or_else(String::new, |n| n.to_string()),
    });
    csv_line(std::iter::once(at.to_owned()).chain(key).chain(values))
}

/// Formats a row as one line of JSON. Absent values are null; a histogram is a list of [smallest value, count].
pub fn json_row(family: &FamilyInfo, at: &str, key: &[KeyPart], values: &[Value]) -> String {
    let key = key.iter().map(|part| match part {
        KeyPart::Number(number) => Json::from(*number),
        KeyPart::Text(text) => Json::from(&**text),
    });
    let values = values.iter().map(|value| match value {
        Value::Counter(counter) => counter.get().map_or(Json::Null, Json::from),
        Value::Gauge(gauge) => gauge.get().and_then(number).map_or(Json::Null, Json::Number),
        Value::State(state) => state.get().map_or(Json::Null, Json::from),
        Value::Histogram(histogram) => buckets(histogram),
    });
    let mut row = Map::from_iter([(AT.to_owned(), Json::from(at)), ("family".to_owned(), Json::from(family.name))]);
    row.extend(columns(family).map(str::to_owned).zip(key.chain(values)));
    json::line(&row)
}

fn columns(family: &FamilyInfo) -> impl Iterator<Item = &'static str> {
    family.key_columns().map(|(name, _)| name).chain(family.metrics.iter().map(|metric| metric.name))
}

/// Writes whole numbers without a decimal point; JSON has no infinity.
fn number(level: f64) -> Option<Number> {
    const EXACT: f64 = (1_u64 << 53) as f64;
    if level.trunc() == level && level.abs() < EXACT {
        Some(Number::from(level as i64))
    } else {
        Number::from_f64(level)
    }
}

fn buckets(histogram: &Histogram) -> Json {
    let Some(buckets) = histogram.buckets() else { return Json::Null };
    buckets.iter().map(|(bucket, count)| Json::from(vec![span(*bucket).0, *count])).collect()
}

/// Joins cells to a line, each written unchanged (RFC 4180).
pub fn csv_line(cells: impl Iterator<Item = String>) -> String {
    let mut line = cells.collect::<Vec<_>>().join(",");
    line.push_str("\r\n");
    line
}

/// Quotes text. Spreadsheets run text that starts with one of `=+-@` as a formula: an apostrophe before it makes it text (OWASP,
/// CSV Injection). Deceptive characters are escaped.
pub fn quoted(text: &str) -> String {
    let safe = crate::escape::terminal(text).replace('"', "\"\"");
    let formula = safe.starts_with(['=', '+', '-', '@']);
    format!("\"{}{safe}\"", if formula { "'" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::catalogue::{Family, Layer, Request};
    use whyslow_model::value::State;

    #[test]
    fn hostile_names_stay_in_their_cell() {
        let key = [KeyPart::Text("=cmd|' /C calc'!A0".into()), KeyPart::Text("a,\"b\"\n\u{202e}".into())];
        let values = [Value::State(State::from("")), Value::State(State::default())];
        let row = csv_row("2026-11-21T16:43:20Z", &key, &values);
        assert_eq!(row, "2026-11-21T16:43:20Z,\"'=cmd|' /C calc'!A0\",\"a,\"\"b\"\"\\n\\u{202e}\",\"\",\r\n");
        assert_eq!(csv_header(&Layer::INFO), "at,upper,lower,kind,file,offset,direct\r\n");
        let json = json_row(&Layer::INFO, "2026-11-21T16:43:20Z", &key, &values);
        assert!(!json.trim_end().contains(['\n', '\u{202e}']));
        let read: Json = serde_json::from_str(&json).unwrap();
        assert_eq!(
            (read["lower"].as_str(), &read["kind"], &read["file"]),
            (Some("a,\"b\"\n\u{202e}"), &Json::from(""), &Json::Null)
        );
    }

    #[test]
    fn a_histogram_is_its_buckets() {
        let row = Request { size: Histogram::from_values([5, 5, 4096]), ..Request::default() };
        let values: Vec<Value> = (0..Request::INFO.metrics.len()).filter_map(|column| row.value(column)).collect();
        let key = [KeyPart::Text("sda".into()), KeyPart::Text("read".into())];
        let read: Json = serde_json::from_str(&json_row(&Request::INFO, "", &key, &values)).unwrap();
        assert_eq!(read["size"], serde_json::json!([[5, 2], [4096, 1]]));
        assert_eq!(read["queue_time"], Json::Null);
    }
}
