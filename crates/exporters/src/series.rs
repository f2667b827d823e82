//! Metric series, independent of any output format.

/// A metric with a series for each set of labels.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricFamily {
    /// Its Prometheus name.
    pub name: String,
    /// Its OpenTelemetry name and unit.
    pub otel: OtelMetric,
    /// Description in one sentence.
    pub help: String,
    /// Counter, gauge or histogram.
    pub kind: SeriesKind,
    /// True if it counts from the boot of the machine.
    pub since_boot: bool,
    /// Its series; no two have the same labels.
    pub series: Vec<Series>,
}

impl MetricFamily {
    /// Creates a gauge of whyslow itself, which is not in the catalogue.
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

    /// Returns the number of series, as Prometheus counts them: a histogram has one for each bucket, the sum and the
    /// count.
    pub fn series_count(&self) -> usize {
        self.series.iter().map(|series| series.value.series_count()).sum()
    }
}

/// Name and unit of a metric in OpenTelemetry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OtelMetric {
    /// Its name.
    pub name: String,
    /// Its unit, in UCUM.
    pub unit: &'static str,
    /// The attribute that distinguishes it from others of that name.
    pub attribute: Option<(&'static str, &'static str)>,
    /// True if the sum of its gauge over entities is meaningful: an UpDownCounter.
    pub is_sum: bool,
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesKind {
    /// Only grows, or restarts.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Counts of values by size.
    Histogram,
}

/// A value with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its labels, in the catalogue's order; none of them is empty.
    pub labels: Vec<SeriesLabel>,
    /// Its value.
    pub value: SeriesValue,
}

impl Series {
    /// Creates a number without labels.
    pub fn plain(value: f64) -> Self {
        Self { labels: Vec::new(), value: SeriesValue::Number(value) }
    }
}

/// A label, which OpenTelemetry calls an attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeriesLabel {
    /// The Prometheus label.
    pub name: &'static str,
    /// The OpenTelemetry attribute.
    pub attribute: String,
    /// Its value. The text is untrusted: each format escapes it.
    pub value: String,
}

/// Maximum length of a label's value, in bytes; receivers reject series with longer ones.
const LONGEST_VALUE: usize = 1024;

impl SeriesLabel {
    /// Creates a label, truncating the value to the maximum length.
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
    /// Counts of values by size.
    Histogram(Buckets),
}

impl SeriesValue {
    /// Returns the number of series that it becomes in Prometheus.
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
    /// Largest value of each bucket except the last, in the base unit.
    pub bounds: Vec<f64>,
    /// Number of values in each bucket; there is one more bucket than bounds.
    pub counts: Vec<u64>,
    /// Sum of all values.
    pub sum: f64,
}

impl Buckets {
    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}
