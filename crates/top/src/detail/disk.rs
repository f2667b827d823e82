//! Details of a disk: the devices above and below it, its users, and request latencies.

use super::{heading, list};
use crate::panel::{Context, commands, disk_times, group_name, ratio, sum};
use crate::table::{Value, pairs};
use crate::text::{Line, bold, dim, plain};
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::catalogue::{Disk, GroupIo, Mount, Queue, Requester};
use whyslow_model::histogram::{Histogram, middle};
use whyslow_model::human;
use whyslow_model::value::Name;
use whyslow_quantities::disk;

/// Width of the longest bar, in columns.
const BAR: usize = 40;

pub(super) fn page(name: &Name, context: &Context<'_>) -> Option<Vec<Line>> {
    let changes = context.rates.changes::<Disk>();
    let change = changes.iter().find(|change| change.key() == name)?;
    let queues = context.window.newest::<Queue>();
    let queue = queues.get(name);
    let model = queue.and_then(|q| q.model.get()).unwrap_or_default();
    let mut lines = vec![vec![bold(format!("Disk {name} ")), dim(model)]];
    heading(&mut lines, "Requests");
    lines.extend(pairs(&[
        ("in flight, on average", Value::from_quantity(&disk::QUEUE, change)),
        ("mean time of a read or write", Value::from_quantity(&disk::WAIT, change)),
        ("time with any in flight", Value::from_quantity(&disk::BUSY, change)),
        ("reads", Value::from_quantity(&disk::READS, change)),
        ("writes", Value::from_quantity(&disk::WRITES, change)),
        ("read", Value::from_quantity(&disk::READ_RATE, change)),
        ("written", Value::from_quantity(&disk::WRITE_RATE, change)),
        ("flushes", Value::from_quantity(&disk::FLUSHES, change)),
        ("time a flush took", Value::from_quantity(&disk::FLUSH_WAIT, change)),
    ]));
    if let Some(queue) = queue {
        heading(&mut lines, "Queue");
        lines.extend(pairs(&[
            ("scheduler", Value::words(queue.scheduler.get())),
            ("requests the queue holds", Value::number(queue.nr_requests.get(), "count")),
            ("commands the device takes at once", Value::number(queue.device_depth.get(), "count")),
            ("largest request", Value::number(queue.max_request.get(), "bytes")),
            ("read-ahead", Value::number(queue.read_ahead.get(), "bytes")),
            ("write cache", Value::words(queue.write_cache.get())),
            ("capacity", Value::number(queue.size.get(), "bytes")),
        ]));
    }
    stack(&mut lines, name, context);
    list(&mut lines, "Users", users(name, context), "not traced: needs BPF, and requests in the last seconds");
    list(&mut lines, "Control groups", groups(name, context), "none with I/O, or not counted by the kernel");
    if let Some((queued, served)) = disk_times(context.rates, name) {
        histogram(&mut lines, "Time in the queue", &queued);
        histogram(&mut lines, "Time in the device", &served);
    }
    Some(lines)
}

/// Lists the devices stacked on this one, the device itself, and the devices below it.
fn stack(lines: &mut Vec<Line>, name: &Name, context: &Context<'_>) {
    heading(lines, "Stack, from where requests enter");
    let topology = context.topology;
    let kinds: BTreeMap<Name, &Mount> = context.window.newest::<Mount>();
    let line = |device: &Name, is_this: bool| {
        let relations: BTreeSet<&str> =
            topology.below(device).filter_map(|lower| topology.relation(device, lower)).collect();
        let on = topology.below(device).map(|lower| lower.to_string()).collect::<Vec<_>>().join(", ");
        let kind = relations.into_iter().collect::<Vec<_>>().join(", ");
        let mounts: Vec<String> = topology
            .mounts(device)
            .iter()
            .map(|point| format!("{} on {point}", kinds.get(point).and_then(|m| m.kind.get()).unwrap_or("mounted")))
            .collect();
        let relation = if on.is_empty() { String::new() } else { format!("  {kind} on {on}") };
        let text = format!("  {device}{relation}  {}", mounts.join(", "));
        vec![if is_this { bold(text) } else { plain(text) }]
    };
    lines.extend(topology.over(name).iter().map(|device| line(device, false)));
    lines.push(line(name, true));
    lines.extend(topology.under(name).iter().map(|device| line(device, false)));
}

/// Lists the processes that issue requests to this disk, by the number of requests that they keep in flight.
fn users(name: &Name, context: &Context<'_>) -> Vec<String> {
    let commands = commands(context.window);
    let changes = context.rates.changes::<Requester>();
    let mut users: Vec<(f64, String)> = changes
        .iter()
        .filter(|change| change.key().on.device == *name)
        .filter_map(|change| {
            let in_flight = ratio(sum([change.rate(|r| r.queue_time), change.rate(|r| r.device_time)]))?;
            let requests = change.rate(|r| r.requests).filter(|rate| *rate > 0.0)?;
            let pid = change.key().task.pid;
            let command = change.last().command.get().or_else(|| commands.get(&pid).map(String::as_str)).unwrap_or("?");
            let entry = format!(
                "{pid:>7} {:15} {:5} {:>9}, {:>10}, {} in flight, each {}",
                plain(command).text(),
                change.key().on.operation,
                human::quantity(requests, "1/s"),
                Value::number(change.rate(|r| r.bytes), "bytes/s").text(0),
                human::quantity(in_flight, "count"),
                human::quantity(in_flight / requests, "s")
            );
            Some((in_flight, entry))
        })
        .collect();
    users.sort_by(|a, b| b.0.total_cmp(&a.0));
    users.into_iter().map(|(_, entry)| entry).collect()
}

fn groups(name: &Name, context: &Context<'_>) -> Vec<String> {
    let changes = context.rates.changes::<GroupIo>();
    let mut groups: Vec<(f64, String)> = changes
        .iter()
        .filter(|change| change.key().lower == *name)
        .filter_map(|change| {
            let (read, written) = (change.rate(|io| io.read_bytes)?, change.rate(|io| io.write_bytes)?);
            let rate = |bytes| human::quantity(bytes, "bytes/s");
            let entry =
                format!("{:30} {} read, {} written", group_name(&change.key().upper), rate(read), rate(written));
            (read + written > 0.0).then_some((read + written, entry))
        })
        .collect();
    groups.sort_by(|a, b| b.0.total_cmp(&a.0));
    groups.into_iter().map(|(_, entry)| entry).collect()
}

/// Draws one bar per octave, from the shortest time that occurred to the longest.
fn histogram(lines: &mut Vec<Line>, title: &str, times: &Histogram) {
    let mut octaves: BTreeMap<u32, u64> = BTreeMap::new();
    for (bucket, count) in times.buckets().unwrap_or_default() {
        *octaves.entry((middle(*bucket).max(1.0) as u64).ilog2()).or_default() += count;
    }
    let (Some(first), Some(last)) = (octaves.keys().next().copied(), octaves.keys().last().copied()) else { return };
    let quantile = |q| Value::number(ratio(times.quantile(q)), "s").text(0);
    heading(lines, &format!("{title}: median {}, 99 % within {}", quantile(0.5), quantile(0.99)));
    let most = octaves.values().copied().max().unwrap_or(1).max(1);
    for octave in first..=last {
        let count = octaves.get(&octave).copied().unwrap_or(0);
        let bar = "█".repeat((count as f64 / most as f64 * BAR as f64).ceil() as usize);
        let from = human::quantity((1_u64 << octave) as f64 / 1e9, "s");
        lines.push(vec![dim(format!("  from {from:>8}  ")), plain(format!("{bar} {count}"))]);
    }
}
