//! Relates captures of virtual machines to those of their host: which disk of the guest lies on which device of the host, by its
//! serial number or world wide name, and which findings on one explain those on the other.

use crate::kernel_log::disk_of;
use crate::merge::explain;
use crate::rulebook::RuleBook;
use std::path::Path;
use whyslow_documents::diagnosis::{Confidence, Culprit, Diagnosis, Finding, Subject, SubjectFigures, VirtualDisk};
use whyslow_model::catalogue::{Disk, Guest, GuestDisk, Mount, Queue};
use whyslow_model::topology::Topology;
use whyslow_model::window::Window;

/// Maximum length of a serial number that virtio passes on (VIRTIO_BLK_ID_BYTES, include/uapi/linux/virtio_blk.h).
const VIRTIO_SERIAL: usize = 20;
/// Minimum share of a device's requests for a guest to be named, and minimum share of all guests together for any to be named.
const LEAST: f64 = 0.05;
const MOST: f64 = 0.5;

/// Returns the virtual disks that captures show from both sides.
pub(crate) fn virtual_disks(captures: &[(String, &Window)]) -> Vec<VirtualDisk> {
    let mut found = Vec::new();
    let has_guests = |(_, window): &&(String, &Window)| !window.newest::<GuestDisk>().is_empty();
    for (host, of_host) in captures.iter().filter(has_guests) {
        let (guests, queues) = (of_host.newest::<Guest>(), of_host.newest::<Queue>());
        let topology = Topology::from_window(of_host);
        for disk in of_host.newest::<GuestDisk>().into_values() {
            let Some(device) = device_of(of_host, disk) else { continue };
            let passed_on = queues.values().find(|queue| *queue.device == device && is_passed_on(disk));
            for (guest, of_guest) in captures.iter().filter(|(label, _)| label != host) {
                let seen = of_guest.newest::<Queue>().into_values();
                let known = seen.filter_map(|queue| Some((queue, known_by(disk, passed_on.copied(), queue)?)));
                found.extend(known.map(|(queue, known_by)| {
                    VirtualDisk {
                        disk: subject(guest, &queue.device),
                        guest: guests
                            .get(&disk.disk.task)
                            .and_then(|guest| guest.name.get())
                            .map_or_else(|| disk.disk.task.pid.to_string(), str::to_owned),
                        name: disk.disk.name.to_string(),
                        known_by,
                        device: subject(host, &device),
                        below: topology.under(&device).iter().map(ToString::to_string).collect(),
                        requests: None,
                        device_requests: None,
                        wait: None,
                        device_wait: None,
                        device_busy: None,
                    }
                }));
            }
        }
    }
    found
}

/// Returns the device of the host that a disk is, or that the file system of its image is on, if the capture shows it.
fn device_of(of_host: &Window, disk: &GuestDisk) -> Option<String> {
    if let Some(device) = disk.host_device.get() {
        return Some(device.to_owned());
    }
    let file = disk.file.get()?;
    let device = match file.strip_prefix("/dev/") {
        Some(name) => name,
        None => {
            let mounts = of_host.newest::<Mount>().into_values();
            let holding = mounts.filter(|mount| Path::new(file).starts_with(&*mount.point));
            holding.max_by_key(|mount| mount.point.len())?.device.get()?
        }
    };
    let device = device.strip_prefix("/dev/").unwrap_or(device);
    let (disks, queues) = (of_host.newest::<Disk>(), of_host.newest::<Queue>());
    // Tools often show whole disks only.
    let known =
        [device, disk_of(device)].into_iter().find(|name| disks.contains_key(*name) || queues.contains_key(*name));
    known.map(str::to_owned)
}

fn subject(capture: &str, device: &str) -> Subject {
    Subject { capture: Some(capture.to_owned()), ..Subject::new("device", device) }
}

/// Returns true if the guest sees the identifiers of a whole device that it is given, which is not so for virtio-blk, which has
/// none of its own.
fn is_passed_on(disk: &GuestDisk) -> bool {
    disk.file.get().is_some_and(|file| file.starts_with("/dev/"))
        && disk.model.get().is_some_and(|model| model.starts_with("scsi-"))
}

