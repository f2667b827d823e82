//! Series about whyslow itself.

use crate::judgement::MOST_FINDINGS;
use crate::series::{MetricFamily, OtelMetric, Series, SeriesKind, SeriesLabel, SeriesValue};

/// Delivery of batches to one receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PushFigures {
    /// The receiver: `remote_write`, `otlp`.
    pub receiver: &'static str,
    /// Batches that it accepted.
    pub sent: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// Batches given up: rejected, or too old when the receiver was reachable again.
    pub dropped: u64,
    /// Batches waiting to be sent.
    pub waiting: u64,
}

/// Returns the maximum number of series for findings and whyslow itself, with this number of receivers.
pub fn reserved_series(receivers: usize) -> usize {
    const VERDICTS_AND_MOMENTS: usize = 5;
    const EXPORTER: usize = 3;
    const FOR_EACH_RECEIVER: usize = 4;
    2 * MOST_FINDINGS + VERDICTS_AND_MOMENTS + EXPORTER + FOR_EACH_RECEIVER * receivers
}

/// Returns the series of version, pushes, and number of series; `series` and `omitted` do not count these. The cost of
/// whyslow is in the family `observer`.
pub fn exporter_families(version: &str, pushes: &[PushFigures], series: usize, omitted: usize) -> Vec<MetricFamily> {
    let build = Series {
        labels: vec![SeriesLabel::new("version", "service.version", version)],
        value: SeriesValue::Number(1.0),
    };
    let help = "1, with the version of whyslow";
    let mut families = vec![MetricFamily::own_gauge("whyslow_build_info", "whyslow.build", "1", help, vec![build])];
    let of_each = |value: fn(&PushFigures) -> u64| {
        let series = |push: &PushFigures| Series {
            labels: vec![SeriesLabel::new("receiver", "whyslow.receiver", push.receiver)],
            value: SeriesValue::Number(value(push) as f64),
        };
        pushes.iter().map(series).collect::<Vec<_>>()
    };
    if !pushes.is_empty() {
        families.push(counter("push_sent", "{batch}", "batches that the receiver accepted", of_each(|push| push.sent)));
        families.push(counter(
            "push_failures",
            "{attempt}",
            "attempts to send that failed",
            of_each(|push| push.failures),
        ));
        families.push(counter("push_dropped", "{batch}", "batches given up", of_each(|push| push.dropped)));
        families.push(MetricFamily::own_gauge(
            "whyslow_exporter_push_waiting",
            "whyslow.exporter.push_waiting",
            "{batch}",
            "batches that wait to be sent",
            of_each(|push| push.waiting),
        ));
    }
    // The two below are series as well.
    let own: usize = families.iter().map(MetricFamily::series_count).sum::<usize>() + 2;
    families.push(MetricFamily::own_gauge(
        "whyslow_exporter_series",
        "whyslow.exporter.series",
        "{series}",
        "series that are exported",
        vec![Series::plain((series + own) as f64)],
    ));
    families.push(MetricFamily::own_gauge(
        "whyslow_exporter_series_omitted",
        "whyslow.exporter.series_omitted",
        "{series}",
        "series that were left out: of less active entities, or beyond --max-series",
        vec![Series::plain(omitted as f64)],
    ));
    families
}

fn counter(name: &str, unit: &'static str, help: &str, series: Vec<Series>) -> MetricFamily {
    MetricFamily {
        name: format!("whyslow_exporter_{name}_total"),
        otel: OtelMetric { name: format!("whyslow.exporter.{name}"), unit, attribute: None, is_sum: false },
        help: help.into(),
        kind: SeriesKind::Counter,
        since_boot: false,
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn families(pushes: &[PushFigures]) -> Vec<MetricFamily> {
        exporter_families("0.1.0", pushes, 100, 7)
    }

    fn value(families: &[MetricFamily], name: &str) -> SeriesValue {
        families.iter().find(|family| family.name == name).unwrap().series[0].value.clone()
    }

    #[test]
    fn its_own_series_are_counted_too() {
        let alone = families(&[]);
        assert_eq!(value(&alone, "whyslow_exporter_series"), SeriesValue::Number(103.0));
        assert_eq!(value(&alone, "whyslow_exporter_series_omitted"), SeriesValue::Number(7.0));
        let push = PushFigures { receiver: "otlp", sent: 5, failures: 4, dropped: 3, waiting: 2 };
        let with_push = families(&[push]);
        assert_eq!(value(&with_push, "whyslow_exporter_series"), SeriesValue::Number(107.0));
        assert_eq!(value(&with_push, "whyslow_exporter_push_dropped_total"), SeriesValue::Number(3.0));
    }

    #[test]
    fn no_more_are_reserved_than_there_can_be() {
        let push = PushFigures::default();
        let own: usize = families(&[push, push]).iter().map(MetricFamily::series_count).sum();
        assert_eq!(own + 5 + 2 * MOST_FINDINGS, reserved_series(2));
    }
}
