//! Use of the machine by a process or thread over the window, summed up once for every signal that needs it.

use super::blocked::{Blocked, Sleep, TaskRow};
use super::guest;
use super::lock::{self, LockUse};
use super::short_lived::{self, ShortLivedChildren};
use super::sleep::{self, SleepUse};
use crate::signal::{over, ratio, sum};
use std::collections::BTreeSet;
use whyslow_model::catalogue::{Family, Process, Thread};
use whyslow_model::key::TaskKey;
use whyslow_model::value::Counter;
use whyslow_model::window::{Change, Window, counted_seconds};

/// Niceness from which a task counts as background work that means to yield.
pub const BACKGROUND_NICE: f64 = 10.0;

/// Clock tick in which the kernel reports when a task started (USER_HZ, 100 on all current architectures).
pub(crate) const CLOCK_TICK_NS: u64 = 10_000_000;

/// A process or thread over the window. Rates are per second of the time in which it was seen.
#[derive(Clone, Debug, Default)]
pub struct TaskUse {
    /// Identity of the task.
    pub key: TaskKey,
    /// Name in the kernel; for a virtual machine, the name of the guest.
    pub command: String,
    /// Its control group; for a thread, that of its process.
    pub cgroup: Option<String>,
    /// CPUs' worth of time that it used.
    pub cpu: Option<f64>,
    /// Part of that in kernel mode.
    pub system: Option<f64>,
    /// Seconds since it started, if it has used as much CPU time ever since.
    pub busy_for: Option<f64>,
    /// The same for kernel mode.
    pub system_for: Option<f64>,
    /// Run-queue waiting per second.
    pub run_delay: Option<f64>,
    /// Voluntary context switches per second.
    pub voluntary_switches: Option<f64>,
    /// Involuntary context switches per second.
    pub involuntary_switches: Option<f64>,
    /// Migrations to another CPU per second.
    pub migrations: Option<f64>,
    /// For a process with several threads: what they lost to each other's locks.
    pub lock: Option<LockUse>,
    /// For a process: what its threads waited for, where BPF measured it.
    pub sleep: SleepUse,
    /// For a thread: mean number of other threads that waited for it to release a lock.
    pub kept_waiting: Option<f64>,
    /// Seconds of CPU time used within the window, including those before its first sample if it started in the window.
    pub cpu_seconds: Option<f64>,
    /// CPU time of its children that no sample saw alive.
    pub short_lived: Option<ShortLivedChildren>,
    /// Share of the samples in which it was blocked; for a process, in which any of its threads was.
    pub blocked: f64,
    /// For a process: mean number of its threads that were found waiting for a flush.
    pub flush_waiters: f64,
    /// Its last seen wait channel; for a process, the most frequent one of its threads.
    pub wait_channel: Option<String>,
    /// True if every sample found it asleep at one place and it neither ran nor switched in between.
    pub stuck: bool,
    /// True for niced, batch and idle-class tasks.
    pub background: bool,
    /// True if scheduled only when nothing else is (SCHED_IDLE); its I/O has the idle class, unless set otherwise.
    pub idle_class: bool,
    /// True for kernel threads.
    pub kernel: bool,
    /// Seconds over which it was seen.
    pub seconds: f64,
    /// Maximum number of its threads.
    pub threads: f64,
    /// Bytes per second that it moved to and from storage; for a thread, those of its process.
    pub storage: Option<f64>,
    /// Part of that which it wrote or dirtied, bytes per second.
    pub written: Option<f64>,
}

impl TaskUse {
    /// Returns the mean number of its threads that waited for locks held by others of them: measured, or else found by sampling.
    pub fn lock_waiters(&self) -> Option<f64> {
        self.sleep.lock.or(self.lock.map(|l| l.waiters))
    }

    /// Returns the lock waits as a share of the time in which the threads had work to do.
    pub fn lock_share(&self) -> Option<f64> {
        self.sleep
            .lock_share(self.cpu, self.run_delay)
            .or_else(|| self.lock.and_then(|l| l.share(self.cpu, self.run_delay)))
    }

