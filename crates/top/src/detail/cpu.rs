//! Details of a CPU: time by mode, and its interrupts.

use super::{heading, list};
use crate::panel::Context;
use crate::table::{Value, pairs};
use crate::text::{Line, bold};
use whyslow_model::catalogue::{Cpu, Family, Frequency, Irq, Softirq};
use whyslow_model::human;
use whyslow_model::key::PerCpu;
use whyslow_model::value::Counter;
use whyslow_quantities::{Quantity, cpu};

pub(super) fn page(number: u32, context: &Context<'_>) -> Option<Vec<Line>> {
    let changes = context.rates.changes::<Cpu>();
    let change = changes.iter().find(|change| *change.key() == number)?;
    let share = |of: &Quantity<Cpu>| Value::share(of.over(change));
    let frequencies = context.window.newest::<Frequency>();
    let frequency = frequencies.get(&number);
    let mut lines = vec![vec![bold(format!("CPU {number}"))]];
    heading(&mut lines, "Time");
    lines.extend(pairs(&[
        ("busy", share(&cpu::BUSY)),
        ("in user mode", share(&cpu::USER)),
        ("in kernel mode, interrupts not included", share(&cpu::SYSTEM)),
        ("in interrupts and softirqs", share(&cpu::INTERRUPT)),
        ("stolen by the hypervisor", share(&cpu::STEAL)),
        ("idle while tasks waited for I/O", share(&cpu::IOWAIT)),
        ("idle", share(&cpu::IDLE)),
        ("frequency", Value::number(frequency.and_then(|f| f.current.get()), "Hz")),
        ("highest frequency the policy allows", Value::number(frequency.and_then(|f| f.limit.get()), "Hz")),
        ("governor", Value::words(frequency.and_then(|f| f.governor.get()))),
    ]));
    list(&mut lines, "Interrupts", busiest::<Irq>(number, context, |i| i.count, |i| i.device.get()), "none");
    list(&mut lines, "Softirqs", busiest::<Softirq>(number, context, |s| s.count, |_| None), "none");
    Some(lines)
}

/// Lists the interrupt lines or softirq vectors that this CPU serves, most frequent first.
fn busiest<F: Family<Key = PerCpu>>(
    number: u32,
    context: &Context<'_>,
    count: fn(&F) -> Counter,
    device: fn(&F) -> Option<&str>,
) -> Vec<String> {
    let changes = context.rates.changes::<F>();
    let own = changes.iter().filter(|change| change.key().cpu == number);
    let mut served: Vec<(f64, String)> = own
        .filter_map(|change| {
            let rate = change.rate(count).filter(|rate| *rate > 0.0)?;
            let device = device(change.last()).unwrap_or_default();
            Some((rate, format!("{:>9}  {} {device}", human::quantity(rate, "1/s"), change.key().name)))
        })
        .collect();
    served.sort_by(|a, b| b.0.total_cmp(&a.0));
    served.into_iter().map(|(_, entry)| entry).collect()
}
