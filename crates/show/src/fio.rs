//! A benchmark in fio's format (`--output-format=json` of fio 3), for tools that read it.
//!
//! Values that were not measured are left out; blocks of numbers that readers expect are zeros, like fio's. Unlike fio's, means
//! and minima of intervals include intervals without completions. With a fixed rate, `clat_ns` counts from when a request was
//! issued, and `lat_ns` from when it was due.

use serde_json::{Map, Value, json};
use whyslow_documents::bench::{BenchReport, DiskRun, Latency, LayerTraffic, RequestStats, Round};

const NS: f64 = 1e9;

/// Rounds a number that fio writes without a fraction, as some readers require.
fn whole(number: f64) -> Value {
    json!(number.round().max(0.0) as u64)
}

/// Returns the report in fio's JSON format.
pub fn fio(report: &BenchReport) -> Value {
    let jobs =
        report.rounds.iter().enumerate().flat_map(|(group, round)| round.runs.iter().map(move |run| job(group, run)));
    json!({
        "fio version": concat!("whyslow-", env!("CARGO_PKG_VERSION")),
        "timestamp": report.started_ms.map(|ms| ms / 1000),
        "timestamp_ms": report.started_ms,
        "time": report.started,
        "global options": {},
        "jobs": jobs.collect::<Vec<_>>(),
        "disk_util": report.rounds.last().map(disk_util).unwrap_or_default(),
    })
}

fn job(group: usize, run: &DiskRun) -> Value {
    let asked = &run.asked;
    let wall = run.seconds * f64::from(asked.jobs);
    let whole_time = run.cost.thread_seconds;
    let percent = |seconds: f64| if whole_time > 0.0 { 100.0 * seconds / whole_time } else { 0.0 };
    let course = &run.series;
    let read = direction(run.read.as_ref(), run, &course.reads, &course.read_bytes);
    let write = direction(run.write.as_ref(), run, &course.writes, &course.write_bytes);
    let sync = run.sync.as_ref().map_or_else(Latency::default, |flow| flow.latency.clone());
    json!({
        "jobname": run.name,
        "groupid": group,
        // EIO, as the actual number is unknown.
        "error": if run.failed.is_some() { 5 } else { 0 },
        "elapsed": whole((run.seconds + asked.ramp_seconds).ceil()),
        "job options": {
            "name": run.name,
            "iodepth": asked.depth.to_string(),
            "numjobs": asked.jobs.to_string(),
            "direct": u8::from(asked.direct).to_string(),
        },
        "read": read,
        "write": write,
        "trim": direction(None, run, &[], &[]),
        "sync": { "total_ios": run.sync.as_ref().map_or(0, |flow| flow.operations), "lat_ns": times(&sync) },
        "job_runtime": whole(wall * 1000.0),
        "usr_cpu": percent(run.cost.user_seconds),
        "sys_cpu": percent(run.cost.system_seconds),
        "ctx": run.cost.context_switches,
    })
}

fn direction(flow: Option<&RequestStats>, run: &DiskRun, operations: &[u64], bytes: &[u64]) -> Value {
    let nothing = RequestStats::default();
    let flow = flow.unwrap_or(&nothing);
    let seconds = if flow.operations > 0 || flow.latency.count > 0 { run.seconds } else { 0.0 };
    // The last interval may be shorter, and would appear as a slow one.
    let full = (run.seconds / run.series.interval.max(1e-9)).floor() as usize;
    let full = if flow.operations > 0 { full } else { 0 };
    let kib = IntervalStats::from_values(bytes.iter().take(full).map(|&n| n as f64 / 1024.0 / run.series.interval));
    let iops = IntervalStats::from_values(operations.iter().take(full).map(|&n| n as f64 / run.series.interval));
    let service = flow.service.as_ref().unwrap_or(&flow.latency);
    let mut clat = times(service);
    if service.count > 0 {
        clat.insert("percentile".into(), percentiles(service, &run.asked.percentiles));
    }
    json!({
        "io_bytes": flow.bytes,
        "io_kbytes": flow.bytes / 1024,
        "bw_bytes": whole(flow.bandwidth),
        "bw": whole(flow.bandwidth / 1024.0),
        "iops": flow.rate,
        "runtime": whole(seconds * 1000.0),
        "total_ios": flow.operations,
        "clat_ns": clat,
        "lat_ns": times(&flow.latency),
        "bw_min": whole(kib.min),
        "bw_max": whole(kib.max),
        "bw_mean": kib.mean,
        "bw_dev": kib.deviation,
        "bw_samples": kib.samples,
        "iops_min": whole(iops.min),
        "iops_max": whole(iops.max),
        "iops_mean": iops.mean,
        "iops_stddev": iops.deviation,
        "iops_samples": iops.samples,
    })
}

fn times(latency: &Latency) -> Map<String, Value> {
    let ns = |seconds: f64| whole(seconds * NS);
    let fields = [
        ("min", ns(latency.min)),
        ("max", ns(latency.max)),
        ("mean", json!(latency.mean * NS)),
        ("stddev", json!(latency.deviation * NS)),
        ("N", json!(latency.count)),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Formats percentiles as `"99.000000": ns`.
fn percentiles(latency: &Latency, shares: &[f64]) -> Value {
    let of = |&share: &f64| {
        let ns = latency.histogram.quantile(share).unwrap_or(0.0).clamp(latency.min * NS, latency.max * NS);
        (format!("{:.6}", share * 100.0), whole(ns))
    };
    Value::Object(shares.iter().map(of).collect())
}

fn disk_util(round: &Round) -> Vec<Value> {
    let layers = round.ledgers.iter().flat_map(|ledger| &ledger.layers);
    let layer = |layer: &LayerTraffic| {
        json!({
            "name": layer.device,
            "read_ios": layer.traffic.reads,
            "write_ios": layer.traffic.writes,
            "read_merges": layer.reads_merged,
            "write_merges": layer.writes_merged,
            "read_ticks": layer.read_wait.map(|wait| whole(wait * layer.traffic.reads as f64 * 1000.0)),
            "write_ticks": layer.write_wait.map(|wait| whole(wait * layer.traffic.writes as f64 * 1000.0)),
            "util": layer.busy.map(|busy| busy * 100.0),
        })
    };
    layers.map(layer).collect()
}

/// Statistics over intervals.
#[derive(Default)]
struct IntervalStats {
    min: f64,
    max: f64,
    mean: f64,
    deviation: f64,
    samples: usize,
}

impl IntervalStats {
    fn from_values(values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.collect();
        let samples = values.len();
        if samples == 0 {
            return Self::default();
        }
        let mean = values.iter().sum::<f64>() / samples as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / samples as f64;
        Self {
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(0.0, f64::max),
            mean,
            deviation: variance.sqrt(),
            samples,
        }
    }
}
