//! Relates captures of virtual machines to those of their host: which guest runs on which host, and which findings on CPUs of
//! the host explain those in the guest.

use crate::document::findings;
use crate::merge::explain;
use crate::rulebook::RuleBook;
use crate::scope::Scope;
use crate::virtual_disks::virtual_disks;
use std::collections::BTreeSet;
use whyslow_documents::diagnosis::{Confidence, Finding, Host, Reading, Subject, VirtualDisk};
use whyslow_model::catalogue::{Disk, Family, Guest, GuestDisk, GuestDiskIo, MachineInfo, Process};
use whyslow_model::cgroup;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;

/// Virtual machines that captures show from both sides.
#[derive(Debug, Default)]
pub struct VirtualMachines {
    /// Disks that are in captures of both sides.
    pub disks: Vec<VirtualDisk>,
    /// Captures of a guest and of its host, and the guest's name where the host's capture has it.
    pub guests: Vec<(String, String, Option<String>)>,
    /// The host's capture and name, and limits of a guest's disks with the guest's own counters, where QEMU's own counters are
    /// missing.
    limited: Vec<(String, Option<String>, Window)>,
}

/// Finds the virtual machines among these captures, by their labels, and their hosts.
///
/// A guest is recognized by a disk whose serial number both sides show, or because its machine has the name of one of the host's
/// guests. If the host's capture names no guests and no other capture is of a host, all other captures count as guests of that
/// one.
pub fn virtual_machines(captures: &[(String, &Window)]) -> VirtualMachines {
    let disks = virtual_disks(captures);
    let mut guests = Vec::new();
    let hosts: Vec<_> = captures.iter().filter(|(_, window)| runs_guests(window)).collect();
    for (host, of_host) in &hosts {
        let rows = of_host.newest::<Guest>();
        let names: BTreeSet<&str> = rows.values().filter_map(|guest| guest.name.get()).collect();
        for (capture, window) in captures.iter().filter(|(capture, _)| capture != host) {
            let own = machine_name(window);
            let by_disk = disks
                .iter()
                .find(|disk| disk.disk.capture.as_ref() == Some(capture) && disk.device.capture.as_ref() == Some(host));
            let by_name = names.iter().find(|name| own.is_some() && !Host::names_differ(own, Some(name)));
            let name = by_disk.map(|disk| disk.guest.clone()).or_else(|| by_name.map(|name| (*name).to_owned()));
            let is_only = names.is_empty() && hosts.len() == 1 && Host::names_differ(own, machine_name(of_host));
            if name.is_some() || is_only {
                guests.push((capture.clone(), host.clone(), name));
            }
        }
    }
    let limited = guests.iter().filter_map(|(guest, host, name)| {
        let window = |label: &String| captures.iter().find(|(capture, _)| capture == label).map(|(_, window)| *window);
        let (of_guest, of_host) = (window(guest)?, window(host)?);
        let own = machine_name(of_host).map(str::to_owned);
        Some((host.clone(), own, limited(of_guest, of_host, name.as_deref()?)?))
    });
    VirtualMachines { limited: limited.collect(), disks, guests }
}

/// Returns the limits that the host shows of a guest's disks, with the guest's own counters in place of QEMU's: a disk has the
/// same name on both sides if libvirt's is the kernel's, as for virtio.
fn limited(of_guest: &Window, of_host: &Window, name: &str) -> Option<Window> {
    let mut guests = of_host.newest::<Guest>().into_values();
    // If both virsh and the list of processes show a guest, virsh's row is the last, as no process has such a number; it has the
    // limits.
    let guest = guests.rfind(|guest| guest.name.get() == Some(name))?;
    let counted = of_host.newest::<GuestDiskIo>();
    let disks = of_host.newest::<GuestDisk>().into_values();
    // The kernel numbers virtio's disks in the order in which libvirt names them; those of a SCSI controller as they are found.
    let is_named_alike = |disk: &&GuestDisk| disk.disk.name.starts_with("vd");
    let is_own = |disk: &&GuestDisk| disk.disk.task == guest.task && !counted.contains_key(&disk.disk);
    let disks: Vec<&GuestDisk> = disks.filter(is_own).filter(is_named_alike).collect();
    let own = |sample: &Snapshot| {
        let mut snapshot = Snapshot { boot_ns: sample.boot_ns, wall_ns: sample.wall_ns, ..Snapshot::default() };
        snapshot.guest.guest.push(guest.clone());
        for disk in &disks {
            let Some(seen) = Disk::rows(sample).iter().find(|seen| seen.device == disk.disk.name) else { continue };
            snapshot.guest.guest_disk.push((*disk).clone());
            snapshot.guest.guest_disk_io.push(GuestDiskIo {
                reads: seen.reads,
                writes: seen.writes,
                flushes: seen.flushes,
                read_bytes: seen.read_bytes,
                write_bytes: seen.write_bytes,
                read_time: seen.read_time,
                write_time: seen.write_time,
                flush_time: 0.into(),
                ..GuestDiskIo::new(disk.disk.clone())
            });
        }
        snapshot.sort();
        snapshot
    };
    let window = Window::new(of_guest.snapshots().iter().map(own).collect());
    (!window.newest::<GuestDiskIo>().is_empty()).then_some(window)
}

