//! Contents of each report of ethtool(8), by the names of its lines.

use crate::prelude::*;
use whyslow_model::catalogue::{DriverCounter, Interface, Link};

pub const COALESCE: MetricColumns<Link> = columns![
    "rx-usecs" => coalesce_rx * 1e3, "rx-frames" => coalesce_rx_frames, "tx-usecs" => coalesce_tx * 1e3,
];
pub const MAXIMUM_RINGS: MetricColumns<Link> = columns![
    "RX" => ring_rx_max, "TX" => ring_tx_max,
];
pub const CURRENT_RINGS: MetricColumns<Link> = columns![
    "RX" => ring_rx, "TX" => ring_tx,
];
/// Counters that every driver spells alike, and those of damaged frames, which /proc/net/dev adds up.
pub const TOTALS: MetricColumns<Interface> = columns![
    "rx_packets" => rx_packets, "rx_ucast_packets" => rx_packets, "rx_packets_phy" => rx_packets, "tx_packets" => tx_packets,
    "tx_ucast_packets" => tx_packets, "tx_packets_phy" => tx_packets, "rx_bytes" => rx_bytes, "tx_bytes" => tx_bytes, "rx_errors" => rx_errors,
    "tx_errors" => tx_errors, DAMAGED => rx_frame, MISSED => rx_fifo,
];
/// Largest of [`MISSED_FRAMES`]: drivers count the same frames under several names.
const MISSED: &str = "missed frames";
pub const MISSED_FRAMES: [&str; 6] = [
    "rx_missed_errors",
    "rx_fifo_errors",
    "rx_out_of_buffer",
    "rx_no_dma_resources",
    "rx_no_buffer_count",
    // i40e and ice: frames for which the port had no descriptor.
    "port.rx_dropped",
];
/// Sum of [`DAMAGED_FRAMES`].
const DAMAGED: &str = "damaged frames";
pub const DAMAGED_FRAMES: [&str; 4] = ["rx_crc_errors", "rx_align_errors", "rx_frame_errors", "rx_fcs_errors"];

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum EthtoolReport {
    Settings,
    Coalesce,
    Rings,
    Features,
    Driver,
    Pause,
    Channels,
    Module,
    Counters,
    /// Recognized, but not evaluated.
    Other,
}

/// Records the lines of a report, which begins and ends on these lines. Only counters can have another time than the beginning.
pub fn record(
    run: &mut ToolRun,
    report: EthtoolReport,
    name: &str,
    fields: &[Field],
    (begin, end): (u32, u32),
    at: f64,
) {
    let Some((first, ..)) = fields.first() else { return };
    let numbers = |fields: &[Field]| {
        let numbers = fields.iter().filter_map(|(_, field, value)| Some((field.clone(), number(value)?)));
        TableRow::new(*first, name, numbers).until(end)
    };
    match report {
        EthtoolReport::Settings => {
            for (line, field, value) in fields {
                setting(run.row(0.0, *line, interface(name)), field, value);
            }
        }
        EthtoolReport::Coalesce => {
            let link = run.counts::<Link>(0.0, interface(name), &numbers(fields), &COALESCE);
            if let Some((_, _, value)) = fields.iter().find(|(_, field, _)| field == "Adaptive RX") {
                link.coalesce_adaptive_rx = f64::from(u8::from(value.starts_with("on"))).into();
            }
        }
        EthtoolReport::Rings => {
            let Some((most, current)) = maximum_and_current(fields) else { return };
            run.counts::<Link>(0.0, interface(name), &numbers(most), &MAXIMUM_RINGS);
            run.counts::<Link>(0.0, interface(name), &numbers(current), &CURRENT_RINGS);
        }
        EthtoolReport::Channels => {
            let Some((most, current)) = maximum_and_current(fields) else { return };
            // A queue is either combined or for one direction.
            let of = |fields: &[Field]| {
                let row = numbers(fields);
                [row.get("RX"), row.get("Combined")].into_iter().flatten().reduce(|a, b| a + b)
            };
            let link = run.row::<Link>(0.0, begin, interface(name));
            (link.channels_max, link.channels) = (of(most).into(), of(current).into());
        }
        EthtoolReport::Pause => {
            let is_on = |wanted: &str| {
                let (.., value) = fields.iter().find(|(_, field, _)| field == wanted)?;
                [("on", true), ("off", false)].into_iter().find(|(word, _)| word == value).map(|(_, is_on)| is_on)
            };
            // If it was negotiated, the result is printed below the request.
            let negotiated = fields.iter().any(|(_, field, _)| field.ends_with(" negotiated"));
            let (receives, sends) = if negotiated { ("RX negotiated", "TX negotiated") } else { ("RX", "TX") };
            let flow_control = is_on(receives).zip(is_on(sends)).map(|directions| match directions {
                (true, true) => "both ways",
                (true, false) => "only obeyed",
                (false, true) => "only requested",
                (false, false) => "off",
            });
            run.row::<Link>(0.0, begin, interface(name)).flow_control = flow_control.into();
            driver_counters(run, name, fields, at);
        }
        EthtoolReport::Module => {
            let raised = fields.iter().filter(|(_, field, value)| field.ends_with("alarm") && value == "On");
            let raised: Vec<&str> = raised.map(|(_, field, _)| field.as_str()).collect();
            let alarms = if raised.is_empty() { "none".to_owned() } else { raised.join(", ") };
            run.row::<Link>(0.0, begin, interface(name)).module_alarms = alarms.as_str().into();
        }
        EthtoolReport::Features => {
            let on = fields.iter().filter(|(_, _, value)| value.starts_with("on"));
            let on: Vec<&str> = on.map(|(_, field, _)| field.as_str()).collect();
            if !on.is_empty() {
                run.row::<Link>(0.0, begin, interface(name)).offloads = on.join(" ").into();
            }
        }
        EthtoolReport::Counters => {
            driver_counters(run, name, fields, at);
            let mut row = numbers(fields);
            let is_whole =
                |names: &[&str]| !fields.iter().any(|(_, field, value)| is_damaged_part(names, field, value));
            let damaged = DAMAGED_FRAMES
                .iter()
                .filter(|_| is_whole(&DAMAGED_FRAMES))
                .filter_map(|field| names_of(field).iter().filter_map(|name| row.get(name)).reduce(f64::max))
                .reduce(|a, b| a + b);
            row.extend(TableRow::new(end, name, damaged.map(|sum| (DAMAGED.to_owned(), sum))));
            let missed = MISSED_FRAMES
                .iter()
                .filter(|_| is_whole(&MISSED_FRAMES))
                .filter_map(|field| row.get(field))
                .reduce(f64::max);
            row.extend(TableRow::new(end, name, missed.map(|most| (MISSED.to_owned(), most))));
            run.counts(at, interface(name), &row, &TOTALS);
        }
        EthtoolReport::Driver | EthtoolReport::Other => {}
    }
}

