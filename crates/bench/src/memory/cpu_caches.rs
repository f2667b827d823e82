//! CPU caches (Documentation/ABI/testing/sysfs-devices-system-cpu, cache/index*).

use whyslow_sense::Root;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuCache {
    /// Name: `L1d`, `L2`, `L3`.
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// Returns the caches of CPU 0, the smallest first; empty if unknown, as under some hypervisors.
pub(crate) fn cpu_caches(root: &Root) -> Vec<CpuCache> {
    const FOLDER: &str = "sys/devices/system/cpu/cpu0/cache";
    let cache = |index: &String| {
        let word = |file: &str| root.word(&format!("{FOLDER}/{index}/{file}"));
        let kind = word("type").filter(|kind| kind != "Instruction")?;
        let name = format!("L{}{}", word("level")?, if kind == "Data" { "d" } else { "" });
        Some(CpuCache { name, bytes: size(&word("size")?)? })
    };
    let indices: Vec<String> = root.list(FOLDER).into_iter().filter(|name| name.starts_with("index")).collect();
    let mut caches: Vec<CpuCache> = indices.iter().filter_map(cache).collect();
    caches.sort_by_key(|cache| cache.bytes);
    caches
}

/// Parses a size such as `32K`.
fn size(text: &str) -> Option<u64> {
    let kib: u64 = text.strip_suffix('K')?.parse().ok()?;
    kib.checked_mul(1024).filter(|&bytes| bytes > 0)
}

/// Returns working sets that double from half the smallest cache up to `most`.
pub(super) fn ladder(caches: &[CpuCache], most: u64) -> Vec<u64> {
    const SMALLEST: u64 = 16 << 10;
    let first = caches.first().map_or(SMALLEST, |cache| cache.bytes / 2).clamp(4096, most);
    let doubled = std::iter::successors(Some(first), |bytes| bytes.checked_mul(2)).take_while(|&bytes| bytes < most);
    doubled.chain([most]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_topology::tests::machine;

    const AT: &str = "sys/devices/system/cpu/cpu0/cache";

    fn files(index: u32, kind: &str, level: u32, size: &str) -> [(String, String); 3] {
        [("type", kind), ("level", &level.to_string()), ("size", size)]
            .map(|(file, text)| (format!("{AT}/index{index}/{file}"), format!("{text}\n")))
    }

    #[test]
    fn caches_of_data_are_found_smallest_first() {
        let all = [
            files(0, "Unified", 3, "32768K"),
            files(1, "Data", 1, "48K"),
            files(2, "Instruction", 1, "32K"),
            files(3, "Unified", 2, "2048K"),
            files(4, "Unified", 4, "nonsense"),
        ];
        let all: Vec<(&str, &str)> = all.iter().flatten().map(|(path, text)| (&**path, &**text)).collect();
        let (_folder, root) = machine(&all);
        let found: Vec<(String, u64)> = cpu_caches(&root).into_iter().map(|c| (c.name, c.bytes)).collect();
        assert_eq!(found, [("L1d".into(), 48 << 10), ("L2".into(), 2 << 20), ("L3".into(), 32 << 20)]);
        let (_folder, root) = machine(&[]);
        assert_eq!(cpu_caches(&root), []);
    }

    #[test]
    fn working_sets_double_up_to_the_largest() {
        let cache = |bytes| vec![CpuCache { name: "L1d".into(), bytes }];
        assert_eq!(ladder(&cache(32 << 10), 100 << 10), [16 << 10, 32 << 10, 64 << 10, 100 << 10]);
        assert_eq!(ladder(&[], 64 << 10), [16 << 10, 32 << 10, 64 << 10]);
        assert_eq!(ladder(&cache(1 << 30), 64 << 10), [64 << 10]);
    }
}
