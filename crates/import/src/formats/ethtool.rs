//! ethtool(8): the settings of an interface (`ethtool`, `-c`, `-g`, `-i`, `-k`) and its driver's counters (`-S`).

use crate::prelude::*;
use whyslow_model::catalogue::{DriverCounter, Interface, Link};

pub const FORMAT: Format = Format {
    name: "ethtool",
    versions: "plain, -c, -g, -i, -k, -S",
    shows: "speed and duplex, coalescing, rings, driver, offloads, and the counters of damaged frames since boot",
    lacks: "whether errors still occur, if read once",
    programs: &[program("ethtool")],
    files: &["ethtool"],
    columns: &[&COALESCE, &MAXIMUM_RINGS, &CURRENT_RINGS, &TOTALS],
    starts,
    read,
    ..Format::NEW
};

const COALESCE: MetricColumns<Link> = columns![
    "rx-usecs" => coalesce_rx * 1e3, "rx-frames" => coalesce_rx_frames, "tx-usecs" => coalesce_tx * 1e3,
];
const MAXIMUM_RINGS: MetricColumns<Link> = columns![
    "RX" => ring_rx_max, "TX" => ring_tx_max,
];
const CURRENT_RINGS: MetricColumns<Link> = columns![
    "RX" => ring_rx, "TX" => ring_tx,
];
/// Counters that every driver spells alike, and those of damaged frames, which /proc/net/dev adds up.
const TOTALS: MetricColumns<Interface> = columns![
    "rx_packets" => rx_packets, "rx_ucast_packets" => rx_packets, "tx_packets" => tx_packets,
    "tx_ucast_packets" => tx_packets, "rx_bytes" => rx_bytes, "tx_bytes" => tx_bytes, "rx_errors" => rx_errors,
    "tx_errors" => tx_errors, DAMAGED => rx_frame, MISSED => rx_fifo,
];
/// The largest of [`MISSED_FRAMES`]: drivers count the same under several names.
const MISSED: &str = "missed frames";
const MISSED_FRAMES: [&str; 3] = ["rx_missed_errors", "rx_fifo_errors", "rx_out_of_buffer"];
/// The sum of [`DAMAGED_FRAMES`].
const DAMAGED: &str = "damaged frames";
const DAMAGED_FRAMES: [&str; 4] = ["rx_crc_errors", "rx_align_errors", "rx_frame_errors", "rx_fcs_errors"];
/// IFNAMSIZ, or ALTIFNAMSIZ for alternative names (include/uapi/linux/if.h).
const LONGEST_NAME: usize = 127;

#[derive(Clone, Copy, PartialEq, Eq)]
enum EthtoolReport {
    Settings,
    Coalesce,
    Rings,
    Features,
    Driver,
    Counters,
}

const TITLES: [(&str, EthtoolReport); 5] = [
    ("Settings for ", EthtoolReport::Settings),
    ("Coalesce parameters for ", EthtoolReport::Coalesce),
    ("Ring parameters for ", EthtoolReport::Rings),
    ("Features for ", EthtoolReport::Features),
    ("NIC statistics:", EthtoolReport::Counters),
];

/// The report with this title, and the interface it names.
fn title(line: &str) -> Option<(EthtoolReport, &str)> {
    let is_name = |name: &str| name.split_whitespace().count() == 1 && !name.contains(['$', '"', '`']);
    if line.strip_prefix("driver: ").is_some_and(is_name) {
        return Some((EthtoolReport::Driver, ""));
    }
    TITLES.iter().find_map(|(words, report)| Some((*report, line.trim().strip_prefix(words)?.trim_end_matches(':'))))
}

/// A script that calls ethtool contains the titles too; only a report continues with its fields.
fn starts(lines: &mut Lines<'_>) -> bool {
    if lines.next_is(is_untitled_counter) {
        return true;
    }
    let Some((report, named)) = lines.peek(0).and_then(title) else { return false };
    let plausible = |name: &str| {
        name.len() <= LONGEST_NAME && name.bytes().all(|b| b.is_ascii_graphic() && !b"$\"'`{}".contains(&b))
    };
    plausible(named)
        && (report == EthtoolReport::Driver
            || lines.peek_past_blanks(1).is_some_and(|(_, next)| is_field(report, next)))
}

