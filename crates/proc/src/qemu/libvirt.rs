//! Status of a running guest, as kept by libvirt (`/run/libvirt/qemu/NAME.xml`;
//! <https://libvirt.org/formatdomain.html>): the limits on disks, which libvirt sets through QEMU's monitor, so that no
//! command line has them.

use super::limits::{IoLimits, LimitNames};
use roxmltree::{Document, Node};
use std::collections::BTreeMap;

const LIMITS: LimitNames =
    ["total_iops_sec", "read_iops_sec", "write_iops_sec", "total_bytes_sec", "read_bytes_sec", "write_bytes_sec"];

/// The status of a guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LibvirtGuest {
    /// PID of QEMU.
    pub pid: u32,
    /// Limits of its disks, by QEMU's name of the device.
    pub limits: BTreeMap<String, IoLimits>,
}

/// Parses the status of a guest; `None` for any other text.
pub fn libvirt_guest(text: &str) -> Option<LibvirtGuest> {
    let document = Document::parse(text).ok()?;
    let status = document.root_element();
    let pid = status.attribute("pid")?.parse().ok()?;
    let domain = child(status, "domain")?;
    let disks = child(domain, "devices")?.children().filter(|node| node.has_tag_name("disk"));
    let limits =
        disks.filter_map(|disk| Some((child(disk, "alias")?.attribute("name")?.to_owned(), disk_limits(disk)?)));
    Some(LibvirtGuest { pid, limits: limits.collect() })
}

/// Returns the limits of a disk, if it has any.
pub(super) fn disk_limits(disk: Node<'_, '_>) -> Option<IoLimits> {
    let tune = child(disk, "iotune")?;
    let number = |name: &str| child(tune, name)?.text()?.trim().parse().ok();
    let group = child(tune, "group_name").and_then(|node| node.text());
    Some(IoLimits::read(LIMITS, group, number))
}

pub(super) fn child<'n, 'i>(node: Node<'n, 'i>, name: &str) -> Option<Node<'n, 'i>> {
    node.children().find(|child| child.has_tag_name(name))
}