fn known_by(disk: &GuestDisk, passed_on: Option<&Queue>, seen: &Queue) -> Option<String> {
    let same = |what: &str, own: Option<&str>, seen: Option<&str>| {
        let (own, seen) = (own?, seen?);
        let is_cut = seen.len() == VIRTIO_SERIAL && own.len() > VIRTIO_SERIAL && own.starts_with(seen);
        (own == seen || is_cut).then(|| format!("{what} {seen}"))
    };
    let (serial, wwn) = (seen.serial.get(), seen.wwn.get());
    same("serial number", disk.serial.get(), serial)
        .or_else(|| same("WWN", disk.wwn.get(), wwn))
        .or_else(|| same("WWN", passed_on?.wwn.get(), wwn))
        .or_else(|| same("serial number", passed_on?.serial.get(), serial))
}

/// Adds what the captures measured of the disks.
pub(crate) fn add_figures(disks: &mut [VirtualDisk], figures: &[SubjectFigures]) {
    let number = |subject: &Subject, name: &str| figures.iter().find(|of| of.subject == *subject)?.number(name);
    for disk in disks {
        (disk.requests, disk.wait) = (number(&disk.disk, "disk.requests"), number(&disk.disk, "disk.wait"));
        (disk.device_requests, disk.device_wait) =
            (number(&disk.device, "disk.requests"), number(&disk.device, "disk.wait"));
        disk.device_busy = number(&disk.device, "disk.busy");
    }
}

/// Makes findings on the host's devices explain those on the disks that lie on them, where a rule allows it.
pub(crate) fn relate(disks: &[VirtualDisk], parts: &[Diagnosis], merged: &mut [Finding], book: &RuleBook) {
    for disk in disks {
        let of_host = parts.iter().flat_map(|part| &part.findings).filter(|finding| lies_on(disk, &finding.subject));
        for cause in of_host.filter(|cause| cause.id.starts_with("disk.")) {
            let rules = book.all().iter().filter(|rule| rule.id == cause.id);
            let explained: Vec<&String> = rules.flat_map(|rule| &rule.explains).chain([&cause.id]).collect();
            let is_effect = |finding: &Finding| {
                let is_disks = finding.subject == disk.disk || finding.subject.kind == "host";
                is_disks
                    && finding.subject.capture == disk.disk.capture
                    && finding.explained_by.is_none()
                    && explained.contains(&&finding.id)
                    && (cause.confidence > Confidence::Low || finding.confidence == Confidence::Low)
            };
            if let Some(cause) = explain(merged, &cause.key(), is_effect) {
                name_guests(cause, disks);
            }
        }
    }
}

/// Makes the guests on a device the culprits of a finding on it, where its own capture does not show its users.
fn name_guests(finding: &mut Finding, disks: &[VirtualDisk]) {
    let on_it = disks.iter().filter(|disk| disk.device == finding.subject);
    let shares =
        on_it.filter_map(|disk| Some((&disk.guest, disk.requests? / disk.device_requests.filter(|all| *all > 0.0)?)));
    let shares: Vec<_> = shares.filter(|(_, share)| *share >= LEAST).collect();
    let sum: f64 = shares.iter().map(|(_, share)| share).sum();
    if !finding.culprits.is_empty() || sum < MOST {
        return;
    }
    let culprit = |(guest, share): (&String, f64)| Culprit {
        kind: "guest".into(),
        name: guest.clone(),
        share: share.min(1.0),
        of: "the device's requests".into(),
        ..Culprit::default()
    };
    finding.culprits = shares.into_iter().map(culprit).collect();
    finding.culprits.sort_by(|a, b| b.share.total_cmp(&a.share));
    finding.unattributed = None;
}

/// Returns true if it is a device of the host that the disk lies on.
fn lies_on(disk: &VirtualDisk, subject: &Subject) -> bool {
    let is_below = *subject.name == disk.device.name || disk.below.contains(&subject.name);
    is_below && subject.capture == disk.device.capture
}
