//! fdisk -l: start positions of partitions.

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

/// Units of the start positions, as far as the lines above the table show them.
#[derive(Clone, Copy, Default)]
struct Geometry {
    sectors_per_track: Option<f64>,
    /// Bytes per unit of the table.
    unit: Option<f64>,
    /// Whether the units are cylinders, which are counted from 1; sectors are counted from 0.
    cylinders: bool,
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut geometry = Geometry::default();
    lines.skip(1);
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        let text = text.to_owned();
        if let Some(partition) = PartitionRow::parse(&text, geometry) {
            let line = lines.number() + blanks as u32;
            if !partition.is_container(geometry) {
                run.row::<Partition>(0.0, line, partition.name.into()).start = geometry.bytes(partition.start).into();
            }
        } else if text.contains("Units") || text.contains("sectors/track") {
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
    /// Adds the information from a line: `Units = cylinders of 16065 * 512 = 8225280 bytes`, `255 heads, 63 sectors/track, ...`
    fn with(self, text: &str) -> Self {
        let before =
            |text: &str, word: &str| text.split_once(word).and_then(|(b, _)| number(b.split_whitespace().last()?));
        let is_known = |units: &&str| units.contains("cylinders") || units.contains("sectors");
        let units = text.split_once("Units").map(|(_, units)| units).filter(is_known);
        let unit = units.and_then(|units| before(units, " bytes").or_else(|| before(units, "\tbytes")));
        Self {
            sectors_per_track: before(text, "sectors/track").or(self.sectors_per_track),
            unit: unit.or(self.unit),
            cylinders: self.cylinders || units.is_some_and(|units| units.contains("cylinders")),
        }
    }

    /// Converts a start position to bytes. The first cylinder begins with the partition table's track: its first partition
    /// starts on the second one.
    fn bytes(self, start: f64) -> Option<f64> {
        match self.cylinders {
            true if start == 1.0 => self.sectors_per_track.map(|sectors| sectors * SECTOR),
            true => self.unit.map(|unit| (start - 1.0) * unit),
            false => self.unit.map(|unit| start * unit),
        }
    }
}

/// A partition, as a line of the table shows it.
struct PartitionRow<'t> {
    name: &'t str,
    start: f64,
    /// Numeric type of the partition, if the table has it.
    id: Option<&'t str>,
}

impl<'t> PartitionRow<'t> {
    /// Parses `/dev/sdj1  *  1  267349  ...`, if start, end and the number of units or of blocks of 1 KiB agree.
    fn parse(text: &'t str, geometry: Geometry) -> Option<Self> {
        let mut fields = text.split_whitespace().filter(|field| *field != "*");
        let name = fields.next()?.strip_prefix("/dev/")?;
        let mut next = || number(fields.next()?.trim_end_matches(['+', '-']));
        let (start, end, amount) = (next()?, next()?, next()?);
        let units = end - start + 1.0;
        let unit = geometry.unit.unwrap_or(SECTOR);
        // The partition table takes a part of the first cylinder.
        let are_blocks = (amount * KIB - units * unit).abs() <= unit.max(KIB);
        // New versions print the size before the type.
        let id = fields.take(2).find(|field| field.len() <= 2 && field.bytes().all(|b| b.is_ascii_hexdigit()));
        (units > 0.0 && (amount == units || are_blocks)).then_some(Self { name, start, id })
    }

    /// Returns true if the partition holds no data itself: an extended partition only contains others, and the protective entry
    /// of a GPT stands for the whole disk after its first sector. In cylinders, that entry cannot be distinguished from a
    /// partition that begins on the second track.
    fn is_container(&self, geometry: Geometry) -> bool {
        let Some(id) = self.id.map(str::to_ascii_lowercase) else { return false };
        ["5", "f", "85"].contains(&id.as_str()) || id == "ee" && !geometry.cylinders
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
    fn what_only_contains_partitions_is_none() {
        let text = "Disk /dev/sda: 2199.0 GB, 2199023255040 bytes
255 heads, 63 sectors/track, 267349 cylinders, total 4294967295 sectors
Units = sectors of 1 * 512 = 512 bytes

   Device Boot      Start         End      Blocks   Id  System
/dev/sda1   *        2048      206847      102400   83  Linux
/dev/sda2          206849      411649      102400+   5  Extended
/dev/sda5          206911      411647      102368+  83  Linux
/dev/sda9               1  4294967295  2147483647+  ee  GPT
";
        let window = window_of(text);
        let names: Vec<_> = window.newest::<Partition>().keys().map(ToString::to_string).collect();
        assert_eq!(names, ["sda1", "sda5"]);
        let new = "Disk /dev/sda: 20 GiB, 21474836480 bytes, 41943040 sectors
Units: sectors of 1 * 512 = 512 bytes
Device     Boot Start      End  Sectors Size Id Type
/dev/sda1       4094  41943038 41938945  20G  f W95 Ext'd (LBA)
/dev/sda5       4096  41943038 41938943  20G 83 Linux
";
        assert_eq!(&*row_of::<Partition>(new).device, "sda5");
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
