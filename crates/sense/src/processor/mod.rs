//! Processors: time by mode, interrupts, frequency, pressure.

mod frequency;
mod interrupt_time;
mod interrupts;
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
        Box::new(interrupt_time::InterruptTime::new()),
        Box::new(softnet::SoftnetStat),
        Box::new(frequency::CpuFrequency::default()),
        Box::new(thermal::ThermalZones::default()),
    ]
}
