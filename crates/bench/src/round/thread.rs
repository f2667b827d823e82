//! One thread that makes load, and what it costs.

use crate::engine::{Bell, Engine as Carrier, Mmap, Polled, Psync, Uring};
use crate::load::{self, Outcome, Start};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{Usage as Usages, UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};
use whyslow_model::bench::{Engine, Sync, Workload};

/// Job number `job` of a workload.
pub(super) struct Job {
    pub(super) load: Workload,
    pub(super) job: u32,
    pub(super) file: Arc<File>,
    pub(super) bell: Arc<Bell>,
}

/// What a thread used while it made load.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// How long it took, seconds.
    pub(crate) wall: f64,
    /// Processor time outside the kernel, seconds.
    pub(crate) user: f64,
    /// Processor time in it, seconds.
    pub(crate) system: f64,
    /// Times it gave up its processor, or was made to.
    pub(super) switches: u64,
    /// The part of the time it was on a processor and did not only look for completions.
    pub(super) busy: Option<f64>,
    /// The part of the time it waited for one.
    pub(crate) waited: Option<f64>,
}

impl Usage {
    /// Less busy by a time in which it only looked for completions.
    fn without(self, looked: Duration) -> Self {
        let looked = looked.as_secs_f64() / self.wall;
        Self { busy: self.busy.map(|busy| (busy - looked).max(0.0)), ..self }
    }
}

impl Job {
    /// Gets ready, says so or why not, waits for the word and makes load.
    pub(super) fn play(
        self,
        ready: &Sender<Result<(), String>>,
        begin: &Receiver<Start>,
        tell: impl FnOnce(Outcome, Usage),
    ) {
        // The kernel may wake a sleeping thread 50 µs late to save power (prctl(2), PR_SET_TIMERSLACK); requests are to be
        // made when they are due.
        let _ = nix::sys::prctl::set_timerslack(1);
        if let Err(e) = keep_to(&self.load.cpus) {
            return drop(ready.send(Err(format!("processors {:?}: {e}", self.load.cpus))));
        }
        let (file, bell) = (self.file.clone(), self.bell.clone());
        let (depth, block) = (self.load.depth.max(1) as usize, self.load.largest_block() as usize);
        let data_only = matches!(self.load.sync, Some(Sync { data_only: true, .. }));
        match self.load.engine {
            Engine::IoUring if self.load.poll => {
                self.play_on(Polled::new(file, bell, depth, block), ready, begin, tell)
            }
            Engine::IoUring => self.play_on(Uring::new(file, bell, depth, block, data_only), ready, begin, tell),
            Engine::Psync => self.play_on(Psync::new(file, bell, block, data_only), ready, begin, tell),
            Engine::Mmap => {
                let (end, writes) = (self.load.start + self.load.size, self.load.does_write());
                self.play_on(Mmap::new(file, bell, block, data_only, end, writes), ready, begin, tell);
            }
        }
    }

    fn play_on<E: Carrier>(
        self,
        engine: io::Result<E>,
        ready: &Sender<Result<(), String>>,
        begin: &Receiver<Start>,
        tell: impl FnOnce(Outcome, Usage),
    ) {
        let engine = match engine {
            Ok(engine) => engine,
            Err(e) => return drop(ready.send(Err(refusal(self.load.engine, &e)))),
        };
        let job = load::Job::new(&self.load, self.job, engine, self.bell);
        // Nobody waits for it any more where another could not get ready.
        let (Ok(()), Ok(start)) = (ready.send(Ok(())), begin.recv()) else { return };
        let before = Reading::take();
        let outcome = job.run(start);
        let used = before.since().without(outcome.looked);
        tell(outcome, used);
    }
}

/// Has this thread keep to these processors; none is any.
pub(crate) fn keep_to(cpus: &[u32]) -> nix::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    cpus.iter().try_for_each(|&cpu| set.set(cpu as usize))?;
    sched_setaffinity(Pid::from_raw(0), &set)
}

fn refusal(engine: Engine, error: &io::Error) -> String {
    match (engine, error.raw_os_error()) {
        (Engine::IoUring, Some(libc::EPERM | libc::ENOSYS)) => format!(
            "io_uring is not available ({error}): see /proc/sys/kernel/io_uring_disabled, or use --engine psync"
        ),
        _ => error.to_string(),
    }
}

/// What this thread has used so far.
pub(crate) struct Reading {
    at: Instant,
    user: f64,
    system: f64,
    switches: u64,
    schedule: Option<(u64, u64)>,
}

impl Reading {
    pub(crate) fn take() -> Self {
        let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        // Refused only for a number that is not one of the three.
        let used = getrusage(UsageWho::RUSAGE_THREAD).ok();
        let switches = |used: Usages| used.voluntary_context_switches() + used.involuntary_context_switches();
        Self {
            at: Instant::now(),
            user: used.map_or(0.0, |used| seconds(used.user_time())),
            system: used.map_or(0.0, |used| seconds(used.system_time())),
            switches: used.map_or(0, |used| u64::try_from(switches(used)).unwrap_or(0)),
            schedule: schedule(),
        }
    }

    pub(crate) fn since(&self) -> Usage {
        let now = Self::take();
        let wall = now.at.duration_since(self.at).as_secs_f64().max(1e-9);
        let part = |of: fn(&(u64, u64)) -> u64| {
            let (then, now) = (self.schedule.as_ref()?, now.schedule.as_ref()?);
            Some(of(now).saturating_sub(of(then)) as f64 / 1e9 / wall)
        };
        Usage {
            wall,
            user: now.user - self.user,
            system: now.system - self.system,
            switches: now.switches - self.switches,
            busy: part(|(ran, _)| *ran),
            waited: part(|(_, waited)| *waited),
        }
    }
}

/// Nanoseconds this thread ran and waited to run (Documentation/scheduler/sched-stats.rst).
fn schedule() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut words = text.split_ascii_whitespace().map(str::parse);
    Some((words.next()?.ok()?, words.next()?.ok()?))
}
