//! SQL of all commands. It is ANSI SQL, so that other engines over the same files give the same answers.
//!
//! Conditions on `at` select the hours that are needed; a Hive table also wants a condition on its partitions, which
//! [`during`] adds.

use crate::Span;
use crate::schema::partition_values;
use jiff::Timestamp;
use whyslow_rollup::Hour;

/// Quotes a string literal.
pub fn text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Returns a list of string literals in parentheses; if it is empty, a list that nothing equals.
pub fn list<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let literals: Vec<String> = texts.into_iter().map(text).collect();
    if literals.is_empty() { "(NULL)".to_owned() } else { format!("({})", literals.join(", ")) }
}

/// Returns the condition that a file may have rows of a span, using only the partitions.
pub(crate) fn partitions(span: Span) -> String {
    let margin = crate::validity::MARGIN_MS;
    let partition = |ms: i64| {
        Hour::from_ms(ms).map_or(["9999-12-31".into(), "23".into()], partition_values).map(|value| text(&value))
    };
    let [first_day, first_hour] = partition(span.from_ms.saturating_sub(margin));
    let [last_day, last_hour] = partition(span.to_ms.saturating_add(margin));
    format!(
        "day BETWEEN {first_day} AND {last_day} AND (day > {first_day} OR hour >= {first_hour}) \
         AND (day < {last_day} OR hour <= {last_hour})"
    )
}

/// Returns the condition that a row is in a span: by its time, and by the partition, for engines that prune only by
/// folder.
pub fn during(span: Span) -> String {
    let day = |ms: i64| {
        Timestamp::from_millisecond(ms)
            .map_or_else(|_| "9999-12-31".to_owned(), |at| at.strftime("%Y-%m-%d").to_string())
    };
    format!("{} AND day BETWEEN {} AND {}", span.sql("at"), text(&day(span.from_ms)), text(&day(span.to_ms)))
}

/// Selects the last hour of the rows, as day and hour.
pub fn last_hour(span: Span) -> String {
    format!("SELECT MAX(day || ' ' || hour) AS hour FROM minute WHERE {}", during(span))
}

/// Selects the last hour of each host's rows.
pub fn last_hours(span: Span) -> String {
    format!("SELECT host, MAX(day || ' ' || hour) AS hour FROM minute WHERE {} GROUP BY host", during(span))
}

/// Selects the time that each host lost, with its observed and judged time.
pub fn hosts(span: Span) -> String {
    format!(
        "SELECT host, SUM(seconds) AS seconds, SUM(judged_s) AS judged_s, SUM(lost_s) AS lost_s, MAX(at) AS last_at \
         FROM minute WHERE {} GROUP BY host",
        during(span)
    )
}

/// Selects the time that each host lost to each finding, the greatest loss first.
pub fn findings(span: Span) -> String {
    format!(
        "SELECT host, finding, SUM(lost_s) AS lost_s, MAX(worst) AS worst FROM episode WHERE {} \
         GROUP BY host, finding ORDER BY host, lost_s DESC, finding",
        during(span)
    )
}

/// Selects the minutes of some hosts.
pub fn minutes<'a>(span: Span, hosts: impl IntoIterator<Item = &'a str>) -> String {
    format!(
        "SELECT host, at, seconds, judged_s, lost_s FROM minute WHERE {} AND host IN {} ORDER BY host, at",
        during(span),
        list(hosts)
    )
}

/// Selects the episodes of some hosts.
pub fn episodes<'a>(span: Span, hosts: impl IntoIterator<Item = &'a str>) -> String {
    format!(
        "SELECT host, at, until, finding, kind, subject, culprit, confidence, lost_s, worst, began_before, goes_on \
         FROM episode WHERE {} AND host IN {} ORDER BY host, finding, at, subject",
        during(span),
        list(hosts)
    )
}

/// Selects a property of all hosts, the latest value last.
pub fn property(span: Span, kind: &str, name: &str) -> String {
    format!(
        "SELECT host, value FROM inventory WHERE {} AND kind = {} AND name = {} ORDER BY host, at",
        during(span),
        text(kind),
        text(name)
    )
}

/// Selects the kernel, machine and label properties of one host, the latest values last.
pub fn properties(span: Span, host: &str) -> String {
    format!(
        "SELECT kind, name, value FROM inventory WHERE {} AND host = {} AND kind IN ('kernel', 'machine', 'label') \
         ORDER BY kind, name, at",
        during(span),
        text(host)
    )
}

