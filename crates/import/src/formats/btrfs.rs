//! btrfs(8): errors of each device, and the share of a file system that is allocated to data and metadata.

use crate::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::catalogue::{Drive, Volume};

pub const STATS: Format = Format {
    name: "btrfs device stats",
    versions: "btrfs-progs, all",
    shows: "which device of a file system could not be read or written, or returned damaged data, since the counts were last reset",
    lacks: "when that was",
    programs: &[partly_read("btrfs")],
    files: &["btrfs_device_stats", "btrfs_dev_stats"],
    starts: |lines| lines.next_is(|line| error_count(line).is_some()),
    read: read_stats,
    ..Format::NEW
};

pub const USAGE: Format = Format {
    name: "btrfs filesystem usage",
    versions: "btrfs-progs, all, without -T",
    shows: "a file system without space for data, or for metadata although df shows free space",
    files: &["btrfs_filesystem_usage", "btrfs_fi_usage"],
    starts: |lines| {
        lines.next_is(|line| line.trim_end() == OVERALL) && lines.peek(1).is_some_and(|line| overall(line).is_some())
    },
    ..DF
};

pub const DF: Format = Format {
    name: "btrfs filesystem df",
    versions: "btrfs-progs, all",
    shows: "how much of the space allocated to data and to metadata is used",
    lacks: "which files use it; without usage or show, how much is not allocated",
    programs: &[partly_read("btrfs")],
    files: &["btrfs_filesystem_df", "btrfs_fi_df"],
    starts: |lines| lines.next_is(|line| ChunkUse::parse(line).is_some()),
    read: read_space,
    ..Format::NEW
};

pub const SHOW: Format = Format {
    name: "btrfs filesystem show",
    shows: "how much of each device is not allocated",
    lacks: "how much of the allocated space is used",
    files: &["btrfs_filesystem_show", "btrfs_fi_show"],
    starts: |lines| {
        lines.next_is(|line| label(line).is_some())
            && lines.peek(1).is_some_and(|line| line.trim_start().starts_with("Total devices "))
    },
    ..DF
};

const OVERALL: &str = "Overall:";

/// Returns the device, name and count in `[/dev/sda].write_io_errs   0`.
fn error_count(line: &str) -> Option<(&str, &str, f64)> {
    let (device, rest) = line.trim().strip_prefix('[')?.split_once("].")?;
    let (name, count) = rest.split_once(char::is_whitespace)?;
    let count = number(count.trim())?;
    name.ends_with("_errs").then(|| (device.strip_prefix("/dev/").unwrap_or(device), name, count))
}

const IO_ERRORS: [&str; 3] = ["read_io_errs", "write_io_errs", "flush_io_errs"];
/// Counts of blocks with a wrong checksum, and with an old generation after a lost write.
const DAMAGED: [&str; 2] = ["corruption_errs", "generation_errs"];

fn read_stats(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    // Of a count that is printed twice, the later one holds.
    let mut counts: BTreeMap<String, BTreeMap<String, (u32, f64)>> = BTreeMap::new();
    let is_damaged = |text: &str| text.contains("_errs") || text.starts_with("[/dev/");
    loop {
        let blanks =
            lines.peek_past_blanks(0).filter(|(_, text)| error_count(text).is_some()).map(|(blanks, _)| blanks);
        lines.skip(blanks.unwrap_or(0));
        let is_own = |text: &str| error_count(text).is_some();
        let Some(line) = lines.take_own(is_own, is_damaged, "a device, a kind of errors and their count")? else {
            break;
        };
        let Some((device, name, count)) = error_count(&line.text) else { break };
        counts.entry(device.to_owned()).or_default().insert(name.to_owned(), (line.number, count));
    }
    for (device, counts) in counts {
        for (line, _) in counts.values() {
            run.row::<Drive>(0.0, *line, device.as_str().into());
        }
        // People omit lines of zeros, so the sum of the others is right; the sum is known to be zero only if all lines are
        // there.
        let sum = |names: &[&str]| {
            let own: Vec<f64> = names.iter().filter_map(|name| counts.get(*name)).map(|(_, count)| *count).collect();
            Some(own.iter().sum::<f64>()).filter(|sum| own.len() == names.len() || *sum > 0.0)
        };
        let row = run.row::<Drive>(0.0, 0, device.as_str().into());
        (row.io_errors, row.checksum_errors) = (sum(&IO_ERRORS).into(), sum(&DAMAGED).into());
    }
    Ok(())
}

/// Returns the bytes in `465.76GiB`, `1.00TB` (of old versions, with the same meaning), `0.00B`, `1535115264`.
fn size(text: &str) -> Option<f64> {
    let text = text.trim();
    let short = text.strip_suffix("iB").or_else(|| text.strip_suffix('B')).unwrap_or(text);
    scaled(short, KIB, 1.0)
}

