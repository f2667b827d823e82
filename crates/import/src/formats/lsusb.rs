//! lsusb(8) -t: speed of USB devices, and of the hubs above them.

use crate::prelude::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use whyslow_model::catalogue::UsbLink;

pub const FORMAT: Format = Format {
    name: "lsusb -t",
    versions: "usbutils: -t, with -v",
    shows: "disks and network adapters on USB that are slower than their hub or controller",
    lacks: "what the device itself supports: lsusb -v",
    programs: &[partly_read("lsusb")],
    files: &["lsusb_-t"],
    starts: |lines| lines.next_is(|line| root(line).is_some() || line.starts_with("/:")),
    read,
    ..Format::NEW
};

/// Maximum depth of a tree; USB allows seven levels (USB 3.2, 10.1).
const DEEPEST: usize = 8;

/// Maximum indentation of devices relative to their hub: four blanks, and one more where mail stuffs lines that begin with one
/// (RFC 3676, 4.4).
const STEP: usize = 5;

/// A device: the number of its bus or port, its description, and its speed.
#[derive(Clone, Debug, PartialEq)]
struct Device {
    number: u32,
    what: String,
    speed: Option<f64>,
}

impl Device {
    /// Parses `Port 2: Dev 3, If 0, Class=Mass Storage, Driver=uas, 5000M`; a hub's driver is followed by its number of ports.
    fn parse(number: &str, rest: &str) -> Option<Self> {
        // Two lines may have been joined.
        let (_, rest) = rest.split_once("Class=").filter(|(_, rest)| !rest.contains("Class="))?;
        let (rest, speed) = rest.rsplit_once(',')?;
        let (class, driver) = rest.split_once(", Driver=").unwrap_or((rest, ""));
        let driver = driver.split('/').next().unwrap_or_default().trim();
        let what = if driver.is_empty() { class.trim().to_owned() } else { format!("{}, {driver}", class.trim()) };
        // `20000M/x2` is a link over two lanes.
        let (megabits, lanes) = speed.trim().split_once('M')?;
        (lanes.is_empty() || lanes.starts_with("/x")).then_some(())?;
        let speed = self::number(megabits).map(|m| m * 1e6);
        Some(Self { number: number.trim().parse().ok()?, what, speed })
    }
}

/// Parses `/:  Bus 02.Port 1: Dev 1, Class=root_hub, Driver=xhci_hcd/4p, 5000M`. In old versions, only the last of the buses
/// has the slash.
fn root(line: &str) -> Option<Device> {
    let rest = line.trim_start().trim_start_matches(['/', '|', ':', '_']).trim_start().strip_prefix("Bus ")?;
    let (bus, rest) = rest.split_once(".Port ")?;
    rest.contains("Class=root_hub").then(|| Device::parse(bus, rest))?
}

/// Returns the indentation and the device of a line: `    |__ Port 2: Dev 3, If 0, Class=Hub, Driver=hub/4p, 480M`.
fn child(line: &str) -> Option<(usize, Device)> {
    let at = line.find("|__ Port ").filter(|at| line[..*at].bytes().all(|b| b" \t|".contains(&b)))?;
    let (port, rest) = line[at + "|__ Port ".len()..].split_once(':')?;
    Some((at, Device::parse(port, rest)?))
}