/// Returns the names of a counter. Counters of the port itself have names of their own in some drivers (mlx5, i40e, ice).
fn names_of(counter: &str) -> [String; 4] {
    [counter.to_owned(), format!("{counter}_phy"), format!("port.{counter}"), format!("{counter}.nic")]
}

/// A line of a report: line number, name and value.
pub type Field = (u32, String, String);

/// Returns the maximum settings and the current ones below them. Without the heading between them, a repeated name is
/// ambiguous.
fn maximum_and_current(fields: &[Field]) -> Option<(&[Field], &[Field])> {
    let heading = fields.iter().position(|(_, field, _)| field.starts_with("Current hardware settings"));
    let is_unique =
        || fields.iter().enumerate().all(|(at, (_, name, _))| fields[..at].iter().all(|(_, n, _)| n != name));
    match heading {
        Some(heading) => Some(fields.split_at(heading)),
        None => is_unique().then_some((fields, &[])),
    }
}

/// Returns true if an unreadable line may be one of these counters, so that their sum is unknown.
fn is_damaged_part(names: &[&str], field: &str, value: &str) -> bool {
    let may_be = |name: &&str| name.starts_with(field) || field.contains(*name);
    names.iter().any(may_be) && number(value).is_none()
}

fn driver_counters(run: &mut ToolRun, name: &str, fields: &[Field], at: f64) {
    for (line, field, value) in fields {
        if let Some(count) = number(value) {
            run.row::<DriverCounter>(at, *line, interface(&format!("{name}/{field}"))).count = (count as u64).into();
        }
    }
}

fn setting(link: &mut Link, field: &str, value: &str) {
    match field {
        "Speed" => link.speed = value.strip_suffix("Mb/s").and_then(number).map(|m| m * 1e6).into(),
        "Duplex" => link.duplex = value.to_ascii_lowercase().into(),
        "Link detected" => {
            let states = [("yes", "up"), ("no", "down")];
            link.operstate =
                states.into_iter().find(|(word, _)| value.starts_with(word)).map(|(_, state)| state).into();
        }
        "Auto-negotiation" => link.auto_negotiation = value.into(),
        "Supported link modes" => link.supported_speed = fastest(value).into(),
        "Advertised link modes" => link.advertised_speed = fastest(value).into(),
        "Link partner advertised link modes" => link.partner_speed = fastest(value).into(),
        _ => {}
    }
}

/// Returns the highest speed among modes, in bit/s: `100baseT/Full`, `10000baseKX4/Full`, `25000baseCR/Full`.
fn fastest(modes: &str) -> Option<f64> {
    let speed = |mode: &str| number(mode.split_once("base")?.0);
    modes.split_whitespace().filter_map(speed).reduce(f64::max).map(|megabits| megabits * 1e6)
}
