//! Detects which device splits direct reads, and because of which limit.

use crate::target::StorageMap;
use whyslow_documents::bench::{LayerTraffic, RequestSplit, Traffic};
use whyslow_model::human;

/// Minimum ratio of counted to arriving requests for a device to split them. Smaller ratios come from file extents that
/// end in the middle of a read.
const SPLIT: f64 = 1.5;
/// Tolerance within which a limit explains a mean request size.
const EXPLAINED: f64 = 0.05;
/// Segment size of ordinary buffers: the kernel merges only pages that are adjacent by chance.
const PAGE: u64 = 4096;

/// Reads of one block size: those issued, and the counts of each device, the topmost first.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountedReads {
    pub(crate) block: u64,
    pub(crate) asked: Traffic,
    pub(crate) layers: Vec<LayerTraffic>,
}

/// A limit on the size of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RequestLimit {
    /// File name in /sys/block/DEVICE.
    name: &'static str,
    bytes: u64,
    /// True if requests are split where they cross a multiple of the limit, not after that many bytes.
    at_boundaries: bool,
}

/// Mean sizes in bytes of the requests that arrived at a device and that it counted, for reads of one block size.
#[derive(Clone, Copy, Debug)]
struct RequestSizes {
    block: u64,
    arrived: f64,
    counted: f64,
}

impl CountedReads {
    pub(crate) fn add(&mut self, asked: Traffic, layers: &[LayerTraffic]) {
        self.asked = self.asked.plus(asked);
        if self.layers.is_empty() {
            self.layers = layers.to_vec();
            return;
        }
        for layer in layers {
            if let Some(known) = self.layers.iter_mut().find(|known| known.device == layer.device) {
                known.traffic = known.traffic.plus(layer.traffic);
            }
        }
    }
}

/// Returns the devices that split reads, the topmost first. `reads` must be in order of block size.
pub(crate) fn request_splits(reads: &[CountedReads], map: &StorageMap) -> Vec<RequestSplit> {
    let Some(layers) = reads.last().map(|reads| &reads.layers) else { return Vec::new() };
    let mut splits: Vec<RequestSplit> = Vec::new();
    for (at, layer) in layers.iter().enumerate() {
        // The worker of a loop device without direct I/O reads through the page cache, which creates requests of its
        // own.
        let passes_on = |upper: &LayerTraffic| map.block_attribute(&upper.device, "loop/dio").is_none_or(|on| on == 1);
        if !layers[..at].iter().all(passes_on) {
            break;
        }
        let above = layers[..at].iter().find(|upper| map.directly_below(&upper.device).contains(&layer.device));
        let sizes = |reads: &CountedReads| {
            let traffic = |device: &str| Some(reads.layers.iter().find(|layer| layer.device == *device)?.traffic);
            let arrived = above.map_or(Some(reads.asked), |above| traffic(&above.device)).and_then(mean)?;
            Some(RequestSizes { block: reads.block, arrived, counted: traffic(&layer.device).and_then(mean)? })
        };
        let sizes: Vec<RequestSizes> = reads.iter().filter_map(sizes).collect();
        // A partition counts the requests that its disk splits.
        let device = map.disk(&layer.device);
        if splits.iter().all(|known| known.device != device) {
            splits.extend(split(device, &sizes, &limits(device, map)));
        }
    }
    splits
}

fn mean(traffic: Traffic) -> Option<f64> {
    (traffic.reads > 0).then(|| traffic.read_bytes as f64 / traffic.reads as f64)
}

fn split(device: &str, sizes: &[RequestSizes], limits: &[RequestLimit]) -> Option<RequestSplit> {
    let from = sizes.iter().position(|size| size.arrived >= SPLIT * size.counted)?;
    let (first, last) = (sizes[from], sizes.last()?);
    let explains = |sizes: &[RequestSizes], limit: &&RequestLimit| sizes.iter().all(|size| limit.explains(size));
    let all = limits.iter().find(|limit| explains(&sizes[from..], limit));
    let limit = all.or_else(|| limits.iter().find(|limit| explains(&[first], limit)));
    Some(RequestSplit {
        device: device.to_owned(),
        from: first.block,
        block: last.block,
        request: last.counted,
        limit: limit.map(|limit| limit.name.to_owned()),
        limit_bytes: limit.map(|limit| limit.bytes),
    })
}

impl RequestLimit {
    fn explains(&self, sizes: &RequestSizes) -> bool {
        let pieces = (sizes.arrived / self.bytes as f64).ceil();
        let most = sizes.arrived / pieces;
        let least = if self.at_boundaries { sizes.arrived / (pieces + 1.0) } else { most };
        (least * (1.0 - EXPLAINED)..=most * (1.0 + EXPLAINED)).contains(&sizes.counted)
    }
}

