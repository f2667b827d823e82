//! Control groups.

use super::blocked::Blocked;
use super::shortage::{Room, Rooms};
use super::task::TaskUse;
use crate::cgroup::in_group;
use crate::signal::{Entity, mean, over, page_size, ratio, signals, sum};
use std::collections::BTreeMap;
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::{DirectReclaim, Group, Process, Sleep};
use whyslow_model::histogram::Histogram;
use whyslow_model::value::{Counter, Gauge, State};
use whyslow_model::window::{Change, Window};
use whyslow_quantities::group;

/// A control group over the window.
pub struct GroupUse<'w> {
    change: Change<'w, Group>,
    page_size: f64,
    room: Option<&'w Room>,
    blocked: Option<f64>,
    page_wait: Option<f64>,
    /// Bytes read from storage for its processes.
    read: Option<f64>,
    /// The machine's memory pressure.
    machine_stall: Option<f64>,
    /// Page tables of its processes, bytes.
    page_tables: Option<f64>,
    /// CPUs that its processes used, where the group's CPU time is not counted.
    members_cpu: Option<f64>,
    /// Mean number of its threads that reclaimed memory at the limit of a group, if that was traced.
    reclaimers: Option<f64>,
    /// Times of its processes on run queues, nanoseconds, if they were traced.
    latency: Option<Histogram>,
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

/// Returns the share of the window in which a task waited; for a single snapshot, of the minute before it.
pub(super) fn stalled_lately(
    g: &Change<'_, Group>,
    total: impl Fn(&Group) -> Counter,
    average: impl Fn(&Group) -> Gauge,
) -> Option<f64> {
    stalled(g, total).or_else(|| g.latest(average))
}

fn pages(g: &GroupUse<'_>, f: impl Fn(&Group) -> Counter) -> Option<f64> {
    g.rate(f).map(|p| p * g.page_size)
}

/// Returns the mean fill over the samples: a group that reclaims stays at its limit throughout.
fn fill(g: &Change<'_, Group>, limit: impl Fn(&Group) -> Gauge) -> Option<f64> {
    mean(g.rows().filter_map(|r| over(r.memory.get(), limit(r).get())))
}

/// Returns the control groups of each process whose waits for a CPU were traced, and the wait times.
fn latencies(window: &Window) -> Vec<(Option<&str>, Histogram)> {
    let waits = window.changes::<Sleep>();
    let processes = if waits.is_empty() { Default::default() } else { window.newest::<Process>() };
    let of = |wait: &Change<'_, Sleep>| {
        let process = processes.get(wait.key())?;
        Some((process.cgroup.get(), wait.histogram(|s| &s.run_queue_latency)?))
    };
    waits.iter().filter_map(of).collect()
}

fn latency_in(group: &str, latencies: &[(Option<&str>, Histogram)]) -> Option<Histogram> {
    let within = latencies.iter().filter(|(cgroups, _)| in_group(*cgroups, group));
    within.map(|(_, latency)| latency.clone()).reduce(|a, b| a.merged(&b))
}

/// Returns the mean number of threads that were traced reclaiming memory at the limit of a control group, by the groups of their
/// processes.
fn reclaimers(window: &Window) -> BTreeMap<&str, f64> {
    let traced = window.changes::<DirectReclaim>();
    let processes = if traced.is_empty() { Default::default() } else { window.newest::<Process>() };
    let of = |change: &Change<'_, DirectReclaim>| {
        Some((&processes.get(change.key())?.cgroup, ratio(change.rate(|r| r.group_reclaim))))
    };
    by_cgroup(traced.iter().filter_map(of))
}

/// Returns the page tables of the newest sample's processes by their control groups.
fn page_tables(window: &Window) -> BTreeMap<&str, f64> {
    let newest = window.snapshots().iter().rev().find(|snapshot| !snapshot.task.process.is_empty());
    by_cgroup(newest.iter().flat_map(|snapshot| &snapshot.task.process).map(|p| (&p.cgroup, p.page_tables.get())))
}

