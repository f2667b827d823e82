//! ethtool(8): settings of an interface (`ethtool`, `-a`, `-c`, `-g`, `-i`, `-k`, `-l`, `-m`) and its driver's counters (`-S`).

use super::ethtool_reports::{
    COALESCE, CURRENT_RINGS, DAMAGED_FRAMES, EthtoolReport, MAXIMUM_RINGS, MISSED_FRAMES, TOTALS, record,
};
use crate::prelude::*;
use whyslow_model::catalogue::Link;

pub const FORMAT: Format = Format {
    name: "ethtool",
    versions: "plain, -a, -c, -g, -i, -k, -l, -m, -S; those of -n, -P, -T, -u, -x, --show-eee, --show-fec and --show-priv-flags are recognized, and say nothing about speed",
    shows: "speed and duplex, flow control, coalescing, rings, channels, driver, offloads, alarms of the transceiver, and counters since boot: damaged and missed frames, pause frames, queues that differ from the others",
    lacks: "whether errors still occur, if read once",
    programs: &[program("ethtool")],
    files: &["ethtool"],
    columns: &[&COALESCE, &MAXIMUM_RINGS, &CURRENT_RINGS, &TOTALS],
    starts,
    read,
    ..Format::NEW
};

/// Placeholder for the interface of a report that was quoted without its name.
const UNNAMED: &str = "ethX";
/// IFNAMSIZ, or ALTIFNAMSIZ for alternative names (include/uapi/linux/if.h).
const LONGEST_NAME: usize = 127;

const TITLES: [(&str, EthtoolReport); 13] = [
    ("Settings for ", EthtoolReport::Settings),
    ("Coalesce parameters for ", EthtoolReport::Coalesce),
    ("Ring parameters for ", EthtoolReport::Rings),
    ("Features for ", EthtoolReport::Features),
    ("Pause parameters for ", EthtoolReport::Pause),
    ("Channel parameters for ", EthtoolReport::Channels),
    ("Time stamping parameters for ", EthtoolReport::Other),
    ("FEC parameters for ", EthtoolReport::Other),
    ("EEE settings for ", EthtoolReport::Other),
    ("EEE Settings for ", EthtoolReport::Other),
    ("Private flags for ", EthtoolReport::Other),
    ("RX flow hash indirection table for ", EthtoolReport::Other),
    ("NIC statistics:", EthtoolReport::Counters),
];

/// Returns the report with this title, and the interface that it names.
fn title(line: &str) -> Option<(EthtoolReport, &str)> {
    let is_name = |name: &str| name.split_whitespace().count() == 1 && !name.contains(['$', '"', '`']);
    if line.strip_prefix("driver: ").is_some_and(is_name) {
        return Some((EthtoolReport::Driver, ""));
    }
    if is_module(line) {
        return Some((EthtoolReport::Module, ""));
    }
    if line.starts_with("Permanent address: ") || line.ends_with(" RX rings available") {
        return Some((EthtoolReport::Other, ""));
    }
    let (report, rest) = TITLES.iter().find_map(|(words, report)| Some((*report, line.trim().strip_prefix(words)?)))?;
    Some((report, rest.split(" with ").next().unwrap_or(rest).trim_end_matches(':')))
}

/// Returns true for the first line of `ethtool -m`: `\tIdentifier                                : 0x03 (SFP)`.
fn is_module(line: &str) -> bool {
    line.trim_start().strip_prefix("Identifier ").is_some_and(|rest| rest.trim_start().starts_with(": 0x"))
}

/// Returns true if a report starts. A script that calls ethtool contains the titles too; only a report continues with its
/// fields.
fn starts(lines: &mut Lines<'_>) -> bool {
    if lines.next_is(is_untitled_counter) || untitled_settings_start(lines) {
        return true;
    }
    let Some((report, named)) = lines.peek(0).and_then(title).map(|(report, named)| (report, named.to_owned())) else {
        return false;
    };
    let plausible = |name: &str| {
        name.len() <= LONGEST_NAME && name.bytes().all(|b| b.is_ascii_graphic() && !b"$\"'`{}".contains(&b))
    };
    // Other tools name drivers too.
    let is_driver = report == EthtoolReport::Driver;
    if is_driver && !lines.peek_past_blanks(1).is_some_and(|(_, next)| next.starts_with("version:")) {
        return false;
    }
    plausible(&named)
        && (named.is_empty() && report != EthtoolReport::Counters
            || lines.peek_past_blanks(1).is_some_and(|(_, next)| is_field(report, next)))
}

