//! parted print: start positions of partitions, if it prints them exactly (`unit s`, `unit B`).

use crate::prelude::*;
use whyslow_model::catalogue::{Partition, Queue};

pub const FORMAT: Format = Format {
    name: "parted",
    versions: "parted 2 and 3, print and -l; starts with unit s or unit B",
    shows: "whether partitions are aligned to the device's blocks; block sizes",
    lacks: "exact starts in other units",
    programs: &[word("parted")],
    files: &["parted"],
    starts: |lines| {
        let is_disk = |line: &str| disk(line).is_some();
        let first = lines.next_is(is_disk)
            || lines.next_is(|line| line.starts_with("Model: ")) && lines.peek(1).is_some_and(is_disk);
        first && (1..=2).any(|at| lines.peek(at).is_some_and(|line| line.starts_with("Sector size")))
    },
    read,
    ..Format::NEW
};

const SECTOR_SIZE: &str = "Sector size (logical/physical): ";

/// Parses `Disk /dev/sda: 131072s`.
fn disk(line: &str) -> Option<&str> {
    let (device, size) = line.strip_prefix("Disk /")?.split_once(": ")?;
    let plain = !size.contains(',') && size.starts_with(|c: char| c.is_ascii_digit());
    plain.then(|| device.strip_prefix("dev/").unwrap_or(device))
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut device = String::new();
    let mut sector = None;
    let mut table = false;
    let head = ["Model: ", "Disk /", "Sector size", "Number ", "Partition Table: ", "Disk Flags:"];
    while let Some(line) = lines.take_past_blanks_if(|text| {
        if table { text.starts_with(' ') } else { head.iter().any(|head| text.starts_with(head)) }
    }) {
        if table {
            partition(lines, run, &device, sector, &line)?;
        } else if let Some(name) = disk(&line.text) {
            device = name.to_owned();
        } else if let Some(sizes) = line.text.strip_prefix(SECTOR_SIZE) {
            let Some((logical, physical)) = block_sizes(sizes) else {
                return Err(lines.refuse_at(&line, "sizes in B: 512B/4096B"));
            };
            sector = Some(logical);
            let row = run.row::<Queue>(0.0, line.number, device.as_str().into());
            row.logical_block = logical.into();
            row.physical_block = physical.into();
        } else {
            table = line.text.starts_with("Number ");
        }
    }
    Ok(())
}

/// Parses `512B/4096B`.
fn block_sizes(text: &str) -> Option<(f64, f64)> {
    let (logical, physical) = text.trim().split_once('/')?;
    Some((number(logical.strip_suffix('B')?)?, number(physical.strip_suffix('B')?)?))
}

/// Records ` 1      63s     20479s   20417s  ...`.
fn partition(
    lines: &mut Lines<'_>,
    run: &mut ToolRun,
    device: &str,
    sector: Option<f64>,
    line: &crate::lines::TextLine,
) -> ReadResult {
    let fields: Vec<&str> = line.text.split_whitespace().collect();
    let [count, start, end, size, ..] = fields[..] else {
        return Err(lines.refuse_at(line, "a number, a start, an end and a size"));
    };
    // Exact numbers are consistent; others are rounded.
    let exact = |unit: char| {
        let of = |field: &str| field.strip_suffix(unit).and_then(number);
        Some((of(start)?, of(end)?, of(size)?))
    };
    let agree = |(start, end, size): (f64, f64, f64)| end - start + 1.0 == size;
    let unit = ['s', 'B'].into_iter().find(|unit| start.strip_suffix(*unit).and_then(number).is_some());
    if count.parse::<u32>().is_err() || !unit.is_none_or(|unit| exact(unit).is_some_and(agree)) {
        return Err(lines.refuse_at(line, "a partition's number, start, end and size"));
    }
    let bytes = match (start.strip_suffix('s').and_then(number), sector) {
        (Some(sectors), Some(sector)) => Some(sectors * sector),
        _ => start.strip_suffix('B').and_then(number),
    };
    let Some(bytes) = bytes else {
        run.note("where partitions start", "rounded by parted", "print it exactly: parted DEVICE unit s print");
        return Ok(());
    };
    // An extended partition only contains others.
    if fields.get(4) == Some(&"extended") {
        return Ok(());
    }
    let separator = if device.ends_with(|c: char| c.is_ascii_digit()) { "p" } else { "" };
    let name = format!("{device}{separator}{count}");
    run.row::<Partition>(0.0, line.number, name.into()).start = bytes.into();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    #[test]
    fn only_exact_starts_are_taken() {
        let text = fixture("parted-unit-s.txt").replace("/tmp/lab/disk.img", "/dev/nvme0n1");
        let window = window_of(&text);
        let rows = window.newest::<Partition>();
        let starts: Vec<_> = rows.values().map(|p| (p.device.to_string(), p.start.get())).collect();
        assert_eq!(starts, [("nvme0n1p1".into(), Some(63.0 * 512.0)), ("nvme0n1p2".into(), Some(20_480.0 * 512.0))]);
        let rounded = window_of(&fixture("parted-print.txt"));
        assert!(rounded.newest::<Partition>().is_empty());
        assert_eq!(rounded.the::<Queue>().unwrap().physical_block.get(), Some(512.0));
        refusal_of(&text.replace("512B/512B", "512/512"));
    }

    #[test]
    fn an_extended_partition_only_contains_others() {
        let text = "Model: ATA (scsi)
Disk /dev/sda: 41943040s
Sector size (logical/physical): 512B/512B
Partition Table: msdos
Disk Flags:

Number  Start   End        Size       Type      File system  Flags
 1      2048s   206847s    204800s    primary   ext4         boot
 2      206849s 41943039s  41736191s  extended
 5      206911s 41943039s  41736129s  logical   xfs

";
        let window = window_of(text);
        let names: Vec<_> = window.newest::<Partition>().keys().map(ToString::to_string).collect();
        assert_eq!(names, ["sda1", "sda5"]);
    }
}
