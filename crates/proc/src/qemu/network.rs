//! Network cards of a guest, and their connections on the host (qemu(1): -netdev, -nic).

use super::options::QemuOptions;
use super::{CommandLine, NetworkCard, TapName};
use whyslow_model::catalogue::GuestNic;
use whyslow_model::key::{GuestDevice, TaskKey};
use whyslow_model::value::State;

pub(super) fn cards(line: &CommandLine, task: TaskKey) -> Vec<NetworkCard> {
    let devices = line.devices.iter().filter_map(|device| {
        let name = device.get("netdev")?;
        let backend = line.netdevs.iter().find(|backend| backend.get("id") == Some(name));
        Some(card(task, device.get("id").unwrap_or(name), device.get("driver"), device, backend))
    });
    // -nic is both in one.
    let both = line.nics.iter().enumerate().filter(|(_, nic)| nic.get("type") != Some("none")).map(|(at, nic)| {
        let name = nic.get("id").map_or_else(|| format!("nic{at}"), str::to_owned);
        card(task, &name, nic.get("model"), nic, Some(nic))
    });
    devices.chain(both).collect()
}

fn card(
    task: TaskKey,
    name: &str,
    model: Option<&str>,
    device: &QemuOptions,
    backend: Option<&QemuOptions>,
) -> NetworkCard {
    let kind = backend.and_then(|backend| backend.get("type"));
    let vhost = backend.map(|backend| {
        let is_asked = backend.flag("vhost") == Some(true) || backend.flag("vhostforce") == Some(true);
        is_asked || kind.is_some_and(|kind| kind.starts_with("vhost"))
    });
    let fds: Vec<u32> = backend.map(descriptors).unwrap_or_default();
    let queues = backend.and_then(|backend| backend.number("queues")).or_else(|| u64::try_from(fds.len()).ok());
    let tap = match backend.and_then(|backend| backend.get("ifname")) {
        Some(name) => Some(TapName::Given(name.to_owned())),
        None if !fds.is_empty() => Some(TapName::OfDescriptor(fds[0])),
        None => matches!(kind, Some("tap" | "bridge")).then_some(TapName::Unknown),
    };
    let row = GuestNic {
        model: State::from(model),
        backend: State::from(kind),
        vhost: vhost.map(u64::from).into(),
        queues: Some(queues.unwrap_or(1).max(1)).filter(|_| backend.is_some()).into(),
        mac: State::from(device.get("mac").map(str::to_ascii_lowercase)),
        ..GuestNic::new(GuestDevice { task, name: name.into() })
    };
    NetworkCard { row, tap }
}

/// Returns the descriptors of a tap that another program (libvirt) opened: `fd=36`, `fds=36:37`.
fn descriptors(backend: &QemuOptions) -> Vec<u32> {
    let all = backend.get("fds").or_else(|| backend.get("fd")).unwrap_or_default();
    all.split(':').filter_map(|fd| fd.parse().ok()).collect()
}
