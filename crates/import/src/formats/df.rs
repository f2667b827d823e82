//! df(1): space and, with -i, inodes of mounted file systems.

use crate::prelude::*;
use whyslow_model::catalogue::Mount;

pub const FORMAT: Format = Format {
    name: "df",
    versions: "coreutils 5 on: plain, -k, -m, -h, -T, -i; rows without the header, if the unit shows in them or on the command line",
    shows: "file systems without space or inodes",
    lacks: "whether one is read-only by nature",
    programs: &[program("df")],
    files: &["df"],
    starts: |lines| lines.next_is(|line| DfColumns::parse(line).is_some() || is_row(line)),
    read,
    ..Format::NEW
};

#[derive(Clone, Copy)]
struct DfColumns {
    inodes: bool,
    /// Whether there is a column for the type of file system.
    kind: bool,
    /// Bytes per unit of a number without suffix.
    unit: f64,
    /// Number of columns between the share and the mount point: those of inodes on macOS.
    between: usize,
}

/// File systems of other operating systems that hold no data, and are always full.
const ALWAYS_FULL: [&str; 6] = ["devfs", "map", "procfs", "fdescfs", "linprocfs", "/dev/fd"];

impl DfColumns {
    /// Parses `Filesystem     1K-blocks    Used Available Use% Mounted on`.
    fn parse(line: &str) -> Option<Self> {
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
        let share = words.iter().position(|word| word.ends_with("Use%") || ["Capacity", "IUse%"].contains(word))?;
        let point = words.iter().position(|word| *word == "Mounted")?;
        let between = point.checked_sub(share + 1)?;
        rest.contains("Mounted on").then_some(Self { inodes: rest.contains("Inodes"), kind, unit, between })
    }
}

/// Returns true if a line is a row of df: its percentage is the one that df computes from its amounts, rounded up.
fn is_row(line: &str) -> bool {
    /// Tolerance: amounts with a suffix are rounded to two digits.
    const ROUNDING: f64 = 0.05;
    const DEVICES: [&str; 4] = ["tmpfs", "devtmpfs", "overlay", "none"];
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [device, amounts @ .., share, point] = &fields[..] else { return false };
    let &[size, used, available] = amounts else { return false };
    let is_device = device.starts_with('/') || device.contains(":/") || DEVICES.contains(device);
    let share = share.strip_suffix('%').and_then(|share| share.parse::<f64>().ok());
    let amounts = [size, used, available].map(|field| amount(field, 1.0));
    let ([Some(size), Some(used), Some(available)], Some(share)) = (amounts, share) else { return false };
    let expected = used / (used + available);
    is_device
        && point.starts_with('/')
        && used > 0.0
        && used <= size * (1.0 + ROUNDING)
        && (share / 100.0 - expected).abs() < ROUNDING
}

/// Returns the columns of a row without header, or `None` if it is ambiguous.
fn columns_of_row(line: &str, context: OutputContext<'_>) -> Option<DfColumns> {
    let size = line.split_whitespace().nth(1)?;
    let columns = DfColumns { inodes: false, kind: false, unit: KIB, between: 0 };
    let is_plain =
        |argument: &str| argument.strip_prefix('-').is_none_or(|flags| flags.bytes().all(|b| b"hikmal".contains(&b)));
    match context.command_of("df") {
        Some(command) if !command.arguments().all(is_plain) => None,
        Some(command) if command.has('i') => Some(DfColumns { inodes: true, unit: 1.0, ..columns }),
        Some(command) if command.has('m') => Some(DfColumns { unit: MIB, ..columns }),
        Some(_) => Some(columns),
        // No file system has billions of inodes.
        None => size.ends_with(['G', 'T', 'P']).then_some(columns),
    }
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let first = lines.peek(0).unwrap_or_default().to_owned();
    let Some(columns) = DfColumns::parse(&first) else {
        while lines.next_is(is_row) {
            let row = lines.peek(0).unwrap_or_default().to_owned();
            let Some(columns) = columns_of_row(&row, context) else {
                lines.leave_out("the header of df, or a size whose unit shows that it is not of inodes: 20G")?;
                continue;
            };
            row_of(lines, columns, run)?;
        }
        return Ok(());
    };
    lines.skip(1);
    // `df -h /; df -i /` has two headers.
    let is_header = |line: &str| DfColumns::parse(line).is_some();
    while !another_output_starts(lines, FORMAT.name) && !lines.next_is(is_header) && row_of(lines, columns, run)? {}
    Ok(())
}

/// Reads a row. Returns true if there was one.
fn row_of(lines: &mut Lines<'_>, columns: DfColumns, run: &mut ToolRun) -> Result<bool, Refusal> {
    let Some(line) = lines.take_if(|text| !text.trim().is_empty()) else { return Ok(false) };
    let mut fields = crate::table::words(&line.text);
    // A long device name is on a line of its own.
    if fields.len() == 1
        && let Some(rest) = lines.take_if(|next| next.starts_with(' '))
    {
        fields.extend(crate::table::words(&rest.text));
    }
    if ALWAYS_FULL.contains(&fields[0].as_str()) {
        return Ok(true);
    }
    let first = 1 + usize::from(columns.kind);
    let amounts = fields.get(first..first + 3).and_then(|f| f.iter().map(|f| amount(f, columns.unit)).collect());
    let amounts: Option<Vec<f64>> = amounts;
    let (Some(amounts), Some(point)) = (amounts, fields.get(first + 4 + columns.between..).filter(|p| !p.is_empty()))
    else {
        let refusal =
            lines.refuse_at(&line, "a device, its size, used and free space, a percentage and its mount point");
        // Rows below a damaged one can still be read.
        let is_row = fields.iter().any(|field| field.ends_with('%'));
        return if is_row { lines.keep(Err::<bool, _>(refusal)).map(|_| true) } else { Err(refusal) };
    };
    let point = point.join(" ");
    if !run.is_within(
        &format!("{}:{}, {point}", lines.file(), line.number),
        amounts[1],
        amounts[0],
        if columns.inodes { "count" } else { "bytes" },
    ) {
        return Ok(true);
    }
    let row = run.row::<Mount>(0.0, line.number, point.as_str().into());
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
    Ok(true)
}

