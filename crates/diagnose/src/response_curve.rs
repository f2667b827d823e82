//! Response curves of the devices that findings are about, for the document.

use std::collections::BTreeSet;
use whyslow_documents::diagnosis::{Finding, LatencyClass, ResponseCurve, ThroughputLevel};
use whyslow_model::catalogue::{Response, Throughput};
use whyslow_model::key::ResponseKey;
use whyslow_model::window::{Change, Window};

/// Returns the curve of each device that is the subject of a finding, where requests were traced.
pub fn of_subjects(window: &Window, findings: &[Finding]) -> Vec<ResponseCurve> {
    let subjects = findings.iter().map(|finding| &finding.subject).filter(|subject| subject.kind == "device");
    let devices: BTreeSet<&str> = subjects.map(|subject| &*subject.name).collect();
    if devices.is_empty() {
        return Vec::new();
    }
    let (levels, classes) = (window.changes::<Throughput>(), window.changes::<Response>());
    let curves = devices.into_iter().map(|device| ResponseCurve {
        device: device.to_owned(),
        throughput: levels.iter().filter(|level| &*level.key().device == device).filter_map(throughput).collect(),
        latency: classes.iter().filter(|class| &*class.key().on.device == device).filter_map(latency).collect(),
    });
    curves.filter(|curve| !curve.throughput.is_empty()).collect()
}

fn throughput(level: &Change<'_, Throughput>) -> Option<ThroughputLevel> {
    let busy_seconds = level.grown(|t| t.busy_time).filter(|ns| *ns > 0.0)? / 1e9;
    let requests = level.grown(|t| t.requests)?;
    Some(ThroughputLevel {
        in_flight: level.grown(|t| t.in_flight_time)? / 1e9 / busy_seconds,
        busy_seconds,
        requests,
        requests_per_second: requests / busy_seconds,
        bytes_per_second: level.grown(|t| t.bytes)? / busy_seconds,
    })
}

fn latency(class: &Change<'_, Response>) -> Option<LatencyClass> {
    let ResponseKey { on, size, access, depth } = class.key();
    let requests = class.grown(|r| r.requests).filter(|requests| *requests > 0.0)?;
    Some(LatencyClass {
        operation: on.operation.to_string(),
        size_up_to: (*size != ResponseKey::LARGEST).then_some(u64::from(*size)),
        access: access.to_string(),
        in_flight: *depth,
        requests,
        seconds: class.grown(|r| r.device_time)? / 1e9 / requests,
    })
}