/// Returns the findings that follow from limits on the host and the guests' counters.
pub(crate) fn limits(machines: &VirtualMachines, book: &RuleBook) -> Vec<Finding> {
    let found = |(capture, host, window): &(String, Option<String>, Window)| {
        let throttled = findings(window, book).into_iter().filter(|finding| finding.id == "disk.throttled");
        throttled
            .map(|finding| {
                let subject = Subject { capture: Some(capture.clone()), ..finding.subject };
                Finding { subject, host: host.clone(), explains: Vec::new(), explained_by: None, ..finding }
            })
            .collect::<Vec<_>>()
    };
    machines.limited.iter().flat_map(found).collect()
}

/// Returns true if it shows processes of QEMU.
fn runs_guests(window: &Window) -> bool {
    let is_qemu = |row: &Process| row.command.get().is_some_and(|name| name.starts_with("qemu-") || name == "kvm");
    !window.newest::<Guest>().is_empty() || window.newest::<Process>().into_values().any(is_qemu)
}

/// Returns the machine's name; not every row of a capture has it.
fn machine_name(window: &Window) -> Option<&str> {
    window.snapshots().iter().flat_map(MachineInfo::rows).find_map(|machine| machine.name.get())
}

fn is_steal_of(finding: &Finding, guest: &str) -> bool {
    finding.id == "cpu.steal" && finding.subject.capture.as_deref() == Some(guest) && finding.explained_by.is_none()
}

/// Returns true if a finding on a host keeps the virtual CPUs of the guest with this name waiting.
fn keeps_waiting(finding: &Finding, guest: Option<&str>) -> bool {
    let subject = &finding.subject.name;
    match finding.id.as_str() {
        "cpu.saturated" => finding.subject.kind == "host",
        "cpu.throttled" => guest.is_some() && cgroup::guest(subject).as_deref() == guest,
        "virt.cpu_pinning" => guest == Some(subject),
        _ => false,
    }
}

/// Effects in the guest of a balloon that holds too much. On the host it explains nothing, so these are not in the rule.
const OF_BALLOON: [&str; 4] = ["virt.balloon", "mem.thrashing", "mem.reclaim", "mem.cache_thrash"];

/// Makes what the host does to a guest explain the findings in it: a limit of its disks, which the guest names as libvirt does,
/// explains those on these disks; a balloon explains those on its memory.
fn relate_guests(machines: &VirtualMachines, merged: &mut [Finding], book: &RuleBook) {
    for (guest, host, name) in &machines.guests {
        let of_guest = |finding: &&Finding, id: &str| {
            finding.id == id
                && finding.subject.kind == "guest"
                && finding.subject.capture.as_ref() == Some(host)
                && Some(&finding.subject.name) == name.as_ref()
        };
        let is_effect = |finding: &Finding, confidence: Confidence| {
            finding.subject.capture.as_ref() == Some(guest)
                && finding.explained_by.is_none()
                && (confidence > Confidence::Low || finding.confidence == Confidence::Low)
        };
        if let Some(balloon) = merged.iter().find(|finding| of_guest(finding, "virt.balloon")) {
            let (cause, confidence) = (balloon.key(), balloon.confidence);
            explain(merged, &cause, |finding| {
                is_effect(finding, confidence) && OF_BALLOON.contains(&finding.id.as_str())
            });
        }
        let Some(limit) = merged.iter().find(|finding| of_guest(finding, "disk.throttled")) else { continue };
        let disks = limit.evidence.iter().find(|evidence| evidence.metric == "guest.limited_disks");
        let Some(Reading::Text(disks)) = disks.map(|evidence| evidence.value.clone()) else { continue };
        let (cause, confidence) = (limit.key(), limit.confidence);
        let rules = book.all().iter().filter(|rule| rule.id == "disk.throttled" && rule.scope == Scope::Guest);
        let explained: Vec<&String> = rules.flat_map(|rule| &rule.explains).collect();
        explain(merged, &cause, |finding| {
            is_effect(finding, confidence)
                && explained.contains(&&finding.id)
                && disks.split([',', ' ']).any(|disk| disk == finding.subject.name)
        });
    }
}

/// Makes findings on the host's CPUs explain the steal of its guests; a quota or a binding explains that of its own guest only.
pub(crate) fn relate(machines: &VirtualMachines, merged: &mut [Finding], book: &RuleBook) {
    relate_guests(machines, merged, book);
    for (guest, host, name) in &machines.guests {
        let Some(at) = merged.iter().position(|finding| is_steal_of(finding, guest)) else { continue };
        let is_cause = |finding: &&Finding| {
            finding.subject.capture.as_ref() == Some(host)
                && keeps_waiting(finding, name.as_deref())
                && (finding.confidence > Confidence::Low || merged[at].confidence == Confidence::Low)
        };
        // A finding about the guest alone is nearer to it than the load of the machine.
        let nearest = |finding: &&Finding| (finding.subject.kind == "host", std::cmp::Reverse(finding.confidence));
        let Some(cause) = merged.iter().filter(is_cause).min_by_key(nearest).map(Finding::key) else { continue };
        let effect = merged[at].key();
        explain(merged, &cause, |finding| finding.key() == effect);
    }
}
