//! Names, units and attributes of metrics, derived from the catalogue.
//!
//! Prometheus: `whyslow_FAMILY_METRIC`, with the base unit as a suffix and `_total` for counters, according to its
//! naming rules (prometheus.io/docs/practices/naming). OpenTelemetry: the catalogue's name, which follows the semantic
//! conventions for system and process metrics.

use crate::series::{OtelMetric, SeriesKind};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use whyslow_model::catalogue::{FamilyInfo, Metric, MetricKind, Unit, families};

/// Prefix of all names.
pub const PREFIX: &str = "whyslow";

/// Returns the suffix of metrics in a base unit.
fn unit_suffix(unit: Unit) -> Option<&'static str> {
    Some(match unit {
        Unit::Nanoseconds => "seconds",
        Unit::Bytes => "bytes",
        Unit::Ratio => "ratio",
        Unit::BitsPerSecond => "bits_per_second",
        Unit::Hertz => "hertz",
        Unit::Celsius => "celsius",
        Unit::Count | Unit::Text => return None,
    })
}

/// Returns the Prometheus name of a metric.
pub fn prometheus(family: &FamilyInfo, metric: &Metric) -> String {
    let mut name = format!("{PREFIX}_{}_{}", family.name, metric.name);
    if let Some(unit) = unit_suffix(metric.unit).filter(|unit| !name.ends_with(&format!("_{unit}"))) {
        name = format!("{name}_{unit}");
    }
    match metric.kind {
        MetricKind::Counter => name + "_total",
        // These suffixes are reserved for counters and histograms.
        _ => match (name.strip_suffix("_total"), name.strip_suffix("_count")) {
            (Some(stem), _) => format!("{stem}_all"),
            (None, Some(stem)) => stem.to_owned(),
            (None, None) => name,
        },
    }
}

/// Returns the type of a metric; `None` for text, which is not exported.
pub fn kind(metric: &Metric) -> Option<SeriesKind> {
    match metric.kind {
        MetricKind::Counter => Some(SeriesKind::Counter),
        MetricKind::Gauge => Some(SeriesKind::Gauge),
        MetricKind::Histogram => Some(SeriesKind::Histogram),
        MetricKind::State => None,
    }
}

/// Returns the number of raw units in one base unit.
pub fn per_base_unit(unit: Unit) -> f64 {
    if unit == Unit::Nanoseconds { 1e9 } else { 1.0 }
}

/// Returns the OpenTelemetry name of a metric.
///
/// Several metrics of the catalogue can share a name. The name belongs to the first family that has it, and there to
/// all metrics with it if attributes distinguish them: adding up the points of a name must not count anything twice.
/// Any other metric is `whyslow.FAMILY.METRIC`.
pub fn otel(family: &FamilyInfo, metric: &Metric) -> OtelMetric {
    let owner = OWNERS.get(metric.otel).filter(|owner| owner.family == family.name);
    let attribute = metric.otel_attribute.split_once('=');
    let unit = otel_unit(metric);
    match owner {
        Some(owner) if attribute.is_some() || owner.metrics == 1 => {
            OtelMetric { name: metric.otel.into(), unit, attribute, is_sum: is_sum(metric) }
        }
        _ => {
            let name = format!("{PREFIX}.{}.{}", family.name, metric.name);
            OtelMetric { name, unit, attribute: None, is_sum: is_sum(metric) }
        }
    }
}

/// The family that owns an OpenTelemetry name, and the number of its metrics with that name.
struct NameOwner {
    family: &'static str,
    metrics: usize,
}

static OWNERS: LazyLock<BTreeMap<&'static str, NameOwner>> = LazyLock::new(|| {
    let mut owners = BTreeMap::new();
    for family in families() {
        for metric in family.metrics.iter().filter(|metric| metric.kind != MetricKind::State) {
            let owner = owners.entry(metric.otel).or_insert(NameOwner { family: family.name, metrics: 0 });
            owner.metrics += usize::from(owner.family == family.name);
        }
    }
    owners
});

/// Returns the unit in UCUM, with a word in braces for counted things.
fn otel_unit(metric: &Metric) -> &'static str {
    match metric.unit {
        Unit::Nanoseconds => "s",
        Unit::Bytes => "By",
        Unit::Ratio | Unit::Text => "1",
        Unit::BitsPerSecond => "bit/s",
        Unit::Hertz => "Hz",
        Unit::Celsius => "Cel",
        Unit::Count => match last_part(metric.otel) {
            "operations" => "{operation}",
            "packets" | "dropped" => "{packet}",
            "errors" => "{error}",
            "faults" => "{fault}",
            "created" => "{process}",
            _ => "{count}",
        },
    }
}

