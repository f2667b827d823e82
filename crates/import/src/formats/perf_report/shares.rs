//! Attributes the samples of a program to the kernel, spinning for its locks, reclaim and compaction.

use super::SampleRow;
use super::call_graph::{CallGraph, is_relative};
use std::collections::BTreeMap;

/// Returns true for functions that spin for a lock: kernel/locking. Unlocking is not waiting: in guests, it shows interrupts
/// that were disabled.
fn is_spin(symbol: &str) -> bool {
    const SPINS: [&str; 10] = [
        "osq_lock",
        "mutex_spin_on_owner",
        "mutex_optimistic_spin",
        "rwsem_spin_on_owner",
        "rwsem_optimistic_spin",
        "queued_read_lock_slowpath",
        "queued_write_lock_slowpath",
        "do_raw_spin_lock",
        "_spin_lock",
        "_spin_lock_irqsave",
    ];
    let name = function(symbol);
    SPINS.contains(&name)
        || name.ends_with("queued_spin_lock_slowpath")
        || name.ends_with("ticket_spin_lock")
        || ["_raw_spin_lock", "__raw_spin_lock", "_raw_read_lock", "_raw_write_lock"]
            .iter()
            .any(|b| name.starts_with(b))
}

/// Returns true for functions of memory reclaim: mm/vmscan.c.
fn is_reclaim(symbol: &str) -> bool {
    const ROOTS: [&str; 8] = [
        "try_to_free_pages",
        "do_try_to_free_pages",
        "try_to_free_mem_cgroup_pages",
        "__alloc_pages_direct_reclaim",
        "balance_pgdat",
        "kswapd",
        "do_shrink_slab",
        "evict_folios",
    ];
    const SHRINKERS: [&str; 9] =
        ["node", "zone", "zones", "lruvec", "inactive_list", "active_list", "page_list", "folio_list", "slab"];
    let name = function(symbol);
    ROOTS.contains(&name) || name.strip_prefix("shrink_").is_some_and(|what| SHRINKERS.contains(&what))
}

/// Returns true for reclaim because a control group is at its limit.
fn is_group_reclaim(symbol: &str) -> bool {
    ["try_to_free_mem_cgroup_pages", "mem_cgroup_reclaim", "reclaim_high"].contains(&function(symbol))
}

/// Returns true for reclaim because the machine is short of memory.
fn is_machine_reclaim(symbol: &str) -> bool {
    ["try_to_free_pages", "__alloc_pages_direct_reclaim", "balance_pgdat"].contains(&function(symbol))
}

/// Returns true for functions of memory compaction: mm/compaction.c.
fn is_compaction(symbol: &str) -> bool {
    const FUNCTIONS: [&str; 8] = [
        "compact_zone",
        "compact_zone_order",
        "compact_node",
        "try_to_compact_pages",
        "__alloc_pages_direct_compact",
        "isolate_migratepages_block",
        "isolate_freepages_block",
        "kcompactd",
    ];
    FUNCTIONS.contains(&function(symbol))
}

/// Returns true for clock sources that take about a microsecond per reading.
fn is_slow_clock(symbol: &str) -> bool {
    // A Xen guest reads its clock in the kernel.
    const READERS: [&str; 6] = [
        "read_hpet",
        "acpi_pm_read",
        "acpi_pm_read_slow",
        "acpi_pm_read_verified",
        "xen_clocksource_get_cycles",
        "xen_clocksource_read",
    ];
    READERS.contains(&function(symbol))
}

/// Returns true for functions that read the clock in user space. If the clock source is a slow one that is mapped there (HPET,
/// before Linux 4.7), these functions read it too. With a fast clock source, or one that is not mapped, nothing else appears in
/// the kernel.
fn is_clock_of_vdso(symbol: &str) -> bool {
    ["__vdso_gettimeofday", "__vdso_clock_gettime"].contains(&function(symbol))
}

/// Returns the function's name without compiler suffixes: `shrink_lruvec.isra.0`, `xas_load+0x12`.
fn function(symbol: &str) -> &str {
    symbol.split(['.', '+', ' ']).next().unwrap_or(symbol)
}

/// Samples of one program, as shares of all samples.
pub struct ProgramShares<'r> {
    /// Name of the program; `None` for all programs together.
    pub name: Option<&'r str>,
    pub line: u32,
    pub share: f64,
    pub kernel: Option<f64>,
    /// Share of the idle task, if programs are not separated; the other shares exclude it.
    pub idle: f64,
    pub spinning: Option<f64>,
    pub spinning_in: Option<String>,
    pub reclaim: Option<f64>,
    pub reclaim_for: Option<&'static str>,
    pub compaction: Option<f64>,
    pub slow_clock: Option<f64>,
    /// Kernel function with the most samples of its own.
    pub function: Option<(String, f64)>,
}

/// The idle task, whose time belongs to no program.
const IDLE_TASK: &str = "swapper";

/// Returns true for functions of the idle task, if programs are not separated: kernel/sched/idle.c, drivers/idle.
fn is_idle(symbol: &str) -> bool {
    const FUNCTIONS: [&str; 14] = [
        "do_idle",
        "cpu_idle_loop",
        "call_cpuidle",
        "cpuidle_idle_call",
        "cpuidle_enter",
        "cpuidle_enter_state",
        "cpu_startup_entry",
        "start_secondary",
        "secondary_startup_64",
        "secondary_startup_64_no_verify",
        "common_startup_64",
        "rest_init",
        "start_kernel",
        "acpi_processor_ffh_cstate_enter",
    ];
    let name = function(symbol);
    FUNCTIONS.contains(&name)
        || name.ends_with("safe_halt")
        || ["intel_idle", "acpi_idle", "poll_idle", "default_idle", "mwait_idle", "arch_cpu_idle", "haltpoll_idle"]
            .iter()
            .any(|begin| name.trim_start_matches('_').starts_with(begin))
}

