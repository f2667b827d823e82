//! Links: the part of their speed that is left for data.

use super::{BYTES_PER_SECOND, Machine, PER_SECOND, bytes, load, rate, thing};
use std::collections::BTreeMap;
use whyslow_documents::expectation::{ExpectedRate, ThingExpected};
use whyslow_documents::io_stack::StackNode;
use whyslow_model::catalogue::{Link, PcieLink};
use whyslow_model::human::quantity;
use whyslow_model::key::NetKey;
use whyslow_model::value::Name;

const PCIE: &str = "PCI Express Base Specification 6.0: 8b/10b up to 5 GT/s, 128b/130b up to 32 GT/s, flits of 242 of 256 bytes at 64 GT/s";
const ETHERNET: &str = "IEEE 802.3: 38 bytes of preamble, header, checksum and gap a frame; RFC 9293, RFC 7323: 52 bytes of IPv4 and TCP with time stamps";
/// Bytes of a frame on the wire besides its packet.
const FRAMING: f64 = 38.0;
/// Bytes of a packet that are not TCP data.
const HEADERS: f64 = 52.0;
/// Smallest frame on the wire, bytes: 64, a preamble and a gap.
const SMALLEST: f64 = 84.0;

/// Data rate of a link, bytes per second.
pub(super) struct Payload {
    pub(super) rate: f64,
    pub(super) formula: String,
    pub(super) source: &'static str,
}

/// Returns the data rate of a storage link by its transport and speed in bits per second.
pub(super) fn of_transport(transport: &str, speed: f64) -> Option<Payload> {
    let (data, line, source) = match transport {
        "ata" => (8.0, 10.0, "Serial ATA Revision 3.5: 8b/10b"),
        "sas" if speed < 13e9 => (8.0, 10.0, "SPL-4: 8b/10b up to 12 Gbit/s"),
        "sas" => (128.0, 150.0, "SPL-4: 128b/150b at 22.5 Gbit/s"),
        // A Gbit in the name of a speed stands for 100 MB/s.
        "fc" => (8.0, 10.0, "FC-PI-7: the data rate of each speed"),
        "usb" if speed < 1e9 => (1.0, 1.0, "USB 2.0: before the overhead of packets"),
        "usb" if speed < 9e9 => (8.0, 10.0, "USB 3.2: 8b/10b at 5 Gbit/s"),
        "usb" => (128.0, 132.0, "USB 3.2: 128b/132b from 10 Gbit/s on"),
        _ => return None,
    };
    let encoding = if data == line { String::new() } else { format!(" × {data} / {line}") };
    Some(Payload {
        rate: speed / 8.0 * data / line,
        formula: format!("{} / 8{encoding}", quantity(speed, "bit/s")),
        source,
    })
}

/// Returns the data rate of a PCI Express link, before the headers of its packets.
pub(super) fn of_pcie(link: &PcieLink) -> Option<Payload> {
    let (speed, width) = (link.speed.get()?, link.width.get()?);
    let (data, line) = match speed {
        ..=5e9 => (8.0, 10.0),
        ..=32e9 => (128.0, 130.0),
        _ => (242.0, 256.0),
    };
    let formula = format!("{} GT/s × {width} lanes / 8 × {data} / {line}", speed / 1e9);
    Some(Payload { rate: speed * width / 8.0 * data / line, formula, source: PCIE })
}

pub(super) fn of_adapter(machine: &Machine<'_>, node: &StackNode) -> ThingExpected {
    let disks: Vec<&StackNode> =
        machine.stack.nodes.iter().filter(|disk| disk.below.iter().any(|below| below.id == node.id)).collect();
    let measured = disks.iter().map(|disk| bytes(disk)).sum::<Option<f64>>().filter(|_| !disks.is_empty());
    let Some(link) = node.words("bus address").and_then(|bus| machine.pcie.get(bus)) else {
        return ThingExpected::default();
    };
    let mut adapter = thing(link.what.get().unwrap_or("adapter").to_owned());
    adapter.rates.extend(of_bus(link, measured));
    adapter.notes.extend(narrower(link));
    let ceilings: Option<Vec<f64>> = disks.iter().map(|disk| load(disk)?.ceiling).collect();
    let all: f64 = ceilings.unwrap_or_default().iter().sum();
    if let Some(link) = adapter.rates.first().filter(|link| all > link.expected) {
        let words = |bytes: f64| quantity(bytes, BYTES_PER_SECOND);
        adapter.notes.push(format!(
            "Its {} disks together could deliver {}, more than the link's {}.",
            disks.len(),
            words(all),
            words(link.expected)
        ));
    }
    adapter
}