/// Parses `19G`, `1.5T`, `512K`, or `-` for a file system that creates inodes on demand. A negative amount counts as 0: the
/// available space is negative if the reserve for root is in use.
fn amount(field: &str, unit: f64) -> Option<f64> {
    // macOS: `460Gi`, `0Bi`.
    let field = field.strip_suffix("Bi").or(field.strip_suffix('i')).unwrap_or(field);
    match field.strip_prefix('-') {
        Some("") => Some(0.0),
        Some(below) => scaled(below, KIB, unit).map(|_| 0.0),
        None => scaled(field, KIB, unit),
    }
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
    fn more_in_use_than_there_is_is_noted_and_left_out() {
        let text = "Filesystem 1K-blocks Used Available Use% Mounted on\n/dev/sda1 41152736 99152736 0 241% /\n\
                    /dev/sdb1 103081248 50000000 47800000 52% /data\n";
        let captures = crate::testing::read_text(text).unwrap();
        let points: Vec<String> = captures[0].window.newest::<Mount>().keys().map(ToString::to_string).collect();
        assert_eq!(points, ["/data"]);
        let notes = format!("{:?}", captures[0].window.snapshots()[0].sources);
        assert!(notes.contains("94.6 GiB in use of 39.2 GiB"), "{notes}");
    }

    #[test]
    fn a_damaged_row_does_not_end_the_table() {
        let text = "Filesystem 1K-blocks Used Available Use% Mounted on\n/dev/sda1 1000 x 500 50% /\n\
            /dev/sdb1 1000 500 500 50% /srv\n";
        let captures = crate::read(vec![crate::Input { name: "x".into(), reader: Box::new(text.as_bytes()) }], false);
        let captures = captures.unwrap();
        let rows = captures[0].window.newest::<Mount>();
        assert_eq!(rows.values().map(|row| row.point.to_string()).collect::<Vec<_>>(), ["/srv"]);
    }

    #[test]
    fn columns_of_macos_are_no_mount_point() {
        let text = "Filesystem       Size   Used  Avail Capacity iused ifree %iused  Mounted on
/dev/disk3s1s1  460Gi  9.5Gi   32Gi    23%    356k  337M    0%   /
devfs           205Ki  205Ki    0Bi   100%     710     0  100%   /dev
/dev/disk3s5    460Gi  410Gi   32Gi    93%    4.2M  337M    1%   /System/Volumes/Data
map auto_home     0Bi    0Bi    0Bi   100%       0     0     -   /System/Volumes/Data/home
";
        let window = window_of(text);
        let rows = window.newest::<Mount>();
        let points: Vec<_> = rows.values().map(|row| (row.point.to_string(), row.available.get())).collect();
        let available = Some(32.0 * GIB);
        assert_eq!(points, [("/".to_owned(), available), ("/System/Volumes/Data".to_owned(), available)]);
    }

    #[test]
    fn inodes_and_types_are_read() {
        let window =
            window_of("Filesystem Type Inodes IUsed IFree IUse% Mounted on\n/dev/sda1 ext4 1.3M 1.3M 0 100% /\n");
        let row = window.the::<Mount>().unwrap();
        assert_eq!((row.kind.get(), row.inodes_free.get()), (Some("ext4"), Some(0.0)));
    }

    #[test]
    fn rows_without_a_header_are_read_if_their_unit_is_known() {
        let row = |text: &str| crate::testing::row_of::<Mount>(text);
        let alone = row("/dev/sda1        20G   20G  120M 100% /var\n");
        assert_eq!((alone.size.get(), alone.available.get()), (Some(20.0 * GIB), Some(120.0 * MIB)));
        let plain = "/dev/sda1 1310720 1310700 20 100% /var\n";
        assert_eq!(refusal_of(plain).line, 1);
        assert_eq!(row(&format!("$ df | grep sda1\n{plain}")).available.get(), Some(20.0 * KIB));
        assert_eq!(row(&format!("$ df -i | grep sda1\n{plain}")).inodes_free.get(), Some(20.0));
        // The share does not match these amounts.
        assert!(crate::testing::read_text("/dev/sda1        20G   20G  120M  40% /var\n").is_err());
    }

    #[test]
    fn less_than_nothing_is_available_where_the_reserve_is_in_use() {
        let text = "Filesystem 1K-blocks Used Available Use% Mounted on\n/dev/sda1 1000000 980000 -30000 103% /\n";
        let row = crate::testing::row_of::<Mount>(text);
        assert_eq!((row.free.get(), row.available.get()), (Some(20_000.0 * KIB), Some(0.0)));
    }
}