/// Returns true for a line that grep left of `ethtool -S`: `     rx_crc_errors: 1000`, `     port.link_xoff_rx: 12` of Intel's
/// drivers. Without the indentation, only names that all drivers spell alike count.
fn is_untitled_counter(line: &str) -> bool {
    const BEGINNINGS: [&str; 4] = ["rx_", "tx_", "port.", "veb."];
    let (field, value) = match beside(line) {
        Some((field, value, _)) => (field, value),
        None => match line.trim_start().split_once(": ") {
            Some(field) => field,
            None => return false,
        },
    };
    let is_name = field.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.".contains(&b));
    let is_common = MISSED_FRAMES.contains(&field) || DAMAGED_FRAMES.contains(&field);
    let is_named = is_name && (BEGINNINGS.iter().any(|own| field.starts_with(own)) || field.ends_with(".nic"));
    (is_common || line.starts_with("     ") && is_named) && number(value.trim()).is_some()
}

/// Returns a counter and its two values if two readings stand side by side, as printed by paste or `diff -y`: `     rx_packets:
/// 88120331204 |       rx_packets: 88124451535`.
fn beside(line: &str) -> Option<(&str, &str, &str)> {
    let words: Vec<&str> = line.split_whitespace().filter(|word| *word != "|").collect();
    let [name, first, again, second] = words[..] else { return None };
    let name = name.strip_suffix(':').filter(|_| name == again)?;
    [first, second].into_iter().all(|value| number(value).is_some()).then_some((name, first, second))
}

/// Returns true for a line of `ethtool eth0` that was quoted without its title: `\tSupported ports: [ TP ]`, `\tSpeed:
/// 100Mb/s`.
fn is_untitled_setting(line: &str) -> bool {
    let Some((field, value)) = line.trim_start().split_once(": ") else { return false };
    let value = value.trim();
    match field {
        "Supported ports" => value.starts_with('['),
        "Supported link modes" | "Advertised link modes" => value.contains("base"),
        "Speed" => value.strip_suffix("Mb/s").is_some_and(|speed| number(speed).is_some()) || value == "Unknown!",
        "Duplex" => ["Half", "Full", "Unknown! (255)"].contains(&value),
        "Auto-negotiation" => ["on", "off"].contains(&value),
        "Link detected" => value == "yes" || value.starts_with("no"),
        _ => false,
    }
}

/// Returns true if the next line is such a setting. If its name is an ordinary word, two settings are required.
fn untitled_settings_start(lines: &mut Lines<'_>) -> bool {
    let is_own =
        |line: &str| line.trim_start().starts_with("Supported ") || line.trim_start().starts_with("Advertised ");
    lines.next_is(|line| is_untitled_setting(line) && is_own(line))
        || lines.next_is(is_untitled_setting) && lines.peek(1).is_some_and(is_untitled_setting)
}

/// Other fields of `ethtool eth0`: a quotation without its title ends where none of them follows.
const OTHER_SETTINGS: [&str; 20] = [
    "Supported pause frame use",
    "Supports auto-negotiation",
    "Supported FEC modes",
    "Advertised pause frame use",
    "Advertised auto-negotiation",
    "Advertised FEC modes",
    "Link partner advertised link modes",
    "Link partner advertised pause frame use",
    "Link partner advertised auto-negotiation",
    "Link partner advertised FEC modes",
    "Port",
    "PHYAD",
    "Transceiver",
    "MDI-X",
    "Lanes",
    "master-slave cfg",
    "master-slave status",
    "Supports Wake-on",
    "Wake-on",
    "Current message level",
];

/// Splits a line into name and value. The name of a counter may contain a colon: `[0]: rx_ucast_packets: 5`.
fn field_of(report: EthtoolReport, line: &str) -> Option<(&str, &str)> {
    match report {
        EthtoolReport::Counters => line.rsplit_once(':'),
        _ => line.split_once(':'),
    }
}