/// Returns the bytes read from storage for processes by their control groups.
fn reads(window: &Window) -> BTreeMap<&str, f64> {
    by_cgroup(window.changes::<Process>().iter().map(|p| (&p.last().cgroup, p.grown(|p| p.read_bytes))))
}

fn by_cgroup<'w>(amounts: impl Iterator<Item = (&'w State, Option<f64>)>) -> BTreeMap<&'w str, f64> {
    let mut sums = BTreeMap::new();
    for (cgroups, amount) in amounts {
        if let Some((cgroups, amount)) = cgroups.get().zip(amount) {
            *sums.entry(cgroups).or_default() += amount;
        }
    }
    sums
}

fn sum_within(group: &str, sums: &BTreeMap<&str, f64>) -> Option<f64> {
    let within = sums.iter().filter(|(cgroups, _)| in_group(Some(cgroups), group));
    within.map(|(_, amount)| *amount).reduce(|a, b| a + b)
}

/// Returns the CPUs used by the processes of a group that can have a quota, but whose CPU time is not counted: in version 1,
/// `cpu` and `cpuacct` can be separate hierarchies.
fn cpu_of_members(change: &Change<'_, Group>, tasks: &[TaskUse]) -> Option<f64> {
    if group::CPU.over(change).is_some() || change.last().periods.get().is_none() {
        return None;
    }
    let members = tasks.iter().filter(|task| in_group(task.cgroup.as_deref(), change.key()));
    over(members.filter_map(|task| task.cpu_seconds).reduce(|a, b| a + b), Some(change.window_seconds()))
}

impl GroupUse<'_> {
    fn stall_memory(&self) -> Option<f64> {
        stalled_lately(self, |g| g.psi_memory_some, |g| g.psi_memory_avg60)
    }

    fn stall_io(&self) -> Option<f64> {
        stalled_lately(self, |g| g.psi_io_some, |g| g.psi_io_avg60)
    }

    /// Returns the group's own pressure, of memory or of I/O. Version 1 has none: there the states of its threads decide.
    fn waited(&self) -> Option<f64> {
        let pressure = [self.stall_memory(), self.stall_io()];
        pressure.into_iter().flatten().reduce(f64::max).or(self.blocked).or_else(|| self.memory_wait())
    }

    /// Returns its waiting for pages that had been in memory before (refaults).
    fn refault_wait(&self) -> Option<f64> {
        let again = sum([self.grown(|g| g.refault_file), self.grown(|g| g.refault_anon)])? * self.page_size;
        Some(self.page_wait? * over(Some(again), self.read)?.min(1.0))
    }

    /// Returns the waiting for memory alone. Pressure leaves out pages that were evicted before they had been used twice
    /// (mm/workingset.c), however soon they are read again. On version 1, reclaim shows in the machine's pressure.
    fn memory_wait(&self) -> Option<f64> {
        let refault_wait = self.refault_wait();
        let version_1 = || [self.machine_stall, refault_wait.or(self.page_wait)].into_iter().flatten().reduce(f64::max);
        let pressure = self.stall_memory().or_else(version_1);
        [pressure, refault_wait].into_iter().flatten().reduce(f64::max)
    }

    fn latency(&self, quantile: f64) -> Option<f64> {
        ratio(self.latency.as_ref()?.quantile(quantile))
    }
}

