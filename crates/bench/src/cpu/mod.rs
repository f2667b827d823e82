//! `bench cpu`: scaling, wake-up latency, context switches, and system calls.

mod context_switch;
mod scaling;
mod system_calls;
mod wakeup;
mod work;

use crate::study::StudyContext;
use crate::{Progress, Result, Stop};
use whyslow_documents::bench::{BenchKind, BenchReport};

/// Options of `bench cpu`.
#[derive(Clone, Copy, Debug)]
pub struct CpuOptions {
    /// Measured time of each figure, seconds; wake-ups take ten times as long.
    pub seconds: f64,
}

/// Runs all studies. If stopped early, reports the results so far.
///
/// # Errors
/// Fails if a thread cannot start.
pub fn measure(asked: &CpuOptions, stop: &Stop, progress: &mut dyn FnMut(Progress)) -> Result<BenchReport> {
    let mut context = StudyContext::begin(asked.seconds, stop, progress);
    add_caveat(&mut context);
    context.report(BenchKind::Cpu, &[&scaling::study, &wakeup::study, &context_switch::study, &system_calls::study])
}

fn add_caveat(context: &mut StudyContext) {
    // std also takes the CPU quota of the cgroup into account.
    let may = std::thread::available_parallelism().map_or(usize::MAX, usize::from);
    let count = context.topology.count();
    if may < count {
        let text =
            format!("a cgroup limits this program to {may} of {count} CPUs: with more threads, its quota is measured");
        context.session.caveats.push(text);
    }
}
