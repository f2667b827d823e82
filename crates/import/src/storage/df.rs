//! df(1): space and, with -i, inodes of mounted file systems.

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::number::number;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_model::catalogue::Mount;

/// The format.
pub const FORMAT: Format = Format {
    name: "df",
    versions: "coreutils 5 on: plain, -k, -m, -h, -T, -i",
    tells: "file systems without space or inodes",
    starts: |lines| lines.peek(0).is_some_and(|line| Layout::of(line).is_some()),
    read,
};

/// What the columns are.
#[derive(Clone, Copy)]
struct Layout {
    inodes: bool,
    kind: bool,
    /// Bytes of a number without a suffix.
    unit: f64,
}

impl Layout {
    /// `Filesystem     1K-blocks    Used Available Use% Mounted on`
    fn of(line: &str) -> Option<Self> {
        let rest = line.strip_prefix("Filesystem")?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let kind = words.first() == Some(&"Type");
        let unit = match *words.get(usize::from(kind))? {
            "1K-blocks" | "1024-blocks" | "1k-blocks" => 1024.0,
            "1M-blocks" => 1_048_576.0,
            "512-blocks" => 512.0,
            "Size" | "Inodes" => 1.0,
            _ => return None,
        };
        rest.contains("Mounted on").then_some(Self { inodes: rest.contains("Inodes"), kind, unit })
    }
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let Some(layout) = lines.take().and_then(|line| Layout::of(&line.text)) else { return Ok(()) };
    while let Some(text) = lines.peek(0).map(str::to_owned) {
        if text.trim().is_empty() || crate::elsewhere(lines, FORMAT.name) {
            break;
        }
        let line = lines.number();
        let mut fields: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        // A long device name stands on a line of its own.
        if fields.len() == 1
            && let Some(rest) = lines.peek(1).filter(|l| l.starts_with(' '))
        {
            fields.extend(rest.split_whitespace().map(str::to_owned));
            lines.skip(1);
        }
        let numbers = 1 + usize::from(layout.kind);
        let amounts: Option<Vec<f64>> =
            fields.get(numbers..numbers + 3).and_then(|f| f.iter().map(|f| amount(f, layout.unit)).collect());
        let (Some(amounts), Some(point)) = (amounts, fields.get(numbers + 4..).filter(|p| !p.is_empty())) else {
            return Err(lines.refuse("a device, its size, what is used and free, a percentage and where it is mounted"));
        };
        let row = run.row::<Mount>(0.0, line, point.join(" ").as_str().into());
        row.device = fields[0].trim_start_matches("/dev/").into();
        if layout.kind {
            row.kind = fields[1].as_str().into();
        }
        if layout.inodes {
            row.inodes = amounts[0].into();
            row.inodes_free = amounts[2].into();
        } else {
            row.size = amounts[0].into();
            // What is used is what is not free; what is available lacks the reserve for root.
            row.free = (amounts[0] - amounts[1]).max(0.0).into();
            row.available = amounts[2].into();
        }
        lines.skip(1);
    }
    Ok(())
}

/// `19G`, `1.5T`, `512K`, `-` for a file system that makes inodes at need.
fn amount(field: &str, unit: f64) -> Option<f64> {
    if field == "-" {
        return Some(0.0);
    }
    let digits = field.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &field[digits.len()..] {
        "" => unit,
        "K" | "k" => 1024.0,
        "M" => 1_048_576.0,
        "G" => 1_073_741_824.0,
        "T" => 1_099_511_627_776.0,
        "P" => 1_125_899_906_842_624.0,
        _ => return None,
    };
    Some(number(digits)? * unit)
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
    fn inodes_and_types() {
        let window =
            window_of("Filesystem Type Inodes IUsed IFree IUse% Mounted on\n/dev/sda1 ext4 1.3M 1.3M 0 100% /\n");
        let row = window.the::<Mount>().unwrap();
        assert_eq!((row.kind.get(), row.inodes_free.get()), (Some("ext4"), Some(0.0)));
    }
}
