//! nvme(1) smart-log: health of an NVMe drive, as it reports itself (NVM Express Base Specification, log page 02h).

use crate::prelude::*;
use whyslow_model::catalogue::Drive;

pub const FORMAT: Format = Format {
    name: "nvme smart-log",
    versions: "nvme-cli 1 and 2, text, or single fields of it",
    shows: "whether the drive assesses itself as failing; media errors; wear",
    lacks: "what the drive did when",
    programs: &[partly_read("nvme")],
    files: &["nvme_smart-log"],
    columns: &[&NVME_HEALTH],
    starts: |lines| lines.next_is(|line| device(line).is_some() || lone_field(line).is_some()),
    read,
    ..Format::NEW
};

/// Fields by the names of nvme-cli and of smartctl.
pub const NVME_HEALTH: MetricColumns<Drive> = columns![
    "media_errors" => media_errors, "Media and Data Integrity Errors" => media_errors,
    "percentage_used" => wear * 0.01, "Percentage Used" => wear * 0.01,
];
const WARNING: [&str; 2] = ["critical_warning", "Critical Warning"];
/// Bits of the critical warning: spare blocks below the threshold, reliability degraded, read-only. High temperature is not
/// included.
const FAILING: u32 = 0b1101;

/// Parses `Smart Log for NVME device:nvme0n1 namespace-id:ffffffff`.
fn device(line: &str) -> Option<&str> {
    line.strip_prefix("Smart Log for NVME device:")?.split_whitespace().next()
}

/// Placeholder for the drive of fields that were quoted without it.
const UNNAMED: &str = "nvme";

/// Parses `percentage_used                         : 105%` without its title.
fn lone_field(line: &str) -> Option<(&str, f64)> {
    field_alone(line).filter(|(field, _)| field.contains('_'))
}

/// Parses a field and its amount, if nothing follows the amount.
pub fn field_alone(line: &str) -> Option<(&str, f64)> {
    let (field, value) = line.trim_start().split_once(':')?;
    let field = field.trim_end();
    let value = value.trim();
    let is_amount = value.starts_with(|c: char| c.is_ascii_digit()) && !value.contains(' ');
    (is_field(field) && is_amount).then_some(())?;
    Some((field, amount(value)?))
}

/// Returns true if a field describes the drive's health.
pub fn is_field(name: &str) -> bool {
    NVME_HEALTH.has(name) || WARNING.contains(&name)
}

/// Parses `12`, `142%`, `0x04`, or a whole number with thousands separators of any locale.
pub fn amount(value: &str) -> Option<f64> {
    if let Some(bits) = value.strip_prefix("0x") {
        return u32::from_str_radix(bits, 16).ok().map(f64::from);
    }
    number(&value.trim_end_matches('%').replace([',', '.', '\'', ' ', '\u{a0}', '\u{202f}'], ""))
}

/// Returns 1 if the critical warning reports that the drive is failing, else 0; `None` if it is missing.
pub fn failing(row: &TableRow) -> Option<f64> {
    let bits = WARNING.iter().find_map(|name| row.get(name))?;
    Some(f64::from(u8::from(bits as u32 & FAILING != 0)))
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let Some(title) = lines.take() else { return Ok(()) };
    let mut fields = Vec::new();
    let name = match device(&title.text) {
        Some(name) => name.to_owned(),
        None => {
            fields.extend(lone_field(&title.text).map(|(field, amount)| (field.to_owned(), amount)));
            let asked_for = context.arguments().find_map(|a| a.strip_prefix("/dev/"));
            asked_for.filter(|name| !name.contains('/')).unwrap_or(UNNAMED).to_owned()
        }
    };
    while let Some((field, value)) = lines.peek(0).and_then(|line| line.split_once(':')) {
        let field = field.trim();
        if is_field(field) {
            fields.extend(amount(value.trim()).map(|amount| (field.to_owned(), amount)));
        }
        lines.skip(1);
        if another_output_starts(lines, FORMAT.name) {
            break;
        }
    }
    let row = TableRow::new(title.number, "", fields);
    run.counts(0.0, name.as_str().into(), &row, &NVME_HEALTH);
    run.row::<Drive>(0.0, title.number, name.as_str().into()).failing = failing(&row).into();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, row_of, window_of};

    #[test]
    fn a_worn_drive_that_lost_data() {
        let text = fixture("layouts/nvme-smart-log.txt");
        let drive = row_of::<Drive>(&text);
        assert_eq!(&*drive.device, "nvme0n1");
        assert_eq!(
            [drive.failing, drive.media_errors, drive.wear].map(|v| v.get()),
            [Some(1.0), Some(12.0), Some(1.42)]
        );
        let quoted = row_of::<Drive>("It has\n  percentage_used : 105%\n  media_errors : 3\nnow.\n");
        assert_eq!((&*quoted.device, quoted.wear.get(), quoted.media_errors.get()), ("nvme", Some(1.05), Some(3.0)));
        assert!(field_alone("Percentage Used: about a half").is_none());
        let hot = window_of(&text.replace(": 0x5", ": 0x2"));
        assert_eq!(hot.the::<Drive>().unwrap().failing.get(), Some(0.0), "it is only hot");
    }
}
