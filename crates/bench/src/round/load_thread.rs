//! A thread that generates load.

use super::usage::{ThreadUsage, UsageSnapshot, pin_to};
use crate::engine::{IoEngine, Mmap, PolledUring, Psync, StopEvent, Uring};
use crate::load::{JobResult, JobStart, LoadJob};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use whyslow_documents::bench::{Engine, SyncPolicy, Workload};

/// Job number `job` of a workload.
pub(super) struct LoadThread {
    pub(super) load: Workload,
    pub(super) job: u32,
    pub(super) file: Arc<File>,
    pub(super) stop_event: Arc<StopEvent>,
}

impl LoadThread {
    /// Reports that it is ready, or why it is not; then waits for the start and generates load.
    pub(super) fn run(
        self,
        ready: &Sender<Result<(), String>>,
        begin: &Receiver<JobStart>,
        report: impl FnOnce(JobResult, ThreadUsage),
    ) {
        // By default the kernel may wake a sleeping thread 50 µs late (prctl(2), PR_SET_TIMERSLACK).
        let _ = nix::sys::prctl::set_timerslack(1);
        if let Err(e) = pin_to(&self.load.cpus) {
            return drop(ready.send(Err(format!("CPUs {:?}: {e}", self.load.cpus))));
        }
        let (file, stop_event) = (self.file.clone(), self.stop_event.clone());
        let (depth, block) = (self.load.depth.max(1) as usize, self.load.largest_block() as usize);
        let data_only = matches!(self.load.sync, Some(SyncPolicy { data_only: true, .. }));
        match self.load.engine {
            Engine::IoUring if self.load.poll => {
                self.run_on(PolledUring::new(file, stop_event, depth, block), ready, begin, report)
            }
            Engine::IoUring => self.run_on(Uring::new(file, stop_event, depth, block, data_only), ready, begin, report),
            Engine::Psync => self.run_on(Psync::new(file, stop_event, block, data_only), ready, begin, report),
            Engine::Mmap => {
                let (end, writes) = (self.load.start + self.load.size, self.load.does_write());
                let engine = Mmap::new(file, stop_event, block, data_only, end, writes);
                self.run_on(engine, ready, begin, report);
            }
        }
    }

    fn run_on<E: IoEngine>(
        self,
        engine: io::Result<E>,
        ready: &Sender<Result<(), String>>,
        begin: &Receiver<JobStart>,
        report: impl FnOnce(JobResult, ThreadUsage),
    ) {
        let engine = match engine {
            Ok(engine) => engine,
            Err(e) => return drop(ready.send(Err(refusal(self.load.engine, &e)))),
        };
        let job = LoadJob::new(&self.load, self.job, engine, self.stop_event);
        // The receiver is gone if another thread failed to get ready.
        let (Ok(()), Ok(start)) = (ready.send(Ok(())), begin.recv()) else { return };
        let before = UsageSnapshot::take();
        let result = job.run(start);
        let used = before.since();
        report(result, used);
    }
}

fn refusal(engine: Engine, error: &io::Error) -> String {
    match (engine, error.raw_os_error()) {
        (Engine::IoUring, Some(libc::EPERM | libc::ENOSYS)) => format!(
            "io_uring is not available ({error}): see /proc/sys/kernel/io_uring_disabled, or use --engine psync"
        ),
        _ => error.to_string(),
    }
}
