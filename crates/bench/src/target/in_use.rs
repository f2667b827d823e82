//! Whether a block device is in use, and by what.

use super::Map;
use super::device::folder;
use super::openers;
use std::collections::BTreeSet;
use whyslow_model::catalogue::Swap;

/// Every use of a device, of its parts and of what stands on them, in words; empty where there is none.
pub(super) fn uses(map: &Map, device: &str) -> Vec<String> {
    let mut all: Vec<String> = vec![device.to_owned()];
    all.extend(map.topology.over(device).iter().map(|name| name.to_string()));
    let mut uses: Vec<String> = all.iter().flat_map(|part| mounts(map, part)).collect();
    uses.extend(all.iter().flat_map(|part| holders(map, part)));
    uses.extend(all.iter().filter(|part| is_swap(map, part)).map(|part| format!("{part} is swap")));
    uses.extend(all.iter().filter(|part| is_btrfs(map, part)).map(|part| format!("{part} belongs to a mounted btrfs")));
    if map.root.is_live() {
        uses.extend(openers::of(&numbers(map, device, &all)));
    }
    uses
}

pub(super) fn mounts(map: &Map, part: &str) -> Vec<String> {
    map.topology.mounts(part).iter().map(|point| format!("{part} is mounted on {point}")).collect()
}

/// What stands on a device other than its partitions: what the map knows of, and what the kernel lists as its holders.
fn holders(map: &Map, part: &str) -> Vec<String> {
    let mut holders: BTreeSet<String> = map.root.list(&format!("{}/holders", folder(part))).into_iter().collect();
    let above = map.topology.above(part).filter(|upper| map.relation(upper, part) != Some("partition"));
    holders.extend(above.map(|name| name.to_string()));
    holders.into_iter().map(|holder| format!("{holder} stands on {part}")).collect()
}

/// /proc/swaps names devices by their node.
fn is_swap(map: &Map, part: &str) -> bool {
    map.window.newest::<Swap>().keys().any(|path| path.strip_prefix("/dev/") == Some(part))
}

/// A btrfs of several devices is mounted by the name of one of them; sysfs lists them all.
fn is_btrfs(map: &Map, part: &str) -> bool {
    let entry = part.replace('/', "!");
    let has = |id: &String| map.root.at(format!("sys/fs/btrfs/{id}/devices/{entry}")).exists();
    map.root.list("sys/fs/btrfs").iter().any(has)
}

/// `major:minor` of a device, its parts, what stands on them, and the disk it is a part of: who has that open can write to
/// all of it.
fn numbers(map: &Map, device: &str, all: &[String]) -> Vec<(u32, u32)> {
    let disk = map.topology.below(device).filter(|lower| map.relation(device, lower) == Some("partition"));
    let names = all.iter().cloned().chain(disk.map(|name| name.to_string()));
    names.filter_map(|name| number(&map.root.word(&format!("{}/dev", folder(&name)))?)).collect()
}

fn number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
#[path = "in_use_tests.rs"]
mod tests;