    /// Returns the context switches per second, voluntary and involuntary.
    pub fn switches(&self) -> Option<f64> {
        sum([self.voluntary_switches, self.involuntary_switches])
    }

    fn from_change<R: TaskRow>(change: &Change<'_, R>) -> Self {
        let sleep = |r: &R| Sleep::from_state(r.state(), r.wait_channel());
        let sleeps: Vec<Option<Sleep>> = change.rows().map(sleep).collect();
        let blocked = sleeps.iter().flatten().filter(|sleep| sleep.is_blocked()).count();
        let places: Vec<&str> = change.rows().filter_map(|r| r.wait_channel().get()).collect();
        let cpu = ratio(sum([change.rate(R::user), change.rate(R::system)]).or_else(|| change.rate(R::cpu_time)));
        let same_place = places.windows(2).all(|p| p[0] == p[1]);
        let is_stuck = sleeps.len() > 2 && sleeps.iter().all(|sleep| *sleep == Some(Sleep::Uninterruptible));
        // A task that waits for a busy disk is also found asleep at one place each time, but it makes progress in between.
        let switches = sum([change.grown(R::voluntary_switches), change.grown(R::involuntary_switches)]);
        let gets_on = cpu != Some(0.0) || switches.is_some_and(|s| s > 0.0);
        Self {
            key: *change.key(),
            command: change.last().command().get().unwrap_or_default().to_owned(),
            cpu,
            system: ratio(change.rate(R::system)),
            busy_for: since_start(change, |r| Some(r.user().get()? as f64 + r.system().get()? as f64)),
            system_for: since_start(change, |r| Some(r.system().get()? as f64)),
            run_delay: ratio(change.rate(R::run_delay)),
            voluntary_switches: change.rate(R::voluntary_switches),
            involuntary_switches: change.rate(R::involuntary_switches),
            migrations: change.rate(R::migrations),
            blocked: blocked as f64 / sleeps.len() as f64,
            wait_channel: places.last().map(|p| (*p).to_owned()),
            stuck: is_stuck && same_place && !gets_on,
            background: change.last().nice().get().is_some_and(|n| n >= BACKGROUND_NICE),
            seconds: change.seconds(),
            threads: 1.0,
            ..Self::default()
        }
    }

    fn of_process(window: &Window, change: &Change<'_, Process>) -> Self {
        let last = change.last();
        let policy = last.policy.get().unwrap_or_default().to_ascii_uppercase();
        let mut task = Self::from_change(change);
        task.idle_class = policy.contains("IDLE");
        task.background |= task.idle_class || policy.contains("BATCH");
        task.cgroup = last.cgroup.get().map(str::to_owned);
        task.kernel = last.kernel_thread.get() == Some(1.0);
        task.cpu_seconds = sum([used(window, change, |p| p.user), used(window, change, |p| p.system)])
            .or_else(|| used(window, change, |p| p.cpu_time));
        task.threads = change.max(|p| p.threads).unwrap_or(1.0);
        task.written = change.rate(|p| p.write_bytes);
        task.storage = sum([change.rate(|p| p.read_bytes), change.rate(|p| p.write_bytes)]);
        task
    }
}

