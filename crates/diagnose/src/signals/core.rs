//! One processor.

use crate::signal::{Entity, over, ratio, signals, sum};
use whyslow_model::catalogue::{Cpu, RunQueue, Softnet};
use whyslow_model::diagnosis::Subject;
use whyslow_model::histogram::Histogram;
use whyslow_model::value::Counter;
use whyslow_model::window::{Change, Window};

/// What a processor's signals are computed from.
pub struct CoreUse<'w> {
    cpu: Change<'w, Cpu>,
    softnet: Option<Change<'w, Softnet>>,
    /// Run-queue latencies, nanoseconds.
    latency: Option<Histogram>,
}

impl CoreUse<'_> {
    fn part(&self, f: impl Fn(&Cpu) -> Counter) -> Option<f64> {
        ratio(self.cpu.rate(f))
    }
    fn used(&self) -> Option<f64> {
        sum([self.part(|c| c.user), self.part(|c| c.nice), self.part(|c| c.system), self.interrupt()])
    }
    fn latency(&self, quantile: f64) -> Option<f64> {
        ratio(self.latency.as_ref()?.quantile(quantile))
    }
    fn interrupt(&self) -> Option<f64> {
        sum([self.part(|c| c.irq), self.part(|c| c.softirq)])
    }
    fn all(&self) -> Option<f64> {
        sum([self.used(), self.part(|c| c.idle), self.part(|c| c.iowait), self.part(|c| c.steal)])
    }
}

signals! { c: &CoreUse<'_>;
    "core.busy" "ratio" "share of its time in use", "(user + nice + system + irq + softirq) / all", "/proc/stat" => over(c.used(), c.all());
    "core.interrupt" "ratio" "share in interrupts and softirqs", "(irq + softirq) / all", "/proc/stat" => over(c.interrupt(), c.all());
    "core.backlog_drops" "1/s" "packets dropped because its backlog was full", "Δdropped / Δt", "/proc/net/softnet_stat column 2" => c.softnet.as_ref().and_then(|s| s.rate(|s| s.dropped));
    "core.squeezed" "1/s" "times the packet budget ran out with work left", "Δtime_squeeze / Δt", "/proc/net/softnet_stat column 3" => c.softnet.as_ref().and_then(|s| s.rate(|s| s.squeezed));
    "core.run_queue_median" "s" "time from becoming runnable to running, as the median", "50th percentile of the histogram", "BPF: sched_waking, sched_switch" => c.latency(0.5);
    "core.run_queue_p99" "s" "the same of the unluckiest hundredth", "99th percentile of the histogram", "BPF: sched_waking, sched_switch" => c.latency(0.99);
}

/// Every processor.
pub fn entities(window: &Window) -> Vec<Entity> {
    let mut softnet = window.changes::<Softnet>();
    let latencies = window.changes::<RunQueue>();
    window
        .changes::<Cpu>()
        .into_iter()
        .map(|cpu| {
            let at = softnet.iter().position(|s| s.key() == cpu.key());
            let subject = Subject::new("cpu", format!("cpu{}", cpu.key()));
            let latency = latencies.iter().find(|l| l.key() == cpu.key()).and_then(|l| l.histogram(|l| &l.latency));
            let values = read(&CoreUse { cpu, softnet: at.map(|i| softnet.swap_remove(i)), latency });
            Entity::new(subject, values)
        })
        .collect()
}
