//! ethtool(8): the settings of a card (`ethtool`, `-c`, `-g`, `-i`, `-k`) and its own counters (`-S`).

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::number::number;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_model::catalogue::{DriverCounter, Interface, Link};
use whyslow_model::key::NetKey;

/// The format.
pub const FORMAT: Format = Format {
    name: "ethtool",
    versions: "plain, -c, -g, -i, -k, -S",
    tells: "speed and duplex, coalescing, rings, driver, offloads, and the card's counters of bad frames since boot",
    starts,
    read,
};

/// A report, by the words it begins with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Report {
    Settings,
    Coalesce,
    Rings,
    Features,
    Driver,
    Counters,
}

const BEGINS: [(&str, Report); 5] = [
    ("Settings for ", Report::Settings),
    ("Coalesce parameters for ", Report::Coalesce),
    ("Ring parameters for ", Report::Rings),
    ("Features for ", Report::Features),
    ("NIC statistics:", Report::Counters),
];

/// What drivers call the frames that arrived damaged, and the column they are counted in by /proc/net/dev.
const FRAMES: [&str; 4] = ["rx_crc_errors", "rx_align_errors", "rx_frame_errors", "rx_fcs_errors"];
/// No interface's name is longer: IFNAMSIZ, or ALTIFNAMSIZ of an alternative name (include/uapi/linux/if.h).
const LONGEST_NAME: usize = 127;
/// Nanoseconds in a microsecond.
const US: f64 = 1e3;

fn begins(line: &str) -> Option<(Report, &str)> {
    let is_name = |name: &str| name.split_whitespace().count() == 1 && !name.contains(['$', '"', '`']);
    if line.strip_prefix("driver: ").is_some_and(is_name) {
        return Some((Report::Driver, ""));
    }
    BEGINS.iter().find_map(|(words, report)| Some((*report, line.trim().strip_prefix(words)?.trim_end_matches(':'))))
}

fn starts(lines: &mut Lines<'_>) -> bool {
    let Some((report, named)) = lines.peek(0).and_then(begins) else { return false };
    // A script that calls ethtool holds these words too; only the report itself goes on with its fields.
    let card = named.is_empty()
        || (named.len() <= LONGEST_NAME && named.bytes().all(|b| b.is_ascii_graphic() && !b"$\"'`{}".contains(&b)));
    card && (report == Report::Driver || lines.peek_past_blanks(1).is_some_and(|(_, next)| is_field(report, next)))
}

/// Whether a report of this kind may go on with this line.
fn is_field(report: Report, line: &str) -> bool {
    let indented = line.starts_with([' ', '\t']);
    let Some((field, value)) = line.split_once(':') else { return false };
    let named = !field.trim().is_empty() && field.bytes().all(|b| b.is_ascii_graphic() || b" \t".contains(&b));
    let plain = named && !field.contains(['$', '"', '\'', '`', ';', '=']);
    match report {
        Report::Counters => plain && number(value.trim()).is_some(),
        Report::Settings => plain && indented,
        Report::Coalesce | Report::Rings | Report::Features | Report::Driver => plain,
    }
}

fn read(lines: &mut Lines<'_>, asked: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let Some((report, named)) = lines.peek(0).and_then(begins).map(|(report, named)| (report, named.to_owned())) else {
        return Ok(());
    };
    let asked_for = asked.command.as_ref().filter(|c| c.tool() == "ethtool").and_then(|c| c.arguments().last());
    let name = if named.is_empty() { asked_for.unwrap_or_default().to_owned() } else { named };
    if name.is_empty() {
        return Err(lines.refuse("a prompt before it that names the card: ethtool -S eth0"));
    }
    let key = NetKey { ns: "".into(), name: name.as_str().into() };
    if report == Report::Driver {
        driver(lines, run, key);
        return Ok(());
    }
    lines.skip(1);
    let mut features = Vec::new();
    let mut current = false;
    let mut bad_frames = None;
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        let Some((field, value)) = text.split_once(':').map(|(f, v)| (f.trim().to_owned(), v.trim().to_owned())) else {
            // A list of modes goes on without a name.
            let list = report == Report::Settings && text.starts_with([' ', '\t']);
            if !list {
                break;
            }
            lines.skip(blanks + 1);
            continue;
        };
        let indented = text.starts_with([' ', '\t']);
        if begins(text).is_some() || crate::elsewhere(lines, FORMAT.name) {
            break;
        }
        lines.skip(blanks);
        let line = lines.number();
        current |= field.starts_with("Current hardware settings");
        match report {
            Report::Settings => setting(run.row::<Link>(0.0, line, key.clone()), &field, &value),
            Report::Coalesce => coalesce(run.row::<Link>(0.0, line, key.clone()), &field, &value),
            Report::Rings => ring(run.row::<Link>(0.0, line, key.clone()), &field, &value, current),
            // Those that are indented are parts of the one above them.
            Report::Features if !indented && value.starts_with("on") => {
                features.push(field);
                run.row::<Link>(0.0, line, key.clone()).offloads = features.join(" ").into();
            }
            Report::Features | Report::Driver => {}
            Report::Counters => {
                if let Some(count) = number(&value) {
                    let counter = NetKey { ns: "".into(), name: format!("{name} {field}").into() };
                    run.row::<DriverCounter>(0.0, line, counter).count = (count as u64).into();
                    if FRAMES.contains(&field.as_str()) {
                        *bad_frames.get_or_insert(0.0) += count;
                    }
                    total(run.row::<Interface>(0.0, line, key.clone()), &field, count);
                }
            }
        }
        lines.skip(1);
    }
    if let Some(frames) = bad_frames {
        run.row::<Interface>(0.0, 0, key).rx_frame = (frames as u64).into();
    }
    Ok(())
}

