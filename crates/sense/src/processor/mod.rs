//! CPUs: time by mode, interrupts, clock frequency, pressure.

mod cpufreq;
mod interrupts;
mod irq_time;
mod pressure;
mod softnet;
mod stat;
mod thermal;

use crate::source::{Source, stateless};

pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    vec![
        stateless(stat::INFO, stat::read),
        Box::new(pressure::PressureStall::default()),
        stateless(interrupts::IRQS, interrupts::read_irqs),
        stateless(interrupts::SOFTIRQS, interrupts::read_softirqs),
        Box::new(irq_time::IrqTimes::default()),
        stateless(softnet::INFO, softnet::read),
        Box::new(cpufreq::CpuFrequency::default()),
        Box::new(thermal::ThermalZones::default()),
    ]
}
