//! Time in softirqs and in interrupt handlers (crates/sense/bpf/softirq.bpf.c).

use crate::Root;
use crate::bpf::{Held, include_object};
use crate::source::{Miss, Source, Tempo};
use aya::Pod;
use aya::maps::{PerCpuArray, PerCpuHashMap, PerCpuValues};
use whyslow_model::catalogue::{IrqTime, SoftirqTime};
use whyslow_model::key::PerCpu;
use whyslow_model::snapshot::Snapshot;

/// The vectors by number, named as in /proc/softirqs (kernel/softirq.c: softirq_to_name).
const VECTORS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// `struct spent`, of one processor.
#[derive(Clone, Copy)]
#[repr(C)]
struct Spent {
    count: u64,
    time: u64,
}

// SAFETY: numbers only, without padding; any bytes are a valid value.
unsafe impl Pod for Spent {}

/// Reads the time in softirqs and handlers.
pub(super) struct InterruptTime(Held);

impl InterruptTime {
    /// Nothing is loaded before the first reading.
    pub(super) fn new() -> Self {
        Self(Held::new("softirq", include_object!("softirq")))
    }
}

impl Source for InterruptTime {
    fn name(&self) -> &'static str {
        "bpf/softirq"
    }

    fn tells(&self) -> &'static str {
        "time in softirqs and interrupt handlers"
    }

    fn tempo(&self) -> Tempo {
        Tempo::Asked
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        let object = self.0.get(root)?;
        let failed = |e| Miss::Failed(format!("BPF softirq: {e}"));
        let vectors = PerCpuArray::<_, Spent>::try_from(object.map("vectors")?).map_err(failed)?;
        for (vector, name) in (0..).zip(VECTORS) {
            let spent = vectors.get(&vector, 0).map_err(failed)?;
            out.processor.softirq_time.extend(by_processor(name, &spent).map(|(vector, spent)| SoftirqTime {
                count: spent.count.into(),
                time: spent.time.into(),
                ..SoftirqTime::new(vector)
            }));
        }
        let lines = PerCpuHashMap::<_, u32, Spent>::try_from(object.map("lines")?).map_err(failed)?;
        for entry in lines.iter() {
            let (line, spent) = entry.map_err(failed)?;
            out.processor.irq_time.extend(by_processor(&line.to_string(), &spent).map(|(line, spent)| IrqTime {
                count: spent.count.into(),
                time: spent.time.into(),
                ..IrqTime::new(line)
            }));
        }
        Ok(())
    }
}

/// What each processor spent on it.
fn by_processor<'s>(name: &str, spent: &'s PerCpuValues<Spent>) -> impl Iterator<Item = (PerCpu, &'s Spent)> {
    let name = name.into();
    (0..).zip(spent.iter()).map(move |(cpu, spent)| (PerCpu { name: Clone::clone(&name), cpu }, spent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::is_out_of_reach;
    use crate::processor::softirqs;
    use std::net::UdpSocket;

    fn receiving(rows: &[SoftirqTime]) -> (u64, u64) {
        let all = rows.iter().filter(|r| &*r.vector.name == "NET_RX");
        all.fold((0, 0), |(n, ns), r| (n + r.count.get().unwrap_or(0), ns + r.time.get().unwrap_or(0)))
    }

    fn counted() -> u64 {
        let mut out = Snapshot::default();
        softirqs::Softirqs.read(&Root::live(), &mut out).unwrap();
        let rows = out.processor.softirq.iter().filter(|r| &*r.vector.name == "NET_RX");
        rows.filter_map(|r| r.count.get()).sum()
    }

    #[test]
    fn softirqs_are_counted_as_the_kernel_counts_them_and_take_time() {
        if is_out_of_reach() {
            return;
        }
        let (mut source, mut before) = (InterruptTime::new(), Snapshot::default());
        source.read(&Root::live(), &mut before).unwrap();
        let (own_before, kernel_before) = (receiving(&before.processor.softirq_time), counted());
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..500 {
            socket.send_to(&[0], socket.local_addr().unwrap()).unwrap();
        }
        let mut after = Snapshot::default();
        source.read(&Root::live(), &mut after).unwrap();
        let (own, kernel) = (receiving(&after.processor.softirq_time), counted() - kernel_before);
        let runs = own.0 - own_before.0;
        // Others use the network meanwhile, between this reading and that.
        assert!(runs >= 400 && runs.abs_diff(kernel) <= 20 + kernel / 10, "{runs} against {kernel}");
        let each = (own.1 - own_before.1) / runs;
        assert!((100..1_000_000).contains(&each), "{each} ns each");
    }
}
