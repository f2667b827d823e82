//! OTLP messages, according to their official protobuf definition: metrics, and findings as events in logs.

use crate::judgement::severity;
use crate::series::{MetricFamily, SeriesKind, SeriesLabel, SeriesValue};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyKind;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as PointValue;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use std::collections::BTreeMap;
use whyslow_documents::diagnosis::Finding;

/// Headers of the request, besides credentials.
pub const HEADERS: [(&str, &str); 1] = [("Content-Type", "application/x-protobuf")];
/// Path below a receiver's address (opentelemetry.io/docs/specs/otlp, OTLP/HTTP).
pub const METRICS_PATH: &str = "/v1/metrics";
/// Path for events.
pub const LOGS_PATH: &str = "/v1/logs";

/// The host to which the messages refer.
#[derive(Clone, Debug, Default)]
pub struct HostResource {
    /// Host name.
    pub name: String,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Version of whyslow.
    pub version: String,
}

/// Encodes all series at a time, nanoseconds since 1970. Counts since boot began at `boot_ns`.
pub fn metrics(families: &[MetricFamily], host: &HostResource, time_ns: u64, boot_ns: u64) -> Vec<u8> {
    let mut metrics: Vec<Metric> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for family in families {
        let start_ns = if family.since_boot { boot_ns } else { 0 };
        let new = metric(family, time_ns, start_ns);
        // Metrics that share a name become points of one metric.
        match places.get(&*family.otel.name) {
            Some(place) => append(&mut metrics[*place], new),
            None => {
                places.insert(&family.otel.name, metrics.len());
                metrics.push(new);
            }
        }
    }
    let scope_metrics = vec![ScopeMetrics { scope: Some(scope(host)), metrics, ..ScopeMetrics::default() }];
    let resource_metrics =
        vec![ResourceMetrics { resource: Some(resource(host)), scope_metrics, ..ResourceMetrics::default() }];
    ExportMetricsServiceRequest { resource_metrics }.encode_to_vec()
}

/// Returns the number of points that a receiver rejected from an accepted batch, and the reason, if it gives one.
pub fn refused(response: &[u8]) -> Option<(i64, String)> {
    let partial = ExportMetricsServiceResponse::decode(response).ok()?.partial_success?;
    (partial.rejected_data_points > 0).then_some((partial.rejected_data_points, partial.error_message))
}

fn metric(family: &MetricFamily, time_ns: u64, start_ns: u64) -> Metric {
    let mut points = Vec::new();
    let mut histograms = Vec::new();
    for series in &family.series {
        let own = family.otel.attribute.map(|(key, value)| text(key, value));
        let attributes: Vec<KeyValue> = own.into_iter().chain(series.labels.iter().map(attribute)).collect();
        match &series.value {
            SeriesValue::Number(value) => points.push(NumberDataPoint {
                attributes,
                time_unix_nano: time_ns,
                start_time_unix_nano: if family.kind == SeriesKind::Counter { start_ns } else { 0 },
                value: Some(PointValue::AsDouble(*value)),
                ..NumberDataPoint::default()
            }),
            SeriesValue::Histogram(buckets) => histograms.push(HistogramDataPoint {
                attributes,
                time_unix_nano: time_ns,
                start_time_unix_nano: start_ns,
                count: buckets.count(),
                sum: Some(buckets.sum),
                bucket_counts: buckets.counts.clone(),
                explicit_bounds: buckets.bounds.clone(),
                ..HistogramDataPoint::default()
            }),
        }
    }
    let cumulative = AggregationTemporality::Cumulative as i32;
    let data = match family.kind {
        SeriesKind::Counter => {
            Data::Sum(Sum { data_points: points, aggregation_temporality: cumulative, is_monotonic: true })
        }
        SeriesKind::Gauge if family.otel.is_sum => {
            Data::Sum(Sum { data_points: points, aggregation_temporality: cumulative, is_monotonic: false })
        }
        SeriesKind::Gauge => Data::Gauge(Gauge { data_points: points }),
        SeriesKind::Histogram => {
            Data::Histogram(Histogram { data_points: histograms, aggregation_temporality: cumulative })
        }
    };
    Metric {
        name: family.otel.name.clone(),
        description: family.help.clone(),
        unit: family.otel.unit.into(),
        data: Some(data),
        ..Metric::default()
    }
}