signals! { g: GroupUse<'_>;
    "group.cpu" "count" "CPUs' worth of time it used", "Δusage / Δt; without it, ΣΔCPU time of its processes / Δt", "cpu.stat, cpuacct.usage, /proc/PID/stat", normal "below the quota" => group::CPU.over(&g.change).or(g.members_cpu);
    "group.cpu_quota" "count" "CPUs' worth of time it may use", "quota / period", "cpu.max, cpu.cfs_quota_us", normal "above what the group wants to use" => over(g.last().quota.get(), g.last().period.get());
    "group.throttled_periods" "ratio" "share of the quota's periods in which it ran out", "Δnr_throttled / Δnr_periods", "cpu.stat (sched-bwc.rst)" => over(g.rate(|g| g.throttled_periods), g.rate(|g| g.periods));
    "group.periods" "count" "periods of the quota in the window in which it ran", "Δnr_periods", "cpu.stat (sched-bwc.rst)" => g.grown(|g| g.periods);
    "group.throttled_cpus" "count" "CPUs' worth of time it was stopped by the quota: with that it used, the CPUs it would use", "Δthrottled time over its CPUs / Δt", "cpu.stat (sched-bwc.rst)" => ratio(g.rate(|g| g.throttled_time));
    "group.throttled" "ratio" "share of the time its CPUs were stopped by the quota, at most 1", "Δthrottled time / Δt", "cpu.stat (sched-bwc.rst)", normal (near 0.0) => stalled(g, |g| g.throttled_time);
    "group.run_queue_median" "s" "time from becoming runnable to running, as the median of its processes' waits", "50th percentile of the histograms together", "BPF: sched_waking, sched_switch" => g.latency(0.5);
    "group.run_queue_p99" "s" "the same of the unluckiest hundredth", "99th percentile of the histograms together", "BPF: sched_waking, sched_switch" => g.latency(0.99);
    "group.memory" "bytes" "memory charged", "memory.current, memory.usage_in_bytes", "cgroup-v2.rst" => g.mean(|g| g.memory);
    "group.memory_limit" "bytes" "its limit", "memory.max, memory.limit_in_bytes", "cgroup-v2.rst" => g.last().memory_max.get();
    "group.memory_fill" "ratio" "memory charged against the limit, mean of the samples", "mean(usage / limit)", "cgroup-v2.rst", normal (below 0.9 as "below 90 % of the limit") => fill(g, |g| g.memory_max);
    "group.memory_high" "bytes" "the level above which its tasks are held back while its memory is reclaimed", "memory.high", "cgroup-v2.rst", normal "no limit, or one above the need" => g.last().memory_high.get();
    "group.high_fill" "ratio" "memory charged against that level, mean of the samples", "mean(usage / high)", "cgroup-v2.rst", normal (below 0.9) => fill(g, |g| g.memory_high);
    "group.high_hits" "1/s" "times its tasks were held back for passing that level", "Δhigh events / Δt", "memory.events", normal (near 0.0) => g.rate(|g| g.high_events);
    "group.room" "bytes" "memory and swap that it may still use; its page cache is reclaimable", "limit - (usage - (file - shmem)) + swap it may use", "memory.stat, memory.max, memory.limit_in_bytes" => g.room.map(|r| r.left);
    "group.exhausted_in" "s" "time until none is left at this rate", "room / rate at which it shrinks over the latter half of the window", "memory.stat, memory.max, memory.limit_in_bytes" => g.room.and_then(Room::exhausted_in);
    "group.anon_share" "ratio" "share of its memory that is anonymous", "anon / usage", "memory.stat" => over(g.mean(|g| g.anon), g.mean(|g| g.memory));
    "group.file_share" "ratio" "share of its memory that is page cache", "file / usage", "memory.stat" => over(g.mean(|g| g.file), g.mean(|g| g.memory));
    "group.page_tables" "bytes" "page tables of its processes, which are charged to it", "ΣVmPTE", "/proc/PID/status, /proc/PID/cgroup", normal "below 1 % of the limit" => g.page_tables;
    "group.page_tables_share" "ratio" "share of its limit that they take", "ΣVmPTE / limit", "/proc/PID/status, memory.max, memory.limit_in_bytes", normal (below 0.01) => over(g.page_tables, g.last().memory_max.get());
    "group.swap" "bytes" "swap charged", "memory.swap.current", "cgroup-v2.rst" => g.last().swap.get();
    "group.limit_hits" "1/s" "times its usage hit the limit and it had to reclaim", "Δmax events (v1 failcnt) / Δt", "memory.events, memory.failcnt", normal (near 0.0) => sum([g.rate(|g| g.limit_events), g.rate(|g| g.high_events)]);
    "group.limit_reached" "count" "times its usage hit the hard limit in the window", "Δmax events (v1 failcnt)", "memory.events, memory.failcnt" => g.grown(|g| g.limit_events);
    "group.oom_kills" "count" "its processes killed for memory in the window", "Δoom_kill", "memory.events, memory.oom_control" => g.grown(|g| g.oom_kills);
    "group.refault_file_rate" "bytes/s" "file pages it read again soon after eviction", "Δworkingset_refault_file x page size / Δt", "memory.stat (mm/workingset.c)" => pages(g, |g| g.refault_file);
    "group.refault_anon_rate" "bytes/s" "anonymous pages it had swapped in again soon after eviction", "Δworkingset_refault_anon x page size / Δt", "memory.stat", normal (near 0.0, "pages refaulted soon after eviction") => pages(g, |g| g.refault_anon);
    "group.swap_in_rate" "bytes/s" "memory swapped in", "Δpswpin x page size / Δt", "memory.stat" => pages(g, |g| g.swap_in);
    "group.major_faults" "1/s" "page faults that needed I/O", "Δpgmajfault / Δt", "memory.stat" => g.rate(|g| g.major_faults);
    "group.stall_cpu" "ratio" "share of time in which one of its tasks waited for a CPU", "Δcpu some total / Δt; of a single copy, avg60", "cpu.pressure" => stalled_lately(g, |g| g.psi_cpu_some, |g| g.psi_cpu_avg60);
    "group.stall_memory" "ratio" "share of time in which one of its tasks waited for memory", "Δmemory some total / Δt; of a single copy, avg60", "memory.pressure", normal (below 0.01) => g.stall_memory();
    "group.stall_io" "ratio" "share of time in which one of its tasks waited for I/O", "Δio some total / Δt; of a single copy, avg60", "io.pressure" => g.stall_io();
    "group.waited" "ratio" "share of time in which one of its tasks waited for memory or storage", "max of Δmemory some total and Δio some total / Δt; without them, the share of the samples in which a thread of it was blocked", "memory.pressure, io.pressure, /proc/PID/stat", normal (below 0.05) => g.waited();
    "group.memory_wait" "ratio" "share of time in which one of its tasks waited for memory", "the larger of Δmemory some total / Δt, without it the machine's, and of group.refault_wait", "memory.pressure, /proc/pressure/memory, /proc/PID/task/TID/wchan", normal (below 0.01) => g.memory_wait();
    "group.reclaimers" "count" "mean number of its threads that reclaimed memory at its limit or another one's before they got some", "Δtime reclaiming / Δt", "BPF: mm_vmscan_memcg_reclaim_begin", normal (near 0.0, "its programs do not have to reclaim memory") => g.reclaimers;
    "group.page_wait" "ratio" "share of the time in which a thread of it waited for pages to be read", "samples in state D in mm/filemap.c / samples, by the time it neither ran nor waited for a CPU", "/proc/PID/task/TID/wchan" => g.page_wait;
    "group.refault_wait" "ratio" "share of the time in which a thread of it waited for pages to be read that had been evicted before", "group.page_wait x Δworkingset_refault x page size / Δread_bytes of its processes, at most group.page_wait", "/proc/PID/task/TID/wchan, memory.stat, /proc/PID/io" => g.refault_wait();
    "group.version" "text" "version of its controllers", "v1, v2 or v1+v2", "/proc/self/mountinfo" => g.last().version.get();
    "group.pids" "count" "processes and threads", "pids.current", "cgroup-v2.rst", normal "well below the limit" => g.last().pids.get();
    "group.pids_limit" "count" "processes and threads it may have", "pids.max", "cgroup-v2.rst", normal "above the need" => g.last().pids_max.get();
    "group.pids_refused" "count" "forks refused by the limit in the window", "Δmax events", "pids.events", normal (near 0.0) => g.grown(|g| g.pids_events);
}

