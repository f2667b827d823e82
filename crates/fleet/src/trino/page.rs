//! Responses of the coordinator: <https://trino.io/docs/current/develop/client-protocol.html>.

use crate::Failure;
use jiff::civil::DateTime;
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::Value as Json;
use whyslow_rollup::Cell;

/// A page of an answer.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Page {
    /// URL of the next page; `None` at the end.
    pub(super) next_uri: Option<String>,
    pub(super) columns: Option<Vec<Column>>,
    #[serde(default)]
    pub(super) data: Vec<Vec<Json>>,
    pub(super) stats: Stats,
    pub(super) error: Option<QueryError>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Column {
    pub(super) name: String,
    /// Type name as in SQL, such as `timestamp(3)`.
    #[serde(rename = "type")]
    pub(super) kind: String,
}

/// Progress of a query; unchanged while it makes no progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stats {
    pub(super) state: String,
    #[serde(default)]
    completed_splits: u64,
    #[serde(default)]
    processed_rows: u64,
    #[serde(default)]
    cpu_time_millis: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct QueryError {
    pub(super) message: Option<String>,
    #[serde(default)]
    pub(super) error_name: String,
}

impl Column {
    /// Converts a value of the column; converts types that tables do not have to text.
    ///
    /// # Errors
    /// Fails if the value does not have the column's type.
    pub(super) fn cell(&self, value: &Json) -> Result<Cell, Failure> {
        let kind = self.kind.split('(').next().unwrap_or_default();
        let cell = match (kind, value) {
            (_, Json::Null) => Some(Cell::Null),
            ("boolean", value) => value.as_bool().map(Cell::Boolean),
            ("tinyint" | "smallint" | "integer" | "bigint", value) => value.as_i64().map(Cell::Integer),
            ("real" | "double", Json::Number(number)) => number.as_f64().map(Cell::Double),
            // JSON has neither NaN nor infinities, and its numbers are less exact than decimals.
            ("real" | "double" | "decimal", Json::String(text)) => text.parse().ok().map(Cell::Double),
            ("timestamp", Json::String(text)) => {
                Some(timestamp(text).map_or_else(|| Cell::text(text), Cell::Timestamp))
            }
            ("real" | "double" | "decimal" | "timestamp", _) => None,
            (_, Json::String(text)) => Some(Cell::text(text)),
            (_, other) => Some(Cell::text(&other.to_string())),
        };
        cell.ok_or_else(|| Failure::usage(format!("Trino sent {value} in {}, which is {}", self.name, self.kind)))
    }
}

/// Parses `2026-11-26 14:30:00.250`, followed by a zone or else in UTC, to milliseconds since 1970. Returns `None` for
/// years that do not have four digits.
fn timestamp(text: &str) -> Option<i64> {
    let (time, zone) = match text.match_indices(' ').nth(1) {
        Some((at, _)) => (&text[..at], DateTimeParser::new().parse_time_zone(&text[at + 1..]).ok()?),
        None => (text, TimeZone::UTC),
    };
    let time: DateTime = time.parse().ok()?;
    Some(time.to_zoned(zone).ok()?.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cell(kind: &str, value: Json) -> Result<Cell, Failure> {
        Column { name: "x".into(), kind: kind.into() }.cell(&value)
    }

    #[test]
    fn values_keep_their_meaning() {
        let at = "2026-11-26T14:30:00.25Z".parse::<jiff::Timestamp>().unwrap().as_millisecond();
        for (kind, value, expected) in [
            ("bigint", json!(i64::MIN), Cell::Integer(i64::MIN)),
            ("integer", json!(null), Cell::Null),
            ("double", json!(0.1), Cell::Double(0.1)),
            ("double", json!("Infinity"), Cell::Double(f64::INFINITY)),
            ("double", json!("-Infinity"), Cell::Double(f64::NEG_INFINITY)),
            ("decimal(21,1)", json!("12.5"), Cell::Double(12.5)),
            ("boolean", json!(false), Cell::Boolean(false)),
            ("varchar(3)", json!("a\u{1b}"), Cell::text("a\u{1b}")),
            ("timestamp(3)", json!("2026-11-26 14:30:00.250"), Cell::Timestamp(at)),
            ("timestamp(3) with time zone", json!("2026-11-26 14:30:00.250 UTC"), Cell::Timestamp(at)),
            ("timestamp(6) with time zone", json!("2026-11-26 15:30:00.250000 +01:00"), Cell::Timestamp(at)),
            ("timestamp(0) with time zone", json!("2026-11-26 15:30:00 Europe/Berlin"), Cell::Timestamp(at - 250)),
            ("timestamp(3)", json!("+12345-01-01 00:00:00.000"), Cell::text("+12345-01-01 00:00:00.000")),
            ("date", json!("2026-11-26"), Cell::text("2026-11-26")),
            ("array(bigint)", json!([1, null]), Cell::text("[1,null]")),
        ] {
            assert_eq!(cell(kind, value.clone()), Ok(expected), "{kind} {value}");
        }
        let Ok(Cell::Double(nan)) = cell("double", json!("NaN")) else { panic!("a number") };
        assert!(nan.is_nan());
    }

    #[test]
    fn values_of_another_type_are_refused() {
        for (kind, value) in [
            ("bigint", json!("7")),
            ("bigint", json!(0.5)),
            ("bigint", json!(u64::MAX)),
            ("double", json!(true)),
            ("double", json!("soon")),
            ("decimal(3,1)", json!(1)),
            ("boolean", json!(1)),
            ("timestamp(3)", json!(7)),
        ] {
            let said = cell(kind, value.clone()).unwrap_err().to_string();
            assert_eq!(said, format!("Trino sent {value} in x, which is {kind}"));
        }
    }
}
