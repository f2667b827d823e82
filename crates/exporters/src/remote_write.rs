//! Prometheus remote write 1.0 (prometheus.io/docs/specs/prw/remote_write_spec): a protobuf message, compressed with snappy.

use crate::series::MetricFamily;
use crate::text::{BOUND, samples};
use prost::Message;
use std::collections::BTreeSet;

/// Stale marker, which ends a series: a special NaN (the specification's section on stale markers).
const STALE: u64 = 0x7ff0_0000_0000_0002;

#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    timeseries: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<WireLabel>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<WireSample>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Message)]
struct WireLabel {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct WireSample {
    #[prost(double, tag = "1")]
    value: f64,
    /// Milliseconds since 1970.
    #[prost(int64, tag = "2")]
    timestamp: i64,
}

/// Creates batches for a receiver, and ends series that have disappeared.
pub struct RemoteWrite {
    /// Labels that a scrape would add: `instance` and `job`.
    common: Vec<WireLabel>,
    /// Series of the last batch.
    present: BTreeSet<Vec<WireLabel>>,
}

impl RemoteWrite {
    /// Headers of the request, besides credentials.
    pub const HEADERS: [(&str, &str); 3] = [
        ("Content-Type", "application/x-protobuf"),
        ("Content-Encoding", "snappy"),
        ("X-Prometheus-Remote-Write-Version", "0.1.0"),
    ];

    /// Creates batches for this host.
    pub fn new(host: &str) -> Self {
        Self { common: vec![label("instance", host), label("job", "whyslow")], present: BTreeSet::new() }
    }

    /// Creates a batch with all series at this time, milliseconds since 1970. Marks the missing series of the last
    /// batch as ended.
    pub fn batch(&mut self, families: &[MetricFamily], time_ms: i64) -> Vec<u8> {
        let mut present = BTreeSet::new();
        let mut timeseries = Vec::new();
        for family in families {
            for series in &family.series {
                for sample in samples(series) {
                    let own = series.labels.iter().map(|own| label(own.name, &own.value));
                    let bound = sample.bound.iter().map(|bound| label(BOUND, bound));
                    let name = label("__name__", &format!("{}{}", family.name, sample.suffix));
                    let mut labels: Vec<WireLabel> =
                        self.common.iter().cloned().chain([name]).chain(own).chain(bound).collect();
                    labels.sort();
                    timeseries.push(series_at(labels.clone(), sample.value, time_ms));
                    present.insert(labels);
                }
            }
        }
        let ended = self.present.difference(&present).cloned();
        timeseries.extend(ended.map(|labels| series_at(labels, f64::from_bits(STALE), time_ms)));
        self.present = present;
        compressed(&WriteRequest { timeseries }.encode_to_vec())
    }
}

fn series_at(labels: Vec<WireLabel>, value: f64, timestamp: i64) -> TimeSeries {
    TimeSeries { labels, samples: vec![WireSample { value, timestamp }] }
}

fn label(name: &str, value: &str) -> WireLabel {
    WireLabel { name: name.into(), value: value.into() }
}

/// Compresses a message in snappy's block format.
fn compressed(message: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(message).expect("a batch is far smaller than the 4 GiB that snappy takes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::{Series, SeriesLabel, SeriesValue};

    fn read(batch: &[u8]) -> Vec<(String, u64, i64)> {
        let message = snap::raw::Decoder::new().decompress_vec(batch).unwrap();
        let request = WriteRequest::decode(&*message).unwrap();
        let series = |series: &TimeSeries| {
            let labels: Vec<String> =
                series.labels.iter().map(|label| format!("{}={}", label.name, label.value)).collect();
            (labels.join(","), series.samples[0].value.to_bits(), series.samples[0].timestamp)
        };
        request.timeseries.iter().map(series).collect()
    }

    fn family(device: &str) -> MetricFamily {
        let series = Series {
            labels: vec![SeriesLabel::new("device", "system.device", device)],
            value: SeriesValue::Number(7.5),
        };
        MetricFamily::own_gauge("whyslow_disk_in_flight", "x", "1", "", vec![series])
    }

    #[test]
    fn labels_are_sorted_and_a_series_that_is_gone_is_ended_once() {
        let labels = |device: &str| format!("__name__=whyslow_disk_in_flight,device={device},instance=db1,job=whyslow");
        let mut writer = RemoteWrite::new("db1");
        assert_eq!(read(&writer.batch(&[family("sda")], 1000)), [(labels("sda"), 7.5_f64.to_bits(), 1000)]);
        let second = read(&writer.batch(&[family("sdb")], 2000));
        assert_eq!(second, [(labels("sdb"), 7.5_f64.to_bits(), 2000), (labels("sda"), STALE, 2000)]);
        assert_eq!(read(&writer.batch(&[family("sdb")], 3000)).len(), 1);
    }
}
