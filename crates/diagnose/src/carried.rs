//! One machine's disks on another's: a guest or client sees several devices of its own, which are volumes on one device
//! of the host's or server's. Each capture alone shows a part; together their sums tell.

use std::collections::BTreeMap;
use whyslow_model::diagnosis::{
    Action, ActionKind, Basis, Confidence, Culprit, Diagnosis, Evidence, Finding, Reading, SubjectFigures,
};
use whyslow_model::human::percent;

/// From this share of the time on a device is taken for busy.
const BUSY: f64 = 0.7;
/// How far the sums of two captures may be apart: they were not taken over the same seconds.
const SLACK: f64 = 0.15;

/// What a capture says of a device.
struct Device<'d> {
    figures: &'d SubjectFigures,
    busy: f64,
    rate: f64,
}

/// The devices of a capture that are busy.
fn busy(part: &Diagnosis) -> Vec<Device<'_>> {
    let devices = part.figures.iter().filter(|figures| figures.subject.kind == "device");
    let known = devices.filter_map(|figures| {
        Some(Device { figures, busy: number(figures, "disk.busy")?, rate: number(figures, "disk.rate")? })
    });
    known.filter(|device| device.busy > BUSY && device.rate > 0.0).collect()
}

fn number(figures: &SubjectFigures, metric: &str) -> Option<f64> {
    match evidence(figures, metric)?.value {
        Reading::Number(number) => Some(number),
        Reading::Text(_) => None,
    }
}

fn evidence<'d>(figures: &'d SubjectFigures, metric: &str) -> Option<&'d Evidence> {
    figures.values.iter().find(|value| value.metric == metric)
}

/// Devices that carry several of another capture's: the only busy one of theirs, whose rate is the sum of those.
pub fn findings(parts: &[Diagnosis]) -> Vec<Finding> {
    let busy: Vec<Vec<Device<'_>>> = parts.iter().map(busy).collect();
    let mut found = Vec::new();
    for (below, carrier) in
        busy.iter().enumerate().filter_map(|(at, devices)| Some((at, <&[_; 1]>::try_from(&devices[..]).ok()?)))
    {
        for (above, carried) in busy.iter().enumerate().filter(|(above, devices)| *above != below && devices.len() >= 2)
        {
            let sum: f64 = carried.iter().map(|device| device.rate).sum();
            if (sum / carrier[0].rate - 1.0).abs() <= SLACK {
                found.push(finding(&carrier[0], carried, sum, [&parts[above], &parts[below]]));
            }
        }
    }
    found
}

fn finding(carrier: &Device<'_>, carried: &[Device<'_>], sum: f64, parts: [&Diagnosis; 2]) -> Finding {
    let names: Vec<&str> = carried.iter().map(|device| device.figures.subject.name.as_str()).collect();
    let of = |capture: &Option<String>| capture.as_deref().unwrap_or("another capture").to_owned();
    let capture = of(&carried[0].figures.subject.capture);
    let evidence = ["disk.busy", "disk.rate", "disk.queue", "disk.wait"].iter().filter_map(|metric| {
        let expected = "one user at a time";
        Some(Evidence { expected: expected.into(), ..evidence(carrier.figures, metric)?.clone() })
    });
    let summed = carried.iter().filter_map(|device| evidence_of(device, &capture));
    Finding {
        id: "disk.shared".into(),
        subject: carrier.figures.subject.clone(),
        culprits: carried
            .iter()
            .map(|device| Culprit {
                kind: "device".into(),
                name: format!("{} in {capture}", device.figures.subject.name),
                share: device.rate / sum,
                of: "what it reads and writes".into(),
                ..Culprit::default()
            })
            .collect(),
        impact: number(carrier.figures, "disk.stall").unwrap_or(carrier.busy),
        impact_is: Basis::Measured,
        // That the sums match can be chance.
        confidence: Confidence::Medium,
        summary: format!(
            "{} is {} busy with the I/O of {} in {capture} together: they take time from each other.",
            carrier.figures.subject.name,
            percent(carrier.busy),
            names.join(", "),
        ),
        evidence: evidence.chain(summed).collect(),
        explains: explained(carrier, carried, parts),
        explained_by: None,
        unattributed: None,
        more: 0,
        how_bad: None,
        since: None,
        actions: vec![Action {
            kind: ActionKind::Advice,
            text: "Spread the volumes over several physical devices, or run their work one after the other".into(),
            set: BTreeMap::new(),
            try_command: None,
            expect: None,
        }],
    }
}

fn evidence_of(device: &Device<'_>, capture: &str) -> Option<Evidence> {
    let own = evidence(device.figures, "disk.rate")?;
    let how = format!("{} of {} in {capture}", own.how, device.figures.subject.name);
    Some(Evidence { expected: "the same as alone".into(), how, ..own.clone() })
}

/// What the captures found of the device, and of those it carries.
fn explained(carrier: &Device<'_>, carried: &[Device<'_>], parts: [&Diagnosis; 2]) -> Vec<String> {
    let subjects: Vec<_> = carried.iter().chain([carrier]).map(|device| &device.figures.subject).collect();
    let ours = |finding: &&Finding| finding.id.starts_with("disk.") && subjects.contains(&&finding.subject);
    parts.iter().flat_map(|part| &part.findings).filter(ours).map(Finding::key).collect()
}
