//! The text format of Prometheus, version 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats).

use crate::series::{MetricFamily, Series, SeriesKind, SeriesValue};
use std::borrow::Cow;
use std::fmt::Write;

/// Content type for HTTP.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Formats all series, each family with its help and type.
pub fn exposition(families: &[MetricFamily]) -> String {
    let mut text = String::new();
    for family in families {
        let kind = match family.kind {
            SeriesKind::Counter => "counter",
            SeriesKind::Gauge => "gauge",
            SeriesKind::Histogram => "histogram",
        };
        let (name, help) = (&family.name, family.help.replace('\\', "\\\\").replace('\n', "\\n"));
        write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n").expect("a String takes all");
        for series in &family.series {
            for sample in samples(series) {
                text.push_str(name);
                text.push_str(sample.suffix);
                write_labels(&mut text, series, sample.bound.as_deref());
                writeln!(text, " {}", number(sample.value)).expect("a String takes all");
            }
        }
    }
    text
}

/// One number of a series: a histogram has several.
pub(crate) struct Sample {
    /// Suffix of the name.
    pub(crate) suffix: &'static str,
    /// The value of the label `le`.
    pub(crate) bound: Option<String>,
    pub(crate) value: f64,
}

/// Name of the label with a bucket's bound.
pub(crate) const BOUND: &str = "le";

/// Returns the numbers of a series. The buckets of a histogram are cumulative here.
pub(crate) fn samples(series: &Series) -> Vec<Sample> {
    match &series.value {
        SeriesValue::Number(value) => vec![Sample { suffix: "", bound: None, value: *value }],
        SeriesValue::Histogram(buckets) => {
            let mut sum = 0;
            let bounds = buckets.bounds.iter().copied().chain([f64::INFINITY]);
            let mut all: Vec<Sample> = bounds
                .zip(&buckets.counts)
                .map(|(bound, count)| {
                    sum += count;
                    Sample { suffix: "_bucket", bound: Some(number(bound)), value: sum as f64 }
                })
                .collect();
            all.push(Sample { suffix: "_sum", bound: None, value: buckets.sum });
            all.push(Sample { suffix: "_count", bound: None, value: buckets.count() as f64 });
            all
        }
    }
}

/// Formats a number so that Go's ParseFloat can read it.
pub(crate) fn number(value: f64) -> String {
    if value.is_nan() {
        "NaN".into()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf" } else { "-Inf" }.into()
    } else {
        value.to_string()
    }
}

fn write_labels(text: &mut String, series: &Series, bound: Option<&str>) {
    let labels = series.labels.iter().map(|label| (label.name, escaped(&label.value)));
    let labels = labels.chain(bound.map(|bound| (BOUND, Cow::Borrowed(bound))));
    let mut before = '{';
    for (name, value) in labels {
        write!(text, "{before}{name}=\"{value}\"").expect("a String takes all");
        before = ',';
    }
    if before == ',' {
        text.push('}');
    }
}

/// Escapes a label's value: backslash, quote and newline; any other character stands for itself.
fn escaped(value: &str) -> Cow<'_, str> {
    if !value.contains(['\\', '"', '\n']) {
        return Cow::Borrowed(value);
    }
    Cow::Owned(value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::{Buckets, SeriesLabel};
    use proptest::prelude::*;

    fn family(kind: SeriesKind, series: Vec<Series>) -> MetricFamily {
        MetricFamily {
            kind,
            ..MetricFamily::own_gauge("whyslow_x", "whyslow.x", "1", "back\\slash and\nnewline", series)
        }
    }

    fn labelled(value: &str) -> Series {
        Series { labels: vec![SeriesLabel::new("point", "x", value)], value: SeriesValue::Number(0.5) }
    }

    #[test]
    fn hostile_names_are_escaped() {
        let text = exposition(&[family(SeriesKind::Gauge, vec![labelled("a\"b\\c\nd{e}"), Series::plain(1e-9)])]);
        assert_eq!(
            text,
            "# HELP whyslow_x back\\\\slash and\\nnewline\n# TYPE whyslow_x gauge\n\
             whyslow_x{point=\"a\\\"b\\\\c\\nd{e}\"} 0.5\nwhyslow_x 0.000000001\n"
        );
    }

    #[test]
    fn buckets_are_cumulative() {
        let buckets = Buckets { bounds: vec![0.5, 2.0], counts: vec![1, 0, 3], sum: 12.5 };
        let series =
            Series { labels: vec![SeriesLabel::new("device", "x", "sda")], value: SeriesValue::Histogram(buckets) };
        let text = exposition(&[family(SeriesKind::Histogram, vec![series])]);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "whyslow_x_bucket{device=\"sda\",le=\"0.5\"} 1",
                "whyslow_x_bucket{device=\"sda\",le=\"2\"} 1",
                "whyslow_x_bucket{device=\"sda\",le=\"+Inf\"} 4",
                "whyslow_x_sum{device=\"sda\"} 12.5",
                "whyslow_x_count{device=\"sda\"} 4",
            ]
        );
    }

    /// Reads a label's value back like a parser of the format; `None` if the line is invalid.
    fn read_back(line: &str) -> Option<String> {
        let mut rest = line.strip_prefix("whyslow_x{point=\"")?.chars();
        let mut value = String::new();
        loop {
            match rest.next()? {
                '"' => break,
                '\\' => value.push(match rest.next()? {
                    'n' => '\n',
                    c @ ('\\' | '"') => c,
                    _ => return None,
                }),
                c => value.push(c),
            }
        }
        (rest.as_str() == "} 0.5").then_some(value)
    }

    proptest! {
        #[test]
        fn any_name_is_one_line_and_comes_back(value in "[\\PC\n\r\t\"\\\\{}=,\u{202e}\u{1b}]{1,40}") {
            let text = exposition(&[family(SeriesKind::Gauge, vec![labelled(&value)])]);
            let lines: Vec<&str> = text.split('\n').collect();
            prop_assert_eq!(lines.len(), 4);
            prop_assert_eq!(read_back(lines[2]), Some(value));
        }
    }
}
