//! Waits of programs while off the CPU, from the stacks of offcputime.

use crate::signal::{Entity, over, ratio, signals};
use std::collections::BTreeMap;
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::OffCpu;
use whyslow_model::kernel_stack::{StackPattern, WaitKind, waited_for};
use whyslow_model::window::Window;

/// Functions of fsync(2), fdatasync(2) and writes with O_SYNC: the program waits until its data is on stable storage.
const SYNCS: [&str; 9] = [
    "do_fsync",
    "__x64_sys_fsync",
    "__x64_sys_fdatasync",
    "sys_fsync",
    "sys_fdatasync",
    "SyS_fsync",
    "SyS_fdatasync",
    "vfs_fsync_range",
    "generic_write_sync",
];

/// A program's wait for one resource.
struct Wait<'w> {
    pattern: &'static StackPattern,
    functions: Vec<&'w str>,
    time: f64,
}

/// Inputs of a program's signals.
pub struct OffCpuUse<'w> {
    waits: Vec<Wait<'w>>,
    /// Total time off the CPU, including idle time.
    total: f64,
    period: Option<f64>,
}

impl OffCpuUse<'_> {
    fn time(&self, is_counted: impl Fn(&Wait<'_>) -> bool) -> f64 {
        self.waits.iter().filter(|wait| is_counted(wait)).map(|wait| wait.time).sum()
    }

    /// Returns the time spent on waits of a kind, as a mean number of threads.
    fn threads(&self, kind: WaitKind) -> Option<f64> {
        over(Some(self.time(|wait| wait.pattern.kind == kind)), self.period)
    }

    fn share(&self, kind: WaitKind) -> Option<f64> {
        over(Some(self.time(|wait| wait.pattern.kind == kind)), Some(self.total))
    }

    fn syncs(wait: &Wait<'_>) -> bool {
        wait.functions.iter().any(|function| SYNCS.contains(function))
    }

    /// Returns the pattern of this kind that the program waited for longest.
    fn longest(&self, kind: WaitKind) -> Option<&'static StackPattern> {
        let mut times: Vec<(&'static StackPattern, f64)> = Vec::new();
        for wait in self.waits.iter().filter(|wait| wait.pattern.kind == kind) {
            match times.iter_mut().find(|(pattern, _)| std::ptr::eq(*pattern, wait.pattern)) {
                Some((_, time)) => *time += wait.time,
                None => times.push((wait.pattern, wait.time)),
            }
        }
        times.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(pattern, _)| pattern)
    }
}

signals! { o: OffCpuUse<'_>;
    "off_cpu.seconds" "s" "time its threads were off the CPU, in all", "Σtime", "offcputime" => ratio(Some(o.total));
    "off_cpu.period" "s" "how long was traced", "as printed", "offcputime" => ratio(o.period);
    "off_cpu.storage" "count" "its threads that waited for storage or memory, on average", "Σtime of such stacks / period", "offcputime", normal (near 0.1) => o.threads(WaitKind::Request);
    "off_cpu.storage_share" "ratio" "share of its time off the CPU spent waiting for storage or memory", "Σtime of such stacks / Σtime", "offcputime", normal "a small part" => o.share(WaitKind::Request);
    "off_cpu.sync_share" "ratio" "of that, the share within fsync", "Σtime of such stacks with fsync / Σtime of such stacks", "offcputime", normal "a small part" => over(Some(o.time(|w| w.pattern.kind == WaitKind::Request && OffCpuUse::syncs(w))), Some(o.time(|w| w.pattern.kind == WaitKind::Request)));
    "off_cpu.tasks" "count" "its threads that waited for something that another task held or did, on average", "Σtime of such stacks / period", "offcputime", normal (near 0.1) => o.threads(WaitKind::Task);
    "off_cpu.tasks_share" "ratio" "share of its time off the CPU spent waiting for that", "Σtime of such stacks / Σtime", "offcputime", normal "a small part" => o.share(WaitKind::Task);
    "off_cpu.service" "count" "its threads that waited for an array, a server or a device, on average", "Σtime of such stacks / period", "offcputime", normal (near 0.1) => o.threads(WaitKind::Service);
    "off_cpu.service_share" "ratio" "share of its time off the CPU spent waiting for that", "Σtime of such stacks / Σtime", "offcputime", normal "a small part" => o.share(WaitKind::Service);
    "off_cpu.storage_what" "text" "the storage or memory it waited for longest", "by the functions of the stacks", "offcputime", normal "the innermost functions of the stacks show it" => o.longest(WaitKind::Request).map(|pattern| pattern.what);
    "off_cpu.tasks_what" "text" "what it waited for longest, of what other tasks hold or do", "by the functions of the stacks", "offcputime", normal "the innermost functions of the stacks show it" => o.longest(WaitKind::Task).map(|pattern| pattern.what);
    "off_cpu.tasks_check" "text" "what to look at next about that", "by the functions of the stacks", "offcputime" => o.longest(WaitKind::Task).map(|pattern| pattern.check);
    "off_cpu.service_what" "text" "which array, server or device it waited for longest", "by the functions of the stacks", "offcputime", normal "the innermost functions of the stacks show it" => o.longest(WaitKind::Service).map(|pattern| pattern.what);
    "off_cpu.service_check" "text" "what to look at next about that", "by the functions of the stacks", "offcputime" => o.longest(WaitKind::Service).map(|pattern| pattern.check);
}

/// Returns every program, with all its processes and threads.
pub fn entities(window: &Window) -> Vec<Entity> {
    let stacks = window.newest::<OffCpu>();
    let mut programs: BTreeMap<&str, OffCpuUse<'_>> = BTreeMap::new();
    for stack in stacks.values() {
        let Some((program, time)) = stack.program.get().zip(stack.time.get()) else { continue };
        let empty = OffCpuUse { waits: Vec::new(), total: 0.0, period: stack.period.get() };
        let of = programs.entry(program).or_insert(empty);
        of.total += time;
        let functions: Vec<&str> = stack.functions.get().unwrap_or_default().split(' ').collect();
        if let Some(pattern) = waited_for(&functions) {
            of.waits.push(Wait { pattern, functions, time });
        }
    }
    programs.into_iter().map(|(name, of)| Entity::from_subject(Subject::new("process", name.to_owned()), &of)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window;

    #[test]
    fn waits_are_summed_by_what_is_waited_for() {
        let stacks = [
            ("1", "schedule io_schedule folio_wait_writeback ext4_sync_file do_fsync", 2e9),
            ("2", "schedule io_schedule folio_wait_bit filemap_read", 1e9),
            ("3", "schedule do_nanosleep hrtimer_nanosleep", 3e9),
            ("4", "schedule __mutex_lock do_unlinkat", 2e9),
        ];
        let found = entities(&window([0], |_, s| {
            s.measure.off_cpu.extend(stacks.map(|(key, functions, time)| OffCpu {
                program: "db".into(),
                functions: functions.into(),
                time: time.into(),
                period: 4e9.into(),
                ..OffCpu::new(key.into())
            }));
        }));
        let [program] = &found[..] else { panic!("one program: {found:?}") };
        let number = |name: &str| program.number(name).unwrap();
        assert_eq!((number("off_cpu.seconds"), number("off_cpu.storage")), (8.0, 0.75));
        assert_eq!((number("off_cpu.storage_share"), number("off_cpu.tasks")), (0.375, 0.5));
        assert!((number("off_cpu.sync_share") - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!((program.subject.kind.as_str(), program.subject.name.as_str()), ("process", "db"));
    }
}
