//! Table of control groups, by container or unit: usage, and what delays them.

use super::{Context, group_name, over, ratio, sum};
use crate::entity::EntityId;
use crate::history::CourseOf;
use crate::table::{Column, Row, Value};
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::catalogue::{Group, GroupIo};
use whyslow_model::value::Name;
use whyslow_model::window::Change;
use whyslow_quantities::group;

pub(super) const COLUMNS: [Column; 11] = [
    Column::words("GROUP", 20, 0).growing(),
    Column::number("STALL CPU", 9, 2),
    Column::number("MEM", 6, 3),
    Column::number("I/O", 6, 4),
    Column::number("QUOTA", 6, 5),
    Column::number("CPU", 7, 1),
    Column::number("MEMORY", 8, 6),
    Column::number("LIMIT", 8, 7),
    Column::number("READ", 10, 8),
    Column::number("WRITE", 10, 9),
    Column::words("CPU TIME", 20, 10),
];
pub(super) const SORTED_BY: usize = 5;

/// Returns the bytes that each group reads and writes per second, over all devices.
fn io(context: &Context<'_>) -> BTreeMap<String, (Option<f64>, Option<f64>)> {
    let mut all: BTreeMap<String, (Option<f64>, Option<f64>)> = BTreeMap::new();
    for change in context.rates.changes::<GroupIo>() {
        let both = all.entry(change.key().upper.to_string()).or_default();
        // I/O to a stacked device is counted on the devices below it, too.
        if context.topology.below(&change.key().lower).next().is_some() {
            continue;
        }
        both.0 = sum([both.0, change.rate(|io| io.read_bytes)]);
        both.1 = sum([both.1, change.rate(|io| io.write_bytes)]);
    }
    all
}

/// Returns the share of quota periods in which the quota ran out.
pub(crate) fn throttled(change: &Change<'_, Group>) -> Option<f64> {
    over(change.grown(|g| g.throttled_periods), change.grown(|g| g.periods))
}

pub(super) fn rows(context: &Context<'_>) -> Vec<Row> {
    let io = io(context);
    let changes = context.rates.changes::<Group>();
    let there: BTreeSet<&Name> =
        context.rates.last().into_iter().flat_map(|s| &s.cgroup.group).map(|g| &g.path).collect();
    changes
        .iter()
        .filter(|change| there.contains(change.key()))
        .map(|change| {
            let (path, last) = (change.key(), change.last());
            let (read, write) = io.get(&**path).copied().unwrap_or_default();
            let cells = vec![
                Value::Words(group_name(path)),
                Value::share(ratio(change.rate(|g| g.psi_cpu_some))),
                Value::share(ratio(change.rate(|g| g.psi_memory_some))),
                Value::share(ratio(change.rate(|g| g.psi_io_some))),
                Value::share(throttled(change)),
                Value::share(group::CPU.over(change)),
                Value::number(last.memory.get(), "bytes"),
                Value::number(last.memory_max.get(), "bytes"),
                Value::number(read, "bytes/s"),
                Value::number(write, "bytes/s"),
                context.course(&CourseOf::Group(path.to_string()), 0.1),
            ];
            Row::new(EntityId::Group(path.clone()), cells)
        })
        .collect()
}