/// Returns every control group but the root, which has no limits and whose numbers are the host's.
pub fn entities(
    window: &Window,
    tasks: &[TaskUse],
    rooms: &Rooms,
    members: &BlockedMembers<'_>,
    machine_stall: Option<f64>,
) -> Vec<Entity> {
    let page_size = page_size(window);
    let latencies = latencies(window);
    let (page_tables, reads) = (page_tables(window), reads(window));
    let reclaimers = reclaimers(window);
    window
        .changes::<Group>()
        .into_iter()
        .filter(|g| &**g.key() != "/")
        .map(|change| {
            let name = change.key().to_string();
            let room = rooms.of_the_group(&name);
            let (blocked, latency) = (members.blocked_share(&name), latency_in(&name, &latencies));
            let (page_wait, page_tables) = (members.page_wait_share(&name), sum_within(&name, &page_tables));
            let (read, members_cpu) = (sum_within(&name, &reads), cpu_of_members(&change, tasks));
            let reclaimers = sum_within(&name, &reclaimers);
            let group = GroupUse {
                change,
                page_size,
                room,
                blocked,
                page_wait,
                read,
                machine_stall,
                page_tables,
                members_cpu,
                reclaimers,
                latency,
            };
            Entity::from_subject(Subject::new("cgroup", name.clone()), &group).within(Some(name))
        })
        .collect()
}