/// Adds the points of a metric to another of the same name. Clears the description, which would only describe one of
/// them.
fn append(metric: &mut Metric, other: Metric) {
    metric.description.clear();
    match (&mut metric.data, other.data) {
        (Some(Data::Sum(all)), Some(Data::Sum(more))) => all.data_points.extend(more.data_points),
        (Some(Data::Gauge(all)), Some(Data::Gauge(more))) => all.data_points.extend(more.data_points),
        (Some(Data::Histogram(all)), Some(Data::Histogram(more))) => all.data_points.extend(more.data_points),
        // A test checks that metrics of different types do not share a name.
        _ => {}
    }
}

fn scope(host: &HostResource) -> InstrumentationScope {
    InstrumentationScope { name: "whyslow".into(), version: host.version.clone(), ..InstrumentationScope::default() }
}

fn resource(host: &HostResource) -> Resource {
    let known = [
        ("service.name", "whyslow"),
        ("service.version", &*host.version),
        ("host.name", &*host.name),
        ("os.type", "linux"),
    ];
    let kernel = host.kernel.iter().map(|kernel| text("os.version", kernel));
    let attributes = known.into_iter().map(|(key, value)| text(key, value)).chain(kernel).collect();
    Resource { attributes, ..Resource::default() }
}

fn attribute(label: &SeriesLabel) -> KeyValue {
    text(&label.attribute, &label.value)
}

fn text(key: &str, value: &str) -> KeyValue {
    KeyValue { key: key.into(), value: Some(words(value)), ..KeyValue::default() }
}

fn number(key: &str, value: f64) -> KeyValue {
    KeyValue {
        key: key.into(),
        value: Some(AnyValue { value: Some(AnyKind::DoubleValue(value)) }),
        ..KeyValue::default()
    }
}

fn words(value: &str) -> AnyValue {
    AnyValue { value: Some(AnyKind::StringValue(value.into())) }
}

/// Reports findings as events: one when a finding begins, and one when it has ended.
#[derive(Default)]
pub struct FindingEvents {
    present: BTreeMap<String, Finding>,
}

impl FindingEvents {
    /// Returns the events of a window that ended at `time_ns`; `None` if nothing began or ended.
    pub fn batch(&mut self, findings: &[Finding], host: &HostResource, time_ns: u64) -> Option<Vec<u8>> {
        let now: BTreeMap<String, Finding> = findings.iter().map(|finding| (finding.key(), finding.clone())).collect();
        let began = now.iter().filter(|(key, _)| !self.present.contains_key(*key));
        let began = began.map(|(_, finding)| record(finding, "whyslow.finding.began", time_ns));
        let ended = self.present.iter().filter(|(key, _)| !now.contains_key(*key));
        let ended = ended.map(|(_, finding)| record(finding, "whyslow.finding.ended", time_ns));
        let log_records: Vec<LogRecord> = began.chain(ended).collect();
        self.present = now;
        if log_records.is_empty() {
            return None;
        }
        let scope_logs = vec![ScopeLogs { scope: Some(scope(host)), log_records, ..ScopeLogs::default() }];
        let resource_logs =
            vec![ResourceLogs { resource: Some(resource(host)), scope_logs, ..ResourceLogs::default() }];
        Some(ExportLogsServiceRequest { resource_logs }.encode_to_vec())
    }
}

fn record(finding: &Finding, event: &str, time_ns: u64) -> LogRecord {
    let severity = severity(finding);
    let number_of = match severity {
        "critical" => SeverityNumber::Error,
        "warning" => SeverityNumber::Warn,
        _ => SeverityNumber::Info,
    };
    let subject = &finding.subject;
    let mut attributes = vec![
        text("whyslow.finding.id", &finding.id),
        text("whyslow.subject.kind", &subject.kind),
        text("whyslow.subject.name", &subject.name),
        number("whyslow.finding.impact", finding.impact),
    ];
    attributes.extend(subject.netns.iter().map(|netns| text("whyslow.network.namespace", netns)));
    attributes.extend(finding.culprits.first().map(|culprit| text("whyslow.culprit", &culprit.name)));
    attributes.extend(finding.explained_by.iter().map(|cause| text("whyslow.finding.explained_by", cause)));
    attributes.extend(finding.actions.first().map(|action| text("whyslow.action", &action.text)));
    LogRecord {
        time_unix_nano: time_ns,
        observed_time_unix_nano: time_ns,
        severity_number: number_of as i32,
        severity_text: severity.into(),
        body: Some(words(&finding.summary)),
        attributes,
        event_name: event.into(),
        ..LogRecord::default()
    }
}

#[cfg(test)]
mod tests;