/// A line that grep left of `ethtool -S`: `     rx_crc_errors: 1000`.
fn is_untitled_counter(line: &str) -> bool {
    line.strip_prefix("     ").and_then(|line| line.split_once(": ")).is_some_and(|(field, value)| {
        let is_name = field.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        (field.starts_with("rx_") || field.starts_with("tx_")) && is_name && number(value.trim()).is_some()
    })
}

/// Whether a report of this kind may continue with this line.
fn is_field(report: EthtoolReport, line: &str) -> bool {
    let Some((field, value)) = line.split_once(':') else { return false };
    let plain = !field.trim().is_empty()
        && field.bytes().all(|b| b.is_ascii_graphic() || b" \t".contains(&b))
        && !field.contains(['$', '"', '\'', '`', ';', '=']);
    match report {
        EthtoolReport::Counters => plain && number(value.trim()).is_some(),
        EthtoolReport::Settings => plain && line.starts_with([' ', '\t']),
        _ => plain,
    }
}

fn read(lines: &mut Lines<'_>, context: &CaptureContext, run: &mut ToolRun) -> ReadResult {
    let titled = lines.peek(0).and_then(title).map(|(report, named)| (report, named.to_owned()));
    let is_titled = titled.is_some();
    let (report, named) = titled.unwrap_or((EthtoolReport::Counters, String::new()));
    let asked_for = context.command_of("ethtool").and_then(|c| c.arguments().last());
    let name = if named.is_empty() { asked_for.unwrap_or_default() } else { &named };
    if name.is_empty() {
        return Err(lines.refuse("a prompt before it that names the interface: ethtool -S eth0"));
    }
    if report == EthtoolReport::Driver {
        driver(lines, run, interface(name));
        return Ok(());
    }
    let begin = lines.number();
    lines.skip(usize::from(is_titled));
    let mut fields = Vec::new();
    let mut end = begin;
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        let indented = text.starts_with([' ', '\t']);
        let Some((field, value)) = text.split_once(':') else {
            // A list of modes continues without a name.
            if report != EthtoolReport::Settings || !indented {
                break;
            }
            lines.skip(blanks + 1);
            continue;
        };
        if title(text).is_some() {
            break;
        }
        // Indented features are parts of the one above them.
        let part = report == EthtoolReport::Features && indented;
        let field = (field.trim().to_owned(), value.trim().to_owned());
        if another_output_starts(lines, FORMAT.name) {
            break;
        }
        lines.skip(blanks);
        end = lines.number();
        lines.skip(1);
        if !part {
            fields.push((end, field.0, field.1));
        }
    }
    record(run, report, name, &fields, (begin, end));
    Ok(())
}

fn record(
    run: &mut ToolRun,
    report: EthtoolReport,
    name: &str,
    fields: &[(u32, String, String)],
    (begin, end): (u32, u32),
) {
    let Some((first, ..)) = fields.first() else { return };
    let numbers = |fields: &[(u32, String, String)]| {
        let numbers = fields.iter().filter_map(|(_, field, value)| Some((field.clone(), number(value)?)));
        TableRow::of(*first, name, numbers).until(end)
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
            let is_current = |(_, field, _): &(u32, String, String)| field.starts_with("Current hardware settings");
            let split = fields.iter().position(is_current).unwrap_or(fields.len());
            run.counts::<Link>(0.0, interface(name), &numbers(&fields[..split]), &MAXIMUM_RINGS);
            run.counts::<Link>(0.0, interface(name), &numbers(&fields[split..]), &CURRENT_RINGS);
        }
        EthtoolReport::Features => {
            let on = fields.iter().filter(|(_, _, value)| value.starts_with("on"));
            let on: Vec<&str> = on.map(|(_, field, _)| field.as_str()).collect();
            if !on.is_empty() {
                run.row::<Link>(0.0, begin, interface(name)).offloads = on.join(" ").into();
            }
        }
        EthtoolReport::Counters => {
            for (line, field, value) in fields {
                if let Some(count) = number(value) {
                    let counter = interface(&format!("{name} {field}"));
                    run.row::<DriverCounter>(0.0, *line, counter).count = (count as u64).into();
                }
            }
            let mut row = numbers(fields);
            let damaged = DAMAGED_FRAMES.iter().filter_map(|field| row.get(field)).reduce(|a, b| a + b);
            row.extend(TableRow::of(end, name, damaged.map(|sum| (DAMAGED.to_owned(), sum))));
            let missed = MISSED_FRAMES.iter().filter_map(|field| row.get(field)).reduce(f64::max);
            row.extend(TableRow::of(end, name, missed.map(|most| (MISSED.to_owned(), most))));
            run.counts(0.0, interface(name), &row, &TOTALS);
        }
        EthtoolReport::Driver => {}
    }
}

