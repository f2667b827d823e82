//! smartctl(8): model and serial number of a device, and the health that it reports itself. Its error log is not evaluated, nor
//! are raw error rates, which vendors encode differently.

use super::nvme::{self, NVME_HEALTH};
use crate::prelude::*;
use whyslow_model::catalogue::{Drive, Queue};

pub const FORMAT: Format = Format {
    name: "smartctl",
    versions: "smartmontools 5 to 7: -H, -i, -A, -a, -x of ATA, SCSI and NVMe devices; without the command line, the drive is named by its serial number",
    shows: "whether the drive assesses itself as failing; sectors it cannot read; model, firmware and serial number, to order the part",
    lacks: "the device's own error records, which are not evaluated",
    programs: &[word("smartctl")],
    files: &["smartctl"],
    columns: &[&ATA_HEALTH, &SCSI_HEALTH, &NVME_HEALTH],
    starts: |lines| lines.next_is(is_start),
    read,
    ..Format::NEW
};

/// ATA attributes by number whose raw values are plain counts for all vendors.
const ATA_HEALTH: MetricColumns<Drive> = columns![
    "5" => reallocated, "187" => media_errors, "197" => unreadable, "198" => unreadable, WORN => wear,
];
/// Used part of a drive's life, from the normalized value of [`LIFE_LEFT`].
const WORN: &str = "worn";
/// Attributes whose normalized value is the remaining percentage of the drive's life, by the names of smartmontools.
const LIFE_LEFT: [&str; 6] = [
    "Percent_Lifetime_Remain",
    "Percent_Life_Remaining",
    "Remaining_Lifetime_Perc",
    "SSD_Life_Left",
    "Media_Wearout_Indicator",
    "Wear_Leveling_Count",
];
const SCSI_HEALTH: MetricColumns<Drive> = columns!["Elements in grown defect list" => reallocated];

const MOST_LINES: usize = 2000;
/// Placeholder for the drive of rows that were quoted without its name.
const UNNAMED: &str = "drive";