/// Selects the changes on a host.
pub fn changes(span: Span, host: &str) -> String {
    format!(
        "SELECT at, kind, name, old, new FROM change WHERE {} AND host = {} ORDER BY at, kind, name",
        during(span),
        text(host)
    )
}

/// Selects the time that hosts lost to a finding, one row per stored episode piece.
pub fn episodes_of(span: Span, finding: &str) -> String {
    format!(
        "SELECT host, at, lost_s, began_before FROM episode WHERE {} AND finding = {} ORDER BY host, at",
        during(span),
        text(finding)
    )
}

/// Selects the inventory of a range of hosts, the latest of each kind first.
pub fn inventory(span: Span, (first, last): (&str, &str)) -> String {
    format!(
        "SELECT host, kind, at, name, value FROM inventory WHERE {} AND host BETWEEN {} AND {} \
         ORDER BY host, kind, at DESC, name",
        during(span),
        text(first),
        text(last)
    )
}

/// Selects all changes of all hosts.
pub fn all_changes(span: Span) -> String {
    format!("SELECT host, at, kind, name, old, new FROM change WHERE {} ORDER BY host, at, kind, name", during(span))
}

/// Selects when each host first made a change: to this new value, or to any if `new` is `None`.
pub fn when_changed(span: Span, kind: &str, name: &str, new: Option<&str>) -> String {
    let value = new.map_or_else(String::new, |new| format!(" AND new = {}", text(new)));
    format!(
        "SELECT host, MIN(at) AS at FROM change WHERE {} AND kind = {} AND name = {}{value} GROUP BY host",
        during(span),
        text(kind),
        text(name)
    )
}

/// Selects the changes with the number and time span of the hosts that made them, the most common first. Excludes
/// units: a unit that restarts was not changed.
pub fn common_changes(span: Span) -> String {
    format!(
        "SELECT kind, name, new, COUNT(DISTINCT host) AS hosts, MIN(at) AS first_at, MAX(at) AS last_at FROM change \
         WHERE {} AND kind <> 'unit' GROUP BY kind, name, new ORDER BY hosts DESC, kind, name, new",
        during(span)
    )
}

/// Selects the time that some hosts lost in each ten minutes.
pub fn lost<'a>(span: Span, hosts: impl IntoIterator<Item = &'a str>) -> String {
    format!(
        "SELECT host, MIN(at) AS at, SUM(lost_s) AS lost_s, SUM(judged_s) AS judged_s FROM minute WHERE {} AND host IN {} \
         GROUP BY host, day, hour, EXTRACT(MINUTE FROM at) / 10 ORDER BY host, at",
        during(span),
        list(hosts)
    )
}

/// Selects the time that a range of hosts lost in pieces of `minutes`, which must divide an hour or a day.
pub fn lost_in_pieces(span: Span, (first, last): (&str, &str), minutes: i64) -> String {
    let piece = match minutes {
        60.. => format!("CAST(hour AS INTEGER) / {}", minutes / 60),
        _ => format!("hour, EXTRACT(MINUTE FROM at) / {minutes}"),
    };
    format!(
        "SELECT host, MIN(at) AS at, SUM(lost_s) AS lost_s, SUM(judged_s) AS judged_s FROM minute \
         WHERE {} AND host BETWEEN {} AND {} GROUP BY host, day, {piece}",
        during(span),
        text(first),
        text(last)
    )
}

/// Selects the time that all hosts lost to all findings, with start and end, hour by hour.
pub fn spans_of_findings(span: Span) -> String {
    format!("SELECT host, at, until, finding, lost_s FROM episode WHERE {} ORDER BY at, host, finding", during(span))
}

/// Selects the names of all labels.
pub fn labels(span: Span) -> String {
    format!("SELECT DISTINCT name FROM inventory WHERE {} AND kind = 'label' ORDER BY name", during(span))
}

/// Selects the minutes of a host with their observed, judged and lost time.
pub fn host_minutes(span: Span, host: &str) -> String {
    format!(
        "SELECT at, seconds, samples, missed, judged_s, lost_s FROM minute WHERE {} AND host = {} ORDER BY at",
        during(span),
        text(host)
    )
}

