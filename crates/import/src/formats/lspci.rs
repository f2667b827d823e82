//! lspci(8) -vv: current speed and width of PCIe links, and those that the device and the port above it support (ls-caps.c and
//! ls-header.c of pciutils).

use crate::prelude::*;
use std::collections::BTreeMap;
use whyslow_model::catalogue::PcieLink;

pub const FORMAT: Format = Format {
    name: "lspci",
    versions: "pciutils 3: -vv, -vvv, as root",
    shows: "PCIe links that are slower or narrower than their device and the port above it",
    lacks: "whether the device saves power at the moment; what the slot supports, if its port is not listed",
    programs: &[partly_read("lspci")],
    files: &["lspci"],
    starts: |lines| {
        lines.next_is(|line| device(line).is_some())
            && lines.peek(1).is_some_and(|line| line.starts_with(['\t', ' ']) || device(line).is_some())
    },
    read,
    ..Format::NEW
};

/// Maximum number of lines of one device.
const MOST_LINES: usize = 500;
const MOST_DEVICES: usize = 10_000;
const GIGA: f64 = 1e9;

/// Speed in transfers per second and lane, and number of lanes.
type Link = (f64, f64);

/// A device as listed.
#[derive(Default)]
struct Listed {
    address: String,
    what: String,
    /// Bus below a port, in the form of an address.
    below: Option<String>,
    capability: Option<Link>,
    status: Option<(u32, Link)>,
    has_control: bool,
    /// Whether a field is repeated: the next device's title was lost.
    is_mixed: bool,
}

/// Returns the address and description in `01:00.0 Ethernet controller: Intel Corporation X550 (rev 01)`; a PCI domain may
/// precede it.
fn device(line: &str) -> Option<(&str, &str)> {
    let (address, description) = line.split_once(' ')?;
    // `(prog-if 02 [NVM Express])` adds nothing.
    let description = description.split(" (prog-if ").next().unwrap_or(description);
    (is_address(address) && description.contains(": ")).then_some((address, description))
}

/// Returns true for `01:00.0`, `0000:01:00.0`.
fn is_address(word: &str) -> bool {
    let Some((bus, function)) = word.rsplit_once('.') else { return false };
    let hexadecimal = |part: &str| (2..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_hexdigit());
    bus.contains(':') && bus.split(':').all(hexadecimal) && matches!(function.as_bytes(), [b'0'..=b'7'])
}

/// Returns the link in `LnkCap: Port #0, Speed 8GT/s, Width x8, ASPM L1` or `LnkSta: Speed 8GT/s (downgraded), Width x2
/// (downgraded)`.
fn link(line: &str, field: &str) -> Option<Link> {
    let text = line.trim_start().strip_prefix(field)?;
    let (_, speed) = text.split_once("Speed ")?;
    let (_, width) = text.split_once("Width x")?;
    let width = number(width.split(|c: char| !c.is_ascii_digit()).next()?)?;
    let speed = number(speed.split_once("GT/s")?.0)? * GIGA;
    // A port without a card in its slot has no lanes.
    (width > 0.0 && speed > 0.0).then_some((speed, width))
}

/// Returns the bus in `Bus: primary=00, secondary=01, subordinate=01, sec-latency=0`.
fn bus_below(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("Bus: primary=")?.split_once("secondary=")?.1.split(',').next()
}

/// Returns `0000:01` for `0000:01:00.0`.
fn bus(address: &str) -> &str {
    address.rsplit_once(':').map_or("", |(bus, _)| bus)
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut devices: Vec<Listed> = Vec::new();
    let mut since_device = 0;
    while let Some(text) = lines.peek(0) {
        since_device += 1;
        if let Some((address, what)) = device(text) {
            if devices.len() >= MOST_DEVICES {
                break;
            }
            devices.push(Listed { address: address.to_owned(), what: what.to_owned(), ..Listed::default() });
            since_device = 0;
        } else if since_device > MOST_LINES || !(text.trim().is_empty() || text.starts_with(['\t', ' '])) {
            break;
        } else if let Some(current) = devices.last_mut() {
            // Each device has one such line: a second one means that a title was lost, or joined to a line of this device.
            let is_control = text.trim_start().starts_with("Control: ");
            current.is_mixed |= is_control && std::mem::replace(&mut current.has_control, true);
            current.is_mixed |= text.split_whitespace().skip(1).any(is_address);
            if let Some(limits) = link(text, "LnkCap:") {
                current.is_mixed |= current.capability.replace(limits).is_some();
            } else if let Some(below) = bus_below(text) {
                let domain =
                    bus(&current.address).rsplit_once(':').map_or(String::new(), |(domain, _)| format!("{domain}:"));
                current.below = Some(domain + below);
            } else if let Some(now) = link(text, "LnkSta:") {
                current.is_mixed |= current.status.replace((lines.number(), now)).is_some();
            }
        }
        lines.skip(1);
    }
    record(&devices, run);
    Ok(())
}

/// Records the links of devices. The link of a port is that of the device below it.
fn record(devices: &[Listed], run: &mut ToolRun) {
    let ports: BTreeMap<&str, Link> = devices
        .iter()
        .filter(|port| !port.is_mixed)
        .filter_map(|port| Some((port.below.as_deref()?, port.capability?)))
        .collect();
    for Listed { address, what, below, capability, status, .. } in
        devices.iter().filter(|device| !device.is_mixed && !device.what.starts_with("PCI bridge"))
    {
        let (None, Some((max_speed, max_width)), Some((line, (speed, width)))) = (below, capability, status) else {
            continue;
        };
        let row = run.row::<PcieLink>(0.0, *line, address.as_str().into());
        row.what = what.as_str().into();
        (row.speed, row.width) = ((*speed).into(), (*width).into());
        (row.max_speed, row.max_width) = ((*max_speed).into(), (*max_width).into());
        if let Some((port_speed, port_width)) = ports.get(bus(address)) {
            (row.port_speed, row.port_width) = ((*port_speed).into(), (*port_width).into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn links_and_what_their_devices_and_ports_support() {
        let window = window_of(&fixture("layouts/lspci-vv.txt"));
        let links = window.newest::<PcieLink>();
        let numbers: Vec<_> = links
            .values()
            .map(|l| {
                let all = [l.speed, l.max_speed, l.port_speed, l.width, l.max_width, l.port_width];
                (l.device.to_string(), all.map(|v| v.get()))
            })
            .collect();
        let expected = [
            ("01:00.0".to_owned(), [8e9, 8e9, 8e9, 4.0, 8.0, 4.0].map(Some)),
            ("02:00.0".to_owned(), [8e9, 16e9, 16e9, 2.0, 4.0, 4.0].map(Some)),
            ("03:00.0".to_owned(), [Some(5e9), Some(5e9), None, Some(1.0), Some(1.0), None]),
        ];
        assert_eq!(numbers, expected);
    }

    #[test]
    fn a_link_that_is_not_known_is_left_out() {
        let text = "0000:01:00.0 A: b\n\tLnkCap: x\n\tLnkSta: Speed 8GT/s, Width x1\n\
            0000:02:00.0 A: c\n\tLnkCap: Port #0, Speed 5GT/s, Width x1\n\tLnkSta: Speed 5GT/s, Width x1\n\
            0000:03:00.0 A: d\n\tLnkCap: Port #0, Speed 5GT/s, Width x1\n\tLnkSta: Speed unknown, Width x0\n";
        let window = window_of(text);
        assert_eq!(window.newest::<PcieLink>().keys().map(ToString::to_string).collect::<Vec<_>>(), ["0000:02:00.0"]);
    }
}
