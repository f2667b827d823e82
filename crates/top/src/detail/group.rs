//! Details of a control group: usage, limits, what delays it, and its processes.

use super::{heading, list, process};
use crate::panel::{AllWaits, Context, group_name, throttled};
use crate::table::{Value, pairs};
use crate::text::{Line, bold, dim};
use whyslow_model::catalogue::{Group, GroupIo};
use whyslow_model::cgroup::in_group;
use whyslow_model::human;
use whyslow_model::value::Name;
use whyslow_quantities::group;

pub(super) fn page(path: &Name, context: &Context<'_>) -> Option<Vec<Line>> {
    let changes = context.rates.changes::<Group>();
    let change = changes.iter().find(|change| change.key() == path)?;
    let last = change.last();
    let mut lines = vec![vec![bold(format!("Control group {} ", group_name(path))), dim(&**path)]];
    heading(&mut lines, "CPU");
    let quota = last.quota.get().zip(last.period.get()).map(|(quota, period)| quota / period);
    lines.extend(pairs(&[
        ("CPU time used", Value::share(group::CPU.over(change))),
        ("CPU time it may use (quota)", Value::share(quota)),
        ("periods in which its quota ran out", Value::share(throttled(change))),
        ("time it was throttled, summed over CPUs", Value::share(group::THROTTLED.over(change))),
        ("weight", Value::number(last.weight.get(), "count")),
    ]));
    heading(&mut lines, "Stalls: time in which some, or all of its tasks waited");
    lines.extend(pairs(&[
        ("for a CPU, some", Value::from_quantity(&group::CPU_PRESSURE, change)),
        ("for a CPU, all", Value::from_quantity(&group::CPU_PRESSURE_FULL, change)),
        ("for memory, some", Value::from_quantity(&group::MEMORY_PRESSURE, change)),
        ("for memory, all", Value::from_quantity(&group::MEMORY_PRESSURE_FULL, change)),
        ("for I/O, some", Value::from_quantity(&group::IO_PRESSURE, change)),
        ("for I/O, all", Value::from_quantity(&group::IO_PRESSURE_FULL, change)),
    ]));
    heading(&mut lines, "Memory");
    lines.extend(pairs(&[
        ("memory charged", Value::number(last.memory.get(), "bytes")),
        ("hard limit", Value::number(last.memory_max.get(), "bytes")),
        ("throttled above", Value::number(last.memory_high.get(), "bytes")),
        ("anonymous memory", Value::number(last.anon.get(), "bytes")),
        ("page cache", Value::number(last.file.get(), "bytes")),
        ("page cache waiting to be written", Value::number(last.dirty.get(), "bytes")),
        ("swap charged", Value::number(last.swap.get(), "bytes")),
        ("file pages refaulted after eviction", Value::from_quantity(&group::FILE_REFAULTS, change)),
        ("times its usage hit the hard limit", Value::from_quantity(&group::LIMIT_HITS, change)),
        ("processes killed by the OOM killer", Value::number(last.oom_kills.get().map(|n| n as f64), "count")),
        ("processes and threads", Value::number(last.pids.get(), "count")),
        ("processes and threads it may have", Value::number(last.pids_max.get(), "count")),
    ]));
    let io = context.rates.changes::<GroupIo>();
    let entries = io.iter().filter(|io| io.key().upper == *path).filter_map(|io| {
        let (read, written) = (group::io::READ_RATE.over(io)?, group::io::WRITE_RATE.over(io)?);
        let rate = |bytes| human::quantity(bytes, "bytes/s");
        (read + written > 0.0).then(|| format!("{:12} {} read, {} written", io.key().lower, rate(read), rate(written)))
    });
    list(&mut lines, "Devices", entries.collect(), "no I/O, or not counted by the kernel");
    let all = AllWaits::from_window(context.rates);
    let members = all.processes.iter().filter(|(change, _)| in_group(change.last().cgroup.get(), path));
    list(&mut lines, "Processes", process::busiest(members), "none");
    Some(lines)
}
