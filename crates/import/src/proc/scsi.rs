//! /proc/scsi/scsi: which model of device answers at which address.

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_model::catalogue::Queue;

/// The format.
pub const FORMAT: Format = Format {
    name: "/proc/scsi/scsi",
    versions: "all",
    tells: "vendor and model by host:channel:target:lun, for the part to order",
    starts,
    read,
};

fn starts(lines: &mut Lines<'_>) -> bool {
    lines.peek(0).is_some_and(|line| address(line).is_some() || line.trim() == "Attached devices:")
}

/// `Host: scsi0 Channel: 00 Id: 01 Lun: 00`
fn address(line: &str) -> Option<String> {
    let after = |word: &str| line.split_once(word)?.1.split_whitespace().next()?.parse::<u64>().ok();
    let host: u64 = line.split_once("Host: scsi")?.1.split_whitespace().next()?.parse().ok()?;
    Some(format!("{host}:{}:{}:{}", after("Channel: ")?, after("Id: ")?, after("Lun: ")?))
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    if lines.peek(0).is_some_and(|line| line.trim() == "Attached devices:") {
        lines.skip(1);
    }
    while let Some(address) = lines.peek(0).and_then(address) {
        let line = lines.number();
        lines.skip(1);
        let Some((vendor, rest)) = lines.peek(0).and_then(|l| l.trim().strip_prefix("Vendor:")?.split_once("Model:"))
        else {
            return Err(lines.refuse(format!("the vendor and model of the device at {address}")));
        };
        let (model, revision) = rest.split_once("Rev:").unwrap_or((rest, ""));
        let row = run.row::<Queue>(0.0, line, address.as_str().into());
        row.model = format!("{} {}, firmware {}", vendor.trim(), model.trim(), revision.trim()).into();
        row.address = address.into();
        lines.skip(1);
        if lines.peek(0).is_some_and(|l| l.trim_start().starts_with("Type:")) {
            lines.skip(1);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    #[test]
    fn a_model_by_its_address() {
        let window = window_of(&fixture("scsi-proc-scsi.txt"));
        let rows = window.newest::<Queue>();
        let row = rows.values().find(|q| q.address.get() == Some("0:0:1:0")).unwrap();
        assert_eq!(row.model.get(), Some("SEAGATE ST373307LC, firmware 0007"));
        assert_eq!(refusal_of("Host: scsi0 Channel: 00 Id: 00 Lun: 00\n").line, 2);
    }
}
