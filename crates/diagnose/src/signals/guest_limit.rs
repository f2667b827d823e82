//! Limits that QEMU sets on the disks of a guest, and how far they are used.

use super::guest::listed;
use super::task::TaskUse;
use crate::signal::{over, ratio, sum};
use std::collections::BTreeMap;
use whyslow_model::catalogue::{GuestDisk, GuestDiskIo, Requester};
use whyslow_model::human::quantity;
use whyslow_model::key::GuestDevice;
use whyslow_model::value::Name;
use whyslow_model::window::Window;

/// Rates of a guest's disk, as the guest sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiskIo {
    /// In the order of [`limits`].
    rates: [Option<f64>; 6],
    /// Mean number of requests not yet completed, including those that QEMU held back.
    in_flight: Option<f64>,
}

/// The most used limit of a guest's disks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DiskLimit {
    /// In words: `120 requests a second`.
    pub(super) words: String,
    /// Disks that share it.
    pub(super) disks: String,
    /// The share of it that is used.
    pub(super) used: Option<f64>,
    /// Requests per second of these disks, and how many were not yet completed.
    pub(super) requests: Option<f64>,
    pub(super) in_flight: Option<f64>,
}

/// Returns the rates that QEMU's monitor counted.
pub(super) fn disk_io(window: &Window) -> BTreeMap<GuestDevice, DiskIo> {
    let changes = window.changes::<GuestDiskIo>();
    let io = changes.iter().map(|change| {
        let [reads, writes] = [change.rate(|io| io.reads), change.rate(|io| io.writes)];
        let [read, written] = [change.rate(|io| io.read_bytes), change.rate(|io| io.write_bytes)];
        let times = [change.rate(|io| io.read_time), change.rate(|io| io.write_time), change.rate(|io| io.flush_time)];
        let times = times.map(ratio);
        let rates = [sum([reads, writes]), reads, writes, sum([read, written]), read, written];
        (change.key().clone(), DiskIo { rates, in_flight: sum(times) })
    });
    io.collect()
}

/// Returns the limits of a disk: all requests, reads and writes per second, then all bytes, those read and those written.
fn limits(disk: &GuestDisk) -> [Option<f64>; 6] {
    let requests = [&disk.limit_operations, &disk.limit_reads, &disk.limit_writes];
    let [bytes, read, written] = [&disk.limit_bytes, &disk.limit_read_bytes, &disk.limit_write_bytes].map(|b| b.get());
    let [all, reads, writes] = requests.map(|limit| limit.get());
    [all, reads, writes, bytes, read, written]
}

fn in_words(kind: usize, limit: f64) -> String {
    match kind {
        0..3 => format!("{} {} a second", quantity(limit, "count"), ["requests", "reads", "writes"][kind]),
        _ => format!("{}{}", quantity(limit, "bytes/s"), ["", " of reads", " of writes"][kind - 3]),
    }
}

/// Returns requests, reads and writes per second of processes that use one device only: on a mirror, a write would count twice.
pub(super) fn block_requests(window: &Window) -> BTreeMap<u32, [f64; 3]> {
    let mut devices: BTreeMap<u32, BTreeMap<Name, [f64; 3]>> = BTreeMap::new();
    for change in window.changes::<Requester>() {
        let requests = change.rate(|requester| requester.requests).unwrap_or(0.0);
        if requests > 0.0 {
            let of = devices.entry(change.key().task.pid).or_default();
            let made = of.entry(change.key().on.device.clone()).or_default();
            made[0] += requests;
            match &*change.key().on.operation {
                "read" => made[1] += requests,
                "write" => made[2] += requests,
                _ => {}
            }
        }
    }
    devices
        .into_iter()
        .filter(|(_, of)| of.len() == 1)
        .filter_map(|(pid, of)| Some((pid, of.into_values().next()?)))
        .collect()
}

/// Returns the most used limit. Where the monitor was not available, the process shows how much the guest moves, if all of its
/// disks share the limit: the bytes, and the requests that it issues itself, if the host's page cache is bypassed.
pub(super) fn most_used(
    disks: &[&GuestDisk],
    io: &BTreeMap<GuestDevice, DiskIo>,
    process: Option<&TaskUse>,
    requests: Option<[f64; 3]>,
) -> Option<DiskLimit> {
    let mut groups: BTreeMap<&str, Vec<&GuestDisk>> = BTreeMap::new();
    for disk in disks.iter().filter(|disk| limits(disk) != [None; 6]) {
        groups.entry(disk.limit_group.get().unwrap_or(&disk.disk.name)).or_default().push(disk);
    }
    let all = groups.values().flat_map(|group| {
        let counted: Option<Vec<DiskIo>> = group.iter().map(|disk| io.get(&disk.disk).copied()).collect();
        let total = |of: fn(&DiskIo, usize) -> Option<f64>, kind: usize| {
            counted.as_ref()?.iter().map(|io| of(io, kind)).sum::<Option<f64>>()
        };
        let moved = process.filter(|_| group.len() == disks.len());
        let is_direct = group.iter().all(|disk| matches!(disk.cache.get(), Some("none" | "directsync")));
        let by_process = move |kind: usize| match kind {
            0..3 => requests.filter(|_| moved.is_some() && is_direct).map(|requests| requests[kind]),
            3 => moved?.storage,
            4 => Some(moved?.storage? - moved?.written?),
            5 => moved?.written,
            _ => None,
        };
        let rate = |io: &DiskIo, kind: usize| io.rates[kind];
        let names = listed(group.iter().map(|disk| Some(&*disk.disk.name)));
        let limits = limits(group[0]).into_iter().enumerate().filter_map(|(kind, limit)| Some((kind, limit?)));
        let each = limits.map(|(kind, limit)| DiskLimit {
            words: in_words(kind, limit),
            disks: names.clone(),
            used: over(total(rate, kind).or_else(|| by_process(kind)), Some(limit)),
            requests: total(rate, 0).or_else(|| by_process(0)),
            in_flight: total(|io, _| io.in_flight, 0),
        });
        each.collect::<Vec<_>>()
    });
    all.max_by(|a, b| a.used.unwrap_or(-1.0).total_cmp(&b.used.unwrap_or(-1.0)))
}