/// Returns the seconds over which CPU time was counted for any process.
pub fn counted_cpu(changes: &[Change<'_, Process>]) -> Option<f64> {
    let each = [counted_seconds(changes, |p| p.user), counted_seconds(changes, |p| p.cpu_time)];
    each.into_iter().flatten().reduce(f64::max)
}

/// Allowed ratio between a task's mean use since it started and its present use, for its use to count as constant.
const AS_EVER: std::ops::RangeInclusive<f64> = 0.8..=1.25;

/// Returns the seconds since a task started, if a value that started at 0 has grown as fast ever since as over the window.
pub(super) fn since_start<F: Family<Key = TaskKey>>(
    change: &Change<'_, F>,
    value: impl Fn(&F) -> Option<f64>,
) -> Option<f64> {
    let course: Vec<(f64, f64)> = change.course(value).collect();
    let ((from, first), (to, last)) = (*course.first()?, *course.last()?);
    let age = to - began(change.key());
    let now = over(Some(last - first), Some(to - from))?;
    let as_ever = over(over(Some(last), Some(age)), Some(now))?;
    AS_EVER.contains(&as_ever).then_some(age)
}

/// Returns the seconds since a task started, as of its last row.
pub(super) fn age<F: Family<Key = TaskKey>>(change: &Change<'_, F>) -> Option<f64> {
    let (last, _) = change.course(|_| Some(0.0)).last()?;
    Some(last - began(change.key()))
}

/// Returns when a task started, in seconds since boot.
fn began(key: &TaskKey) -> f64 {
    key.start.saturating_mul(CLOCK_TICK_NS) as f64 / 1e9
}

/// Returns the seconds by which a counter of CPU time grew within the window. For a process that started in it, returns all of
/// them.
fn used(window: &Window, change: &Change<'_, Process>, f: impl Fn(&Process) -> Counter + Copy) -> Option<f64> {
    let opened = window.snapshots().first()?.boot_ns;
    let was_born_in_it = change.key().start.saturating_mul(CLOCK_TICK_NS) > opened;
    let before = f(change.first()).get().filter(|_| was_born_in_it).map(|ns| ns as f64);
    ratio(sum([before, change.grown(f)]))
}

/// Returns true if an active process has unreadable I/O.
pub fn hides_io(tasks: &[TaskUse]) -> bool {
    let is_at_work = |task: &TaskUse| task.cpu.is_some_and(|cpu| cpu > 0.0 || task.blocked > 0.0);
    tasks.iter().any(|task| task.storage.is_none() && is_at_work(task))
}

/// Returns every process, sorted by key.
pub fn processes(window: &Window, changes: &[Change<'_, Process>], blocked: &Blocked) -> Vec<TaskUse> {
    let mut tasks: Vec<TaskUse> = changes.iter().map(|change| TaskUse::of_process(window, change)).collect();
    for (pid, unseen) in short_lived::by_parent(window) {
        if let Some(task) = tasks.iter_mut().find(|t| t.key.pid == pid) {
            task.short_lived = Some(unseen);
        }
    }
    let locks = lock::by_process(window);
    let sleeps = sleep::by_process(window);
    let guests = guest::names(window);
    for task in &mut tasks {
        if let Some(guest) = guests.get(&task.key) {
            task.command.clone_from(guest);
        }
        if let Some((share, place)) = blocked.of_process(task.key.pid) {
            task.blocked = share;
            task.wait_channel = place.map(str::to_owned);
            task.flush_waiters = blocked.flush_waiters(task.key.pid);
        }
        task.lock = locks.get(&task.key.pid).copied();
        task.sleep = sleeps.get(&task.key).copied().unwrap_or_default();
    }
    tasks
}

/// Returns every thread. A process stands for its thread if it never had more than one, or if the number is unknown and no
/// threads are listed: the row of a process whose threads are listed is their sum.
pub fn threads(window: &Window, processes: &[TaskUse]) -> Vec<TaskUse> {
    let kept_waiting = sleep::kept_waiting(window);
    let (rows, listed) = (window.newest::<Process>(), window.newest::<Thread>());
    let with_threads: BTreeSet<u32> = listed.keys().map(|thread| thread.pid).collect();
    let has_known_count = |key: &TaskKey| rows.get(key).is_some_and(|row| row.threads.get().is_some());
    let is_thread = |p: &&TaskUse| p.threads <= 1.0 && (has_known_count(&p.key) || !with_threads.contains(&p.key.pid));
    let mut tasks: Vec<TaskUse> = window
        .changes::<Thread>()
        .iter()
        .map(|change| {
            let mut task = TaskUse::from_change(change);
            task.kept_waiting = kept_waiting.get(&task.key).copied();
            if let Some(process) = processes.iter().find(|p| p.key.pid == task.key.pid) {
                task.cgroup.clone_from(&process.cgroup);
                task.kernel = process.kernel;
                task.storage = process.storage;
                task.background |= process.background;
                task.idle_class |= process.idle_class;
            }
            task
        })
        .collect();
    tasks.extend(processes.iter().filter(is_thread).cloned());
    tasks
}