/// `driver: virtio_net`, and lines with its version and firmware.
fn driver(lines: &mut Lines<'_>, run: &mut ToolRun, key: NetKey) {
    const FIELDS: [&str; 5] = ["driver", "version", "firmware-version", "expansion-rom-version", "bus-info"];
    while let Some(line) = lines.take_if(|text| {
        text.split_once(':').is_some_and(|(field, _)| FIELDS.contains(&field) || field.starts_with("supports-"))
    }) {
        if let Some(name) = line.text.strip_prefix("driver:") {
            run.row::<Link>(0.0, line.number, key.clone()).driver = name.trim().into();
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, row_of, window_of};

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
    fn what_grep_left_of_two_readings_is_rates() {
        let reading = |second: u32, count: u32| {
            format!(
                "[root@web1 ~]# date; ethtool -S eth0 | grep -E 'crc|err'\nSat Jun  1 12:00:{second:02} UTC 2024\n     \
                 rx_crc_errors: {count}\n     rx_errors: {count}\n"
            )
        };
        let text = reading(0, 1000) + &reading(10, 1300);
        let window = window_of(&text);
        assert_eq!(window.changes::<Interface>()[0].rate(|i| i.rx_frame), Some(30.0));
        assert_eq!(&*window.changes::<Interface>()[0].key().name, "eth0");
        // Without the command it is not known of which interface.
        refusal_of(&text.lines().skip(1).take(3).map(|line| format!("{line}\n")).collect::<String>());
    }

    #[test]
    fn a_script_that_calls_ethtool_is_no_output_of_it() {
        for text in [
            "#!/bin/sh\nNIC statistics:\n     rx_crc_errors: 5\nSettings for eth0:\n\tSpeed: 10Mb/s\n",
            "_ethtool() {\nSettings for $dev:\n\tSpeed: 10Mb/s\n",
            "echo x\nNIC statistics:\n  case \"$1\" in rx: 5\ndriver: $(basename $d)\n",
        ] {
            let name = "sos/ethtool".to_owned();
            let read = crate::read(vec![crate::Input { name, reader: Box::new(text.as_bytes()) }], true);
            let seen = read.map(|all| all.iter().map(|c| c.window.newest::<Link>().len()).sum::<usize>());
            assert!(seen.as_ref().map_or(true, |links| *links == 0), "{text}: {seen:?}");
        }
    }

    #[test]
    fn driver_and_offloads_are_read() {
        let text = format!("{}{}", fixture("ethtool-k.txt"), fixture("ethtool-i.txt"));
        let link = row_of::<Link>(&text);
        assert_eq!(link.driver.get(), Some("virtio_net"));
        let offloads: Vec<&str> = link.offloads.get().unwrap().split(' ').collect();
        assert!(offloads.contains(&"generic-receive-offload") && !offloads.contains(&"large-receive-offload"));
    }

    #[test]
    fn speed_and_duplex_are_read() {
        let link = row_of::<Link>(&fixture("cases/035-nic-crc-errors-one-way-slow/ethtool.txt"));
        assert_eq!((link.speed.get(), link.duplex.get()), (Some(1e9), Some("full")));
    }
}
