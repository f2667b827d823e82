//! CPUs: time by mode, interrupts, clock frequency, pressure.

mod cpufreq;
mod interrupts;
mod irq_lines;
mod irq_time;
mod pressure;
mod stat;

use crate::source::{Source, listed, loaded, stateless};

pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    vec![
        stateless(stat::INFO, stat::read),
        listed(pressure::INFO, pressure::resources, pressure::read),
        stateless(interrupts::IRQS, interrupts::read_irqs),
        stateless(irq_lines::INFO, irq_lines::read),
        stateless(interrupts::SOFTIRQS, interrupts::read_softirqs),
        loaded(irq_time::INFO, irq_time::load, irq_time::read),
        stateless(interrupts::SOFTNET, interrupts::read_softnet),
        listed(cpufreq::FREQUENCY, cpufreq::cpus, cpufreq::read_frequencies),
        listed(cpufreq::THERMAL, cpufreq::zones, cpufreq::read_zones),
    ]
}
