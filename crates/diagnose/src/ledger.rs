//! Who holds how much of a whole, and what nothing accounts for: the machine's memory, the memory of control groups that are
//! short of it, the CPUs' time. The wholes are declared in `whyslow_quantities::whole`.

use crate::signals::huge_pages;
use whyslow_documents::diagnosis::{Holding, Ledger, MemoryHolding, MemoryLedger, Subject};
use whyslow_model::catalogue::{Cpu, CpuMean, Family, Group, Meminfo};
use whyslow_model::value::{Counter, Value};
use whyslow_model::window::Window;
use whyslow_quantities::column;
use whyslow_quantities::whole::{CPU_TIME, GROUP_MEMORY, MEMORY, Whole};

/// Share of a whole below which what is not accounted for is left out: the numbers are not read at one instant.
const NEGLIGIBLE: f64 = 0.005;
/// Share of its limit from which a control group is short of memory.
const SHORT: f64 = 0.9;
/// Maximum number of control groups with a ledger.
const MOST_GROUPS: usize = 3;

/// Returns the ledger of the machine's memory in the newest sample; `None` if the main parts are unknown.
pub(crate) fn memory(window: &Window) -> Option<MemoryLedger> {
    let row = window.the::<Meminfo>()?;
    let hugetlb = column(MEMORY.family, "hugetlb");
    let value = |at: usize| match level(row, at) {
        // Kernels before 4.19 print only the number of huge pages of the usual size.
        None if at == hugetlb => huge_pages::reserved(window),
        known => known,
    };
    let ledger = of_whole(&MEMORY, Subject::host(), value)?;
    let holding =
        |one: Holding| MemoryHolding { holder: one.holder, bytes: one.amount, share: one.share, how: one.how };
    Some(MemoryLedger { total: ledger.total, holders: ledger.holders.into_iter().map(holding).collect() })
}

/// Returns the ledgers of the other wholes: the CPUs' time in the window, and the memory of the control groups that are short of
/// it.
pub(crate) fn others(window: &Window) -> Vec<Ledger> {
    let (cpus, mean) = (window.changes::<Cpu>(), window.change::<CpuMean>());
    let grown = |at: usize| {
        let column = column(&Cpu::INFO, CPU_TIME.family.metrics[at].name);
        let of_each = cpus.iter().filter_map(|change| change.grown(|row| counter(row, column)));
        let of_all = || mean.as_ref()?.grown(|row| counter(row, at));
        of_each.reduce(|a, b| a + b).or_else(of_all).map(|ns| ns / 1e9)
    };
    let time = of_whole(&CPU_TIME, Subject::host(), grown);
    let fill = |group: &Group| {
        let limit = [group.memory_max.get(), group.memory_high.get()].into_iter().flatten().reduce(f64::min);
        limit.filter(|limit| *limit > 0.0).zip(group.memory.get()).map(|(limit, used)| used / limit)
    };
    let mut short: Vec<(f64, &Group)> =
        window.newest::<Group>().into_values().filter_map(|row| Some((fill(row)?, row))).collect();
    short.retain(|(fill, _)| *fill >= SHORT);
    short.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let groups = short.into_iter().take(MOST_GROUPS).filter_map(|(_, row)| {
        of_whole(&GROUP_MEMORY, Subject::new("cgroup", row.path.to_string()), |at| level(row, at))
    });
    time.into_iter().chain(groups).collect()
}

/// Returns the ledger of a whole. `value` returns the value of a column.
fn of_whole(whole: &Whole, subject: Subject, value: impl Fn(usize) -> Option<f64>) -> Option<Ledger> {
    let (total, parts) = whole.divide(value)?;
    let holding = |holder: &str, amount: f64, how: String| Holding {
        holder: holder.to_owned(),
        amount,
        share: amount / total,
        how,
    };
    let rest = total - parts.iter().map(|(_, amount)| amount).sum::<f64>();
    let parts = parts.into_iter().map(|(part, amount)| holding(part.holder, amount, part.formula(whole.family)));
    let mut holders: Vec<Holding> = parts.collect();
    if rest > NEGLIGIBLE * total {
        let of = whole.total.map_or_else(|| whole.name.to_owned(), |column| whole.printed(column));
        holders.push(holding(whole.rest, rest, format!("{of} - all of these")));
    }
    holders.retain(|holding| holding.amount > 0.0);
    holders.sort_by(|a, b| b.amount.total_cmp(&a.amount));
    Some(Ledger { whole: whole.name.to_owned(), subject, unit: whole.unit.to_owned(), total, holders })
}

fn level<F: Family>(row: &F, column: usize) -> Option<f64> {
    match row.value(column)? {
        Value::Gauge(gauge) => gauge.get(),
        _ => None,
    }
}

fn counter<F: Family>(row: &F, column: usize) -> Counter {
    match row.value(column) {
        Some(Value::Counter(counter)) => counter,
        _ => Counter::default(),
    }
}

/// Returns the largest of the holders that are seldom large, and have no cause of their own.
pub(crate) fn largest_seldom_large(ledger: &MemoryLedger) -> Option<&MemoryHolding> {
    let is_one = |name: &str| MEMORY.parts.iter().any(|part| part.is_seldom_large && part.holder == name);
    ledger.holders.iter().find(|holding| is_one(&holding.holder))
}

/// Returns the memory that no line of /proc/meminfo accounts for.
pub(crate) fn unaccounted(ledger: &MemoryLedger) -> f64 {
    let rest = ledger.holders.iter().find(|holding| holding.holder == MEMORY.rest);
    rest.map_or(0.0, |holding| holding.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window;

    const GIB: f64 = 1_073_741_824.0;

    #[test]
    fn the_parts_and_what_nothing_accounts_for_are_the_whole() {
        let window = window([0], |_, s| {
            s.memory.meminfo.push(Meminfo {
                mem_total: (32.0 * GIB).into(),
                mem_free: GIB.into(),
                anon_pages: (8.0 * GIB).into(),
                cached: (3.0 * GIB).into(),
                shmem: GIB.into(),
                percpu: (12.0 * GIB).into(),
                kernel_stack: GIB.into(),
                vmalloc_used: GIB.into(),
                ..Meminfo::new(whyslow_model::key::MachineKey)
            });
        });
        let ledger = memory(&window).unwrap();
        let named = |name: &str| ledger.holders.iter().find(|holding| holding.holder == name).map(|h| h.bytes / GIB);
        assert_eq!((named("page cache of files"), named(MEMORY.rest), named("vmalloc")), (Some(2.0), Some(7.0), None));
        assert_eq!(ledger.holders.iter().map(|holding| holding.bytes).sum::<f64>(), ledger.total);
        assert_eq!(unaccounted(&ledger) / GIB, 7.0);
        assert_eq!(ledger.holders[0].holder, "per-CPU data of the kernel");
        assert_eq!(largest_seldom_large(&ledger).map(|holding| holding.share), Some(0.375));
    }
}