/// Space that is allocated to one kind of content, and the used part of it: `Data, single: total=1.80TiB, used=1.21TiB`,
/// `Metadata,DUP: Size:4.00GiB, Used:3.99GiB (99.75%)`.
struct ChunkUse<'l> {
    content: &'l str,
    total: f64,
    used: f64,
}

impl<'l> ChunkUse<'l> {
    fn parse(line: &'l str) -> Option<Self> {
        let (kind, sizes) = line.trim_end().split_once(':')?;
        let (content, _) = kind.split_once(',')?;
        if !["Data", "Metadata", "System", "GlobalReserve", "Data+Metadata"].contains(&content) {
            return None;
        }
        let (total, used) = sizes.split_once(',')?;
        let total = total.trim().strip_prefix("total=").or_else(|| total.trim().strip_prefix("Size:"))?;
        let used = used.trim().strip_prefix("used=").or_else(|| used.trim().strip_prefix("Used:"))?;
        let used = used.split_once(" (").map_or(used, |(size, _)| size);
        Some(Self { content, total: size(total)?, used: size(used)? })
    }
}

/// Returns the name and size in `    Device unallocated:     1.00MiB`.
fn overall(line: &str) -> Option<(&str, f64)> {
    let (name, value) = line.strip_prefix([' ', '\t'])?.trim().split_once(':')?;
    Some((name, size(value.split_once('(').map_or(value, |(size, _)| size))?))
}

/// Returns the size of the reserve in `    Global reserve:   512.00MiB    (used: 0.00B)`.
fn global_reserve(line: &str) -> Option<f64> {
    overall(line).filter(|(name, _)| *name == "Global reserve").map(|(_, size)| size)
}

/// Parses `Label: 'backup'  uuid: 1111-…`.
fn label(line: &str) -> Option<&str> {
    let (label, _) = line.trim().strip_prefix("Label: ")?.split_once(" uuid: ")?;
    Some(label.trim().trim_matches('\''))
}

/// Returns the size, allocated size and path in `devid    1 size 1.82TiB used 1.82TiB path /dev/sdb1`.
fn device(line: &str) -> Option<(f64, f64, &str)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["devid", _, "size", all, "used", used, "path", path, ..] = words[..] else { return None };
    Some((size(all)?, size(used)?, path))
}

#[derive(Default)]
struct Space {
    size: Option<f64>,
    unallocated: Option<f64>,
    reserve: Option<f64>,
    data: Option<(f64, f64)>,
    metadata: Option<(f64, f64)>,
    /// Number of devices that there should be, and number that was read.
    devices: Option<f64>,
    seen: f64,
}

fn read_space(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let number = lines.number();
    let mut space = Space::default();
    let mut name =
        context.command_of("btrfs").and_then(|c| c.operands().filter(|w| w.starts_with('/')).last()).map(str::to_owned);
    let (mut first, mut is_whole) = (true, true);
    let mut seen = BTreeSet::new();
    while let Some((blanks, text)) = lines.peek_past_blanks(0).map(|(blanks, text)| (blanks, text.to_owned())) {
        if let Some(chunks) = ChunkUse::parse(&text) {
            // A repetition belongs to another report.
            if !seen.insert(text.split(':').next().unwrap_or_default().replace(' ', "")) {
                break;
            }
            match chunks.content {
                "Data" | "Data+Metadata" => add(&mut space.data, &chunks),
                "Metadata" => add(&mut space.metadata, &chunks),
                "GlobalReserve" => space.reserve = Some(chunks.total),
                _ => {}
            }
        } else if let Some(label) = label(&text) {
            // The next file system begins.
            if !first {
                break;
            }
            name = name.or_else(|| Some(label.to_owned()).filter(|label| label != "none"));
        } else if let Some((size, used, path)) = device(&text) {
            name.get_or_insert_with(|| path.trim_start_matches("/dev/").to_owned());
            space.seen += 1.0;
            *space.size.get_or_insert(0.0) += size;
            *space.unallocated.get_or_insert(0.0) += (size - used).max(0.0);
        } else if let Some(reserve) = global_reserve(&text) {
            space.reserve = Some(reserve);
        } else if let Some((field, size)) = overall(&text) {
            match field {
                "Device size" => space.size = Some(size),
                "Device unallocated" => space.unallocated = Some(size),
                _ => {}
            }
        } else if let Some(count) = text.trim().strip_prefix("Total devices ") {
            space.devices = count.split_whitespace().next().and_then(crate::number::number);
        } else if !is_detail(&text) {
            // A damaged line does not end the output, but any sum may lack it.
            if first || is_command(&text) || !is_damaged(&text) {
                break;
            }
            let refusal = lines.refuse("a line of btrfs: what is allocated, and how much of that is used");
            lines.keep(Err::<(), _>(refusal))?;
            is_whole = false;
        }
        first = false;
        lines.skip(blanks + 1);
    }
    let row = run.row::<Volume>(0.0, number, name.as_deref().unwrap_or("btrfs").into());
    row.kind = "btrfs".into();
    let has_devices = space.devices.is_none_or(|count| count == space.seen);
    let known = |value: Option<f64>| value.filter(|_| is_whole);
    row.size = known(space.size).filter(|_| has_devices).into();
    row.free = known(space.unallocated).filter(|_| has_devices).into();
    row.data_used = known(space.data.and_then(|(total, used)| share(used, total))).into();
    // The reserve is metadata that only the file system itself may use.
    let metadata = space.metadata.zip(space.reserve);
    row.metadata_used = known(metadata.and_then(|((total, used), reserve)| share(used + reserve, total))).into();
    Ok(())
}