/// Returns true for `smartctl 7.2 2020-12-30 r5155 [x86_64-linux-5.10.0-8-amd64] (local build)`.
fn is_title(line: &str) -> bool {
    line.strip_prefix("smartctl ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn is_start(line: &str) -> bool {
    const SECTIONS: [&str; 3] = ["=== START OF ", "SMART Attributes Data Structure", "ID# ATTRIBUTE_NAME"];
    is_title(line) || SECTIONS.iter().any(|section| line.starts_with(section)) || is_lone_row(line)
}

/// Returns true for a row that is recognized without the lines above it.
fn is_lone_row(line: &str) -> bool {
    is_attribute_row(line) || nvme::field_alone(line).is_some_and(|(field, _)| field.contains(' '))
}

/// Returns true if a line can only be the row of an attribute, even without a header: by the form of its name and its flags.
fn is_attribute_row(line: &str) -> bool {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [_, name, flags, ..] = fields[..] else { return false };
    let is_name = name.contains('_') && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-%".contains(&b));
    let hexadecimal =
        || flags.strip_prefix("0x").is_some_and(|n| n.len() == 4 && n.bytes().all(|b| b.is_ascii_hexdigit()));
    let lettered = || (6..=7).contains(&flags.len()) && flags.bytes().all(|b| b"POSRCK-+".contains(&b));
    is_name && (hexadecimal() || lettered()) && attribute(line).is_some()
}

/// Names of vendor, model, firmware and serial number for ATA, SCSI and NVMe devices.
const FIELDS: [&[&str]; 4] = [
    &["Vendor"],
    &["Device Model", "Product", "Model Number"],
    &["Firmware Version", "Revision"],
    &["Serial Number", "Serial number"],
];

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let start = lines.number();
    let mut health: Vec<(String, f64)> = Vec::new();
    let mut failing = None;
    let mut values: [Option<String>; 4] = Default::default();
    let is_row_alone = lines.next_is(is_lone_row);
    lines.skip(usize::from(!is_row_alone));
    for _ in 0..MOST_LINES {
        if another_output_starts(lines, FORMAT.name) || lines.next_is(is_title) {
            break;
        }
        let text = lines.peek(0).unwrap_or_default();
        if let Some(attribute) = attribute(text) {
            health.push((attribute.number.to_owned(), attribute.raw));
            health.extend(attribute.worn().map(|worn| (WORN.to_owned(), worn)));
            failing = attribute.fails.then_some(1.0).or(failing);
        } else if let Some((name, value)) = text.split_once(':').map(|(name, value)| (name.trim(), value.trim())) {
            if let Some(field) = FIELDS.iter().position(|names| names.contains(&name)) {
                values[field].get_or_insert_with(|| value.to_owned());
            } else if HEALTH.contains(&name) {
                failing = larger(failing, Some(f64::from(u8::from(!["PASSED", "OK"].contains(&value)))));
            } else if SCSI_HEALTH.has(name) || nvme::is_field(name) {
                health.extend(nvme::amount(value).map(|amount| (name.to_owned(), amount)));
            }
        }
        // Without a title, other text may follow.
        let text = lines.peek(0).unwrap_or_default();
        if is_row_alone && attribute(text).is_none() && !is_lone_row(text) {
            break;
        }
        lines.skip(1);
    }
    let [vendor, model, firmware, serial] = values;
    let device = context.arguments().find_map(|a| a.strip_prefix("/dev/"));
    let device = device.filter(|name| !name.contains('/'));
    let unnamed = is_row_alone.then_some(UNNAMED);
    if let Some(drive) = device
        .or(serial.as_deref())
        .or(model.as_deref())
        .or(unnamed)
        .filter(|_| failing.is_some() || !health.is_empty())
    {
        let row = TableRow::new(start, "", health);
        let failing = larger(failing, nvme::failing(&row));
        for columns in [&ATA_HEALTH, &SCSI_HEALTH, &NVME_HEALTH] {
            run.counts(0.0, drive.into(), &row, columns);
        }
        run.row::<Drive>(0.0, start, drive.into()).failing = failing.into();
    }
    let Some(device) = device else {
        let what = format!("smartctl on line {start}");
        run.note(&what, "it does not name its device", "include its command line");
        return Ok(());
    };
    let row = run.row::<Queue>(0.0, start, device.into());
    let named: Vec<String> = [vendor, model].into_iter().flatten().collect();
    if !named.is_empty() {
        let firmware = firmware.map_or_else(String::new, |version| format!(", firmware {version}"));
        row.model = (named.join(" ") + &firmware).into();
    }
    row.serial = serial.map(Into::into).unwrap_or_default();
    Ok(())
}

fn larger(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::max)
}

/// Names of the drive's assessment of itself, for ATA and NVMe, and for SCSI.
const HEALTH: [&str; 2] = ["SMART overall-health self-assessment test result", "SMART Health Status"];

struct Attribute<'l> {
    number: &'l str,
    name: &'l str,
    /// Normalized value.
    value: Option<f64>,
    raw: f64,
    /// Whether the value is below its threshold now.
    fails: bool,
}

impl Attribute<'_> {
    /// Returns the used part of the drive's life, if this attribute counts it.
    fn worn(&self) -> Option<f64> {
        let left = self.value.filter(|value| LIFE_LEFT.contains(&self.name) && *value <= 100.0)?;
        Some(1.0 - left / 100.0)
    }
}

