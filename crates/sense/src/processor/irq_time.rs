//! Time in softirqs and in interrupt handlers (crates/sense/bpf/softirq.bpf.c).

use crate::Root;
use crate::bpf::{Object, c_struct, include_object};
use crate::source::SourceInfo;
use crate::source_error::SourceError;
use aya::maps::PerCpuValues;
use whyslow_model::catalogue::{IrqTime, SoftirqTime};
use whyslow_model::key::PerCpu;
use whyslow_model::snapshot::Snapshot;

/// Softirq vectors by number, named as in /proc/softirqs (kernel/softirq.c: softirq_to_name).
const VECTORS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

c_struct! {
    /// `struct handler_time`.
    struct HandlerTime {
        count: u64,
        time: u64,
    }
}

pub(super) const INFO: SourceInfo =
    SourceInfo::new("bpf/softirq", "time in softirqs and interrupt handlers").on_demand();

pub(super) fn load(root: &Root) -> Result<Object, SourceError> {
    Object::load("softirq", include_object!("softirq"), root)
}

pub(super) fn read(object: &mut Object, _: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    for (vector, name) in (0..).zip(VECTORS) {
        let spent = object.per_cpu_element("vectors", vector)?;
        out.processor.softirq_time.extend(by_cpu(name, &spent).map(|(vector, spent)| SoftirqTime {
            vector,
            count: spent.count.into(),
            time: spent.time.into(),
        }));
    }
    for (line, spent) in object.per_cpu_entries::<u32, HandlerTime>("lines")? {
        out.processor.irq_time.extend(by_cpu(&line.to_string(), &spent).map(|(line, spent)| IrqTime {
            line,
            count: spent.count.into(),
            time: spent.time.into(),
        }));
    }
    Ok(())
}

fn by_cpu<'s>(name: &str, spent: &'s PerCpuValues<HandlerTime>) -> impl Iterator<Item = (PerCpu, &'s HandlerTime)> {
    let name = whyslow_model::value::Name::from(name);
    (0..).zip(spent.iter()).map(move |(cpu, spent)| (PerCpu { name: name.clone(), cpu }, spent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processor::interrupts::read_softirqs;
    use crate::source::loaded;
    use crate::testing::{attached, read};
    use std::net::UdpSocket;

    fn net_rx(out: &Snapshot) -> (u64, u64) {
        let rows = out.processor.softirq_time.iter().filter(|r| &*r.vector.name == "NET_RX");
        rows.fold((0, 0), |(n, ns), r| (n + r.count.get().unwrap_or(0), ns + r.time.get().unwrap_or(0)))
    }

    fn counted_by_proc() -> u64 {
        let mut out = Snapshot::default();
        assert_eq!(read_softirqs(&Root::live(), &mut out), Ok(()));
        let rows = out.processor.softirq.iter().filter(|r| &*r.vector.name == "NET_RX");
        rows.filter_map(|r| r.count.get()).sum()
    }

    #[test]
    fn softirqs_are_counted_as_proc_counts_them_and_take_time() {
        let Some(mut source) = attached(loaded(INFO, load, super::read)) else { return };
        let (before, proc_before) = (net_rx(&read(&mut *source)), counted_by_proc());
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..500 {
            socket.send_to(&[0], socket.local_addr().unwrap()).unwrap();
        }
        let after = net_rx(&read(&mut *source));
        let (runs, proc) = (after.0 - before.0, counted_by_proc() - proc_before);
        // Other processes use the network between the two readings.
        assert!(runs >= 400 && runs.abs_diff(proc) <= 20 + proc / 10, "{runs} against {proc}");
        let each = (after.1 - before.1) / runs;
        assert!((100..1_000_000).contains(&each), "{each} ns each");
    }
}
