//! Series of metrics, before they are written in any format.

/// A metric with a series for each set of labels.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricFamily {
    /// Its Prometheus name.
    pub name: String,
    /// Its OpenTelemetry name and unit.
    pub otel: OtelMetric,
    /// One sentence.
    pub help: String,
    /// Counter, gauge or histogram.
    pub kind: SeriesKind,
    /// Whether it counts from the boot of the machine.
    pub since_boot: bool,
    /// Its series; no two have the same labels.
    pub series: Vec<Series>,
}

impl MetricFamily {
    /// A gauge of whyslow itself, which is not in the catalogue.
    pub(crate) fn own_gauge(name: &str, otel: &str, unit: &'static str, help: &str, series: Vec<Series>) -> Self {
        Self {
            name: name.into(),
            otel: OtelMetric { name: otel.into(), unit, attribute: None, is_sum: false },
            help: help.into(),
            kind: SeriesKind::Gauge,
            since_boot: false,
            series,
        }
    }

    /// The number of series, as Prometheus counts them: a histogram has one for each bucket, the sum and the count.
    pub fn series_count(&self) -> usize {
        self.series.iter().map(|series| series.value.series_count()).sum()
    }
}

/// How OpenTelemetry names a metric.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OtelMetric {
    /// Its name.
    pub name: String,
    /// Its unit, in UCUM.
    pub unit: &'static str,
    /// The attribute that distinguishes it from others of that name.
    pub attribute: Option<(&'static str, &'static str)>,
    /// Whether the sum of its gauge over entities means something: an UpDownCounter.
    pub is_sum: bool,
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesKind {
    /// Only grows, or starts again.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Counts by size.
    Histogram,
}

/// A value with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its labels, in the catalogue's order; none is empty.
    pub labels: Vec<Label>,
    /// Its value.
    pub value: SeriesValue,
}

impl Series {
    /// A number without labels.
    pub fn plain(value: f64) -> Self {
        Self { labels: Vec::new(), value: SeriesValue::Number(value) }
    }
}

/// A label, which OpenTelemetry calls an attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    /// The Prometheus label.
    pub name: &'static str,
    /// The OpenTelemetry attribute.
    pub attribute: String,
    /// Its value. The text is not trusted: each format escapes it.
    pub value: String,
}

/// The longest value of a label, in bytes; receivers refuse series with longer ones.
const LONGEST_VALUE: usize = 1024;

impl Label {
    /// A label with a value of this length at most.
    pub fn new(name: &'static str, attribute: impl Into<String>, value: &str) -> Self {
        let end = value.floor_char_boundary(LONGEST_VALUE);
        Self { name, attribute: attribute.into(), value: value[..end].into() }
    }
}

/// The value of a series.
#[derive(Clone, Debug, PartialEq)]
pub enum SeriesValue {
    /// One number, in the base unit.
    Number(f64),
    /// Counts by size.
    Histogram(Buckets),
}

impl SeriesValue {
    /// How many series it makes in Prometheus.
    pub fn series_count(&self) -> usize {
        match self {
            Self::Number(_) => 1,
            // The buckets, the one without a bound, the sum and the count.
            Self::Histogram(buckets) => buckets.bounds.len() + 3,
        }
    }
}

/// A histogram in a few buckets.
#[derive(Clone, Debug, PartialEq)]
pub struct Buckets {
    /// The largest value of each bucket but the last, in the base unit.
    pub bounds: Vec<f64>,
    /// The number of values in each; there is one more than bounds.
    pub counts: Vec<u64>,
    /// The sum of all values.
    pub sum: f64,
}

impl Buckets {
    /// The number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}