/// Returns true if a report of this kind may continue with this line.
fn is_field(report: EthtoolReport, line: &str) -> bool {
    let Some((field, value)) = field_of(report, line) else { return false };
    let plain = !field.trim().is_empty()
        && field.bytes().all(|b| b.is_ascii_graphic() || b" \t".contains(&b))
        && !field.contains(['$', '"', '\'', '`', ';', '=']);
    match report {
        EthtoolReport::Counters => plain && number(value.trim()).is_some(),
        EthtoolReport::Settings => plain && line.starts_with([' ', '\t']),
        _ => plain,
    }
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let titled = lines.peek(0).and_then(title).map(|(report, named)| (report, named.to_owned()));
    let is_titled = titled.is_some();
    let untitled = if lines.next_is(is_untitled_setting) { EthtoolReport::Settings } else { EthtoolReport::Counters };
    let (report, named) = titled.unwrap_or((untitled, String::new()));
    let asked_for = context.command_of("ethtool").and_then(|c| c.operands().next());
    let name = if named.is_empty() { asked_for.unwrap_or(UNNAMED) } else { &named };
    if report == EthtoolReport::Other {
        let begin = lines.number();
        lines.skip(1);
        while lines.next_is(|text| !text.trim().is_empty() && title(text).is_none())
            && !another_output_starts(lines, FORMAT.name)
        {
            lines.skip(1);
        }
        // The interface is known to exist.
        run.row::<Link>(0.0, begin, interface(name));
        return Ok(());
    }
    if report == EthtoolReport::Driver {
        driver(lines, run, interface(name));
        return Ok(());
    }
    let begin = lines.number();
    lines.skip(usize::from(is_titled && report != EthtoolReport::Module));
    let mut fields: Vec<(u32, String, String)> = Vec::new();
    let mut later: Vec<(u32, String, String)> = Vec::new();
    let mut end = begin;
    while let Some((blanks, text)) = lines.peek_past_blanks(0).map(|(blanks, text)| (blanks, text.to_owned())) {
        let text = text.as_str();
        if let Some((field, first, second)) = beside(text).filter(|_| report == EthtoolReport::Counters) {
            lines.skip(blanks);
            end = lines.number();
            lines.skip(1);
            fields.push((end, field.to_owned(), first.to_owned()));
            later.push((end, field.to_owned(), second.to_owned()));
            continue;
        }
        let indented = text.starts_with([' ', '\t']);
        let Some((field, value)) = field_of(report, text) else {
            // A list of modes continues without a name. Elsewhere such a line is damaged if the report continues after it.
            let is_list = report == EthtoolReport::Settings && indented;
            let mut is_damaged =
                || report == EthtoolReport::Counters && lines.peek(blanks + 1).is_some_and(is_untitled_counter);
            if !is_list && !is_damaged() {
                break;
            }
            match fields.last_mut() {
                _ if !is_list => fields.push((lines.number(), String::new(), String::new())),
                Some((_, _, modes)) => {
                    modes.push(' ');
                    modes.push_str(text.trim());
                }
                None => {}
            }
            lines.skip(blanks + 1);
            continue;
        };
        if title(text).is_some() && !(fields.is_empty() && is_module(text)) {
            break;
        }
        // Indented features are parts of the one above them.
        let part = report == EthtoolReport::Features && indented;
        let field = (field.trim().to_owned(), value.trim().to_owned());
        let goes_on = is_titled
            || report != EthtoolReport::Settings
            || is_untitled_setting(text)
            || OTHER_SETTINGS.contains(&field.0.as_str());
        if !goes_on || another_output_starts(lines, FORMAT.name) {
            break;
        }
        lines.skip(blanks);
        end = lines.number();
        lines.skip(1);
        // Two joined lines are ambiguous.
        let is_joined = field.0.split_whitespace().skip(1).any(|word| number(word).is_some());
        if report == EthtoolReport::Counters && is_joined {
            fields.push((end, field.0, String::new()));
        } else if !part {
            fields.push((end, field.0, field.1));
        }
    }
    record(run, report, name, &fields, (begin, end), 0.0);
    if let Some(pause) = context.pause().filter(|_| !later.is_empty()) {
        record(run, report, name, &later, (begin, end), pause);
    }
    Ok(())
}

