//! The lower devices that hold the data of a device-mapper device, by its table (Documentation/admin-guide/device-mapper).

use super::dm_ioctl::{DmControl, Target};

/// A part of a device-mapper device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedPart {
    /// Offset on the device, bytes.
    pub start: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Location of its data.
    pub data: MappedData,
}

/// Location of the data of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappedData {
    /// In this range of another device, in the same order.
    Linear(LowerRange),
    /// In these ranges of other devices, in another order.
    Spread(Vec<LowerRange>),
    /// In a thin pool, as the volume with this number.
    Thin {
        /// Major and minor number of the pool.
        pool: (u32, u32),
        /// Number of the volume.
        volume: u64,
    },
    /// Not stored: reads return zeros or errors.
    Nowhere,
    /// Unknown: the data may be anywhere on the lower devices.
    Unknown,
}

/// A range of a lower device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LowerRange {
    /// Major and minor number.
    pub device: (u32, u32),
    /// Offset in bytes.
    pub start: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// Returns the parts of a device-mapper device; `None` if its table cannot be read.
pub fn mapped_parts(major: u32, minor: u32) -> Option<Vec<MappedPart>> {
    Some(DmControl::open().ok()?.table(major, minor)?.iter().map(part).collect())
}

fn part(target: &Target) -> MappedPart {
    let words: Vec<&str> = target.status.split_ascii_whitespace().collect();
    let data = data(&target.kind, &words, target.bytes).unwrap_or(MappedData::Unknown);
    MappedPart { start: target.start, bytes: target.bytes, data }
}

fn data(kind: &str, words: &[&str], bytes: u64) -> Option<MappedData> {
    let device = |at: usize| number(words.get(at)?);
    let count = |at: usize| words.get(at)?.parse::<u64>().ok();
    let range = |at: usize, bytes: u64| {
        let start = count(at + 1)?.checked_mul(super::device::SECTOR)?;
        Some(LowerRange { device: device(at)?, start, bytes })
    };
    match kind {
        "linear" | "flakey" | "delay" | "dust" => Some(MappedData::Linear(range(0, bytes)?)),
        "striped" => {
            let stripes = usize::try_from(count(0)?).ok().filter(|stripes| *stripes > 0)?;
            let each = bytes / stripes as u64;
            (0..stripes).map(|stripe| range(2 + 2 * stripe, each)).collect::<Option<Vec<_>>>().map(MappedData::Spread)
        }
        "snapshot-origin" => Some(MappedData::Linear(LowerRange { device: device(0)?, start: 0, bytes })),
        "thin" => Some(MappedData::Thin { pool: device(0)?, volume: count(1)? }),
        "zero" | "error" => Some(MappedData::Nowhere),
        _ => None,
    }
}

fn number(word: &str) -> Option<(u32, u32)> {
    let (major, minor) = word.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(kind: &str, table: &str) -> MappedData {
        let target = Target { kind: kind.into(), status: table.into(), bytes: 1 << 20, ..Target::default() };
        part(&target).data
    }

    #[test]
    fn a_table_says_where_data_is() {
        let range = |minor, start, bytes| LowerRange { device: (8, minor), start, bytes };
        assert_eq!(found("linear", "8:1 2048"), MappedData::Linear(range(1, 1 << 20, 1 << 20)));
        let halves = vec![range(16, 0, 1 << 19), range(32, 512, 1 << 19)];
        assert_eq!(found("striped", "2 128 8:16 0 8:32 1"), MappedData::Spread(halves));
        assert_eq!(found("thin", "253:4 7"), MappedData::Thin { pool: (253, 4), volume: 7 });
        assert_eq!(found("zero", ""), MappedData::Nowhere);
        for (kind, table) in [("crypt", ""), ("linear", "8:1"), ("striped", "0 128"), ("striped", "9 128 8:1 0")] {
            assert_eq!(found(kind, table), MappedData::Unknown, "{kind} {table}");
        }
    }
}