/// Returns the request size limits of a device (Documentation/ABI/stable/sysfs-block).
fn limits(device: &str, map: &StorageMap) -> Vec<RequestLimit> {
    let limit = |name, unit: u64, at_boundaries| {
        let bytes = map.block_attribute(device, name)?.saturating_mul(unit);
        (bytes > 0).then_some(RequestLimit { name, bytes, at_boundaries })
    };
    // Volumes and arrays report the chunk as their smallest efficient request.
    let is_striped = device.starts_with("dm-") || device.starts_with("md");
    let chunk = if is_striped { limit("queue/minimum_io_size", 1, true) } else { None };
    let all = [
        limit("queue/max_sectors_kb", 1024, false),
        limit("queue/chunk_sectors", 512, true),
        limit("md/chunk_size", 1, true),
        chunk,
        limit("queue/max_segments", PAGE, false),
    ];
    all.into_iter().flatten().collect()
}

/// Describes a split for the report.
pub(crate) fn sentence(split: &RequestSplit) -> String {
    let RequestSplit { device, from, block, request, limit, limit_bytes } = split;
    let (block, request) = (human::bytes(*block), human::quantity(*request, "bytes"));
    let by = match limit.as_deref().zip(*limit_bytes) {
        Some((limit, bytes)) => format!("more than {} ({limit})", human::bytes(bytes)),
        None => format!("{} and more, for a reason that none of its limits explains", human::bytes(*from)),
    };
    format!("{device} splits reads of {by}: {block} become requests of {request}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn limit(name: &'static str, bytes: u64, at_boundaries: bool) -> RequestLimit {
        RequestLimit { name, bytes, at_boundaries }
    }

    /// Simulates blocks from 128 KiB to 4 MiB at a device that counts `pieces` for each.
    fn sizes(pieces: [f64; 6]) -> Vec<RequestSizes> {
        let size = |(at, pieces)| {
            let block = (128 * KIB) << at;
            RequestSizes { block, arrived: block as f64, counted: block as f64 / pieces }
        };
        pieces.into_iter().enumerate().map(size).collect()
    }

    #[test]
    fn the_limit_that_explains_all_sizes_is_named() {
        // 1280 KiB: 2 MiB in two requests, 4 MiB in four (3 × 1280 + 256 KiB).
        let measured = sizes([1.0, 1.0, 1.0, 1.0, 2.0, 4.0]);
        let limits = [
            limit("queue/max_segments", 1900 * KIB, false),
            limit("queue/max_sectors_kb", 1280 * KIB, false),
            limit("queue/chunk_sectors", 512 * KIB, true),
        ];
        let found = split("sda", &measured, &limits).unwrap();
        assert_eq!((found.from, found.block, found.request), (2048 * KIB, 4096 * KIB, 1024.0 * 1024.0));
        assert_eq!((found.limit.as_deref(), found.limit_bytes), (Some("queue/max_sectors_kb"), Some(1280 * KIB)));
        assert_eq!(
            sentence(&found),
            "sda splits reads of more than 1.25 MiB (queue/max_sectors_kb): 4 MiB become requests of 1 MiB."
        );
    }

    #[test]
    fn a_chunk_splits_where_it_is_crossed() {
        // Reads that start in the middle of a chunk of 256 KiB need one more part than those aligned with it.
        let measured = sizes([1.5, 2.0, 3.0, 5.0, 9.0, 17.0]);
        let limits = [limit("queue/max_sectors_kb", 1280 * KIB, false), limit("md/chunk_size", 256 * KIB, true)];
        assert_eq!(split("md0", &measured, &limits).unwrap().limit.as_deref(), Some("md/chunk_size"));
    }

    #[test]
    fn a_split_that_no_limit_explains_has_no_limit() {
        let found =
            split("sda", &sizes([1.0, 1.0, 1.0, 3.0, 6.0, 12.0]), &[limit("queue/max_sectors_kb", 900 * KIB, false)]);
        let found = found.unwrap();
        assert_eq!((found.from, found.limit.as_deref()), (1024 * KIB, None));
        assert!(
            sentence(&found).starts_with("sda splits reads of 1 MiB and more, for a reason"),
            "{}",
            sentence(&found)
        );
    }

    #[test]
    fn requests_that_stay_whole_or_are_merged_are_no_split() {
        let limits = [limit("queue/max_sectors_kb", 512 * KIB, false)];
        assert_eq!(split("sda", &sizes([1.0, 1.0, 1.0, 1.0, 1.01, 1.2]), &limits), None);
        assert_eq!(split("sda", &sizes([0.5; 6]), &limits), None);
        assert_eq!(split("sda", &[], &limits), None);
    }
}
