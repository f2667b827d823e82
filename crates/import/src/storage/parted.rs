//! parted's print: where partitions start, where it says so exactly (`unit s`, `unit B`).

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::number::number;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_model::catalogue::{Partition, Queue};

/// The format.
pub const FORMAT: Format = Format {
    name: "parted",
    versions: "parted 2 and 3, print and -l; starts with unit s or unit B",
    tells: "whether partitions start where the device's blocks do; block sizes",
    starts: |lines| {
        let disk = |line: &str| disk(line).is_some();
        lines.peek(0).is_some_and(|line| disk(line) || line.starts_with("Model: "))
            && (lines.peek(0).is_some_and(disk) || lines.peek(1).is_some_and(disk))
            && (1..=2).any(|at| lines.peek(at).is_some_and(|line| line.starts_with("Sector size")))
    },
    read,
};

/// `Disk /dev/sda: 131072s`
fn disk(line: &str) -> Option<&str> {
    let (device, size) = line.strip_prefix("Disk /")?.split_once(": ")?;
    let plain = !size.contains(',') && size.starts_with(|c: char| c.is_ascii_digit());
    plain.then(|| device.strip_prefix("dev/").unwrap_or(device))
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let mut device = String::new();
    let mut sector = None;
    let mut table = false;
    while let Some((blanks, text)) = lines.peek_past_blanks(0).map(|(blanks, text)| (blanks, text.to_owned())) {
        if table && (text.starts_with("Model: ") || !text.starts_with(' ')) {
            break;
        }
        lines.skip(blanks);
        if let Some(name) = disk(&text) {
            device = name.to_owned();
        } else if let Some(sizes) = text.strip_prefix("Sector size (logical/physical): ") {
            let Some((logical, physical)) = block_sizes(sizes) else {
                return Err(lines.refuse("sizes in B: 512B/4096B"));
            };
            sector = Some(logical);
            let row = run.row::<Queue>(0.0, lines.number(), device.as_str().into());
            row.logical_block = logical.into();
            row.physical_block = physical.into();
        } else if text.starts_with("Number ") {
            table = true;
        } else if table {
            partition(lines, run, &device, sector, &text)?;
        } else if !["Model: ", "Partition Table: ", "Disk Flags:"].iter().any(|head| text.starts_with(head)) {
            break;
        }
        lines.skip(1);
    }
    Ok(())
}

/// `512B/4096B`
fn block_sizes(text: &str) -> Option<(f64, f64)> {
    let (logical, physical) = text.trim().split_once('/')?;
    Some((number(logical.strip_suffix('B')?)?, number(physical.strip_suffix('B')?)?))
}

/// ` 1      63s     20479s   20417s  ...`
fn partition(
    lines: &mut Lines<'_>,
    run: &mut Run,
    device: &str,
    sector: Option<f64>,
    text: &str,
) -> Result<(), Refusal> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [count, start, ..] = fields[..] else { return Err(lines.refuse("a number, a start, an end and a size")) };
    if count.parse::<u32>().is_err() {
        return Err(lines.refuse("a partition's number, start, end and size"));
    }
    let exact = match (start.strip_suffix('s').and_then(number), sector) {
        (Some(sectors), Some(sector)) => Some(sectors * sector),
        _ => start.strip_suffix('B').and_then(number),
    };
    let Some(bytes) = exact else {
        run.note("where partitions start", "rounded by parted", "print it exactly: parted DEVICE unit s print");
        return Ok(());
    };
    let mark = if device.ends_with(|c: char| c.is_ascii_digit()) { "p" } else { "" };
    run.row::<Partition>(0.0, lines.number(), format!("{device}{mark}{count}").into()).start = bytes.into();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    #[test]
    fn exact_starts_only() {
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
}