/// Returns true for a line that -v adds: the IDs of the device, its path.
fn is_detail(line: &str) -> bool {
    let text = line.trim_start_matches([' ', '|']);
    text.starts_with("ID ") || text.starts_with("/sys/")
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut bus = None;
    let mut fastest: Option<f64> = None;
    // Indentation, path and speed of the devices above.
    let mut above: Vec<(usize, String, Option<f64>)> = Vec::new();
    let mut found: BTreeMap<String, (u32, Device, Option<f64>)> = BTreeMap::new();
    let is_own = |text: &str| root(text).is_some() || child(text).is_some() || is_detail(text);
    // Devices below a damaged line have no known position, and the fastest bus may be among the damaged ones.
    let damaged = Cell::new((false, false));
    let is_damaged = |text: &str| {
        let is_child = text.contains("|__");
        let is_root = text.trim_start().starts_with('/') || text.contains("root_hub");
        damaged.set((damaged.get().0 || is_root, damaged.get().1 || is_root));
        let is_end = text.trim().strip_suffix('M').is_some_and(|speed| number(speed).is_some());
        is_child || is_root || is_end || text.contains("Class=") || text.contains("Driver=")
    };
    while let Some(line) = lines.take_own(is_own, is_damaged, "a device: its port, class and speed")? {
        if damaged.replace((damaged.get().0, false)).1 {
            bus = None;
        }
        if let Some(root) = root(&line.text) {
            fastest = [fastest, root.speed].into_iter().flatten().reduce(f64::max);
            above = vec![(0, format!("{}-", root.number), root.speed)];
            bus = Some(root.number);
        } else if let Some((indent, device)) = child(&line.text).filter(|_| bus.is_some()) {
            above.retain(|(of, path, _)| *of < indent || path.ends_with('-'));
            // The line of a hub in between was lost.
            let is_below = |(of, ..): &(usize, String, Option<f64>)| indent <= of + STEP;
            let hub = above.last().cloned().filter(|hub| above.len() <= DEEPEST && is_below(hub));
            let Some((_, path, hub_speed)) = hub else { continue };
            let separator = if path.ends_with('-') { "" } else { "." };
            let path = format!("{path}{separator}{}", device.number);
            above.push((indent, path.clone(), device.speed));
            // A device has a line for each of its interfaces.
            found.entry(path).or_insert((line.number, device, hub_speed));
        }
    }
    // The first bus may be on the line of the command.
    let is_joined = context.command_of("lsusb").is_some_and(|c| c.arguments().any(|word| word.starts_with("Class=")));
    let fastest = fastest.filter(|_| !damaged.get().0 && !is_joined);
    for (path, (line, device, hub_speed)) in found {
        let row = run.row::<UsbLink>(0.0, line, path.as_str().into());
        row.what = device.what.as_str().into();
        (row.speed, row.hub_speed, row.fastest) = (device.speed.into(), hub_speed.into(), fastest.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn devices_are_named_by_bus_and_ports() {
        let window = window_of(&fixture("layouts/lsusb-t.txt"));
        let rows: Vec<_> = window
            .newest::<UsbLink>()
            .into_values()
            .map(|row| (&*row.device, row.what.get().unwrap(), row.speed.get(), row.hub_speed.get(), row.fastest.get()))
            .collect();
        let all = Some(10e9);
        assert_eq!(
            rows,
            [
                ("1-1", "Hub, hub", Some(480e6), Some(480e6), all),
                ("1-1.2", "Human Interface Device, usbhid", Some(1.5e6), Some(480e6), all),
                ("1-1.4", "Mass Storage, uas", Some(480e6), Some(480e6), all),
                ("2-3", "Mass Storage, uas", Some(5e9), Some(10e9), all),
            ]
        );
    }

    #[test]
    fn mail_may_stuff_lines_with_a_blank() {
        let devices = |text: &str| window_of(text).newest::<UsbLink>().into_values().cloned().collect::<Vec<_>>();
        let text = fixture("layouts/lsusb-t.txt");
        let stuffed = text.lines().map(|line| format!("{}{line}\n", if line.starts_with(' ') { " " } else { "" }));
        assert_eq!(devices(&stuffed.collect::<String>()), devices(&text));
        assert!(!devices(&text).is_empty());
    }

    #[test]
    fn numbers_of_newer_versions_have_leading_zeros() {
        let line = "/:  Bus 001.Port 001: Dev 001, Class=root_hub, Driver=xhci_hcd/16p, 480M";
        assert_eq!(root(line).map(|root| (root.number, root.speed)), Some((1, Some(480e6))));
        let line = "    |__ Port 004: Dev 003, If 0, Class=Mass Storage, Driver=usb-storage, 480M";
        assert_eq!(child(line).map(|(indent, device)| (indent, device.number)), Some((4, 4)));
    }
}
