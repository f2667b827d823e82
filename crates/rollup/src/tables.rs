//! All tables of the store, version 1: columns may be added, but existing ones do not change.

use crate::table::{Column, ColumnKind, TableSpec};
use std::sync::LazyLock;
use whyslow_exporters::{Entities, SelectedFamily, Selection};
use whyslow_model::catalogue::{MetricKind, Unit};
use whyslow_model::key::KeyPartKind;

/// Name of the column with the host's name.
pub const HOST: &str = "host";
/// Name of the column with the time of a row.
pub const AT: &str = "at";

/// Histograms that are shipped in addition to the exporters' default metrics; exporters export them by bucket.
const HISTOGRAMS: [&str; 1] = ["request.device_time"];
/// Number of entities per family with histograms: the most active ones.
const MOST_HISTOGRAMS: usize = 8;

/// Returns the families whose minutes are shipped, in the order of [`tables`].
pub(crate) fn selected() -> &'static [SelectedFamily] {
    static SELECTED: LazyLock<Vec<SelectedFamily>> = LazyLock::new(|| {
        let words: Vec<String> = [Selection::DEFAULT].iter().chain(&HISTOGRAMS).map(|&word| word.to_owned()).collect();
        // These are the words above; a test selects them.
        let selection = Selection::parse(&words, None, Selection::MOST_SERIES).ok();
        let mut families = selection.map(Selection::into_families).unwrap_or_default();
        for family in &mut families {
            if family.metrics().any(|metric| metric.kind == MetricKind::Histogram) {
                family.entities = Entities::Most(MOST_HISTOGRAMS);
            }
        }
        families
    });
    &SELECTED
}

/// Returns all tables, the same at every call.
pub fn tables() -> &'static [TableSpec] {
    static TABLES: LazyLock<Vec<TableSpec>> = LazyLock::new(|| {
        let mut tables = vec![minute()];
        for family in selected() {
            tables.extend(of_family(family));
            tables.extend(histograms(family));
        }
        tables.extend([episode(), inventory(), change()]);
        tables
    });
    &TABLES
}

/// Returns the table with this name.
pub fn table(name: &str) -> Option<&'static TableSpec> {
    tables().iter().find(|table| table.name == name)
}

/// Returns the name of the table with a histogram's buckets.
pub(crate) fn histogram_table(family: &str, metric: &str) -> String {
    format!("{family}_{metric}")
}

fn column(name: &str, kind: ColumnKind, unit: &'static str, meaning: impl Into<String>) -> Column {
    Column { name: name.into(), kind, unit, meaning: meaning.into(), nullable: true }
}

fn timestamp(name: &str, meaning: &str) -> Column {
    column(name, ColumnKind::Timestamp, "", meaning)
}

fn integer(name: &str, unit: &'static str, meaning: &str) -> Column {
    column(name, ColumnKind::Integer, unit, meaning)
}

fn double(name: &str, unit: &'static str, meaning: &str) -> Column {
    column(name, ColumnKind::Double, unit, meaning)
}

fn text(name: &str, meaning: &str) -> Column {
    column(name, ColumnKind::Text, "", meaning)
}

fn boolean(name: &str, meaning: &str) -> Column {
    column(name, ColumnKind::Boolean, "", meaning)
}

/// Creates a table with these columns after the two that all tables have.
fn with(name: &str, meaning: &str, at: &str, columns: impl IntoIterator<Item = Column>) -> TableSpec {
    let host = Column { nullable: false, ..text(HOST, "the host") };
    let at = Column { nullable: false, ..timestamp(AT, at) };
    TableSpec { name: name.into(), meaning: meaning.into(), columns: [host, at].into_iter().chain(columns).collect() }
}

const OF_MINUTE: &str = "when the minute began";
const SECONDS: &str = "how much of the minute was observed: counts are of that time";

fn minute() -> TableSpec {
    with(
        "minute",
        "A minute of a host.",
        OF_MINUTE,
        [
            double("seconds", "s", SECONDS),
            integer("samples", "count", "samples taken"),
            integer("missed", "count", "samples that were due and were not taken or not kept"),
            double("judged_s", "s", "how much of it was judged by the rules"),
            double(
                "lost_s",
                "s",
                "time lost to causes while it was judged: of each window its length x the greatest impact found in it",
            ),
            text("version", "the version of whyslow that shipped it"),
        ],
    )
}