/// Selects the time and some columns of a table for a host; NULL for a column that the table does not have.
pub fn host_table(span: Span, table: &str, columns: &[Option<&str>], host: &str) -> String {
    let column = |column: &Option<&str>| column.map_or_else(|| "NULL".to_owned(), identifier);
    let columns: String = columns.iter().enumerate().map(|(at, of)| format!(", {} AS c{at}", column(of))).collect();
    format!(
        "SELECT at{columns} FROM {} WHERE {} AND host = {} ORDER BY at",
        identifier(table),
        during(span),
        text(host)
    )
}

/// Quotes a name that may be an SQL keyword, such as `group` or `user`.
fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Selects a value for each host and hour: an expression of sums over the rows of a table.
pub fn hourly(span: Span, table: &str, expression: &str) -> String {
    format!(
        "SELECT host, day, hour, {expression} AS value FROM {table} WHERE {} GROUP BY host, day, hour \
         ORDER BY host, day, hour",
        during(span)
    )
}

/// Selects the daily level and capacity of each entity on each host.
pub fn daily(span: Span, table: &str, thing: &str, level: &str, capacity: &str) -> String {
    format!(
        "SELECT host, thing, MAX(at) AS at, AVG(level) AS level, AVG(capacity) AS capacity FROM \
         (SELECT host, day, at, {thing} AS thing, {level} AS level, {capacity} AS capacity FROM {table} WHERE {}) AS one \
         GROUP BY host, thing, day ORDER BY host, thing, at",
        during(span)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Array, Float64Array};
    use datafusion::prelude::SessionContext;
    use std::collections::BTreeSet;
    use whyslow_model::catalogue::Disk;
    use whyslow_model::window::Change;
    use whyslow_quantities::{Declaration, Quantity, disk, growths};
    use whyslow_testing::{Random, window_of};

    #[test]
    fn literals_end_where_they_should() {
        assert_eq!(text("it's"), "'it''s'");
        assert_eq!(list(["a", "') OR 1=1 --"]), "('a', ''') OR 1=1 --')");
        assert_eq!(list([]), "(NULL)");
    }

    /// Returns the increases of an entity's counters in each step, as an SQL table like those of the fleet.
    fn table_of(quantity: &Declaration, change: &Change<'_, Disk>) -> String {
        let columns: BTreeSet<usize> = quantity.expression.columns().collect();
        let grown: Vec<Vec<(f64, Option<f64>)>> = columns.iter().map(|column| growths(change, *column)).collect();
        let names = columns.iter().map(|column| format!(", \"{}\"", quantity.family.metrics[*column].name));
        let row = |step: usize| {
            let values =
                grown.iter().map(|steps| steps[step].1.map_or(", CAST(NULL AS BIGINT)".into(), |n| format!(", {n}")));
            format!("({}{})", grown[0][step].0, values.collect::<String>())
        };
        let rows: Vec<String> = (0..grown[0].len()).map(row).collect();
        format!("(VALUES {}) AS step(seconds{})", rows.join(", "), names.collect::<String>())
    }

    #[test]
    fn a_quantity_is_the_same_in_sql_as_over_a_window() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let context = SessionContext::new();
        let mut known = 0;
        for seed in 0..40 {
            let window = window_of::<Disk>(&"sda".into(), &mut Random::new(seed));
            let change = window.change::<Disk>().unwrap();
            for quantity in disk::ALL {
                let expected = Quantity::<Disk>::from_declaration(**quantity).over(&change);
                let sql =
                    format!("SELECT CAST({} AS DOUBLE) AS value FROM {}", quantity.sql(), table_of(quantity, &change));
                let batches = runtime.block_on(async { context.sql(&sql).await?.collect().await });
                let batches = batches.unwrap_or_else(|error| panic!("{}: {error}\n{sql}", quantity.name));
                let column = batches[0].column(0).as_any().downcast_ref::<Float64Array>().unwrap();
                let value = column.is_valid(0).then(|| column.value(0));
                let is_same = match (expected, value) {
                    (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()),
                    (a, b) => a == b,
                };
                assert!(is_same, "seed {seed}, {}: {expected:?} and {value:?}\n{sql}", quantity.name);
                known += usize::from(expected.is_some());
            }
        }
        assert!(known > 400, "{known}");
    }
}