impl<'r> ProgramShares<'r> {
    /// Returns every program of a profile, or all programs together if the profile does not separate them.
    pub fn from_rows(rows: &'r [SampleRow]) -> Vec<Self> {
        let relative = is_relative(rows);
        let mut programs: BTreeMap<Option<&str>, Vec<&SampleRow>> = BTreeMap::new();
        for row in rows {
            programs.entry(row.command.as_deref()).or_default().push(row);
        }
        programs.remove(&Some(IDLE_TASK));
        let is_of_idle = |row: &SampleRow| row.command.is_none() && row.symbol.as_deref().is_some_and(is_idle);
        let idle = rows.iter().filter(|row| is_of_idle(row)).map(|row| row.own).sum();
        if let Some(rows) = programs.get_mut(&None) {
            rows.retain(|row| !is_of_idle(row));
        }
        programs.retain(|_, rows| !rows.is_empty());
        programs.into_iter().map(|(name, rows)| Self { idle, ..Self::of_program(name, &rows, relative) }).collect()
    }

    fn of_program(name: Option<&'r str>, rows: &[&SampleRow], relative: bool) -> Self {
        let graphs: Vec<CallGraph<'_>> = rows.iter().map(|row| CallGraph::from_row(row, relative)).collect();
        let has_symbols = rows.iter().any(|row| row.symbol.is_some());
        let has_objects = has_symbols || rows.iter().any(|row| row.kernel);
        let own = |is_counted: &dyn Fn(&SampleRow) -> bool| -> f64 {
            rows.iter().filter(|row| is_counted(row)).map(|row| row.own).sum()
        };
        // The children of a function contain everything that it called, whether listed or not.
        let whole = |is_counted: &dyn Fn(&SampleRow) -> bool| -> f64 {
            let children = rows.iter().filter(|row| is_counted(row)).filter_map(|row| row.with_children);
            children.fold(own(is_counted), f64::max)
        };
        let below = |is_wanted: &dyn Fn(&str) -> bool| -> f64 {
            let is_row = |row: &SampleRow| row.kernel && row.symbol.as_deref().is_some_and(is_wanted);
            let listed = whole(&is_row);
            let in_graphs = rows
                .iter()
                .zip(&graphs)
                .filter(|(row, _)| !is_row(row))
                .map(|(row, graph)| graph.share_of(is_wanted).min(row.with_children.unwrap_or(row.own)));
            match rows.iter().any(|row| row.with_children.is_some()) {
                true => in_graphs.fold(listed, f64::max),
                false => listed + in_graphs.sum::<f64>(),
            }
        };
        // The sum of an empty iterator is -0.0.
        let known = |share: f64| has_symbols.then_some(share + 0.0);
        let listed_spins = own(&|row| row.kernel && row.symbol.as_deref().is_some_and(is_spin));
        let are_graphs_whole = !rows.iter().any(|row| row.is_graph_lost);
        let in_callers = |share: f64| known(share).filter(|_| are_graphs_whole);
        let reclaim = below(&is_reclaim);
        let (group, machine) = (below(&is_group_reclaim), below(&is_machine_reclaim));
        Self {
            name,
            line: rows.first().map_or(0, |row| row.line),
            share: whole(&|_| true),
            kernel: has_objects.then(|| whole(&|row| row.kernel)),
            idle: 0.0,
            // If the list ends above the functions that spin, the call graph still shows them.
            spinning: if listed_spins > 0.0 { known(listed_spins) } else { in_callers(below(&is_spin)) },
            spinning_in: lock_taker(&graphs).filter(|_| are_graphs_whole),
            reclaim: in_callers(reclaim),
            reclaim_for: match (group > 0.5 * reclaim, machine > 0.5 * reclaim) {
                _ if reclaim == 0.0 || !are_graphs_whole => None,
                (true, _) => Some("its control group, which is at its memory limit"),
                (_, true) => Some("the whole machine"),
                _ => None,
            },
            compaction: in_callers(below(&is_compaction)),
            slow_clock: known(slow_clock(rows)),
            function: hottest(rows),
        }
    }
}

/// Returns the share of reading a slow clock source.
fn slow_clock(rows: &[&SampleRow]) -> f64 {
    /// Minimum share in the kernel; less may come from other users of the timer.
    const LEAST: f64 = 0.01;
    let share_of = |is_wanted: fn(&str) -> bool| -> f64 {
        rows.iter().filter(|row| row.symbol.as_deref().is_some_and(is_wanted)).map(|row| row.own).sum()
    };
    let in_kernel = share_of(is_slow_clock);
    if in_kernel < LEAST { in_kernel } else { in_kernel + share_of(is_clock_of_vdso) }
}

/// Returns the function that takes the lock with the most spinning.
fn lock_taker(graphs: &[CallGraph<'_>]) -> Option<String> {
    let mut best: Option<(&str, f64)> = None;
    for (caller, share) in graphs.iter().flat_map(|graph| graph.callers_of(is_spin)) {
        if best.is_none_or(|(_, most)| share > most) {
            best = Some((caller, share));
        }
    }
    best.map(|(caller, _)| caller.to_owned())
}

fn hottest(rows: &[&SampleRow]) -> Option<(String, f64)> {
    let in_kernel = rows.iter().filter(|row| row.kernel && row.own > 0.0);
    let most = in_kernel.max_by(|a, b| a.own.total_cmp(&b.own))?;
    Some((most.symbol.clone()?, most.own))
}
