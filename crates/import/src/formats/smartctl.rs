//! smartctl(8): model and serial number of a device. Its error records are left to people.

use crate::prelude::*;
use whyslow_model::catalogue::Queue;

pub const FORMAT: Format = Format {
    name: "smartctl",
    versions: "smartmontools 5 to 7: -i, -a, -x of ATA, SCSI and NVMe devices, below the command line that names the device",
    shows: "model, firmware and serial number, to order the part",
    lacks: "the device's own error records, which are not evaluated",
    programs: &[word("smartctl")],
    files: &["smartctl"],
    starts: |lines| lines.next_is(is_start),
    read,
    ..Format::NEW
};

/// No report is longer.
const MOST_LINES: usize = 2000;

/// `smartctl 7.2 2020-12-30 r5155 [x86_64-linux-5.10.0-8-amd64] (local build)`
fn is_start(line: &str) -> bool {
    line.strip_prefix("smartctl ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        || line.starts_with("=== START OF INFORMATION SECTION")
}

/// The names of vendor, model, firmware and serial number for ATA, SCSI and NVMe devices.
const FIELDS: [&[&str]; 4] = [
    &["Vendor"],
    &["Device Model", "Product", "Model Number"],
    &["Firmware Version", "Revision"],
    &["Serial Number", "Serial number"],
];

fn read(lines: &mut Lines<'_>, context: &CaptureContext, run: &mut ToolRun) -> ReadResult {
    let start = lines.number();
    let mut values: [Option<String>; 4] = Default::default();
    lines.skip(1);
    for _ in 0..MOST_LINES {
        if another_output_starts(lines, FORMAT.name) {
            break;
        }
        if let Some((name, value)) = lines.peek(0).and_then(|line| line.split_once(':'))
            && let Some(field) = FIELDS.iter().position(|names| names.contains(&name.trim()))
        {
            values[field].get_or_insert_with(|| value.trim().to_owned());
        }
        lines.skip(1);
    }
    let device = context.command.iter().flat_map(|c| c.arguments()).find_map(|a| a.strip_prefix("/dev/"));
    let Some(device) = device.filter(|name| !name.contains('/')) else {
        let what = format!("smartctl on line {start}");
        run.note(&what, "it does not name its device", "include its command line");
        return Ok(());
    };
    let [vendor, model, firmware, serial] = values;
    let row = run.row::<Queue>(0.0, start, device.into());
    let named: Vec<String> = [vendor, model].into_iter().flatten().collect();
    if !named.is_empty() {
        let firmware = firmware.map_or_else(String::new, |version| format!(", firmware {version}"));
        row.model = (named.join(" ") + &firmware).into();
    }
    row.serial = serial.map(Into::into).unwrap_or_default();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn the_failing_drive_is_identified() {
        let text = fixture("layouts/smartctl-a.txt");
        let window = window_of(&text);
        let queues = window.newest::<Queue>();
        let disk = queues.values().find(|q| &*q.device == "sdb").unwrap();
        assert_eq!(disk.model.get(), Some("ST4000NM0035-1V4107, firmware TNC2"));
        assert_eq!(disk.serial.get(), Some("ZC10ABCD"));
        let scsi = "$ smartctl -i /dev/sdc\nsmartctl 5.38 [x86_64-unknown-linux-gnu]\nVendor:               SEAGATE\nProduct:              ST373307LC\nRevision:             0007\nSerial number: 3HZ0XYZ\n";
        let window = window_of(scsi);
        let row = window.the::<Queue>().unwrap();
        assert_eq!((row.model.get(), row.serial.get()), (Some("SEAGATE ST373307LC, firmware 0007"), Some("3HZ0XYZ")));
        let unnamed = text.split_once('\n').unwrap().1;
        assert!(window_of(unnamed).newest::<Queue>().is_empty(), "which device is not known");
    }
}