/// Parses `197 Current_Pending_Sector 0x0012 100 100 000 Old_age Always - 16`, or with -x, `197 Current_Pending_Sector -O--C-
/// 100 100 000 - 16`.
fn attribute(line: &str) -> Option<Attribute<'_>> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let number = fields.first().filter(|f| f.len() <= 3 && f.bytes().all(|b| b.is_ascii_digit()))?;
    let values = fields.get(3..6)?.iter().all(|f| f.bytes().all(|b| b.is_ascii_digit() || b == b'-'));
    let (fails, raw) = if ["Pre-fail", "Old_age"].contains(fields.get(6)?) { (8, 9) } else { (6, 7) };
    // Another row may have been joined to it.
    let is_joined = fields.get(raw + 1..)?.iter().any(|field| field.starts_with("0x"));
    let raw = crate::number::number(fields.get(raw).filter(|_| values && !is_joined)?)?;
    let fails = ["FAILING_NOW", "NOW"].contains(&fields[fails]);
    Some(Attribute { number, name: fields[1], value: crate::number::number(fields[3]), raw, fails })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, row_of, window_of};

    #[test]
    fn the_failing_drive_is_identified() {
        let text = fixture("layouts/smartctl-a.txt");
        let window = window_of(&text);
        let queues = window.newest::<Queue>();
        let disk = queues.values().find(|q| &*q.device == "sdb").unwrap();
        assert_eq!(disk.model.get(), Some("ST4000NM0035-1V4107, firmware TNC2"));
        assert_eq!(disk.serial.get(), Some("ZC10ABCD"));
        let scsi = "$ smartctl -i /dev/sdc\nsmartctl 5.38 [x86_64-unknown-linux-gnu]\nVendor:               SEAGATE\nProduct:              ST373307LC\nRevision:             0007\nSerial number: 3HZ0XYZ\n";
        let row = row_of::<Queue>(scsi);
        assert_eq!((row.model.get(), row.serial.get()), (Some("SEAGATE ST373307LC, firmware 0007"), Some("3HZ0XYZ")));
        let unnamed = window_of(text.split_once('\n').unwrap().1);
        assert!(unnamed.newest::<Queue>().is_empty(), "which device is not known");
        assert_eq!(unnamed.newest::<Drive>().values().map(|d| d.device.to_string()).collect::<Vec<_>>(), ["ZC10ABCD"]);
    }

    #[test]
    fn health_of_ata_scsi_and_nvme_drives() {
        let of = |text: &str| {
            let drive = row_of::<Drive>(text);
            [drive.failing, drive.unreadable, drive.reallocated, drive.media_errors, drive.wear]
                .map(|value| value.get())
        };
        let ata = fixture("layouts/smartctl-a.txt");
        assert_eq!(of(&ata), [Some(0.0), Some(16.0), Some(8.0), None, None]);
        let failing = ata.replace("Old_age   Always       -       16", "Old_age   Always   FAILING_NOW 16");
        assert_eq!(of(&failing)[0], Some(1.0));
        let brief = "# smartctl -x /dev/sdb\nsmartctl 7.2 [x]\nSMART overall-health self-assessment test result: FAILED!\n\
            197 Current_Pending_Sector  -O--C-   100   100   000    -    3\n";
        assert_eq!(of(brief), [Some(1.0), Some(3.0), None, None, None]);
        let scsi =
            "# smartctl -a /dev/sdb\nsmartctl 7.2 [x]\nSMART Health Status: OK\nElements in grown defect list: 12\n";
        assert_eq!(of(scsi), [Some(0.0), None, Some(12.0), None, None]);
        let quoted = "It reports\n\t197 Current_Pending_Sector  -O--C-   100   100   000    -    8\n\t198 Offline_Uncorrectable   \
            ----C-   100   100   000    -    8\nand then it stops.\n";
        assert_eq!(of(quoted), [None, Some(8.0), None, None, None]);
        let worn = "202 Percent_Lifetime_Remain 0x0030   010   010   001    Old_age   Offline      -       90\n";
        assert_eq!(of(worn), [None, None, None, None, Some(0.9)]);
        assert_eq!(of("Now:\nPercentage Used:                    142%\nIs it worn?\n")[4], Some(1.42));
        let spent = "232 Available_Reservd_Space 0x0013   004   004   010    Pre-fail  Always   FAILING_NOW 4\n";
        assert_eq!(of(spent), [Some(1.0), None, None, None, None]);
        let nvme = "# smartctl -a /dev/nvme0\nsmartctl 7.2 [x]\nSMART overall-health self-assessment test result: PASSED\n\
            Critical Warning:                   0x04\nPercentage Used:                    142%\n\
            Media and Data Integrity Errors:    1,012\n";
        assert_eq!(of(nvme), [Some(1.0), None, None, Some(1012.0), Some(1.42)]);
    }
}