fn episode() -> TableSpec {
    with(
        "episode",
        "A cause of lost time, within one hour: what lasts longer has a row in each.",
        "when it was first felt in this hour",
        [
            timestamp("until", "when it was last felt in this hour"),
            text("finding", "what was found (`whyslow rules`)"),
            text("kind", "the kind of thing that it was found on"),
            text("subject", "that thing"),
            text("culprit", "what caused it, if that is known"),
            text("confidence", "how certain it is: low, medium or high"),
            double("lost_s", "s", "the time lost to it: of each window its length x its impact"),
            double("worst", "ratio", "the greatest share of a window that it cost"),
            boolean("began_before", "whether it had begun before this hour"),
            boolean("goes_on", "whether it lasted beyond this hour, or beyond what was shipped of it"),
        ],
    )
}

fn inventory() -> TableSpec {
    with(
        "inventory",
        "A property of a host: once a day.",
        "when it was read",
        [
            text("kind", "kernel, machine, firmware, driver, sysctl, package, limit, disk or label"),
            text("name", "what it is a property of"),
            text("value", "its value"),
        ],
    )
}

fn change() -> TableSpec {
    with(
        "change",
        "A property that changed.",
        "when the new value was first seen",
        [
            text("kind", "as in `inventory`; also unit (started again) and tuning (what whyslow changed)"),
            text("name", "what it is a property of"),
            text("old", "the value before; null if there was none"),
            text("new", "the value since then; null if it is gone"),
        ],
    )
}

/// Returns the columns of a family's key.
fn keys(family: &SelectedFamily) -> Vec<Column> {
    match (family.named_by, family.entities) {
        (_, Entities::Sum) => Vec::new(),
        (Some(name), _) => {
            let metric = &family.info.metrics[name];
            vec![text(metric.name, &format!("{}; the row adds up all that have it", metric.help))]
        }
        (None, _) => {
            let meaning = format!("{}: what the row is of", family.info.key);
            let of = |(name, kind)| match kind {
                KeyPartKind::Number => integer(name, "", &meaning),
                KeyPartKind::Text => text(name, &meaning),
            };
            family.info.key_columns().map(of).collect()
        }
    }
}

/// Returns the table of a family's minutes; `None` if all of its metrics are histograms.
fn of_family(family: &SelectedFamily) -> Option<TableSpec> {
    let mut columns = vec![double("seconds", "s", SECONDS)];
    columns.extend(keys(family));
    let figures = figures(family);
    let is_empty = figures.is_empty();
    columns.extend(figures.into_iter().map(|(_, _, column)| column));
    let meaning = match family.entities {
        Entities::Sum => format!("A minute: {} The rows of all are added up.", family.info.help),
        Entities::Most(_) if family.info.key_columns.is_empty() => format!("A minute: {}", family.info.help),
        Entities::Most(most) => format!("A minute: {} The {most} most active of each hour.", family.info.help),
        Entities::MostAndOthers(most) => {
            format!("A minute: {} The {most} most active of each hour, and the sum of the others.", family.info.help)
        }
    };
    (!is_empty).then(|| with(family.info.name, &meaning, OF_MINUTE, columns))
}

/// Figure of a metric's readings in a minute that a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    /// Growth of a counter.
    Growth,
    /// Mean of a level.
    Mean,
    /// Smallest reading of a level.
    Least,
    /// Largest reading of a level.
    Greatest,
    /// Last text.
    Last,
}

/// Returns the columns of a family's metrics, each with the metric's position among the selected ones.
pub(crate) fn figures(family: &SelectedFamily) -> Vec<(usize, Figure, Column)> {
    // A level and its limit may be `files` and `files_max`: then there is no column for the largest reading.
    let is_free = |name: &str| family.metrics().all(|metric| metric.name != name);
    let mut all = Vec::new();
    for (at, metric) in family.metrics().enumerate() {
        let unit = unit(metric.unit);
        let extreme = |name: &str, meaning: &str| {
            double(&format!("{}_{name}", metric.name), unit, &format!("{meaning}; null where a row adds up several"))
        };
        match metric.kind {
            MetricKind::Counter => {
                let growth = integer(metric.name, unit, &format!("{}, in this minute", metric.help));
                all.push((at, Figure::Growth, growth));
            }
            MetricKind::Gauge => {
                let extremes =
                    [(Figure::Least, extreme("min", "the least")), (Figure::Greatest, extreme("max", "the greatest"))];
                all.push((at, Figure::Mean, double(metric.name, unit, &format!("{}: the mean", metric.help))));
                let free = extremes.into_iter().filter(|(_, column)| is_free(&column.name));
                all.extend(free.map(|(figure, column)| (at, figure, column)));
            }
            MetricKind::State => all.push((at, Figure::Last, text(metric.name, &format!("{}: the last", metric.help)))),
            MetricKind::Histogram => {}
        }
    }
    all
}

