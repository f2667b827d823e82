//! Memory: usage, and paging activity.

use super::{Context, NamedMetric, over};
use crate::entity::EntityId;
use crate::table::{Column, Row, Value};
use whyslow_model::catalogue::{Meminfo, Vmstat};
use whyslow_model::value::{Counter, Gauge};
use whyslow_model::window::Window;

pub(super) const COLUMNS: [Column; 4] = [
    Column::words("MEMORY", 34, 0),
    Column::number("NOW", 10, 1),
    Column::number("OF ALL", 7, 2),
    Column::words("", 1, 9).growing(),
];

/// Uses of memory, named as in the catalogue, but shorter.
const USES: [NamedMetric<Meminfo, Gauge>; 14] = [
    ("usable memory", |m| m.mem_total),
    ("available without swapping", |m| m.mem_available),
    ("free memory", |m| m.mem_free),
    ("anonymous memory mapped", |m| m.anon_pages),
    ("page cache", |m| m.cached),
    ("block-device cache", |m| m.buffers),
    ("shared memory and tmpfs", |m| m.shmem),
    ("kernel object caches", |m| m.slab),
    ("of these, cannot be reclaimed", |m| m.s_unreclaim),
    ("page tables", |m| m.page_tables),
    ("page cache waiting to be written", |m| m.dirty),
    ("page cache being written", |m| m.writeback),
    ("swap space", |m| m.swap_total),
    ("swap space unused", |m| m.swap_free),
];

/// Paging activity, in events per second.
const MOVES: [NamedMetric<Vmstat, Counter>; 9] = [
    ("page faults", |v| v.pgfault),
    ("page faults that needed I/O", |v| v.pgmajfault),
    ("pages swapped in", |v| v.pswpin),
    ("pages swapped out", |v| v.pswpout),
    ("file pages refaulted after eviction", |v| v.workingset_refault_file),
    ("anonymous pages refaulted", |v| v.workingset_refault_anon),
    ("pages reclaimed in the background", |v| v.pgsteal_kswapd),
    ("pages reclaimed by direct reclaim", |v| v.pgsteal_direct),
    ("times a task entered direct reclaim", |v| v.allocstall),
];

/// Returns usable and available memory, in bytes.
pub(crate) fn uses(window: &Window) -> Option<(f64, f64)> {
    let memory = window.the::<Meminfo>()?;
    Some((memory.mem_total.get()?, memory.mem_available.get()?))
}

pub(super) fn rows(context: &Context<'_>) -> Vec<Row> {
    let memory = context.rates.the::<Meminfo>();
    let total = memory.and_then(|m| m.mem_total.get());
    let uses = USES.iter().filter_map(|(name, f)| {
        let bytes = f(memory?).get()?;
        let share = if name.starts_with("swap") { None } else { over(Some(bytes), total) };
        Some((*name, Value::Number(bytes, "bytes"), Value::share(share)))
    });
    let moved = context.rates.change::<Vmstat>();
    let moves = MOVES.iter().filter_map(|(name, f)| {
        Some((*name, Value::number(moved.as_ref()?.rate(f), "1/s"), Value::Words(String::new())))
    });
    let row = |(name, now, share): (&'static str, Value, Value)| {
        let cells = vec![Value::Words(name.to_owned()), now, share, Value::Words(String::new())];
        Row::new(EntityId::Memory(name), cells)
    };
    uses.chain(moves).map(row).collect()
}