/// Blocked processes with their cgroups.
#[derive(Debug)]
pub struct BlockedMembers<'w> {
    blocked: Option<&'w Blocked>,
    processes: Vec<(u32, Option<&'w str>)>,
}

impl<'w> BlockedMembers<'w> {
    /// Selects those of `tasks` that were blocked, except kernel threads.
    pub fn new(tasks: &'w [TaskUse], blocked: Option<&'w Blocked>) -> Self {
        let was_blocked = |pid| blocked.is_some_and(|b| b.was_blocked(pid));
        let processes = tasks.iter().filter(|task| !task.kernel && was_blocked(task.key.pid));
        Self { blocked, processes: processes.map(|task| (task.key.pid, task.cgroup.as_deref())).collect() }
    }

    /// Returns the share of the time in which a thread within the group was blocked; `None` if threads were not sampled.
    pub fn blocked_share(&self, group: &str) -> Option<f64> {
        Some(self.blocked?.share(&self.within(group).collect()))
    }

    /// Returns the share of the time in which each thread within the group was blocked; `None` if threads were not sampled, or
    /// if one waited for asynchronous I/O.
    pub fn synchronous_waits(&self, group: &str) -> Option<Vec<f64>> {
        self.blocked?.synchronous_waits(&self.within(group).collect())
    }

    /// Returns the share of the time in which a process within the group waited for pages to be read; `None` if threads were not
    /// sampled.
    pub fn page_wait_share(&self, group: &str) -> Option<f64> {
        let blocked = self.blocked?;
        Some(blocked.share(&blocked.waiting_for_pages(self.within(group))))
    }

