//! /proc/scsi/scsi: model of the device at each address.

use crate::prelude::*;
use whyslow_model::catalogue::Queue;

pub const FORMAT: Format = Format {
    name: "/proc/scsi/scsi",
    shows: "vendor and model by host:channel:target:lun, to order the part",
    lacks: "serial numbers: lsblk -o +SERIAL, smartctl",
    starts: |lines| lines.next_is(|line| is_title(line) || address(line).is_some()),
    read,
    ..Format::NEW
};

fn is_title(line: &str) -> bool {
    line.trim() == "Attached devices:"
}

/// Parses `Host: scsi0 Channel: 00 Id: 01 Lun: 00`.
fn address(line: &str) -> Option<String> {
    let after = |word: &str| line.split_once(word)?.1.split_whitespace().next()?.parse::<u64>().ok();
    Some(format!("{}:{}:{}:{}", after("Host: scsi")?, after("Channel: ")?, after("Id: ")?, after("Lun: ")?))
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    lines.take_if(is_title);
    while let Some(address) = lines.peek(0).and_then(address) {
        let line = lines.number();
        lines.skip(1);
        let Some((vendor, rest)) = lines.peek(0).and_then(|l| l.trim().strip_prefix("Vendor:")?.split_once("Model:"))
        else {
            return Err(lines.refuse(format!("the vendor and model of the device at {address}")));
        };
        let Some((model, revision)) = rest.split_once("Rev:") else {
            lines.leave_out("vendor, model and revision of a device")?;
            lines.take_if(|l| l.trim_start().starts_with("Type:"));
            continue;
        };
        let row = run.row::<Queue>(0.0, line, address.as_str().into());
        row.model = format!("{} {}, firmware {}", vendor.trim(), model.trim(), revision.trim()).into();
        row.address = address.into();
        lines.skip(1);
        lines.take_if(|l| l.trim_start().starts_with("Type:"));
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
