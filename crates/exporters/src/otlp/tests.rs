use super::*;
use crate::series::{OtelMetric, Series};
use whyslow_documents::diagnosis::{Confidence, Subject};

fn host() -> HostResource {
    HostResource { name: "db1".into(), kernel: Some("6.12".into()), version: "0.1.0".into() }
}

fn family(metric: &str, attribute: (&'static str, &'static str), kind: SeriesKind, value: f64) -> MetricFamily {
    let series =
        Series { labels: vec![SeriesLabel::new("device", "system.device", "sda")], value: SeriesValue::Number(value) };
    MetricFamily {
        name: format!("whyslow_disk_{metric}_total"),
        otel: OtelMetric {
            name: "system.disk.operations".into(),
            unit: "{operation}",
            attribute: Some(attribute),
            is_sum: false,
        },
        help: metric.into(),
        kind,
        since_boot: true,
        series: vec![series],
    }
}

fn attributes(all: &[KeyValue]) -> Vec<(&str, &str)> {
    let words = |one: &KeyValue| match one.value.as_ref()?.value.as_ref()? {
        AnyKind::StringValue(words) => Some(words.clone()),
        _ => None,
    };
    all.iter().filter_map(|one| Some((one.key.as_str(), &*words(one)?.leak()))).collect()
}

#[test]
fn metrics_that_share_a_name_are_points_of_one() {
    let families = [
        family("reads", ("disk.io.direction", "read"), SeriesKind::Counter, 7.0),
        family("writes", ("disk.io.direction", "write"), SeriesKind::Counter, 9.0),
    ];
    let message = metrics(&families, &host(), 2000, 1000);
    let request = ExportMetricsServiceRequest::decode(&*message).unwrap();
    let [resource] = &*request.resource_metrics else { panic!("one resource") };
    let of_host = attributes(&resource.resource.as_ref().unwrap().attributes);
    assert!(of_host.contains(&("host.name", "db1")) && of_host.contains(&("os.version", "6.12")), "{of_host:?}");
    let [metric] = &*resource.scope_metrics[0].metrics else { panic!("one metric") };
    assert_eq!((metric.name.as_str(), metric.unit.as_str()), ("system.disk.operations", "{operation}"));
    let Some(Data::Sum(sum)) = &metric.data else { panic!("a sum") };
    assert!(sum.is_monotonic);
    assert_eq!(sum.aggregation_temporality, AggregationTemporality::Cumulative as i32);
    let points: Vec<_> = sum.data_points.iter().map(|point| (attributes(&point.attributes), &point.value)).collect();
    assert_eq!(
        points,
        [
            (vec![("disk.io.direction", "read"), ("system.device", "sda")], &Some(PointValue::AsDouble(7.0))),
            (vec![("disk.io.direction", "write"), ("system.device", "sda")], &Some(PointValue::AsDouble(9.0))),
        ]
    );
    assert_eq!((sum.data_points[0].start_time_unix_nano, sum.data_points[0].time_unix_nano), (1000, 2000));
}

#[test]
fn what_a_receiver_refuses_is_reported() {
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsPartialSuccess;
    let partial = ExportMetricsPartialSuccess { rejected_data_points: 3, error_message: "too old".into() };
    let response = ExportMetricsServiceResponse { partial_success: Some(partial) }.encode_to_vec();
    assert_eq!(refused(&response), Some((3, "too old".into())));
    assert_eq!(refused(&ExportMetricsServiceResponse::default().encode_to_vec()), None);
    assert_eq!(refused(b"not a message"), None);
}

#[test]
fn a_finding_is_an_event_when_it_begins_and_when_it_ends() {
    let finding = Finding {
        id: "disk.saturated".into(),
        subject: Subject::new("device", "sdb"),
        impact: 0.62,
        confidence: Confidence::High,
        summary: "sdb cannot keep up".into(),
        ..Finding::default()
    };
    let mut events = FindingEvents::default();
    let mut batch = |findings: Vec<Finding>| {
        let message = events.batch(&findings, &host(), 5000)?;
        let request = ExportLogsServiceRequest::decode(&*message).unwrap();
        let records = request.resource_logs[0].scope_logs[0].log_records.clone();
        let event = |record: &LogRecord| (record.event_name.clone(), record.severity_number, record.time_unix_nano);
        Some(records.iter().map(event).collect::<Vec<_>>())
    };
    let error = SeverityNumber::Error as i32;
    assert_eq!(batch(vec![finding.clone()]), Some(vec![("whyslow.finding.began".into(), error, 5000)]));
    assert_eq!(batch(vec![finding]), None);
    assert_eq!(batch(vec![]), Some(vec![("whyslow.finding.ended".into(), error, 5000)]));
    assert_eq!(batch(vec![]), None);
}