    fn within(&self, group: &str) -> impl Iterator<Item = u32> {
        self.processes.iter().filter(move |(_, cgroup)| in_group(*cgroup, group)).map(|(pid, _)| *pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Facts;
    use crate::scope::Scope;
    use crate::testing::{SECOND, window};
    use whyslow_documents::diagnosis::Reading;
    use whyslow_model::catalogue::ProcessRow;
    use whyslow_model::key::TaskKey;

    /// Returns two processes in a group and one outside that wait for a CPU for these times, a hundred times each per second.
    fn with_waits(waits: [u64; 3]) -> Window {
        window([1, 2], |t, s| {
            s.cgroup.group.push(Group::new("/apps".into()));
            for (pid, (cgroup, wait)) in (1..).zip(["/apps/web", "/apps", "/other"].into_iter().zip(waits)) {
                let key = TaskKey { pid, tid: pid, start: 1 };
                s.task.process.push(ProcessRow { cgroup: cgroup.into(), ..ProcessRow::new(key) }.into());
                let run_queue_latency = Histogram::from_values(vec![wait; 100 * t as usize]);
                s.task.sleep.push(Sleep { run_queue_latency, ..Sleep::new(key) });
            }
        })
    }

    fn reading(window: &Window, name: &str) -> Option<Reading> {
        entities(window, &[], &Rooms::from_window(window), &BlockedMembers::new(&[], None), None)[0]
            .reading(name)
            .cloned()
    }

    #[test]
    fn waits_for_a_processor_are_those_of_all_members_together() {
        let window = with_waits([10, 50, 1_000_000]);
        assert_eq!(reading(&window, "group.run_queue_median"), Some(Reading::Number(10e-9)));
        assert_eq!(reading(&window, "group.run_queue_p99"), Some(Reading::Number(50e-9)));
    }

    #[test]
    fn page_tables_are_those_of_the_processes_that_still_run() {
        let window = window([1, 2], |t, s| {
            s.cgroup.group.push(Group { memory_max: 1000.into(), ..Group::new("/apps".into()) });
            for (pid, cgroup) in [(1, "/apps"), (2, "/apps/web\n/"), (3, "/appsy"), (4, "/apps")] {
                if pid < 4 || t == 1 {
                    let key = TaskKey { pid, tid: pid, start: 1 };
                    let row = ProcessRow { cgroup: cgroup.into(), page_tables: 100.into(), ..ProcessRow::new(key) };
                    s.task.process.push(row.into());
                }
            }
        });
        assert_eq!(reading(&window, "group.page_tables"), Some(Reading::Number(200.0)));
        assert_eq!(reading(&window, "group.page_tables_share"), Some(Reading::Number(0.2)));
    }

    #[test]
    fn threads_that_reclaim_are_those_of_all_members_together() {
        let window = window([0, 2], |t, s| {
            s.cgroup.group.push(Group::new("/apps".into()));
            for (pid, (cgroup, percent)) in (1..).zip([("/apps/web", 25), ("/apps", 50), ("/other", 90)]) {
                let key = TaskKey { pid, tid: pid, start: 1 };
                s.task.process.push(ProcessRow { cgroup: cgroup.into(), ..ProcessRow::new(key) }.into());
                let group_reclaim = (t * percent * 10_000_000).into();
                s.task.direct_reclaim.push(DirectReclaim { group_reclaim, ..DirectReclaim::new(key) });
            }
        });
        assert_eq!(reading(&window, "group.reclaimers"), Some(Reading::Number(0.75)));
    }

    #[test]
    fn latency_that_was_not_traced_is_unknown() {
        let window = window([0, 1], |_, s| s.cgroup.group.push(Group::new("/apps".into())));
        assert_eq!(reading(&window, "group.run_queue_p99"), None);
    }

    #[test]
    fn waiting_for_pages_counts_as_far_as_they_had_been_evicted() {
        const MIB: u64 = 1 << 20;
        let window = window(0..5, |t, s| {
            s.cgroup.group.push(Group {
                // Half of what its process reads, in pages of 4 KiB.
                refault_file: (t * 256).into(),
                psi_memory_some: (t * SECOND / 10).into(),
                ..Group::new("/apps".into())
            });
            for (pid, cgroup) in [(1, "/apps/web"), (2, "/other")] {
                let key = TaskKey { pid, tid: pid, start: 1 };
                let row = ProcessRow {
                    cgroup: cgroup.into(),
                    state: "D".into(),
                    wait_channel: "folio_wait_bit_common".into(),
                    read_bytes: (t * 2 * MIB).into(),
                    ..ProcessRow::new(key)
                };
                s.task.process.push(row.into());
            }
        });
        let facts = Facts::from_window(&window);
        let group = &facts.entities(Scope::Group)[0];
        assert_eq!(group.number("group.page_wait"), Some(1.0));
        assert_eq!(group.number("group.refault_wait"), Some(0.5));
        assert_eq!(group.number("group.memory_wait"), Some(0.5));
    }
}