/// Returns the tables of a family's histograms.
fn histograms(family: &SelectedFamily) -> impl Iterator<Item = TableSpec> {
    let all = family.metrics().filter(|metric| metric.kind == MetricKind::Histogram);
    all.map(|metric| {
        let buckets = [
            integer("at_least", unit(metric.unit), "the smallest value of the bucket; buckets are four to an octave"),
            integer(
                "count",
                "count",
                "values in the bucket, in this minute; a sum over rows is the distribution of all",
            ),
        ];
        let name = histogram_table(family.info.name, metric.name);
        let meaning = format!("A bucket of the distribution in a minute: {}.", metric.help);
        with(&name, &meaning, OF_MINUTE, keys(family).into_iter().chain(buckets))
    })
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "ns",
        Unit::Bytes => "bytes",
        Unit::Count => "count",
        Unit::Ratio => "ratio",
        Unit::BitsPerSecond => "bit/s",
        Unit::Hertz => "Hz",
        Unit::Celsius => "Cel",
        Unit::Text => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fmt::Write;

    fn names(table: &str) -> Vec<&'static str> {
        table_of(table).columns.iter().map(|column| column.name.as_str()).collect()
    }

    fn table_of(name: &str) -> &'static TableSpec {
        table(name).unwrap_or_else(|| panic!("no table {name}"))
    }

    #[test]
    fn names_are_unique_and_fit_any_engine() {
        let is_word =
            |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        let mut seen = BTreeSet::new();
        for table in tables() {
            assert!(is_word(&table.name) && seen.insert(&table.name), "{}", table.name);
            let columns: BTreeSet<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
            assert_eq!(columns.len(), table.columns.len(), "{}", table.name);
            // Names of the partition columns.
            assert!(columns.iter().all(|name| is_word(name) && *name != "day" && *name != "hour"), "{}", table.name);
            assert_eq!([&table.columns[0].name, &table.columns[1].name], [HOST, AT]);
        }
    }

    #[test]
    fn columns_follow_from_the_kind_of_the_metric_and_of_the_entities() {
        assert_eq!(&names("minute")[2..], ["seconds", "samples", "missed", "judged_s", "lost_s", "version"]);
        let of_limits = ["seconds", "files", "files_min", "files_max", "files_max_min", "files_max_max"];
        assert_eq!(names("limits")[2..], of_limits, "files_max is a metric");
        assert_eq!(&names("cpu")[2..5], ["seconds", "user", "nice"], "added up, so that it has no number");
        assert_eq!(&names("interface")[2..6], ["seconds", "ns", "name", "rx_bytes"]);
        assert_eq!(&names("process")[2..5], ["seconds", "command", "user"]);
        assert_eq!(&names("request_device_time")[2..], ["device", "operation", "at_least", "count"]);
        assert_eq!(table_of("disk").columns[5].kind, ColumnKind::Integer);
        assert!(table("request").is_none(), "it would have no columns");
    }

    const BEGIN: &str = "<!-- tables: written by `WHYSLOW_UPDATE_DOCS=1 cargo test -p whyslow-rollup docs` -->\n";
    const END: &str = "<!-- end of tables -->\n";

    fn documentation() -> String {
        let mut text = String::new();
        for table in tables() {
            let _ = write!(
                text,
                "**{}**: {}\n\n| column | type | unit | meaning |\n|---|---|---|---|\n",
                table.name, table.meaning
            );
            for column in &table.columns {
                let Column { name, kind, unit, meaning, .. } = column;
                let _ = writeln!(text, "| `{name}` | {} | {unit} | {meaning} |", kind.sql());
            }
            text.push('\n');
        }
        text
    }

    #[test]
    fn docs_list_the_tables() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fleet.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (before, rest) = text.split_once(BEGIN).expect("the beginning is marked");
        let (written, after) = rest.split_once(END).expect("the end is marked");
        if std::env::var_os("WHYSLOW_UPDATE_DOCS").is_some() {
            std::fs::write(path, format!("{before}{BEGIN}{}{END}{after}", documentation())).unwrap();
        } else {
            assert_eq!(written, documentation(), "update it: WHYSLOW_UPDATE_DOCS=1 cargo test -p whyslow-rollup docs");
        }
    }

    #[test]
    fn what_is_exported_by_default_is_shipped() {
        let of_default = Selection::parse(&[Selection::DEFAULT.to_owned()], None, Selection::MOST_SERIES).unwrap();
        assert!(of_default.into_families().iter().all(|family| table(family.info.name).is_some()));
    }
}
