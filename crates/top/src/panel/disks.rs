//! Table of block devices: requests, latencies, and queue lengths.

use super::{Context, ratio};
use crate::entity::EntityId;
use crate::history::CourseOf;
use crate::table::{Column, Row, Value};
use std::collections::BTreeSet;
use whyslow_model::catalogue::{Disk, Request};
use whyslow_model::histogram::Histogram;
use whyslow_model::value::Name;
use whyslow_model::window::{Change, Window};
use whyslow_quantities::disk;

pub(super) const COLUMNS: [Column; 10] = [
    Column::words("DISK", 12, 0),
    Column::number("QUEUE", 6, 1),
    Column::number("LATENCY", 8, 2),
    Column::number("99 %", 8, 5),
    Column::number("READS", 9, 6),
    Column::number("WRITES", 9, 7),
    Column::number("READ", 10, 3),
    Column::number("WRITE", 10, 4),
    Column::words("QUEUE OVER TIME", 15, 8),
    Column::words("MOUNTED ON", 12, 9).growing(),
];
pub(super) const SORTED_BY: usize = 1;

/// Returns the time that reads and writes spent in the queue and in the device, in nanoseconds. `None` if they were not traced.
pub(crate) fn times(window: &Window, device: &str) -> Option<(Histogram, Histogram)> {
    let changes = window.changes::<Request>();
    let transfers = || {
        let is_transfer =
            |c: &&Change<'_, Request>| &*c.key().device == device && ["read", "write"].contains(&&*c.key().operation);
        changes.iter().filter(is_transfer)
    };
    let queued = transfers().filter_map(|c| c.histogram(|r| &r.queue_time)).reduce(|a, b| a.merged(&b))?;
    let served = transfers().filter_map(|c| c.histogram(|r| &r.device_time)).reduce(|a, b| a.merged(&b))?;
    Some((queued, served))
}

/// Returns true for an unused loop device: no I/O so far and not mounted.
fn is_unused(change: &Change<'_, Disk>, mounts: &[Name]) -> bool {
    let last = change.last();
    mounts.is_empty() && last.reads.get() == Some(0) && last.writes.get() == Some(0)
}

pub(super) fn rows(context: &Context<'_>) -> Vec<Row> {
    let there: BTreeSet<&Name> =
        context.rates.last().into_iter().flat_map(|s| &s.block.disk).map(|d| &d.device).collect();
    let changes = context.rates.changes::<Disk>();
    let shown = changes.iter().filter(|c| there.contains(c.key()) && !context.topology.is_partition(c.key()));
    shown
        .filter(|c| !is_unused(c, context.topology.mounts(c.key())))
        .map(|change| {
            let name = change.key();
            let p99 = times(context.rates, name).and_then(|(_, served)| served.quantile(0.99));
            let above = context.topology.over(name);
            let mounts: Vec<&str> = std::iter::once(name)
                .chain(above.iter().filter(|upper| context.topology.is_partition(upper)))
                .flat_map(|device| context.topology.mounts(device))
                .map(|mount| &**mount)
                .collect();
            let cells = vec![
                Value::Words(name.to_string()),
                Value::from_quantity(&disk::QUEUE, change),
                Value::from_quantity(&disk::WAIT, change),
                Value::number(ratio(p99), "s"),
                Value::from_quantity(&disk::READS, change),
                Value::from_quantity(&disk::WRITES, change),
                Value::from_quantity(&disk::READ_RATE, change),
                Value::from_quantity(&disk::WRITE_RATE, change),
                context.course(&CourseOf::Disk(name.to_string()), 1.0),
                Value::Words(mounts.join(" ")),
            ];
            Row::new(EntityId::Disk(name.clone()), cells)
        })
        .collect()
}
