//! Processors: time by mode, interrupts, frequency, pressure.

mod cpufreq;
mod interrupts;
mod irq_time;
mod per_cpu;
mod pressure;
mod softirqs;
mod softnet;
mod stat;
mod thermal;

#[cfg(test)]
mod hostile;

use crate::source::Source;

/// The sources of this wing.
pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    vec![
        Box::new(stat::Stat),
        Box::new(pressure::PressureStall::default()),
        Box::new(interrupts::Interrupts),
        Box::new(softirqs::Softirqs),
        Box::new(irq_time::InterruptTime::new()),
        Box::new(softnet::SoftnetStat),
        Box::new(cpufreq::CpuFrequency::default()),
        Box::new(thermal::ThermalZones::default()),
    ]
}