/// Adds up two profiles, which coexist during a conversion.
fn add(sum: &mut Option<(f64, f64)>, chunks: &ChunkUse<'_>) {
    let (total, used) = sum.get_or_insert((0.0, 0.0));
    *total += chunks.total;
    *used += chunks.used;
}

fn share(used: f64, total: f64) -> Option<f64> {
    (total > 0.0).then(|| (used / total).min(1.0))
}

/// Returns true if a line is a remnant, or two lines that were joined.
fn is_damaged(line: &str) -> bool {
    const NAMES: [&str; 9] =
        ["Data", "Metadata", "System", "GlobalReserve", "Device ", "Global ", "devid", "/dev/", "Size:"];
    let text = line.trim();
    NAMES.iter().any(|name| text.starts_with(name) || text.contains(&format!(" {name}")))
        || text.split_whitespace().all(|word| size(word).is_some())
}

/// Returns true for lines that name devices, ratios and times, and for titles.
fn is_detail(line: &str) -> bool {
    let text = line.trim();
    [OVERALL, "Unallocated:"].contains(&text)
        || text.starts_with("/dev/") && text.split_whitespace().nth(1).is_some_and(|word| size(word).is_some())
        || line.starts_with([' ', '\t'])
            && text.split_once(':').is_some_and(|(name, _)| name.ends_with("ratio") || name == "Multiple profiles")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, row_of, window_of};
    use whyslow_model::value::Name;

    #[test]
    fn the_errors_of_two_devices() {
        let window = window_of(&fixture("btrfs-device-stats.txt"));
        let rows = window.newest::<Drive>();
        let [first, second] = ["loop0", "loop1"].map(|name| rows[&Name::from(name)]);
        assert_eq!((first.io_errors.get(), first.checksum_errors.get()), (Some(14_416.0), Some(0.0)));
        assert_eq!((second.io_errors.get(), second.checksum_errors.get()), (Some(0.0), Some(127.0)));
        let twice = fixture("btrfs-device-stats.txt").replace(
            "[/dev/loop1].corruption_errs  127",
            "[/dev/loop1].corruption_errs  126\n[/dev/loop1].corruption_errs  127",
        );
        let window = window_of(&twice);
        assert_eq!(window.newest::<Drive>()[&Name::from("loop1")].checksum_errors.get(), Some(127.0));
    }

    #[test]
    fn a_file_system_without_unallocated_space() {
        let text = fixture("btrfs-filesystem-full.txt");
        let parts: Vec<&str> = text.split_inclusive("# btrfs filesystem df").collect();
        let usage = row_of::<Volume>(parts[0]);
        assert_eq!((usage.kind.get(), usage.free.get()), (Some("btrfs"), Some(MIB)));
        assert_eq!((usage.size.get(), usage.data_used.get()), (Some(600.0 * MIB), Some(1.0)));
        // 672 KiB used and a reserve of 5.5 MiB, out of 32 MiB.
        let expected = (672.0 / 1024.0 + 5.5) / 32.0;
        assert!((usage.metadata_used.get().unwrap() - expected).abs() < 1e-9);
        let shown = row_of::<Volume>(
            "Label: 'backup'  uuid: 1-2\n\tTotal devices 1 FS bytes used 1.22TiB\n\tdevid    1 size 1.82TiB used 1.82TiB path /dev/sdb1\n",
        );
        assert_eq!((&*shown.name, shown.free.get()), ("backup", Some(0.0)));
        let printed = row_of::<Volume>(
            "$ btrfs fi df /mnt\nData, single: total=1535115264, used=943718400\nMetadata, DUP: total=107347968, used=1179648\nGlobalReserve, single: total=5767168, used=0\n",
        );
        assert_eq!((&*printed.name, printed.free.get()), ("/mnt", None));
        assert_eq!(printed.data_used.get(), Some(943_718_400.0 / 1_535_115_264.0));
    }
}