/// `driver: virtio_net`, and lines of its version and firmware.
fn driver(lines: &mut Lines<'_>, run: &mut Run, key: NetKey) {
    const FIELDS: [&str; 5] = ["driver", "version", "firmware-version", "expansion-rom-version", "bus-info"];
    while let Some((field, value)) = lines.peek(0).and_then(|line| line.split_once(':')) {
        let ours = FIELDS.contains(&field) || field.starts_with("supports-");
        let name = (field == "driver").then(|| value.trim().to_owned());
        if !ours {
            break;
        }
        if let Some(name) = name {
            run.row::<Link>(0.0, lines.number(), key.clone()).driver = name.into();
        }
        lines.skip(1);
    }
}

fn setting(link: &mut Link, field: &str, value: &str) {
    match field {
        "Speed" => link.speed = value.strip_suffix("Mb/s").and_then(number).map(|m| m * 1e6).into(),
        "Duplex" => link.duplex = value.to_ascii_lowercase().into(),
        "Link detected" => link.operstate = if value == "yes" { "up" } else { "down" }.into(),
        _ => {}
    }
}

fn coalesce(link: &mut Link, field: &str, value: &str) {
    let microseconds = || number(value).map(|us| us * US).into();
    match field {
        "Adaptive RX" => link.coalesce_adaptive_rx = f64::from(u8::from(value.starts_with("on"))).into(),
        "rx-usecs" => link.coalesce_rx = microseconds(),
        "rx-frames" => link.coalesce_rx_frames = number(value).into(),
        "tx-usecs" => link.coalesce_tx = microseconds(),
        _ => {}
    }
}

fn ring(link: &mut Link, field: &str, value: &str, current: bool) {
    let entries = number(value).into();
    match (field, current) {
        ("RX", true) => link.ring_rx = entries,
        ("TX", true) => link.ring_tx = entries,
        ("RX", false) => link.ring_rx_max = entries,
        ("TX", false) => link.ring_tx_max = entries,
        _ => {}
    }
}

/// Totals that every driver spells the same.
fn total(interface: &mut Interface, field: &str, count: f64) {
    let count = count as u64;
    match field {
        "rx_packets" | "tx_packets" | "rx_bytes" | "tx_bytes" | "rx_errors" | "tx_errors" => {
            whyslow_model::catalogue::Family::set(interface, field, count);
        }
        "rx_ucast_packets" => interface.rx_packets = count.into(),
        "tx_ucast_packets" => interface.tx_packets = count.into(),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    #[test]
    fn coalescing_as_it_is_set() {
        let window = window_of(&fixture("irq-ethtool-c.txt"));
        let rows = window.newest::<Link>();
        let (key, link) = rows.first_key_value().unwrap();
        assert_eq!(
            (&*key.name, link.coalesce_rx.get(), link.coalesce_adaptive_rx.get()),
            ("eth1", Some(18_000.0), Some(0.0))
        );
    }

    #[test]
    fn a_cards_counters_need_its_name() {
        let text = fixture("cases/035-nic-crc-errors-one-way-slow/ethtool-S.txt");
        let window = window_of(&text);
        assert_eq!(window.the::<Interface>().unwrap().rx_frame.get(), Some(1_294_846));
        refusal_of(text.split_once('\n').unwrap().1);
    }

    #[test]
    fn a_script_that_calls_ethtool_is_no_output_of_it() {
        for text in [
            "#!/bin/sh\nNIC statistics:\n     rx_crc_errors: 5\nSettings for eth0:\n\tSpeed: 10Mb/s\n",
            "_ethtool() {\nSettings for $dev:\n\tSpeed: 10Mb/s\n",
            "echo x\nNIC statistics:\n  case \"$1\" in rx: 5\ndriver: $(basename $d)\n",
        ] {
            let name = "sos/ethtool".to_owned();
            let read = crate::read(vec![crate::Input { name, reader: Box::new(text.as_bytes()) }], false);
            let seen = read.map(|all| all.iter().map(|c| c.window.newest::<Link>().len()).sum::<usize>());
            assert!(seen.as_ref().map_or(true, |links| *links == 0), "{text}: {seen:?}");
        }
    }

    #[test]
    fn driver_and_offloads() {
        let text = format!("{}{}", fixture("ethtool-k.txt"), fixture("ethtool-i.txt"));
        let window = window_of(&text);
        let link = window.the::<Link>().unwrap();
        assert_eq!(link.driver.get(), Some("virtio_net"));
        let offloads: Vec<&str> = link.offloads.get().unwrap().split(' ').collect();
        assert!(offloads.contains(&"generic-receive-offload") && !offloads.contains(&"large-receive-offload"));
    }

    #[test]
    fn speed_and_duplex() {
        let window = window_of(&fixture("cases/035-nic-crc-errors-one-way-slow/ethtool.txt"));
        let link = window.the::<Link>().unwrap();
        assert_eq!((link.speed.get(), link.duplex.get()), (Some(1e9), Some("full")));
    }
}
