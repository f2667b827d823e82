//! Captures of virtual machines and of their host: which is whose, and what of the CPUs of the one explains what was found in the other.

use crate::virtual_disks::virtual_disks;
use std::collections::BTreeSet;
use whyslow_model::catalogue::{Family, Guest, MachineInfo, Process};
use whyslow_model::cgroup;
use whyslow_model::diagnosis::{Confidence, Finding, Host, VirtualDisk};
use whyslow_model::window::Window;

/// What keeps the virtual CPUs of guests waiting, as their host sees it; as they see it themselves, that is `cpu.steal`.
const CAUSES_OF_STEAL: [&str; 4] = ["cpu.saturated", "virt.cpu_pinning", "cpu.throttled", "cpu.frequency"];

/// What captures show of virtual machines from both sides.
#[derive(Debug, Default)]
pub struct VirtualMachines {
    /// Their disks.
    pub disks: Vec<VirtualDisk>,
    /// The captures of a guest and of its host, and the guest's name where the host's capture has it.
    pub guests: Vec<(String, String, Option<String>)>,
}

/// The virtual machines among these captures, by what each is called, and their hosts.
///
/// A guest is known by a disk of which both sides show the serial number, or by its name, which is that of a guest of the host. If the
/// host's capture names no guests, and there is no other host, the other captures are taken for guests of it.
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
    VirtualMachines { disks, guests }
}

/// Whether it shows processes of QEMU.
fn runs_guests(window: &Window) -> bool {
    let is_qemu = |row: &Process| row.command.get().is_some_and(|name| name.starts_with("qemu-") || name == "kvm");
    !window.newest::<Guest>().is_empty() || window.newest::<Process>().into_values().any(is_qemu)
}

/// The machine's name; not every row of a capture has it.
fn machine_name(window: &Window) -> Option<&str> {
    window.snapshots().iter().flat_map(MachineInfo::rows).find_map(|machine| machine.name.get())
}

/// What was found of the host's CPUs explains the steal of its guests; a quota that of the guest which has it.
pub(crate) fn relate(machines: &VirtualMachines, merged: &mut [Finding]) {
    for (guest, host, name) in &machines.guests {
        let is_cause = |finding: &Finding| {
            let is_own =
                finding.id != "cpu.throttled" || cgroup::guest(&finding.subject.name) == *name && name.is_some();
            CAUSES_OF_STEAL.contains(&finding.id.as_str()) && finding.subject.capture.as_ref() == Some(host) && is_own
        };
        let is_effect = |finding: &Finding| {
            finding.id == "cpu.steal"
                && finding.subject.capture.as_ref() == Some(guest)
                && finding.explained_by.is_none()
        };
        // A quota is nearer to the guest than how busy the machine is.
        let nearest = |finding: &&Finding| (finding.id != "cpu.throttled", std::cmp::Reverse(finding.confidence));
        let Some(cause) = merged.iter().filter(|finding| is_cause(finding)).min_by_key(nearest) else { continue };
        let (cause, confidence) = (cause.key(), cause.confidence);
        let Some(effect) = merged.iter_mut().find(|finding| is_effect(finding)) else { continue };
        if confidence == Confidence::Low && effect.confidence > Confidence::Low {
            continue;
        }
        effect.explained_by = Some(cause.clone());
        let effect = effect.key();
        if let Some(cause) = merged.iter_mut().find(|finding| finding.key() == cause) {
            cause.explains.push(effect);
        }
    }
}
