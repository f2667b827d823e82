//! df(1): space and, with -i, inodes of mounted file systems.

use crate::prelude::*;
use whyslow_model::catalogue::Mount;

pub const FORMAT: Format = Format {
    name: "df",
    versions: "coreutils 5 on: plain, -k, -m, -h, -T, -i",
    shows: "file systems without space or inodes",
    lacks: "whether one is read-only by nature",
    programs: &[program("df")],
    files: &["df"],
    starts: |lines| lines.next_is(|line| DfColumns::of(line).is_some()),
    read,
    ..Format::NEW
};

#[derive(Clone, Copy)]
struct DfColumns {
    inodes: bool,
    /// Whether there is a column for the type of file system.
    kind: bool,
    /// Bytes of a number without suffix.
    unit: f64,
}

impl DfColumns {
    /// `Filesystem     1K-blocks    Used Available Use% Mounted on`
    fn of(line: &str) -> Option<Self> {
        let rest = line.strip_prefix("Filesystem")?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let kind = words.first() == Some(&"Type");
        let unit = match *words.get(usize::from(kind))? {
            "1K-blocks" | "1024-blocks" | "1k-blocks" => KIB,
            "1M-blocks" => MIB,
            "512-blocks" => SECTOR,
            "Size" | "Inodes" => 1.0,
            _ => return None,
        };
        rest.contains("Mounted on").then_some(Self { inodes: rest.contains("Inodes"), kind, unit })
    }
}

fn read(lines: &mut Lines<'_>, _: &CaptureContext, run: &mut ToolRun) -> ReadResult {
    let Some(columns) = lines.take().and_then(|line| DfColumns::of(&line.text)) else { return Ok(()) };
    while !another_output_starts(lines, FORMAT.name) {
        let Some(line) = lines.take_if(|text| !text.trim().is_empty()) else { break };
        let mut fields = crate::table::words(&line.text);
        // A long device name stands on a line of its own.
        if fields.len() == 1
            && let Some(rest) = lines.take_if(|next| next.starts_with(' '))
        {
            fields.extend(crate::table::words(&rest.text));
        }
        let first = 1 + usize::from(columns.kind);
        let amounts = fields.get(first..first + 3).and_then(|f| f.iter().map(|f| amount(f, columns.unit)).collect());
        let amounts: Option<Vec<f64>> = amounts;
        let (Some(amounts), Some(point)) = (amounts, fields.get(first + 4..).filter(|p| !p.is_empty())) else {
            let expected = "a device, its size, used and free space, a percentage and its mount point";
            return Err(lines.refuse_at(&line, expected));
        };
        let row = run.row::<Mount>(0.0, line.number, point.join(" ").as_str().into());
        row.device = fields[0].trim_start_matches("/dev/").into();
        if columns.kind {
            row.kind = fields[1].as_str().into();
        }
        if columns.inodes {
            row.inodes = amounts[0].into();
            row.inodes_free = amounts[2].into();
        } else {
            row.size = amounts[0].into();
            // Free space includes the reserve for root, available space does not.
            row.free = (amounts[0] - amounts[1]).max(0.0).into();
            row.available = amounts[2].into();
        }
    }
    Ok(())
}

/// `19G`, `1.5T`, `512K`, `-` for a file system that creates inodes on demand.
fn amount(field: &str, unit: f64) -> Option<f64> {
    if field == "-" { Some(0.0) } else { scaled(field, KIB, unit) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{refusal_of, window_of};

    #[test]
    fn space_and_a_long_name() {
        let text = "Filesystem           1K-blocks      Used Available Use% Mounted on
/dev/mapper/vg_data-lv_a_long_name
                      20511312  20511312         0 100% /var/lib/my data
tmpfs                   512000         0    512000   0% /dev/shm
";
        let window = window_of(text);
        let rows = window.newest::<Mount>();
        let full = rows.values().find(|m| &*m.point == "/var/lib/my data").unwrap();
        assert_eq!((full.available.get(), full.device.get()), (Some(0.0), Some("mapper/vg_data-lv_a_long_name")));
        assert_eq!(refusal_of(&text.replace("512000         0    512000   0%", "512000 0%")).line, 4);
    }

    #[test]
    fn inodes_and_types_are_read() {
        let window =
            window_of("Filesystem Type Inodes IUsed IFree IUse% Mounted on\n/dev/sda1 ext4 1.3M 1.3M 0 100% /\n");
        let row = window.the::<Mount>().unwrap();
        assert_eq!((row.kind.get(), row.inodes_free.get()), (Some("ext4"), Some(0.0)));
    }
}
