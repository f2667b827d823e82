//! Sets of CPUs that processes are bound to, by a CPU set of their control group or by sched_setaffinity(2).

use super::placement::idle_cpus;
use super::task::TaskUse;
use crate::signal::{Entity, signals};
use std::collections::{BTreeMap, BTreeSet};
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::Affinity;
use whyslow_model::cpu_list;
use whyslow_model::window::Window;

/// All processes that are bound to the same CPUs.
pub struct CpuSetUse<'w> {
    cpus: &'w BTreeSet<u32>,
    members: Vec<&'w TaskUse>,
    idle: &'w BTreeMap<u32, f64>,
}

impl CpuSetUse<'_> {
    fn sum(&self, of: impl Fn(&TaskUse) -> Option<f64>) -> Option<f64> {
        self.members.iter().filter_map(|task| of(task)).reduce(|a, b| a + b)
    }

    fn idle(&self, is_member: bool) -> Option<f64> {
        let idle = self.idle.iter().filter(|(cpu, _)| self.cpus.contains(cpu) == is_member);
        idle.map(|(_, idle)| *idle).reduce(|a, b| a + b)
    }
}

signals! { s: CpuSetUse<'_>;
    "cpuset.count" "count" "how many CPUs these are", "Cpus_allowed_list", "/proc/PID/status" => s.cpus.len() as f64;
    "cpuset.processes" "count" "processes that are bound to exactly these", "Cpus_allowed_list", "/proc/PID/status" => s.members.len() as f64;
    "cpuset.cpu" "count" "CPUs' worth of time that they used", "Σ Δ(utime + stime) / Δt", "/proc/PID/stat" => s.sum(|task| task.cpu);
    "cpuset.waiting" "count" "mean number of their threads that waited for a CPU", "Σ Δrun_delay / Δt", "/proc/PID/schedstat", normal (near 0.1) => s.sum(|task| task.run_delay.filter(|_| !task.background));
    "cpuset.idle" "count" "CPUs' worth of idle time on these CPUs", "Σ Δidle / Δt", "/proc/stat" => s.idle(true);
    "cpuset.idle_elsewhere" "count" "CPUs' worth of idle time on the others, which they may not use", "Σ Δidle / Δt", "/proc/stat" => s.idle(false);
}

/// Returns every set of CPUs to which processes are bound.
pub fn entities(window: &Window, processes: &[TaskUse]) -> Vec<Entity> {
    let bound = window.newest::<Affinity>();
    if bound.is_empty() {
        return Vec::new();
    }
    let idle = idle_cpus(window);
    let mut sets: BTreeMap<BTreeSet<u32>, Vec<&TaskUse>> = BTreeMap::new();
    for task in processes.iter().filter(|task| !task.kernel) {
        let Some(cpus) = bound.get(&task.key).and_then(|row| cpu_list::parse(row.cpus.get()?)) else { continue };
        sets.entry(cpus).or_default().push(task);
    }
    let entity = |(cpus, members): (&BTreeSet<u32>, &Vec<&TaskUse>)| {
        let set = CpuSetUse { cpus, members: members.clone(), idle: &idle };
        Entity::from_subject(Subject::new("cpuset", cpu_list::format(cpus)), &set)
    };
    sets.iter().map(entity).collect()
}
