//! smartctl(8): which device it is, for the part to order and to pull. Its records are read by people.

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_model::catalogue::Queue;

/// The format.
pub const FORMAT: Format = Format {
    name: "smartctl",
    versions: "smartmontools 5 to 7: -i, -a, -x of ATA, SCSI and NVMe devices, below the command line that names the device",
    tells: "model, firmware and serial number, for the part to order",
    starts: |lines| lines.peek(0).is_some_and(is_start),
    read,
};

/// Where a report ends that is longer than any.
const LONGEST: usize = 2000;

/// `smartctl 7.2 2020-12-30 r5155 [x86_64-linux-5.10.0-8-amd64] (local build)`
fn is_start(line: &str) -> bool {
    line.strip_prefix("smartctl ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        || line.starts_with("=== START OF INFORMATION SECTION")
}

/// What a device says of itself.
#[derive(Default)]
struct Identity {
    vendor: Option<String>,
    model: Option<String>,
    firmware: Option<String>,
    serial: Option<String>,
}

impl Identity {
    /// `Device Model:     ST4000NM0035-1V4107`
    fn take(&mut self, line: &str) {
        let Some((name, value)) = line.split_once(':') else { return };
        let field = match name.trim() {
            "Vendor" => &mut self.vendor,
            "Device Model" | "Product" | "Model Number" => &mut self.model,
            "Firmware Version" | "Revision" => &mut self.firmware,
            "Serial Number" | "Serial number" => &mut self.serial,
            _ => return,
        };
        field.get_or_insert_with(|| value.trim().to_owned());
    }

    /// Vendor, model and firmware, as other formats put them.
    fn model(&self) -> Option<String> {
        let named: Vec<&str> = [&self.vendor, &self.model].into_iter().flatten().map(String::as_str).collect();
        let firmware = self.firmware.as_ref().map_or_else(String::new, |version| format!(", firmware {version}"));
        (!named.is_empty()).then(|| named.join(" ") + &firmware)
    }
}

fn read(lines: &mut Lines<'_>, asked: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let line = lines.number();
    let mut identity = Identity::default();
    lines.skip(1);
    for _ in 0..LONGEST {
        if lines.peek(0).is_none() || crate::elsewhere(lines, FORMAT.name) {
            break;
        }
        identity.take(lines.peek(0).unwrap_or_default());
        lines.skip(1);
    }
    let device = asked.command.iter().flat_map(|c| c.arguments()).find_map(|a| a.strip_prefix("/dev/"));
    match device.filter(|name| !name.contains('/')) {
        Some(device) => {
            let row = run.row::<Queue>(0.0, line, device.into());
            row.model = identity.model().map(Into::into).unwrap_or_default();
            row.serial = identity.serial.map(Into::into).unwrap_or_default();
        }
        None => run.note(
            &format!("smartctl on line {line}"),
            "it does not say which device it speaks of",
            "paste its command line too",
        ),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn the_part_to_pull() {
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