/// Returns whether the values can be added up. The conventions have an UpDownCounter for `usage`, `limit` and `count`,
/// and a gauge for everything else.
fn is_sum(metric: &Metric) -> bool {
    metric.kind == MetricKind::Gauge && matches!(last_part(metric.otel), "usage" | "limit" | "count")
}

fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or_default()
}

/// Returns the OpenTelemetry attribute for a label of a family.
pub fn attribute(family: &str, label: &str) -> String {
    match (family, label) {
        (_, "device") => "system.device".into(),
        (_, "cpu") => "cpu.logical_number".into(),
        (_, "interface") => "network.interface.name".into(),
        ("mount", "point") => "system.filesystem.mountpoint".into(),
        ("group", "path") => "process.linux.cgroup".into(),
        (_, "command") => "process.executable.name".into(),
        (_, "ns") => format!("{PREFIX}.network.namespace"),
        _ => format!("{PREFIX}.{family}.{label}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn all() -> impl Iterator<Item = (FamilyInfo, Metric)> {
        families().into_iter().flat_map(|family| {
            let metrics: Vec<Metric> = family.metrics.iter().filter(|metric| kind(metric).is_some()).cloned().collect();
            metrics.into_iter().map(move |metric| (family.clone(), metric))
        })
    }

    fn find(family: &str, metric: &str) -> (FamilyInfo, Metric) {
        all().find(|(f, m)| (f.name, m.name) == (family, metric)).unwrap()
    }

    #[test]
    fn a_name_has_unit_and_type() {
        for (family, metric, name) in [
            ("disk", "reads", "whyslow_disk_reads_total"),
            ("disk", "read_bytes", "whyslow_disk_read_bytes_total"),
            ("disk", "busy_time", "whyslow_disk_busy_time_seconds_total"),
            ("disk", "in_flight", "whyslow_disk_in_flight"),
            ("meminfo", "mem_total", "whyslow_meminfo_mem_total_bytes"),
            ("pressure", "io_avg60", "whyslow_pressure_io_avg60_ratio"),
            ("link", "speed", "whyslow_link_speed_bits_per_second"),
            ("thermal", "temperature", "whyslow_thermal_temperature_celsius"),
            ("hugepages", "total", "whyslow_hugepages_all"),
            ("conntrack", "count", "whyslow_conntrack"),
            ("request", "device_time", "whyslow_request_device_time_seconds"),
        ] {
            let (f, m) = find(family, metric);
            assert_eq!(prometheus(&f, &m), name);
        }
    }

    #[test]
    fn names_are_valid_and_unique() {
        let mut seen = BTreeSet::new();
        for (family, metric) in all() {
            let name = prometheus(&family, &metric);
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'), "{name}");
            assert!(seen.insert(name.clone()), "{name} twice");
        }
    }

    #[test]
    fn no_two_metrics_are_the_same_to_opentelemetry() {
        let mut seen = BTreeSet::new();
        let mut units = BTreeMap::new();
        for (family, metric) in all() {
            let otel = otel(&family, &metric);
            assert!(seen.insert((otel.name.clone(), otel.attribute)), "{otel:?} twice");
            let kinds = (otel.unit, kind(&metric).unwrap() == SeriesKind::Counter, otel.is_sum);
            assert_eq!(*units.entry(otel.name.clone()).or_insert(kinds), kinds, "{otel:?}");
        }
    }

    #[test]
    fn the_conventions_have_their_names() {
        let name = |family: &str, metric: &str| {
            let (f, m) = find(family, metric);
            let otel = otel(&f, &m);
            (otel.name, otel.attribute, otel.unit)
        };
        assert_eq!(name("cpu", "irq"), ("system.cpu.time".into(), Some(("cpu.mode", "interrupt")), "s"));
        assert_eq!(
            name("disk", "writes"),
            ("system.disk.operations".into(), Some(("disk.io.direction", "write")), "{operation}")
        );
        assert_eq!(name("system", "context_switches"), ("system.context_switches".into(), None, "{count}"));
        // whyslow is also one of the processes in `process`.
        assert_eq!(name("observer", "cpu_time").0, "whyslow.observer.cpu_time");
        assert_eq!(name("observer", "rss").0, "whyslow.observer.rss");
        // Included in `user`; included in reads and writes; all faults, including the major ones; sampled.
        assert_eq!(name("cpu", "guest").0, "whyslow.cpu.guest");
        assert_eq!(name("disk", "transfers").0, "whyslow.disk.transfers");
        assert_eq!(name("vmstat", "pgfault").0, "whyslow.vmstat.pgfault");
        assert_eq!(name("request", "requests").0, "whyslow.request.requests");
    }
}
