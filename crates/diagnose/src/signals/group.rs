//! Control groups.

use crate::signal::{Entity, over, ratio, signals, sum};
use whyslow_model::catalogue::Group;
use whyslow_model::diagnosis::Subject;
use whyslow_model::value::Counter;
use whyslow_model::window::{Change, Window};

/// A control group over the window.
pub struct GroupUse<'w> {
    change: Change<'w, Group>,
    page_size: f64,
}

impl<'w> std::ops::Deref for GroupUse<'w> {
    type Target = Change<'w, Group>;
    fn deref(&self) -> &Self::Target {
        &self.change
    }
}

fn stalled(g: &Change<'_, Group>, f: impl Fn(&Group) -> Counter) -> Option<f64> {
    ratio(g.rate(f)).map(|s| s.min(1.0))
}

fn pages(g: &GroupUse<'_>, f: impl Fn(&Group) -> Counter) -> Option<f64> {
    g.rate(f).map(|p| p * g.page_size)
}

/// Mean fill over the samples: a group that reclaims stands at its limit throughout.
fn fill(g: &Change<'_, Group>) -> Option<f64> {
    let fills: Vec<f64> = g.rows().filter_map(|r| over(r.memory.get(), r.memory_max.get())).collect();
    over(Some(fills.iter().sum()), Some(fills.len() as f64))
}

signals! { g: &GroupUse<'_>;
    "group.cpu" "count" "processors' worth of time it used", "Δusage / Δt", "cpu.stat, cpuacct.usage" => ratio(g.rate(|g| g.cpu_usage));
    "group.cpu_quota" "count" "processors' worth of time it may use", "quota / period", "cpu.max, cpu.cfs_quota_us" => over(g.last().quota.get(), g.last().period.get());
    "group.throttled_periods" "ratio" "share of the quota's periods in which it ran out", "Δnr_throttled / Δnr_periods", "cpu.stat (sched-bwc.rst)" => over(g.rate(|g| g.throttled_periods), g.rate(|g| g.periods));
    "group.throttled" "ratio" "share of the time its processors were stopped by the quota, at most 1", "Δthrottled time / Δt", "cpu.stat (sched-bwc.rst)" => stalled(g, |g| g.throttled_time);
    "group.memory" "bytes" "memory charged", "memory.current, memory.usage_in_bytes", "cgroup-v2.rst" => g.mean(|g| g.memory);
    "group.memory_limit" "bytes" "its limit", "memory.max, memory.limit_in_bytes", "cgroup-v2.rst" => g.last().memory_max.get();
    "group.memory_fill" "ratio" "memory charged against the limit, mean of the samples", "mean(usage / limit)", "cgroup-v2.rst" => fill(g);
    "group.anon_share" "ratio" "share of its memory that is anonymous", "anon / usage", "memory.stat" => over(g.mean(|g| g.anon), g.mean(|g| g.memory));
    "group.file_share" "ratio" "share of its memory that is page cache", "file / usage", "memory.stat" => over(g.mean(|g| g.file), g.mean(|g| g.memory));
    "group.swap" "bytes" "swap charged", "memory.swap.current", "cgroup-v2.rst" => g.last().swap.get();
    "group.limit_hits" "1/s" "times its usage hit the limit and it had to reclaim", "Δmax events (v1 failcnt) / Δt", "memory.events, memory.failcnt" => sum([g.rate(|g| g.limit_events), g.rate(|g| g.high_events)]);
    "group.oom_kills" "count" "its processes killed for memory in the window", "Δoom_kill", "memory.events, memory.oom_control" => g.grown(|g| g.oom_kills);
    "group.refault_file_rate" "bytes/s" "file pages it read again soon after eviction", "Δworkingset_refault_file x page size / Δt", "memory.stat (mm/workingset.c)" => pages(g, |g| g.refault_file);
    "group.refault_anon_rate" "bytes/s" "anonymous pages it had swapped in again soon after eviction", "Δworkingset_refault_anon x page size / Δt", "memory.stat" => pages(g, |g| g.refault_anon);
    "group.swap_in_rate" "bytes/s" "memory swapped in", "Δpswpin x page size / Δt", "memory.stat" => pages(g, |g| g.swap_in);
    "group.major_faults" "1/s" "page faults that needed I/O", "Δpgmajfault / Δt", "memory.stat" => g.rate(|g| g.major_faults);
    "group.stall_cpu" "ratio" "share of time in which one of its tasks waited for a processor", "Δcpu some total / Δt", "cpu.pressure" => stalled(g, |g| g.psi_cpu_some);
    "group.stall_memory" "ratio" "share of time in which one of its tasks waited for memory", "Δmemory some total / Δt", "memory.pressure" => stalled(g, |g| g.psi_memory_some);
    "group.stall_io" "ratio" "share of time in which one of its tasks waited for I/O", "Δio some total / Δt", "io.pressure" => stalled(g, |g| g.psi_io_some);
    "group.version" "text" "version of its controllers", "v1, v2 or v1+v2", "/proc/self/mountinfo" => g.last().version.get();
    "group.pids" "count" "processes and threads", "pids.current", "cgroup-v2.rst" => g.last().pids.get();
    "group.pids_limit" "count" "processes and threads it may have", "pids.max", "cgroup-v2.rst" => g.last().pids_max.get();
    "group.pids_refused" "count" "forks refused by the limit in the window", "Δmax events", "pids.events" => g.grown(|g| g.pids_events);
}

/// Every control group but the root, which has no limits and whose numbers are the host's.
pub fn entities(window: &Window) -> Vec<Entity> {
    let page_size = super::page_size(window);
    window
        .changes::<Group>()
        .into_iter()
        .filter(|g| &**g.key() != "/")
        .map(|change| {
            let name = change.key().to_string();
            let values = read(&GroupUse { change, page_size });
            Entity::new(Subject::new("cgroup", name.clone()), values).within(Some(name))
        })
        .collect()
}
