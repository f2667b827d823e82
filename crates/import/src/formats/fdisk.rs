//! fdisk -l: where partitions start.

use crate::prelude::*;
use whyslow_model::catalogue::Partition;

pub const FORMAT: Format = Format {
    name: "fdisk",
    versions: "fdisk -l, in cylinders or sectors",
    shows: "whether partitions are aligned to the device's blocks",
    lacks: "the device's block sizes in old versions",
    programs: &[partly_read("fdisk")],
    files: &["fdisk"],
    starts: |lines| lines.next_is(|line| line.starts_with("Disk /dev/") && line.contains("bytes")),
    read,
    ..Format::NEW
};

/// How starts are given.
#[derive(Clone, Copy)]
struct Geometry {
    sectors_per_track: f64,
    /// Bytes of a unit of the table.
    unit: f64,
    /// Whether the units are cylinders, which are counted from 1; sectors are counted from 0.
    cylinders: bool,
}

fn read(lines: &mut Lines<'_>, _: &CaptureContext, run: &mut ToolRun) -> ReadResult {
    // The geometry that fdisk shows by default.
    let mut geometry = Geometry { sectors_per_track: 63.0, unit: SECTOR, cylinders: false };
    lines.skip(1);
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        let text = text.to_owned();
        if let Some((name, start)) = partition(&text) {
            let line = lines.number() + blanks as u32;
            run.row::<Partition>(0.0, line, name.into()).start = start_bytes(start, geometry).into();
        } else if text.starts_with("Units") || text.contains("sectors/track") {
            geometry = geometry.with(&text);
        } else if !text.trim_start().starts_with("Device")
            && (!text.contains(": ") || text.starts_with("Disk /dev/") || another_output_starts(lines, FORMAT.name))
        {
            break;
        }
        lines.skip(blanks + 1);
    }
    Ok(())
}

impl Geometry {
    /// `Units = cylinders of 16065 * 512 = 8225280 bytes`, `255 heads, 63 sectors/track, ...`
    fn with(self, text: &str) -> Self {
        let before = |word: &str| text.split_once(word).and_then(|(b, _)| number(b.trim().rsplit(' ').next()?));
        let unit = before(" bytes").filter(|_| text.starts_with("Units"));
        Self {
            sectors_per_track: before("sectors/track").unwrap_or(self.sectors_per_track),
            unit: unit.unwrap_or(self.unit),
            cylinders: self.cylinders || (unit.is_some() && text.contains("cylinders")),
        }
    }
}

/// `/dev/sdj1  *  1  267349  ...`
fn partition(text: &str) -> Option<(&str, f64)> {
    let mut fields = text.split_whitespace();
    let name = fields.next()?.strip_prefix("/dev/")?;
    let start = fields.find(|f| *f != "*")?;
    Some((name, number(start.trim_end_matches('+'))?))
}

/// The first cylinder begins with the partition table's track: its first partition starts on the second one.
fn start_bytes(start: f64, geometry: Geometry) -> f64 {
    if geometry.cylinders && start == 1.0 {
        geometry.sectors_per_track * SECTOR
    } else if geometry.cylinders {
        (start - 1.0) * geometry.unit
    } else {
        start * geometry.unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, row_of, window_of};

    #[test]
    fn a_first_partition_on_the_second_track() {
        let row = row_of::<Partition>(&fixture("san-fdisk.txt"));
        assert_eq!(row.start.get(), Some(63.0 * 512.0));
    }

    #[test]
    fn sectors_are_what_they_say() {
        let text = "Disk /dev/sda: 20 GiB, 21474836480 bytes, 41943040 sectors
Units: sectors of 1 * 512 = 512 bytes

Device     Boot Start      End  Sectors Size Id Type
/dev/sda1  *     2048 41943006 41940959  20G 83 Linux
";
        assert_eq!(window_of(text).the::<Partition>().unwrap().start.get(), Some(2048.0 * 512.0));
        let large = text.replace("sectors of 1 * 512 = 512 bytes", "sectors of 1 * 4096 = 4096 bytes");
        assert_eq!(window_of(&large).the::<Partition>().unwrap().start.get(), Some(2048.0 * 4096.0));
    }
}