/// Reads `driver: virtio_net`, and the lines with its version and firmware.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, row_of, window_of};
    use whyslow_model::catalogue::{DriverCounter, Interface};
    use whyslow_model::snapshot::ReadOutcome;

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
    fn counters_of_a_card_without_its_name() {
        let text = fixture("cases/035-nic-crc-errors-one-way-slow/ethtool-S.txt");
        let window = window_of(&text);
        assert_eq!(window.the::<Interface>().unwrap().rx_frame.get(), Some(1_294_846));
        let unnamed = row_of::<Interface>(text.split_once('\n').unwrap().1);
        assert_eq!((&*unnamed.interface.name, unnamed.rx_frame.get()), (UNNAMED, Some(1_294_846)));
        assert_eq!(row_of::<Interface>("It shows\nrx_crc_errors: 12\n").rx_frame.get(), Some(12));
        let settings = "I have\n```\n\tSupported ports: [ TP ]\n\tSupported link modes:   10baseT/Half\n\t\t\t1000baseT/Full\n\tSpeed: 100Mb/s\n\tDuplex: Full\n```\n";
        assert_eq!(row_of::<Link>(settings).speed.get(), Some(1e8));
    }

    #[test]
    fn what_both_ends_could_do() {
        let text = "\tSupported link modes:   10baseT/Half 10baseT/Full\n\t                        1000baseT/Full\n\
            \tLink partner advertised link modes:  10baseT/Half 100baseT/Full\n\tSpeed: 100Mb/s\n\
            \tAuto-negotiation: off\n\tLink detected: yes\nThe note: of mine\n";
        let link = row_of::<Link>(text);
        assert_eq!(
            (link.supported_speed.get(), link.partner_speed.get(), link.speed.get()),
            (Some(1e9), Some(1e8), Some(1e8))
        );
        assert_eq!((link.auto_negotiation.get(), link.operstate.get()), (Some("off"), Some("up")));
        let cut = row_of::<Link>("```\n...\n        Speed: 10Mb/s\n        Duplex: Half\n...\n```\n");
        assert_eq!((cut.speed.get(), cut.duplex.get()), (Some(1e7), Some("half")));
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
        let alone = text.lines().skip(1).take(3).map(|line| format!("{line}\n")).collect::<String>();
        assert_eq!(&*window_of(&alone).newest::<Interface>().keys().next().unwrap().name, UNNAMED);
    }

    #[test]
    fn damaged_frames_of_the_port_are_counted_once() {
        let of = |text: &str| row_of::<Interface>(text).rx_frame.get();
        assert_eq!(of("     rx_crc_errors_phy: 20580\n     rx_packets_phy: 3430200\n"), Some(20_580));
        assert_eq!(of("     rx_crc_errors: 7\n     port.rx_crc_errors: 9\n     rx_align_errors: 1\n"), Some(10));
    }

    #[test]
    fn two_readings_side_by_side_are_rates() {
        let text = "$ ethtool -S eth0 > 1; sleep 10; ethtool -S eth0 | diff -y 1 -\n     \
            rx_packets: 1000\t\t|\t     rx_packets: 2000\n     rx_crc_errors: 7\t\t\t     rx_crc_errors: 7\n";
        let window = window_of(text);
        let change = &window.changes::<Interface>()[0];
        assert_eq!((change.rate(|i| i.rx_frame), change.seconds()), (Some(0.0), 10.0));
        assert_eq!(window.changes::<DriverCounter>().iter().find_map(|c| c.rate(|c| c.count)), Some(0.0));
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
    fn queues_for_one_direction_only_may_be_missing() {
        let text = "Channel parameters for eth0:\nPre-set maximums:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\t1\nCombined:\t8\n\
                    Current hardware settings:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\t1\nCombined:\t1\n";
        let link: Link = row_of(text);
        assert_eq!((link.channels.get(), link.channels_max.get()), (Some(1.0), Some(8.0)));
    }

    #[test]
    fn flow_control_channels_and_alarms_are_read() {
        let link = row_of::<Link>(&fixture("layouts/ethtool-a.txt"));
        assert_eq!(link.flow_control.get(), Some("only obeyed"));
        let link = row_of::<Link>(&fixture("layouts/ethtool-l.txt"));
        assert_eq!((link.channels.get(), link.channels_max.get()), (Some(4.0), Some(16.0)));
        let link = row_of::<Link>(&fixture("layouts/ethtool-m.txt"));
        assert_eq!(link.module_alarms.get(), Some("Laser rx power low alarm"));
    }

    #[test]
    fn what_says_nothing_about_speed_is_recognized() {
        let window = window_of(&fixture("ethtool-n-P-T-x.txt"));
        let names: Vec<_> = window.newest::<Link>().into_keys().map(|key| key.name).collect();
        assert_eq!(names, ["eth0".into()]);
        assert!(window.snapshots()[0].sources.iter().all(|source| source.outcome == ReadOutcome::Read));
    }

    #[test]
    fn counters_of_queues_are_read_by_name() {
        let text = "# ethtool -S eth1\nNIC statistics:\n     [0]: rx_ucast_packets: 12\n     rx-1.packets: 7\n";
        let window = window_of(text);
        let counts: Vec<_> = window
            .newest::<DriverCounter>()
            .into_iter()
            .map(|(key, row)| (key.name.to_string(), row.count.get()))
            .collect();
        assert_eq!(counts, [("eth1/[0]: rx_ucast_packets".into(), Some(12)), ("eth1/rx-1.packets".into(), Some(7))]);
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