fn of_bus(link: &PcieLink, measured: Option<f64>) -> Option<ExpectedRate> {
    let payload = of_pcie(link)?;
    Some(rate(
        "throughput of its PCI Express link",
        payload.rate,
        BYTES_PER_SECOND,
        payload.formula,
        payload.source,
        measured,
    ))
}

/// Returns a note if device and port both support a faster link.
fn narrower(link: &PcieLink) -> Option<String> {
    let least = |device: Option<f64>, port: Option<f64>| Some(device?.min(port.unwrap_or(f64::INFINITY)));
    let (speed, width) = (link.speed.get()?, link.width.get()?);
    let (best_speed, best_width) =
        (least(link.max_speed.get(), link.port_speed.get())?, least(link.max_width.get(), link.port_width.get())?);
    let words = |speed: f64, width: f64| format!("{} GT/s × {width}", speed / 1e9);
    (speed < best_speed || width < best_width).then(|| {
        format!(
            "The link runs at {}; device and slot support {}: reseat the card, or try another slot.",
            words(speed, width),
            words(best_speed, best_width)
        )
    })
}

pub(super) fn of_interface(
    node: &StackNode,
    links: &BTreeMap<NetKey, &Link>,
    pcie: &BTreeMap<Name, &PcieLink>,
) -> ThingExpected {
    let key = links.keys().find(|key| node.id.strip_prefix("interface:") == Some(key.to_string().as_str()));
    let Some(link) = key.and_then(|key| links.get(key)) else { return ThingExpected::default() };
    let (Some(speed), Some(mtu)) = (link.speed.get(), link.mtu.get()) else { return ThingExpected::default() };
    let mut interface = thing(format!("{}, MTU {mtu}", quantity(speed, "bit/s")));
    let fuller = load(node).and_then(|load| Some(load.read?.max(load.write?) * 8.0));
    let goodput = speed * (mtu - HEADERS) / (mtu + FRAMING);
    let formula = format!("{} × ({mtu} − {HEADERS}) / ({mtu} + {FRAMING})", quantity(speed, "bit/s"));
    interface.rates.push(rate("data of TCP one way", goodput, "bit/s", formula, ETHERNET, fuller));
    let formula = format!("{} / 8 / {SMALLEST} bytes of the smallest frame", quantity(speed, "bit/s"));
    let packets = load(node).and_then(|load| load.requests);
    interface.rates.push(rate(
        "packets one way at most",
        speed / 8.0 / SMALLEST,
        PER_SECOND,
        formula,
        ETHERNET,
        packets,
    ));
    if let Some(bus) = link.bus.get().and_then(|bus| pcie.get(bus)) {
        interface.rates.extend(of_bus(bus, fuller.map(|bits| bits / 8.0)));
        interface.notes.extend(narrower(bus));
    }
    interface
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_carry_what_their_encoding_leaves() {
        let rate =
            |transport: &str, gigabits: f64| of_transport(transport, gigabits * 1e9).map(|payload| payload.rate / 1e6);
        assert_eq!((rate("ata", 6.0), rate("sas", 12.0), rate("fc", 16.0)), (Some(600.0), Some(1200.0), Some(1600.0)));
        assert_eq!((rate("usb", 5.0), rate("virtio", 1.0)), (Some(500.0), None));
    }

    #[test]
    fn a_narrow_link_is_noted() {
        let link = |speed: f64, width: f64| PcieLink {
            speed: speed.into(),
            width: width.into(),
            max_speed: 16e9.into(),
            max_width: 4.0.into(),
            port_speed: 8e9.into(),
            port_width: 8.0.into(),
            ..PcieLink::new("0000:01:00.0".into())
        };
        let payload = of_pcie(&link(8e9, 4.0)).unwrap();
        assert_eq!(
            (payload.rate.round(), payload.formula.as_str()),
            (3_938_461_538.0, "8 GT/s × 4 lanes / 8 × 128 / 130")
        );
        assert_eq!(narrower(&link(8e9, 4.0)), None, "the slot is no faster");
        assert!(narrower(&link(8e9, 2.0)).unwrap().contains("runs at 8 GT/s × 2; device and slot support 8 GT/s × 4"));
    }
}
